"""Worked examples of the published theory and of the design, to the digit in which they are given."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from monitor.model.decision import Action
from monitor.signals.accepted import alpha_of_length
from monitor.signals.uncertainty import wilson
from monitor.tuning import Limits, Row, TuneInput
from monitor.tuning.decision import worth
from monitor.tuning.forecast import Forecast
from monitor.tuning.observed import Drafting
from monitor.tuning.projection import project
from monitor.tuning.threshold import rate_of, threshold_answer
from monitor.tuning.verdict import LOOKS, TOLERATED_LOSS


def fixed(alpha: float, tokens: int) -> Row:
    """Every token accepted with the same chance, whatever came before."""
    survival = tuple(alpha**place for place in range(1, tokens + 1))
    return Row(survival=survival, length=1.0 + sum(survival))


def speedup(alpha: float, cost: float, tokens: int) -> float:
    """Leviathan et al. 2023: tokens a step over its time, against none; `cost` is a draft's pass over the target's."""
    return (1.0 - alpha ** (tokens + 1)) / ((1.0 - alpha) * (tokens * cost + 1.0))


def settled(alpha: float, start: int) -> int:
    """Where the 70/50 rule comes to rest."""
    tokens = start
    for _ in range(20):
        tokens = threshold_answer(fixed(alpha, tokens), tokens, Limits()).num_speculative_tokens or 0
    return tokens


def test_the_rate_falls_with_every_further_token():
    rates = [rate_of(fixed(0.8, tokens), tokens) for tokens in range(1, 7)]
    assert rates == pytest.approx([0.80, 0.72, 0.65, 0.59, 0.54, 0.49], abs=0.005)


@pytest.mark.parametrize(
    ("alpha", "rests", "by_cost"),
    [
        (0.5, (1, 1), {0.02: (4, 1.79, 18, 18), 0.10: (2, 1.46, 6, 6), 0.25: (1, 1.20, 0, 0)}),
        (0.6, (1, 1), {0.02: (6, 2.17, 28, 28), 0.10: (3, 1.67, 13, 13), 0.25: (2, 1.31, 2, 2)}),
        (0.7, (1, 3), {0.02: (8, 2.76, 40, 13), 0.10: (4, 1.98, 22, 2), 0.25: (2, 1.46, 7, 1)}),
        (0.8, (3, 5), {0.02: (11, 3.82, 27, 12), 0.10: (6, 2.47, 8, 0), 0.25: (3, 1.69, 0, 3)}),
        (0.85, (4, 8), {0.02: (14, 4.75, 28, 7), 0.10: (7, 2.85, 7, 0), 0.25: (4, 1.85, 0, 8)}),
        # One token never pays where a draft costs more than it brings, and the rule cannot switch off.
        (0.3, (1, 1), {0.4: (0, 1.0, 7, 7)}),
        (0.9, (7, 8), {0.02: (16, 6.31, 21, 16), 0.10: (10, 3.43, 2, 1), 0.25: (6, 2.09, 1, 2)}),
    ],
)
def test_what_the_rule_loses_against_the_best_setting(alpha, rests, by_cost):
    assert (settled(alpha, 1), settled(alpha, 8)) == rests
    for cost, (best, gain, *losses) in by_cost.items():
        speedups = {tokens: speedup(alpha, cost, tokens) for tokens in range(17)}
        assert max(speedups, key=speedups.__getitem__) == best
        assert speedups[best] == pytest.approx(gain, abs=0.006)
        found = [100.0 * (1.0 - speedups[tokens] / speedups[best]) for tokens in rests]
        assert found == pytest.approx(losses, abs=0.6)


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.8, 0.9])
@pytest.mark.parametrize("cost", [0.02, 0.10, 0.25])
def test_one_token_more_pays_where_its_share_of_the_tokens_exceeds_its_share_of_the_time(alpha, cost):
    for tokens in range(12):
        pays = speedup(alpha, cost, tokens + 1) > speedup(alpha, cost, tokens)
        length = 1.0 + sum(fixed(alpha, tokens).survival)
        assert pays is (alpha ** (tokens + 1) / length > cost / (1.0 + tokens * cost))


def test_a_head_with_one_good_position_makes_the_rule_swing():
    one, two = Row(survival=(0.75,)), Row(survival=(0.75, 0.20))
    up, down = threshold_answer(one, 1, Limits()), threshold_answer(two, 2, Limits())
    assert (up.action, up.num_speculative_tokens) == (Action.RAISE, 2)
    assert (down.action, down.num_speculative_tokens) == (Action.LOWER, 1)


def test_a_restart_of_three_minutes_within_six_hours_must_bring_two_and_a_half_percent():
    given = TuneInput(method="eagle3", num_speculative_tokens=3, observed={3: fixed(0.7, 3)}, restart_seconds=180.0,
                      horizon_hours=6.0)
    sure = Forecast(num_speculative_tokens=4, length=2.6, step_seconds=0.01, log_gain=0.0, log_error=0.0,
                    is_observed=False)
    for gain, pays in ((0.0249, False), (0.0251, True)):
        assert (worth(replace(sure, log_gain=math.log1p(gain)), given) > 0) is pays


def test_lookup_that_drafts_in_half_the_steps_emits_fewer_tokens_than_its_drafts_say():
    # vllm#24344: 4.59 tokens a draft and 2.96 a step, so 54.6 % of the steps had a draft.
    row = Row(survival=(0.81, 0.74, 0.70, 0.68, 0.66), length=4.59, num_drafts=50_000.0, coverage=1.96 / 3.59)
    assert project({5: row}, Drafting.LOOKUP, 5)[5].value == pytest.approx(2.96, abs=0.005)


def test_so_many_independent_drafts_tell_a_rate_to_two_points():
    low, high = wilson(0.5, 2401.0)
    assert (high - low) / 2.0 == pytest.approx(0.02, abs=1e-4)


@pytest.mark.parametrize(("alpha", "tokens"), [(0.5, 3), (0.7, 5), (0.8, 8), (0.9, 1)])
def test_the_rate_of_a_token_is_found_from_the_length_alone(alpha, tokens):
    assert alpha_of_length((1.0 - alpha ** (tokens + 1)) / (1.0 - alpha), tokens) == pytest.approx(alpha, abs=1e-6)


def test_what_is_claimed_rests_on_as_much_as_the_design_asks_for():
    given = TuneInput(method=None, num_speculative_tokens=1, observed={})
    assert (given.need_drafts, given.need_requests, given.need_seconds) == (5000.0, 30.0, 120.0)
    assert (LOOKS, TOLERATED_LOSS) == (((5, 3.5), (15, 2.5), (45, 2.0)), 0.01)
