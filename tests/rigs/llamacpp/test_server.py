"""The real llama-server b11434 behaves as README.md says. Run by `make test-llamacpp`."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from tests.rigs.golden import Page
from tests.rigs.llamacpp.build import is_built
from tests.rigs.llamacpp.capture import complete, counts
from tests.rigs.llamacpp.server import draft_simple, running_server
from tests.rigs.load import Load

pytestmark = [
    pytest.mark.llamacpp,
    pytest.mark.skipif(
        not is_built() and not os.environ.get("CI"), reason="not built: python3.11 tests/rigs/llamacpp/build.py"
    ),
]


def test_its_counters_agree_with_the_clients_and_move_only_when_a_request_ends() -> None:
    with running_server(speculation=draft_simple(4)) as server:
        with Load(server.url, clients=2) as load:
            assert load.wait_for_requests(12, timeout=120)
            seen = load.stop(timeout=60)
        totals = counts(Page.take(server)).totals
        drafts, drafted, accepted, generated = (
            totals[key] or 0.0 for key in ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "generation_tokens")
        )
        assert generated == seen.tokens + 1
        # Every request, the one that showed it ready too, begins with a token of its prompt's pass, and where one token
        # is left to generate nothing is drafted.
        assert 0 <= generated - (drafts + accepted + seen.requests + 1) <= seen.requests
        assert 0 < accepted < drafted <= 4 * drafts

        request = threading.Thread(target=complete, args=(server, 900))
        request.start()
        while "llamacpp:requests_processing 1" not in (page := Page.take(server)).text:
            assert request.is_alive(), "the request ended unseen"
        # But for its prompt, which is counted once it has been read.
        assert {**counts(page).totals, "prompt_tokens": None} == {**totals, "prompt_tokens": None}
        request.join()
        assert counts(Page.take(server)).totals["generation_tokens"] == generated + 900


def test_another_limit_of_draft_tokens_is_a_restart_of_a_second() -> None:
    for limit in (2, 5):
        with running_server(speculation=draft_simple(limit)) as server:
            assert server.start_seconds < 20.0
            complete(server, 200)
            page = counts(Page.take(server))
            assert len(page.per_position) == limit


def test_a_sigterm_ends_an_idle_server_at_once() -> None:
    with running_server() as server:
        began = time.monotonic()
        os.kill(server.pid, signal.SIGTERM)
        assert server.process.wait(timeout=30) == 0
        assert time.monotonic() - began < 10.0
