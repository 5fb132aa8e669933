"""Many steps at once against the same steps one by one: the same laws, to the digit where numbers add up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from monitor.simulator.counts import Counts
from monitor.simulator.engine import Engine, Limits
from tests.unit.simulator.engines import assert_identities, engine

LOAD = "closed:clients=16,prompt=150,output=60,hits=0.3"


def one_by_one(*args: object, **given: object) -> Engine:
    """An engine whose every request is told of: it takes no stretch."""
    made = engine(*args, **given)  # type: ignore[arg-type]
    made.on_end = lambda request: None
    return made


def means(counts: Counts) -> dict[str, float]:
    steps, ended = counts.step.count, counts.e2e.count
    positions = {f"accepted[{at}]": count / counts.num_drafts for at, count in enumerate(counts.accepted_per_pos)}
    return positions | {
        "step time": counts.step.sum / steps,
        "tokens of an iteration": counts.iteration_tokens.sum / counts.iteration_tokens.count,
        "iterations": counts.iteration_tokens.count,
        "requests in a step": steps / counts.iteration_tokens.count,
        "generated": counts.generation_tokens,
        "prompts": counts.prompt_tokens,
        "cached": counts.cached_prompt_tokens,
        "ended": ended,
        "first token": counts.first_token.sum / counts.first_token.count,
        "whole request": counts.e2e.sum / ended,
        "prefill": counts.prefill.sum / counts.prefill.count,
        "time per token": counts.time_per_output_token.sum / ended,
        "output": counts.generation_lengths.sum / ended,
        "limit": counts.params_max_tokens.sum / ended,
    }


@pytest.mark.parametrize("k", [0, 3])
def test_every_mean_is_that_of_steps_one_by_one(k: int) -> None:
    at_once, plain = engine(k, LOAD, seed=3), one_by_one(k, LOAD, seed=4)
    for one in (at_once, plain):
        for _ in range(8):
            one.advance(15.0)
    assert_identities(at_once.counts, k)
    assert_identities(plain.counts, k)
    expected = means(plain.counts)
    # 6,000 requests each: their mean length is known to 0.7 %.
    assert means(at_once.counts) == pytest.approx(expected, rel=0.025)


def lengths(one: Engine, blocks: int) -> np.ndarray:
    marks = []
    for _ in range(blocks):
        one.advance(1.0)
        marks.append((one.counts.num_drafts, one.counts.num_accepted_tokens))
    return np.array([(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(marks)])


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_blocks_vary_and_follow_each_other_as_with_steps_one_by_one(correlation: float) -> None:
    load = "closed:clients=8,prompt=50,output=240"
    found = [lengths(make(3, load, correlation=correlation, seed=5), 240) for make in (engine, one_by_one)]
    spread = [float(np.std(values)) for values in found]
    lag = [float(np.corrcoef(values[:-1], values[1:])[0, 1]) for values in found]
    # 240 blocks: a standard deviation is known to 5 to 8 %, a correlation to 0.07.
    assert spread[0] == pytest.approx(spread[1], rel=0.25)
    assert lag[0] == pytest.approx(lag[1], abs=0.25)


def test_nothing_is_lost_where_two_stretches_meet() -> None:
    one = engine(3, "closed:clients=5,prompt=400,output=30", seed=7)
    for at in range(100):
        one.advance(0.31)
        counts = one.counts
        assert one.running + one.waiting == 5
        assert_identities(counts, 3)
        assert 0 <= counts.generation_tokens - counts.generation_lengths.sum < 5 * 120
        assert 0 <= counts.first_tokens - counts.e2e.count <= 5
        assert one.now == pytest.approx(0.31 * (at + 1), abs=0.05)


def test_a_stretch_ends_where_the_load_changes() -> None:
    one = engine(3, "closed:clients=12,trough=4,period=300,peak_at=150")
    seen = []
    for _ in range(30):
        one.advance(10.0)
        seen.append(one.running + one.waiting)
    assert (seen[0], seen[14], seen[-1]) == (4, 12, 4)
    assert all(abs(b - a) <= 2 for a, b in pairwise(seen))


def test_room_that_may_run_out_is_looked_after_step_by_step() -> None:
    tight = engine(3, "closed:clients=40,prompt=120,output=120", limits=Limits(kv_tokens=3000))
    tight.advance(30.0)
    assert tight.counts.preemptions > 0 and tight.kv_usage <= 1.0


def test_requests_that_come_together_begin_together_and_none_waits_while_there_is_room() -> None:
    one = engine(3, "open:rate=12,prompt=100,output=100", limits=Limits(step_noise=0.0), seed=9)
    one.advance(120.0)
    counts = one.counts
    # A request waits for the step under way, half of one on average, and no longer.
    longest = one.behaviour.step(40, 0.0).seconds
    assert 0 < counts.queue.sum / counts.queue.count < longest
    assert counts.queue.cumulative()[0] == counts.queue.count
    assert counts.e2e.count == pytest.approx(12 * 120, rel=0.1)
    assert_identities(counts, 3)
