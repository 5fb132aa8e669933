from __future__ import annotations

import re

import pytest

from monitor.simulator.options import SimOptions, parse_options
from monitor.simulator.server import Phase, SimServer
from tests.fakes.fake_clock import FakeClock

EAGLE = '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3}'


def server(*argv: str, clock: FakeClock | None = None, longest_gap_seconds: float = float("inf")) -> SimServer:
    options: SimOptions = parse_options(["--speculative-config", EAGLE, *argv])
    one = SimServer(options, clock or FakeClock(), longest_gap_seconds=longest_gap_seconds)
    return one


def value(page: str, series: str) -> float:
    found = re.search(rf"^{re.escape(series)}(?:\{{[^}}]*\}})? (\S+)$", page, re.M)
    assert found, series
    return float(found[1])


def test_a_server_that_is_not_ready_has_no_page() -> None:
    one = server()
    with pytest.raises(RuntimeError, match="not ready"):
        one.page()


def test_the_page_shows_the_clocks_times_and_the_engine_as_of_now() -> None:
    clock = FakeClock()
    one = server("--sim-load", "closed:clients=4", clock=clock)
    clock.advance(28)
    one.get_ready()
    started = clock.now().timestamp() - 28
    clock.advance(10)
    page = one.page()
    assert value(page, "process_start_time_seconds") == pytest.approx(started)
    assert value(page, "vllm:generation_tokens_created") == pytest.approx(started + 28, abs=0.1)
    assert value(page, "vllm:generation_tokens_total") == one.engine.counts.generation_tokens > 1000
    assert one.engine.now == pytest.approx(10, abs=0.05)


def test_speed_moves_the_engine_and_no_wall_time() -> None:
    clock = FakeClock()
    one = server("--sim-load", "closed:clients=4", "--sim-speed", "60", clock=clock)
    one.get_ready()
    clock.advance(10)
    page = one.page()
    assert one.engine.now == pytest.approx(600, abs=0.05)
    born = value(page, "vllm:generation_tokens_created")
    assert born == pytest.approx(clock.now().timestamp() - 10, abs=0.1)
    # Latencies are simulated: a step is as long as the table says.
    step = value(page, "vllm:inter_token_latency_seconds_sum") / value(page, "vllm:inter_token_latency_seconds_count")
    assert step == pytest.approx(one.options.family.row(3, 4).step_seconds, rel=0.02)


def test_a_frozen_process_does_not_work_off_the_time_it_lost() -> None:
    clock = FakeClock()
    one = server("--sim-load", "closed:clients=4", clock=clock, longest_gap_seconds=5)
    one.get_ready()
    clock.advance(600)
    one.advance()
    assert one.engine.now == pytest.approx(5, abs=0.05)


def test_requests_of_its_own_count_as_http_completions() -> None:
    clock = FakeClock()
    one = server("--sim-load", "closed:clients=4", clock=clock)
    one.get_ready()
    clock.advance(20)
    page = one.page()
    finished = sum(one.engine.counts.finished.values())
    assert value(page, "http_requests_total") == finished > 50
    assert value(page, "http_request_duration_highr_seconds_sum") == pytest.approx(one.engine.counts.e2e.sum)


def test_the_day_of_the_load_is_the_wall_clocks() -> None:
    noon, clock = 12 * 3600, FakeClock()  # the fake clock starts at noon
    one = server("--sim-load", f"open:rate=2,trough=0,peak_at={noon}", clock=clock)
    one.get_ready()
    clock.advance(600)
    one.advance()
    assert one.engine.counts.e2e.count > 1000
    idle = server("--sim-load", "open:rate=2,trough=0,peak_at=0", clock=FakeClock())
    idle.get_ready()
    idle.engine.advance(600)
    assert idle.engine.counts.e2e.count < 20


@pytest.mark.parametrize(("order", "is_doomed"), [("die", True), ("die_on_first_request_k=3", True),
                                                  ("die_on_first_request_k=4", False), ("stuck", False)])  # fmt: skip
def test_an_ordered_death_comes_with_the_next_request(order: str, is_doomed: bool) -> None:
    one = server("--sim-fault", order)
    one.get_ready()
    one.advance()
    assert not one.is_doomed
    one.meet_request()
    assert one.is_doomed is is_doomed


def test_a_death_on_the_first_request_also_comes_with_its_own_traffic() -> None:
    clock = FakeClock()
    one = server("--sim-fault", "die_on_first_request_k=2", "--sim-load", "closed:clients=1", clock=clock)
    one.get_ready()
    clock.advance(1)
    one.advance()
    assert one.is_doomed


def test_draining_without_a_timeout_aborts_and_with_one_lets_requests_end() -> None:
    for timeout, aborted in (("0", 4), ("30", 0)):
        clock = FakeClock()
        one = server("--sim-load", "closed:clients=4", "--shutdown-timeout", timeout, clock=clock)
        one.get_ready()
        clock.advance(5)
        one.advance()
        one.drain()
        assert one.phase is Phase.DRAINING
        clock.advance(30)
        one.advance()
        assert one.engine.counts.finished["abort"] == aborted
        assert one.engine.running == one.engine.waiting == 0


def test_after_its_death_no_time_passes() -> None:
    clock = FakeClock()
    one = server("--sim-load", "closed:clients=4", clock=clock)
    one.get_ready()
    clock.advance(5)
    one.advance()
    one.die()
    tokens = one.engine.counts.generation_tokens
    clock.advance(5)
    one.advance()
    assert one.phase is Phase.DEAD and one.engine.counts.generation_tokens == tokens
