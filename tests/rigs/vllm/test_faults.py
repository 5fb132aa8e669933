"""The real vLLM 0.32.0 behaves as README.md says: what it counts, how it hangs, dies, and is ended.

Run by `pytest -m vllm tests/rigs`. What the daemon does about each is tested elsewhere; here is that the faults are
real.
"""

from __future__ import annotations

import os
import signal
import time

import pytest
import requests

from tests.rigs.cache import RigError
from tests.rigs.golden import counter
from tests.rigs.load import Load
from tests.rigs.processes import kill_session
from tests.rigs.running import is_healthy, is_serving
from tests.rigs.vllm.build import is_built
from tests.rigs.vllm.measure import spec_counts
from tests.rigs.vllm.server import (
    dies_on_first_request,
    draft_model,
    ngram,
    resume_engine,
    running_requests,
    running_server,
    stop_engine_at_work,
)

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        not is_built() and not os.environ.get("CI"), reason="not built: python3.11 tests/rigs/vllm/build.py"
    ),
]


def generated(page: str) -> float:
    return counter(page, "vllm:generation_tokens_total") or 0.0


def test_counters_agree_with_the_clients_and_a_stopped_engine_hides_behind_a_healthy_answer() -> None:
    with running_server(speculation=draft_model(3)) as server:
        # Given a loaded server, every token its clients got is counted, and no other but the one that showed it ready.
        with Load(server.url, clients=2) as load:
            assert load.wait_for_requests(6, timeout=120)
            seen = load.stop(timeout=60)
        page = server.metrics()
        assert generated(page) == seen.tokens + 1
        counts = spec_counts(page)
        assert counts is not None
        drafts, draft_tokens, accepted = counts
        assert draft_tokens == 3 * drafts
        # Every request's first token comes from its prefill; its last draft may run past its end.
        assert drafts + accepted + seen.requests + 1 == pytest.approx(generated(page), abs=3 * (seen.requests + 1))

        # When the engine stops at work, health is 200, the page stands still and a probe is never answered.
        with Load(server.url, clients=2, max_tokens=900):
            stop_engine_at_work(server)
            before = server.metrics()
            assert not is_serving(server.url, timeout=3.0)
            after = server.metrics()
            assert is_healthy(server.url)
            assert running_requests(before) > 0 and running_requests(after) > 0
            assert generated(before) == generated(after)
            resume_engine(server)
        assert is_serving(server.url, timeout=60.0)


def test_an_engine_that_stops_while_idle_looks_idle_however_many_wait() -> None:
    with running_server() as server:
        core = next(one for one in server.processes() if one.title.startswith("VLLM::EngineCore"))
        os.kill(core.pid, signal.SIGSTOP)
        with pytest.raises(requests.Timeout):
            requests.post(f"{server.url}/v1/completions", json={"prompt": "import", "max_tokens": 1}, timeout=3)
        page = server.metrics()
        assert running_requests(page) == 0 and counter(page, "vllm:num_requests_waiting") == 0
        assert is_healthy(server.url)


def test_a_synthetic_sampler_starts_healthy_and_dies_on_its_first_request() -> None:
    with running_server(speculation=dies_on_first_request(3), ready=is_healthy) as server:
        answer = requests.post(f"{server.url}/v1/completions", json={"prompt": "import", "max_tokens": 8}, timeout=60)
        assert answer.status_code == 500
        server.process.wait(timeout=30)
        assert server.process.returncode is not None
    with pytest.raises(RigError, match="ended with code"), running_server(speculation=dies_on_first_request(3)):
        pytest.fail("it generated a token")


def test_a_killed_api_process_leaves_orphans_that_only_their_session_names() -> None:
    with running_server(speculation=ngram(2), env={"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}) as server:
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait(timeout=30)
        orphans = {one.title: one for one in server.processes()}
        assert {"VLLM::EngineCore", "VLLM::Worker"} <= set(orphans)
        assert orphans["VLLM::EngineCore"].parent == 1
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{server.url}/health", timeout=2)
        kill_session(server.pid)
        assert server.processes() == []


def test_a_sigterm_ends_under_load_and_with_a_shutdown_timeout_answers_first() -> None:
    hang_up_seconds = 12.0
    with running_server() as server:
        took, _ = terminate_under_load(server.url, server.pid, server.process.wait, hang_up_seconds)
        # The abort of a request may get lost on the way out; then the process waits until that client hangs up.
        assert took < hang_up_seconds + 30.0
    with running_server(extra=["--shutdown-timeout", "60"]) as server:
        took, answered = terminate_under_load(server.url, server.pid, server.process.wait, 60.0)
        assert "start mode=drain timeout=60s" in server.log.read_text(errors="replace")
        assert answered >= 1 and took < 60.0


def terminate_under_load(url: str, pid: int, wait: object, hang_up_seconds: float) -> tuple[float, int]:
    """Seconds from SIGTERM to the end, and how many requests in flight were answered in full."""
    with Load(url, clients=2, max_tokens=900, request_seconds=hang_up_seconds) as load:
        assert load.wait_for_requests(2, timeout=120)
        time.sleep(0.5)
        before = load.counts().requests
        began = time.monotonic()
        os.kill(pid, signal.SIGTERM)
        wait(timeout=120)  # type: ignore[operator]
        return time.monotonic() - began, load.counts().requests - before
