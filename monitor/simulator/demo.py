"""The small simulated fleet of the demo: a raise that pays, a raise that does not, a fault, and a server that is fine.

Everything runs in real time (`--sim-speed 1`); 16 to 32 clients make 1,500 to 2,500 drafts a second, so that a change
of a few percent shows within tens of seconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

#: Simulated seconds after which the head of `sim-rag` breaks: late enough for a baseline, early enough for two minutes.
CLIFF_AFTER_SECONDS = 40


class DemoServer(NamedTuple):
    """One server to start: a name, its whole command line, and what to add to the environment."""

    name: str
    argv: list[str]
    env: dict[str, str]


#: Servers of the demo.
DEMO_SIZE = 4


def demo_servers(ports: Sequence[int]) -> list[DemoServer]:
    """Four servers on these loopback ports.

    - `sim-chat` (MTP, k = 2, acceptance 0.87): raising pays, about 14 % at k = 3 and 23 % at 4 by its table.
    - `sim-code` (MTP, k = 3, acceptance 0.80): looks the same, but from k = 4 on steps take 1.6 times as long, so that
      a raise loses about a third.
    - `sim-rag` (EAGLE-3, k = 2, acceptance 0.57, best within 1 %): after 40 s of uptime next to nothing is accepted.
    - `sim-summary` (EAGLE-3, k = 3, acceptance 0.63, best within 1 %): nothing to do.
    """
    chat = "closed:clients=24,prompt=160,output=120,hits=0.3"
    code = "closed:clients=24,prompt=220,output=140,hits=0.5"
    rag, summary = "closed:clients=16,prompt=400,output=120", "closed:clients=32,prompt=400,output=120"
    cliff, worse = f"cliff@{CLIFF_AFTER_SECONDS}", "worse_k=4:1.6"
    first, second, third, fourth = ports
    return [
        _server("sim-chat", first, ("mtp", None, 2), "qwen35-mtp", chat, 1),
        _server("sim-code", second, ("mtp", None, 3), "qwen35-mtp", code, 2, worse),
        _server("sim-rag", third, ("eagle3", "sim-rag-eagle3", 2), "gsm8k-eagle3", rag, 3, cliff),
        _server("sim-summary", fourth, ("eagle3", "sim-summary-eagle3", 3), "kimik25-eagle3", summary, 4),
    ]


def _server(
    name: str,
    port: int,
    speculation: tuple[str, str | None, int],
    table: str,
    load: str,
    seed: int,
    fault: str = "",
) -> DemoServer:
    method, draft, k = speculation
    config = {"method": method, **({"model": draft} if draft else {}), "num_speculative_tokens": k}
    argv = [sys.executable, "-m", "monitor.simulator", "--host", "127.0.0.1", "--port", str(port), "--model", name]
    argv += ["--speculative-config", json.dumps(config), "--max-num-seqs", "64"]
    argv += ["--sim-table", table, "--sim-load", load, "--sim-seed", str(seed), "--sim-start-seconds", "2"]
    argv += ["--sim-fault", fault] if fault else []
    # One thread is enough for small arrays; otherwise each server reserves memory for one per core.
    return DemoServer(name, argv, {"OPENBLAS_NUM_THREADS": "1"})
