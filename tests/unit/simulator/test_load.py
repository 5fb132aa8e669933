from __future__ import annotations

import numpy as np
import pytest

from monitor.errors import ConfigError
from monitor.simulator.load import Load, Traffic, parse_load


def traffic(text: str, offset: float = 0.0, seed: int = 3) -> Traffic:
    return Traffic(parse_load(text), np.random.default_rng(seed), 1024, offset)


def arrivals(of: Traffic, until: float) -> list[float]:
    found = []
    while (job := of.take(until)) is not None:
        found.append(job.arrival)
    return found


def test_none_is_no_traffic() -> None:
    quiet = traffic("none")
    assert quiet.next_arrival(0.0) is None and quiet.take(1e6) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "closed:clients"),
        ("none:clients=2", "closed:clients"),
        ("steady:rate=1", "open:rate"),
        ("open", "rate=NUMBER"),
        ("open:rate=1,foo=2", "foo"),
        ("open:rate=1,prompt", "key=number"),
        ("open:rate=-1", "at least 0"),
        ("open:rate=nan", "at least 0"),
        ("closed:clients=2,trough=3", "trough up to the peak"),
        ("closed:clients=2,hits=2", "hits up to 1"),
        ("closed:rate=2", "rate"),
    ],
)
def test_a_wrong_load_says_what_was_expected(text: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_load(text)
    assert named in str(caught.value)


def test_an_open_load_arrives_in_order_at_its_rate() -> None:
    times = arrivals(traffic("open:rate=5"), 2000.0)
    assert times == sorted(times)
    # 10,000 expected, standard deviation 100.
    assert abs(len(times) - 10_000) < 500


def test_the_rate_follows_the_day() -> None:
    load = parse_load("open:rate=2,trough=0.5,period=1000,peak_at=600")
    assert load.level(600) == pytest.approx(2.0) and load.level(100) == pytest.approx(0.5)
    times = np.array(arrivals(traffic("open:rate=2,trough=0.5,period=1000,peak_at=600"), 20_000.0)) % 1000
    peak, night = np.sum((times > 550) & (times < 650)), np.sum((times > 50) & (times < 150))
    assert 3 < peak / night < 5.5


def test_the_offset_moves_the_day() -> None:
    shifted = np.array(arrivals(traffic("open:rate=2,trough=0,period=1000,peak_at=600", offset=600.0), 20_000.0)) % 1000
    near_peak = np.sum((shifted < 250) | (shifted > 750))
    assert near_peak > 0.8 * len(shifted)


def test_closed_clients_ask_again_when_they_are_answered() -> None:
    some = traffic("closed:clients=3,think=2")
    jobs = [job for _ in range(3) if (job := some.take(0.0)) is not None]
    assert len(jobs) == 3 and some.take(0.0) is None and some.next_arrival(0.0) is None
    some.answered(jobs[0], 5.0)
    assert some.next_arrival(5.0) == 7.0
    assert some.take(6.9) is None and some.take(7.0) is not None


def test_closed_clients_leave_and_come_with_the_level() -> None:
    some = traffic("closed:clients=4,trough=0,period=1000,peak_at=0")
    jobs = [job for _ in range(9) if (job := some.take(0.0)) is not None]
    assert len(jobs) == 4
    for job in jobs:
        some.answered(job, 500.0)
    assert some.take(500.0) is None
    assert some.next_arrival(500.0) == pytest.approx(500.0 + 1000 / 1440)
    assert len(arrivals(some, 1000.0)) == 4


def test_a_change_of_load_forgets_clients_that_still_wait() -> None:
    some = traffic("closed:clients=2")
    old = some.take(0.0)
    assert old is not None
    some.change(parse_load("closed:clients=1"), 10.0)
    new = some.take(10.0)
    assert new is not None and new.arrival == 10.0
    some.answered(old, 11.0)
    assert some.take(11.0) is None
    some.change(Load(), 12.0)
    some.answered(new, 13.0)
    assert some.next_arrival(13.0) is None


def test_lengths_have_their_mean_and_stay_inside_the_model() -> None:
    some = traffic("open:rate=10,prompt=200,output=100,spread=0.5,hits=0.4")
    jobs = [job for _ in range(4000) if (job := some.take(1e9)) is not None]
    assert np.mean([job.prompt_tokens for job in jobs]) == pytest.approx(200, rel=0.03)
    assert np.mean([job.output_tokens for job in jobs]) == pytest.approx(100, rel=0.03)
    for job in jobs:
        assert 1 <= job.output_tokens <= job.max_tokens
        assert job.prompt_tokens + job.max_tokens <= 1024
        assert job.cached_tokens < job.prompt_tokens and job.cached_tokens % 16 == 0
    assert any(job.cached_tokens for job in jobs)


def test_no_spread_means_equal_lengths() -> None:
    some = traffic("open:rate=10,prompt=33,output=44,spread=0")
    jobs = [job for _ in range(9) if (job := some.take(1e9)) is not None]
    assert {(job.prompt_tokens, job.output_tokens) for job in jobs} == {(33, 44)}


@pytest.mark.parametrize("load", ["prompt=200,output=100,hits=0.4", "prompt=900,output=900", "spread=0"])
def test_a_request_alone_is_drawn_as_one_of_many_is(load: str) -> None:
    """Two ways for speed: one by one in a tick, all at once in a stretch."""
    words = f"closed:clients=1,{load}"
    for seed in range(20):
        assert traffic(words, seed=seed).take(0.0) == traffic(words, seed=seed).draw(1).job(0, 0.0, 0)
