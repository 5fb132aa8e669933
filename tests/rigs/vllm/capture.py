"""Takes the golden pages of the real vLLM: `tests/golden/exposition/vllm-0.32.0/SCENE.prom` and `SCENE.json` beside.

    python -m tests.rigs.vllm.capture            # every scene, about 6 minutes; review the diff

The JSON says how a page was made, what a correct reader says of it (`expected`), and what the clients know (`truth`):
where they know it, the page is refused unless it says the same.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial

import requests

from tests.rigs import golden
from tests.rigs.golden import Dialect, Page, reading
from tests.rigs.load import Load
from tests.rigs.running import RunningServer
from tests.rigs.vllm.build import VLLM_VERSION
from tests.rigs.vllm.server import (
    Speculation,
    draft_model,
    engine_core,
    ngram,
    resume_engine,
    running_server,
    stop_engine_at_work,
)

VLLM = Dialect(
    engine="vllm",
    version=VLLM_VERSION,
    prefix="vllm:",
    generation_tokens="vllm:generation_tokens_total",
    prompt_tokens="vllm:prompt_tokens_total",
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
)
counts, write = partial(golden.counts, VLLM), partial(golden.write, VLLM)
#: Seconds between the two pages of a pair: the daemon's usual interval.
INTERVAL_SECONDS = 15.0
CLIENTS = 2


def loaded_pair(server: RunningServer) -> tuple[Page, Page, int, int]:
    """Two pages an interval apart under load, then the load ends; tokens and requests its clients got in all."""
    load = Load(server.url, clients=CLIENTS).start()
    load.wait_for_requests(4, timeout=60)
    first = Page.take(server)
    time.sleep(INTERVAL_SECONDS)
    second = Page.take(server)
    seen = load.stop(timeout=30)
    return first, second, seen.tokens, seen.requests


def pair_and_end(name: str, what: str, speculation: Speculation | None) -> tuple[RunningServer, Page]:
    """The scenes every setting has: ready, a pair under load, and after it with what clients counted."""
    k = None if speculation is None else int(str(speculation["num_speculative_tokens"]))
    with running_server(speculation=speculation) as server:
        ready = Page.take(server)
        verdict = "not_spec_decode" if k is None else "ok"
        if k is not None:
            write(f"{name}_before_first_draft", f"{what}; ready, one token generated, nothing drafted yet",
                  server, [ready], verdict="spec_decode_no_drafts_yet", num_speculative_tokens=k,
                  truth={"generation_tokens": 1})
        first, second, tokens, requested = loaded_pair(server)
        write(f"{name}_pair", f"{what}; two scrapes under {CLIENTS} steady clients", server, [first, second],
              verdict=verdict, num_speculative_tokens=k, interval=reading(counts(second), counts(first)))
        end = Page.take(server)
        # One more token and request than the load's: the one that showed it was ready.
        write(f"{name}_after_load", f"{what}; idle again after {requested} requests of {CLIENTS} clients",
              server, [end], verdict=verdict, num_speculative_tokens=k,
              truth={"generation_tokens": tokens + 1}, requests=requested + 1)
        return server, end


def restart_with_another_k(before: tuple[RunningServer, Page]) -> None:
    """The last page of a server and one of its successor with another k: counters fall, a position appears."""
    old, last = before
    with running_server(speculation=ngram(3), port=old.port) as server:
        with Load(server.url, clients=CLIENTS) as load:
            load.wait_for_requests(10, timeout=60)
        page = Page.take(server)
        write("ngram_k2_to_k3_restart", "n-gram k = 2 after load, then the same port with k = 3 after ten requests",
              server, [last, page], verdict="reset_detected", num_speculative_tokens=3,
              interval={**reading(counts(page)), "partial": True})


def stuck_engine() -> None:
    """SIGSTOP on the engine under load: nothing moves any more, requests hang, `/health` says 200.

    Two kinds: stopped at work the page says so for ever, stopped between two steps it looks idle, however many wait.
    """
    with running_server(speculation=draft_model(3)) as server:
        with Load(server.url, clients=CLIENTS, max_tokens=900, request_seconds=120):
            time.sleep(3)
            stop_engine_at_work(server)
            first = Page.take(server)
            time.sleep(INTERVAL_SECONDS)
            second = Page.take(server)
            health = requests.get(f"{server.url}/health", timeout=5).status_code
            write("stuck_engine_pair", "draft model k = 3 under load, its engine stopped (SIGSTOP) at work", server,
                  [first, second], verdict="needs_probe", num_speculative_tokens=3, health=health)
            resume_engine(server)
        # Let what was left running end.
        time.sleep(10)
        os.kill(engine_core(server).pid, signal.SIGSTOP)
        with Load(server.url, clients=CLIENTS, request_seconds=120):
            time.sleep(2)
            first = Page.take(server)
            time.sleep(INTERVAL_SECONDS)
            second = Page.take(server)
            health = requests.get(f"{server.url}/health", timeout=5).status_code
            write("stuck_engine_looks_idle_pair",
                  f"the engine stopped (SIGSTOP) while idle, then {CLIENTS} requests that nobody answers",
                  server, [first, second], verdict="ok", num_speculative_tokens=3, health=health, in_flight=CLIENTS)


def main() -> int:
    """Take every scene."""
    VLLM.folder.mkdir(parents=True, exist_ok=True)
    before = pair_and_end("ngram_k2", "n-gram, lookup 2–4, k = 2", ngram(2))
    restart_with_another_k(before)
    pair_and_end("draft_model_k3", "draft model accepted now and then, k = 3", draft_model(3))
    pair_and_end("draft_bad_k3", "draft model of unrelated weights, k = 3", draft_model(3, "draft-bad"))
    pair_and_end("off", "speculation off", None)
    stuck_engine()
    return 0


if __name__ == "__main__":
    sys.exit(main())
