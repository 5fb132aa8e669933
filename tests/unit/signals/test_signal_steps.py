"""Step time: four ways in their order, what each needs, and the check of the first against the last."""

from __future__ import annotations

import pytest

from monitor.model.counts import Histogram, LatencyCounts, TrafficCounts
from monitor.model.signal import NoData
from monitor.signals import Context, signals
from tests.unit.signals.windows import NOON, histogram, life, run_of

ONLY_TPOT = LatencyCounts(time_per_output_token=histogram(0.02, 10))


def build(pairs, **rest):
    return signals(pairs, scope="server:a", at=NOON, window_seconds=300.0, **rest)


@pytest.mark.parametrize(
    ("changes", "way", "seconds"),
    [
        # 1: inter-token mean, one observation per step and request.
        ({}, 1, 0.010),
        # 2: 15 s busy for 500 steps.
        ({"latency": ONLY_TPOT}, 2, 15 / 500),
        # 3: 2 running x 15 s over 1,000 drafts.
        ({"latency": ONLY_TPOT, "steps": None}, 3, 30 / 1000),
        # 4: TPOT x length 2.5.
        ({"latency": ONLY_TPOT, "steps": None, "running": None}, 4, 0.05),
    ],
)
def test_the_best_way_that_the_page_allows_is_used(changes, way, seconds):
    found = build(run_of(life(), 20, **changes))
    assert found.value("step_seconds_way") == way
    assert found.value("step_seconds") == pytest.approx(seconds)


def test_without_any_way_there_is_a_reason():
    found = build(run_of(life(), 20, has_latency=False, steps=None, running=None))
    assert found.value("step_seconds") is None
    assert found.scalars["step_seconds"].reason is NoData.NOT_EXPORTED


def test_the_first_and_the_last_way_are_compared():
    both = LatencyCounts(inter_token=histogram(0.01, 1000), time_per_output_token=histogram(0.01, 10))
    pairs = run_of(life(), 20, latency=both)
    assert build(pairs).value("step_seconds_disagreement") == pytest.approx(1.5)


def test_a_server_without_speculation_emits_one_token_a_step():
    found = build(run_of(life(tokens=0), 20, has_speculation=False))
    assert found.value("goodput") == pytest.approx(100.0)
    assert found.value("acceptance_length") is None


def test_gain_over_off_needs_a_step_time_without_speculation():
    pairs = run_of(life(), 20)
    assert build(pairs).scalars["gain_over_off"].reason is NoData.NO_BASELINE
    context = {pairs[0][0].server: Context(off_step_seconds=0.006)}
    assert build(pairs, contexts=context).value("gain_over_off") == pytest.approx(2.5 * 0.6 - 1)


def test_decode_batch_is_outputs_per_step_else_running():
    assert build(run_of(life(), 4, outputs=3000.0)).value("decode_batch") == pytest.approx(6.0)
    assert build(run_of(life(), 4, steps=None)).value("decode_batch") == pytest.approx(2.0)


def test_cached_prompt_tokens_are_not_computed():
    traffic = TrafficCounts(engine_steps=500.0, prompt_tokens=1000.0, cached_prompt_tokens=600.0)
    assert build(run_of(life(), 4)).value("prefill_tokens_per_step") == pytest.approx(2.0)
    assert build(run_of(life(), 4, traffic=traffic)).value("prefill_tokens_per_step") == pytest.approx(0.8)


def test_context_is_the_prompt_and_half_of_the_answer():
    edges = (128.0, 1024.0, float("inf"))
    lengths = {
        "prompt_length": Histogram(edges, (0.0, 10.0, 10.0), 3000.0, 10.0),
        "output_length": Histogram(edges, (8.0, 8.0, 8.0), 800.0, 8.0),
    }
    told = build(run_of(life(), 4, traffic=TrafficCounts(generation_tokens=2500.0, **lengths)))
    found = told.scalars["decode_context"]
    assert (found.value, found.sample_size) == (350.0, 32.0)
    prompts = TrafficCounts(generation_tokens=2500.0, prompt_length=lengths["prompt_length"])
    half = build(run_of(life(), 4, traffic=prompts))
    assert half.scalars["decode_context"].reason is NoData.NOT_EXPORTED
    assert build(run_of(life(), 4)).value("decode_context") is None
