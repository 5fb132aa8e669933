"""The guarded rule: the triggers of 70/50, but only where a step helps and stays, and sure gains beside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.model.decision import Action, Reason
from monitor.tuning import Fact, Limits, TuneInput
from monitor.tuning.guard import SURE_GAIN, guard, guarded, guarded_step, sure_gain
from tests.unit.tuning.test_tuning_decision import OFF, given, row


def test_a_raise_that_helps_and_stays_is_let_through():
    found = guard(given(1, {1: row((0.9,))}), 2)
    assert found.is_allowed
    assert found.reason is Reason.PREDICTED_GAIN
    assert found.forecast.gain > 0


def test_a_raise_whose_rate_would_fall_below_the_lower_threshold_is_refused():
    # One good position: rate(1) = 0.75, rate(2) = (0.75 + 0.2) / 2 = 0.48. The plain rule swings for ever.
    known = {1: row((0.75,)), 2: row((0.75, 0.20), step_seconds=0.0101)}
    found = guard(given(1, known), 2)
    assert not found.is_allowed
    assert found.reason is Reason.TRIPS_OPPOSITE_TRIGGER


def test_a_lowering_whose_rate_would_rise_above_the_upper_threshold_is_refused():
    known = {2: row((0.75, 0.20), batch=128.0), 1: row((0.75,), step_seconds=0.007, batch=128.0)}
    found = guard(given(2, known), 1)
    assert (found.is_allowed, found.reason) == (False, Reason.TRIPS_OPPOSITE_TRIGGER)


def test_a_lowering_that_would_lose_is_refused():
    """Rate 0.43 at the best setting."""
    known = {3: row((0.62, 0.42, 0.25)), 2: row((0.63, 0.43), step_seconds=0.0092)}
    found = guard(given(3, known), 2)
    assert (found.is_allowed, found.reason) == (False, Reason.PREDICTED_LOSS)
    assert found.forecast.gain < 0


@pytest.mark.parametrize(
    ("changes", "proposed", "reason"),
    [
        ({"limits": Limits(maximum=1)}, 2, Reason.AT_LIMIT),
        ({"limits": Limits(trained_depth=1)}, 2, Reason.AT_LIMIT),
        ({"limits": Limits(allow_off=False)}, 0, Reason.AT_LIMIT),
        ({}, 1, Reason.AT_LIMIT),
        ({"rejected": frozenset({2})}, 2, Reason.REJECTED_BEFORE),
        ({"facts": frozenset({Fact.SATURATED})}, 2, Reason.SATURATED),
        ({"facts": frozenset({Fact.STUCK})}, 2, Reason.ENGINE_STUCK),
        ({"observed": {1: row((0.9,), num_drafts=10.0)}}, 2, Reason.TOO_LITTLE_DATA),
        ({"observed": {1: row((0.05,))}}, 2, Reason.WRONG_PAIR),
    ],
)
def test_what_else_refuses_a_change(changes, proposed, reason):
    found = guard(replace(given(1, {1: row((0.9,))}), **changes), proposed)
    assert (found.is_allowed, found.reason) == (False, reason)
    assert found.sentence


def test_below_the_smallest_setting_lies_off():
    known = {1: row((0.2,), step_seconds=0.0125), 0: OFF}
    found = guarded_step(given(1, known), Action.LOWER)
    assert (found.is_allowed, found.num_speculative_tokens) == (True, 0)
    kept = guarded_step(given(1, known, limits=Limits(allow_off=False)), Action.LOWER)
    assert not kept.is_allowed


def test_a_step_has_a_direction_and_a_beginning():
    with pytest.raises(ValueError, match="keep"):
        guarded_step(given(), Action.KEEP)
    unknown = TuneInput(method="eagle3", num_speculative_tokens=None, observed={})
    assert guarded_step(unknown, Action.RAISE).reason is Reason.SETTING_UNKNOWN


def test_a_sure_gain_needs_no_trigger():
    # Rate 0.6, between the thresholds; two more tokens surely pay at this price.
    known = {1: row((0.6,), step_seconds=0.010), 3: row((0.6, 0.5, 0.42), step_seconds=0.0105)}
    found = guarded(given(1, known))
    assert found.is_allowed
    assert found.forecast.gain_low > SURE_GAIN


def test_a_gain_too_small_for_a_restart_is_refused_and_a_raise_is_one_step():
    known = {1: row((0.9,), step_seconds=0.010), 2: row((0.9, 0.75), step_seconds=0.0138)}
    found = guarded_step(given(1, known, horizon_hours=1.0, restart_seconds=600.0), Action.RAISE)
    assert (found.num_speculative_tokens, found.is_allowed) == (2, False)
    assert found.reason in (Reason.GAIN_BELOW_RESTART_COST, Reason.PREDICTED_LOSS)
    small = guard(given(1, {1: row((0.9,))}, horizon_hours=1.0, restart_seconds=1200.0), 2)
    assert (small.is_allowed, small.reason) == (False, Reason.GAIN_BELOW_RESTART_COST)


def test_off_and_never_seen_otherwise_nothing_can_be_predicted():
    found = guard(given(0, {0: OFF}), 1)
    assert (found.is_allowed, found.reason) == (False, Reason.NO_DATA)


def test_a_mere_trial_is_not_a_sure_gain():
    found = sure_gain(given(3))
    assert not found.is_allowed
