"""Measures the vLLM rig: start, memory, throughput and acceptance per setting; the table of README.md comes from here.

    python -m tests.rigs.vllm.measure                 # every setting, about 15 minutes
    python -m tests.rigs.vllm.measure off ngram-2     # some
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence

from tests.rigs.golden import counter
from tests.rigs.load import Load
from tests.rigs.processes import memory_bytes
from tests.rigs.running import RunningServer
from tests.rigs.vllm.server import Speculation, draft_model, ngram, running_server

SETTINGS: Mapping[str, Speculation | None] = {
    "off": None,
    **{f"ngram-{k}": ngram(k) for k in (1, 2, 3, 6)},
    **{f"good-{k}": draft_model(k) for k in (1, 3, 5)},
    "close-3": draft_model(3, "draft-close"),
    "fair-3": draft_model(3, "draft-fair"),
    "bad-3": draft_model(3, "draft-bad"),
}
#: Seconds of load before and while measuring; short, for a shared machine.
WARM_UP_SECONDS, MEASURED_SECONDS = 4.0, 15.0


def spec_counts(page: str) -> tuple[float, float, float] | None:
    """Drafts, draft tokens and accepted tokens since the start; `None` without speculation."""
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    counts = [counter(page, f"vllm:spec_decode_{name}_total") for name in names]
    return None if None in counts else tuple(counts)  # type: ignore[return-value]


def throughput(server: RunningServer, clients: int) -> float:
    """Generated tokens/s by the server's own counter under that many clients."""
    with Load(server.url, clients=clients):
        time.sleep(WARM_UP_SECONDS)
        began, before = time.monotonic(), counter(server.metrics(), "vllm:generation_tokens_total") or 0.0
        time.sleep(MEASURED_SECONDS)
        ended, after = time.monotonic(), counter(server.metrics(), "vllm:generation_tokens_total") or 0.0
    return (after - before) / (ended - began)


def measure(name: str, speculation: Speculation | None) -> str:
    """One row of the table."""
    with running_server(speculation=speculation) as server:
        rates = [throughput(server, clients) for clients in (1, 2)]
        counts = spec_counts(server.metrics())
        memory = sum(memory_bytes(process.pid) for process in server.processes()) / 1e9
    accepted = "– | –"
    if counts is not None and counts[1]:
        drafts, draft_tokens, accepted_tokens = counts
        accepted = f"{accepted_tokens / draft_tokens:.3f} | {1 + accepted_tokens / drafts:.2f}"
    return f"| {name} | {server.start_seconds:.0f} | {memory:.1f} | {rates[0]:.0f} | {rates[1]:.0f} | {accepted} |"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table row by row."""
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.vllm.measure", description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", default=list(SETTINGS), help=f"of {', '.join(SETTINGS)}")
    chosen = parser.parse_args(argv).settings
    if unknown := set(chosen) - set(SETTINGS):
        parser.error(f"unknown setting {', '.join(sorted(unknown))}: use {', '.join(SETTINGS)}")
    print("| setting | start s | memory GB | tokens/s, 1 client | 2 clients | acceptance | length |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in chosen:
        print(measure(name, SETTINGS[name]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
