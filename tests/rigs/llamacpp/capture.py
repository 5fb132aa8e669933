"""Takes the golden pages of the real llama-server: `tests/golden/exposition/llamacpp-b11434/`.

    python -m tests.rigs.llamacpp.capture            # a minute; review the diff
"""

from __future__ import annotations

import sys
import threading
import time
from functools import partial

import requests

from tests.rigs import golden
from tests.rigs.golden import Dialect, Page, reading
from tests.rigs.llamacpp.build import BUILD
from tests.rigs.llamacpp.server import draft_simple, running_server
from tests.rigs.load import Load
from tests.rigs.running import RunningServer, is_healthy

LLAMACPP = Dialect(
    engine="llamacpp",
    version=BUILD,
    prefix="llamacpp:",
    generation_tokens="llamacpp:tokens_predicted_total",
    prompt_tokens="llamacpp:prompt_tokens_total",
    running="llamacpp:requests_processing",
    waiting="llamacpp:requests_deferred",
)
counts, write = partial(golden.counts, LLAMACPP), partial(golden.write, LLAMACPP)
INTERVAL_SECONDS = 5.0


def complete(server: RunningServer, max_tokens: int) -> int:
    """One greedy request; the tokens it got."""
    answer = requests.post(
        f"{server.url}/v1/completions",
        json={"prompt": "import os\n", "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True},
        timeout=60,
    )
    answer.raise_for_status()
    return int(answer.json()["usage"]["completion_tokens"])


def speculating() -> tuple[RunningServer, Page]:
    """From a fresh server to one under load; the page of the last moment."""
    with running_server(speculation=draft_simple(4), ready=is_healthy) as server:
        write("draft_n4_before_first_request", "draft-simple, n-max 4, before any request",
              server, [Page.take(server)], verdict="spec_decode_no_drafts_yet")
        tokens = sum(complete(server, 200) for _ in range(4))
        write("draft_n4_after_4_requests", "draft-simple, n-max 4, four requests of 200 tokens one after the other",
              server, [Page.take(server)], verdict="ok", num_speculative_tokens=4,
              truth={"generation_tokens": tokens})
        with Load(server.url, clients=2) as load:
            load.wait_for_requests(4, timeout=60)
            first = Page.take(server)
            time.sleep(INTERVAL_SECONDS)
            second = Page.take(server)
        write("draft_n4_pair", "draft-simple, n-max 4, two scrapes under 2 steady clients", server, [first, second],
              verdict="ok", num_speculative_tokens=4, interval=reading(counts(second), counts(first)))
        mid_request(server)
        return server, Page.take(server)


def mid_request(server: RunningServer) -> None:
    """Two pages within one long request: it is processing, and nothing is counted before it ends."""
    request = threading.Thread(target=complete, args=(server, 1900))
    request.start()
    time.sleep(0.3)
    first = Page.take(server)
    time.sleep(0.5)
    second = Page.take(server)
    request.join()
    write("draft_n4_mid_request_pair", "draft-simple, n-max 4, two scrapes within one request of 1,900 tokens",
          server, [first, second], verdict="ok", state="busy_counters_deferred", num_speculative_tokens=4,
          interval=reading(counts(second), counts(first)))


def off() -> None:
    """Without a draft the counters are there, at 0."""
    with running_server() as server:
        tokens = 1 + complete(server, 200)
        write("off", "no draft, after two requests", server, [Page.take(server)], verdict="not_spec_decode",
              truth={"generation_tokens": tokens})


def restarted(before: tuple[RunningServer, Page]) -> None:
    """The last page of a server and one of its successor with another n-max on the same port."""
    old, last = before
    with running_server(speculation=draft_simple(2), port=old.port) as server:
        with Load(server.url, clients=2) as load:
            load.wait_for_requests(10, timeout=60)
        page = Page.take(server)
        write("draft_n4_to_n2_restart", "draft-simple, n-max 4, then the same port with n-max 2", server, [last, page],
              verdict="reset_detected", num_speculative_tokens=2, interval={**reading(counts(page)), "partial": True})


def main() -> int:
    """Take every scene."""
    LLAMACPP.folder.mkdir(parents=True, exist_ok=True)
    restarted(speculating())
    off()
    return 0


if __name__ == "__main__":
    sys.exit(main())
