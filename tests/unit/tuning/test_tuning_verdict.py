"""The verdict of a change: controls, like load, looks, guards, and blocks of time."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.intervals.adding import pool_histograms
from monitor.model.rollout import Outcome
from monitor.tuning.blocks import Block, blocks_of, slot_of
from monitor.tuning.bootstrap import standard_error
from monitor.tuning.controls import against_controls
from monitor.tuning.guards import Guards, tripped
from monitor.tuning.matching import correct, is_alike, match
from monitor.tuning.verdict import Call, Plan, judge
from tests.unit.signals.windows import NOON, histogram, interval, life, run_of

BEFORE = 45


def series(seed: int, *, gain: float = 0.0, blocks: int = 45, noise: float = 0.03, level: float = 100.0,
           load: float = 0.0, open_loop: bool = False, day: float = 0.0, first: int = 0) -> list[Block]:
    """A server's blocks: `BEFORE` of them before the change and `blocks` after, with noise that neighbours share.

    `load`: spread of the log batch. `open_loop`: a faster server has fewer requests at a time. `day`: a swing that
    every server sees.
    """
    rng = random.Random(seed)
    shared, batch, found = 0.0, 0.0, []
    for slot in range(first, first + BEFORE + blocks):
        shared = 0.3 * shared + math.sqrt(1 - 0.09) * rng.gauss(0, noise)
        batch = 0.9 * batch + math.sqrt(1 - 0.81) * rng.gauss(0, load)
        effect = math.log1p(gain) if slot >= first + BEFORE else 0.0
        log_batch = math.log(8) + batch - (effect if open_loop else 0.0)
        log_goodput = math.log(level) + effect + shared + day * math.sin(slot / 12) - 0.3 * (log_batch - math.log(8))
        found.append(block(slot, goodput=math.exp(log_goodput), batch=math.exp(log_batch)))
    return found


def block(slot: int, **changes) -> Block:
    values = {"slot": slot, "end": NOON + timedelta(minutes=slot), "seconds": 60.0, "goodput": 100.0, "batch": 8.0,
              "num_drafts": 1000.0, "generation_tokens": 6000.0, "responses": 30.0}
    return Block(**{**values, **changes})


def split(blocks: list[Block]) -> tuple[list[Block], list[Block]]:
    return blocks[:BEFORE], blocks[BEFORE:]


def final(seed: int, *, controls: int = 0, plan: Plan | None = None, **changes):
    """The verdict as it stands when it is final, asked at each look."""
    shared = {name: changes[name] for name in ("day", "load") if name in changes}
    others = [series(1000 * seed + n, **shared) for n in range(controls)]
    before, after = split(series(seed, **changes))
    for count in (5, 15, 45):
        found = judge(before, after[:count], others, plan)
        if found.call is not Call.WATCH:
            break
    return found


@pytest.mark.parametrize("controls", [0, 1, 3])
def test_a_clear_gain_is_promoted_early_and_a_clear_loss_taken_back(controls):
    for seed in range(20):
        better = final(seed, gain=0.15, controls=controls)
        assert (better.call, better.outcome) == (Call.PROMOTE, Outcome.MEASURED_BETTER)
        assert better.measured.minutes <= 15
        worse = final(seed, gain=-0.15, controls=controls)
        assert (worse.call, worse.outcome) == (Call.ROLL_BACK, Outcome.MEASURED_WORSE)


@pytest.mark.parametrize("controls", [0, 2])
def test_no_change_is_seldom_called_one_although_it_is_looked_at_three_times(controls):
    calls = [final(seed, gain=0.0, controls=controls, load=0.2).call for seed in range(120)]
    assert sum(call is not Call.WATCH for call in calls) <= 0.12 * len(calls)


@pytest.mark.parametrize(("controls", "gain"), [(0, 0.0), (0, 0.10), (2, 0.05)])
def test_the_interval_holds_the_truth(controls, gain):
    held = 0
    for seed in range(120):
        before, after = split(series(seed, gain=gain, load=0.2))
        others = [series(999 * seed + n, load=0.2) for n in range(controls)]
        found = judge(before, after, others).measured
        held += found.gain_low <= gain <= found.gain_high
    assert held >= 0.88 * 120


def test_controls_take_the_time_of_day_away_where_a_lone_server_is_fooled():
    # Everything gets 20 % slower over the hours; the change itself does nothing.
    def drift(seed: int) -> list[Block]:
        return [replace(b, goodput=b.goodput * 0.997**b.slot) for b in series(seed, noise=0.01)]

    alone = judge(*split(drift(1)))
    together = judge(*split(drift(1)), [drift(2), drift(3)])
    assert alone.measured.gain < -0.08
    assert abs(together.measured.gain) < 0.02


def test_what_is_peculiar_to_a_server_cancels():
    slow = series(1, gain=0.10, noise=0.01, level=40.0)
    found = judge(*split(slow), [series(2, noise=0.01, level=100.0)])
    assert found.measured.gain == pytest.approx(0.10, abs=0.02)
    assert "left alone" in found.measured.method


def test_a_control_that_came_later_is_not_compared_with():
    late = [b for b in series(2) if b.slot >= BEFORE + 10]
    assert against_controls(*split(series(1)), [late]) is None
    both = against_controls(*split(series(1)), [late, series(3)])
    assert both.controls == 1


def test_a_large_gain_in_open_loop_traffic_is_found_although_the_batch_fell():
    before, after = split(series(4, gain=0.40, open_loop=True, noise=0.01))
    assert match(before, after) is None
    found = judge(before, after)
    assert found.call is Call.PROMOTE
    assert found.measured.gain == pytest.approx(0.40, abs=0.12)
    assert "corrected" in found.measured.method


def test_load_that_moved_too_far_is_no_measurement():
    before, after = split(series(4, noise=0.01))
    far = [replace(b, batch=40.0) for b in after]
    found = judge(before, far)
    assert (found.call, found.measured.gain) == (Call.WATCH, None)
    assert correct(before, far) is None


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        ({"batch": 9.0}, True),
        ({"batch": 9.5}, False),
        ({"batch": None}, False),
        ({"prefill_tokens_per_step": 115.0}, True),
        ({"prefill_tokens_per_step": 130.0}, False),
        ({"kv_usage": 0.55}, True),
        ({"kv_usage": 0.65}, False),
    ],
)
def test_what_counts_as_like_load(other, alike):
    one = block(0, prefill_tokens_per_step=100.0, kv_usage=0.5)
    assert is_alike(one, replace(one, **other)) is alike


def test_between_looks_the_verdict_does_not_move():
    before, after = split(series(11, gain=0.05))
    at_look = judge(before, after[:15])
    for count in range(15, 45):
        later = judge(before, after[:count])
        assert (later.call, later.measured.gain) == (at_look.call, at_look.measured.gain)


def test_before_the_first_look_it_only_watches():
    found = judge(*split(series(1, gain=0.5))[:1], split(series(1, gain=0.5))[1][:4])
    assert found.call is Call.WATCH
    assert "until the first look" in found.measured.sentence
    assert not found.is_final


def test_blocks_without_traffic_do_not_count_towards_a_look():
    before, after = split(series(1, gain=0.5))
    idle = [replace(b, goodput=None) for b in after[:30]]
    assert judge(before, idle).measured.gain is None
    assert judge(before, [*idle, *after[30:34]]).call is Call.WATCH


def test_blocks_of_two_seconds_make_the_same_plan_faster():
    quick = [replace(b, seconds=2.0) for b in series(3, gain=0.15)]
    found = judge(quick[:BEFORE], quick[BEFORE:][:15])
    assert found.call is Call.PROMOTE
    assert found.measured.minutes <= 0.5


def test_the_same_numbers_give_the_same_verdict():
    assert final(5, gain=0.03, controls=2) == final(5, gain=0.03, controls=2)


def test_nothing_before_is_nothing_to_compare():
    found = judge([], split(series(1))[1])
    assert (found.call, found.measured.gain, found.measured.method) == (Call.WATCH, None, "not measured")


def test_looks_must_come_one_after_the_other():
    with pytest.raises(ValueError, match="looks"):
        Plan(looks=((5, 3.0), (5, 2.0)))


SLOW, FAST = histogram(0.09, 100.0), histogram(0.02, 100.0)


@pytest.mark.parametrize(
    ("sentence", "recent", "guards"),
    [
        ("answers failed", {"errors": 2.0}, Guards()),
        ("preemptions", {"preemptions": 5.0}, Guards()),
        ("KV cache", {"kv_usage": 0.99}, Guards()),
        ("TTFT p95", {"time_to_first_token": SLOW}, Guards(ttft_seconds=0.05)),
        ("TPOT p95", {"time_per_output_token": SLOW}, Guards(tpot_seconds=0.05)),
        ("times what it was", {"time_to_first_token": SLOW}, Guards()),
    ],
)
def test_harm_takes_a_change_back_at_once(sentence, recent, guards):
    calm = {"kv_usage": 0.5, "time_to_first_token": FAST, "time_per_output_token": FAST}
    before = [block(slot, **calm) for slot in range(10)]
    after = [block(slot, **{**calm, **recent}) for slot in range(10, 13)]
    assert sentence in tripped(before, after, [], guards)
    found = judge(before, after, plan=Plan(guards=guards))
    assert (found.call, found.outcome) == (Call.ROLL_BACK, Outcome.GUARD_TRIPPED)
    assert tripped(before, [block(slot, **calm) for slot in range(10, 13)], [], guards) is None


@pytest.mark.parametrize(
    ("name", "usual", "now"),
    [("time_to_first_token", 0.004, 0.02), ("time_per_output_token", 0.004, 0.009)],
)
def test_twice_a_latency_that_nobody_feels_trips_nothing(name, usual, now):
    # Edges of buckets double at that scale: the p95 moves from one to the next.
    before = [block(slot, **{name: histogram(usual, 100.0)}) for slot in range(10)]
    after = [block(slot, **{name: histogram(now, 100.0)}) for slot in range(10, 13)]
    assert tripped(before, after, [], Guards()) is None


def test_a_few_slow_answers_of_one_moment_trip_nothing():
    # Four of thirty were slow, all in the second of three blocks: the p95 is three times what it was.
    before = [block(slot, time_to_first_token=histogram(0.04, 10.0)) for slot in range(10)]
    calm, hit = histogram(0.04, 10.0), pool_histograms([histogram(0.04, 6.0), histogram(0.3, 4.0)])
    after = [block(slot, time_to_first_token=hit if slot == 11 else calm) for slot in range(10, 13)]
    assert tripped(before, after, [], Guards()) is None
    assert tripped(before, after, [], Guards(ttft_seconds=0.1)) is None
    # Two in each of them are more than chance has it, and last.
    hit = pool_histograms([histogram(0.04, 8.0), histogram(0.3, 2.0)])
    after = [block(slot, time_to_first_token=hit) for slot in range(10, 13)]
    assert "times what it was" in tripped(before, after, [], Guards())
    assert "over its limit" in tripped(before, after, [], Guards(ttft_seconds=0.09))


@pytest.mark.parametrize("name", ["time_to_first_token", "time_per_output_token"])
@pytest.mark.parametrize("every", [2, 3])
def test_answers_that_come_in_bursts_are_judged_by_the_blocks_that_have_some(name, every):
    def blocks(slots, seconds):
        return [block(slot, **{name: histogram(seconds, 0.0 if slot % every else 40.0)}) for slot in slots]

    before, after = blocks(range(12), 0.05), blocks(range(12, 24), 5.0)
    assert tripped(before, after[: 2 * every], [], Guards()) is None
    assert "times what it was" in tripped(before, after, [], Guards())


def test_what_the_controls_suffer_too_is_not_the_fault_of_the_change():
    before = [block(slot, time_to_first_token=FAST) for slot in range(10)]
    after = [block(slot, time_to_first_token=SLOW, preemptions=5.0) for slot in range(10, 13)]
    assert tripped(before, after, after, Guards(ttft_seconds=0.05)) is None
    assert tripped(before, after, [], Guards(ttft_seconds=0.05)) is not None


def test_a_handful_of_answers_trips_nothing():
    after = [block(slot, responses=2.0, errors=1.0) for slot in range(3)]
    assert tripped([], after, [], Guards()) is None


def test_a_reset_batch_that_never_varies_leaves_the_slope_to_the_prior():
    before = [block(slot, goodput=100.0 + slot % 3) for slot in range(20)]
    after = [block(slot, goodput=130.0 + slot % 3, batch=6.0) for slot in range(20, 40)]
    found = judge(before, after)
    # Batch fell by a quarter: 0.3 x 0.29 = 9 % of the 29 % may be that.
    assert found.measured.gain == pytest.approx(1.297 * math.exp(-0.3 * math.log(8 / 6)) - 1, abs=0.02)
    assert found.measured.gain_low < found.measured.gain - 0.05


def test_blocks_without_latency_or_gauges_have_no_goodput():
    quiet = blocks_of([i for _, i in run_of(life(), 4, has_latency=False, running=None)], 60.0)
    mute = blocks_of([i for _, i in run_of(life(), 4, generation=None)], 60.0)
    assert (quiet[0].goodput, mute[0].goodput) == (None, None)


def test_before_a_change_without_preemptions_any_in_a_minute_count():
    assert tripped([block(0)], [block(1)], [], Guards()) is None
    assert tripped([], [], [], Guards()) is None


def test_the_standard_error_of_correlated_values_is_wider_than_of_independent_ones():
    rng = random.Random(1)
    alone = [rng.gauss(0, 1) for _ in range(400)]
    value, joined = 0.0, []
    for draw in alone:
        value = 0.7 * value + math.sqrt(1 - 0.49) * draw
        joined.append(value)
    assert standard_error(alone) == pytest.approx(1 / 20, rel=0.25)
    # Truth: sqrt((1 + 0.7) / (1 - 0.7)) = 2.4 times; runs of five see most of it.
    assert 1.6 < standard_error(joined) / standard_error(alone) < 2.6
    assert standard_error([1.0]) == math.inf


def test_blocks_from_intervals():
    pairs = run_of(life(), 8)
    found = blocks_of([i for _, i in pairs], 60.0)
    assert [b.slot for b in found] == [slot_of(NOON, 60.0) - 1, slot_of(NOON, 60.0)]
    # 2,500 tokens in 1,000 steps of 10 ms: 250 tokens a second for each request.
    assert found[0].goodput == pytest.approx(250.0)
    assert found[0].batch == pytest.approx(2.0)
    assert found[0].acceptance_length == pytest.approx(2.5)
    assert found[0].seconds == 60.0
    assert found[0].num_drafts == 4000


def test_goodput_without_latencies_is_tokens_over_running_time():
    found = blocks_of([i for _, i in run_of(life(), 4, has_latency=False)], 60.0)
    assert found[0].goodput == pytest.approx(2500 / (2 * 15))


def test_the_block_that_is_just_filling_is_left_out():
    found = blocks_of([i for _, i in run_of(life(), 5, ends_at=15.0)], 60.0)
    assert len(found) == 1


def test_engines_of_one_server_add_in_a_block():
    both = [i for _, i in [*run_of(life(engine="0"), 4), *run_of(life(engine="1"), 4)]]
    found = blocks_of(both, 60.0)
    assert found[0].seconds == 60.0
    assert found[0].generation_tokens == 8 * 2500


def test_gaps_and_half_seen_intervals_are_no_part_of_a_block():
    gap = interval(life(), is_gap=True, seconds=60.0)
    assert blocks_of([gap], 60.0) == []
