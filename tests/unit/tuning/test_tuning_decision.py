"""What the tuner recommends and why: gains, trials, off, limits, and every reason to stand down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.model.decision import Action, Reason
from monitor.tuning import Fact, Limits, Row, TuneInput, tune
from monitor.tuning.advice import SENTENCES, sentence
from monitor.tuning.decision import highest_candidate, worth
from monitor.tuning.forecast import Forecast
from monitor.tuning.threshold import threshold_answer


def row(survival=(0.7, 0.5, 0.35), **changes) -> Row:
    values = {
        "survival": tuple(survival), "length": 1 + sum(survival), "num_drafts": 40_000.0, "finished_requests": 600.0,
        "step_seconds": 0.010, "batch": 1.0,
    }
    return Row(**{**values, **changes})


def given(tokens=3, rows=None, **changes) -> TuneInput:
    values = {"method": "eagle3", "num_speculative_tokens": tokens, "observed": rows or {tokens: row()}}
    return TuneInput(**{**values, **changes})


OFF = Row(length=1.0, num_drafts=0.0, finished_requests=600.0, step_seconds=0.008, batch=1.0)


def test_a_low_setting_with_high_acceptance_is_raised_by_two_at_most():
    found = tune(given(1, {1: row((0.9,))}))
    assert (found.action, found.num_speculative_tokens, found.reason) == (Action.RAISE, 3, Reason.PREDICTED_GAIN)
    assert 0 < found.gain_low < found.gain < found.gain_high
    assert set(found.forecasts) == {0, 1, 2, 3}


def test_a_high_setting_under_load_is_lowered_at_once():
    found = tune(given(8, {8: row((0.6, 0.36, 0.2, 0.1, 0.05, 0.03, 0.01, 0.01), batch=64.0)}))
    assert found.action is Action.LOWER
    assert found.num_speculative_tokens in (1, 2)


def test_lookup_whose_runs_go_on_is_raised_further():
    runs = (0.31, 0.279, 0.251, 0.238)
    assert highest_candidate(given(4, {4: row(runs)}, method="ngram", limits=Limits(maximum=16))) == 8
    assert highest_candidate(given(4, {4: row(runs)}, limits=Limits(maximum=16))) == 6
    short = (0.31, 0.10, 0.03, 0.01)
    assert highest_candidate(given(4, {4: row(short)}, method="ngram", limits=Limits(maximum=16))) == 6


def test_a_good_low_rate_is_left_alone_where_the_rule_would_lower():
    """Rate 0.43 at the measured optimum: the rule would go down."""
    found = tune(given(3, {3: row((0.62, 0.42, 0.25)), 2: row((0.63, 0.43), step_seconds=0.0092)}))
    assert found.action is Action.KEEP
    assert found.threshold.action is Action.LOWER
    assert "70/50" in found.sentence


def test_off_where_speculation_does_not_pay():
    found = tune(given(1, {1: row((0.2,), step_seconds=0.0125), 0: OFF}))
    assert (found.action, found.num_speculative_tokens) == (Action.OFF, 0)
    assert found.reason is Reason.SPECULATION_DOES_NOT_PAY
    assert "restart" in found.sentence


def test_off_is_not_proposed_where_it_is_not_allowed():
    found = tune(given(1, {1: row((0.2,), step_seconds=0.0125), 0: OFF}, limits=Limits(allow_off=False)))
    assert found.action is Action.KEEP
    assert found.reason is Reason.AT_LIMIT


def test_from_far_off_is_only_proposed_when_no_setting_comes_near():
    rates = (0.75, 0.45, 0.2, 0.1, 0.05, 0.02, 0.01, 0.01)
    assert tune(given(8, {8: row(rates, batch=128.0)})).action is Action.LOWER
    hopeless = (0.16, 0.02, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert tune(given(8, {8: row(hopeless, batch=128.0)})).action is Action.OFF


def test_a_setting_that_lost_is_not_proposed_again():
    first = tune(given(1, {1: row((0.9,))}))
    again = tune(given(1, {1: row((0.9,))}, rejected=frozenset({2, 3})))
    assert first.num_speculative_tokens == 3
    assert again.action is Action.KEEP
    assert again.reason is Reason.REJECTED_BEFORE


def test_the_limit_is_named_when_it_is_what_keeps_a_setting():
    found = tune(given(2, {2: row((0.95, 0.9))}, limits=Limits(maximum=2)))
    assert (found.action, found.reason) == (Action.KEEP, Reason.AT_LIMIT)


def test_never_past_the_trained_depth():
    found = tune(given(3, {3: row((0.95, 0.9, 0.86))}, limits=Limits(trained_depth=3)))
    assert found.action is Action.KEEP


def test_a_gain_must_repay_the_restart():
    rows = {3: row((0.7, 0.5, 0.33)), 2: row((0.72, 0.52), step_seconds=0.0083)}
    long = tune(given(3, rows, horizon_hours=240.0))
    short = tune(given(3, rows, horizon_hours=1.0, restart_seconds=300.0))
    assert long.action is Action.LOWER
    assert short.action is Action.KEEP
    assert short.reason is Reason.GAIN_BELOW_RESTART_COST


def test_what_is_probably_worse_is_at_most_a_trial_and_never_far_worse():
    for tokens in range(1, 9):
        found = tune(given(tokens, {tokens: row([0.7 * 0.75**i for i in range(tokens)], batch=16.0)}))
        if found.action is Action.PROBE:
            assert -0.05 <= found.gain <= 0.0
            assert found.reason is Reason.IDENTIFY_DRAFT_COST
        elif found.action is not Action.KEEP:
            assert found.gain > 0.0


def test_off_is_tried_once_where_the_overhead_of_speculating_may_be_what_costs():
    """A draft model as large as its target on a CPU: 30 % slower than none at any setting, at 60 % acceptance."""
    seconds = {1: 1.6 / 290, 2: 1.96 / 297, 3: 2.176 / 300, 5: 2.383 / 290}
    rows = {k: row([0.6**i for i in range(1, k + 1)], step_seconds=seconds[k]) for k in (2, 3, 5)}
    found = tune(given(3, rows, method="draft_model"))
    assert (found.action, found.num_speculative_tokens) == (Action.PROBE, 0)
    assert found.reason is Reason.IDENTIFY_DRAFT_COST
    assert found.gain < 0 < found.gain_high
    rows[0] = replace(OFF, step_seconds=1 / 415)
    assert tune(given(0, {**rows, 0: rows[0]}, method="draft_model")).num_speculative_tokens == 0
    off = tune(given(3, rows, method="draft_model"))
    assert (off.action, off.reason) == (Action.OFF, Reason.SPECULATION_DOES_NOT_PAY)


def test_a_known_dear_draft_is_switched_off_at_once():
    rows = {5: row([0.6**i for i in range(1, 6)], step_seconds=2.383 / 290)}
    found = tune(given(5, rows, method="draft_model", draft_ratio=1.0))
    assert found.action is Action.OFF


def test_limits_must_be_possible():
    with pytest.raises(ValueError, match="limits 5"):
        Limits(minimum=5, maximum=2)


@pytest.mark.parametrize(
    ("facts", "action", "reason"),
    [
        ({Fact.STUCK}, Action.KEEP, Reason.ENGINE_STUCK),
        ({Fact.UNRELIABLE}, Action.KEEP, Reason.UNRELIABLE_COUNTERS),
        ({Fact.DIFFUSION}, Action.KEEP, Reason.DIFFUSION_MODEL),
        ({Fact.ADAPTS_ITSELF}, Action.KEEP, Reason.ENGINE_ADAPTS_ITSELF),
        ({Fact.SCHEDULE}, Action.KEEP, Reason.SCHEDULE_SET),
        ({Fact.FELL_SUDDENLY}, Action.RESTART, Reason.BROKEN_DRAFT),
        ({Fact.DECAYS}, Action.RESTART, Reason.DECAY_WITH_UPTIME),
        ({Fact.DECAYS, Fact.STUCK}, Action.KEEP, Reason.ENGINE_STUCK),
    ],
)
def test_facts_that_make_tuning_the_wrong_answer(facts, action, reason):
    found = tune(given(1, {1: row((0.9,))}, facts=frozenset(facts)))
    assert (found.action, found.reason, found.num_speculative_tokens) == (action, reason, 1)
    assert found.gain is None


def test_a_saturated_server_is_only_lowered():
    high = {8: row((0.6, 0.36, 0.2, 0.1, 0.05, 0.03, 0.01, 0.01), batch=64.0)}
    assert tune(given(8, high, facts=frozenset({Fact.SATURATED}))).action is Action.LOWER
    low = tune(given(1, {1: row((0.9,))}, facts=frozenset({Fact.SATURATED})))
    assert (low.action, low.reason) == (Action.KEEP, Reason.SATURATED)


def test_a_draft_that_never_fits_ends_off_or_in_advice_and_never_in_one_token_less():
    rates = (0.02, 0.0, 0.0, 0.0, 0.0)
    off = tune(given(5, {5: row(rates)}))
    assert (off.action, off.reason) == (Action.OFF, Reason.WRONG_PAIR)
    kept = tune(given(5, {5: row(rates)}, limits=Limits(allow_off=False)))
    assert (kept.action, kept.reason, kept.num_speculative_tokens) == (Action.KEEP, Reason.WRONG_PAIR, 5)
    assert "another draft" in kept.sentence
    assert tune(given(5, {5: row(rates)}, method="ngram")).reason is not Reason.WRONG_PAIR


def test_perfect_acceptance_is_too_good_for_a_model_and_normal_for_lookup():
    perfect = {2: row((1.0, 1.0))}
    assert tune(given(2, perfect)).reason is Reason.UNRELIABLE_COUNTERS
    assert tune(given(2, perfect, method="ngram")).action is Action.RAISE


@pytest.mark.parametrize(
    ("tokens", "rows", "reason"),
    [
        (None, {}, Reason.SETTING_UNKNOWN),
        (3, {2: row((0.7, 0.5))}, Reason.NO_DATA),
        (3, {3: Row(step_seconds=0.01)}, Reason.NO_DATA),
        (3, {3: row(num_drafts=100.0)}, Reason.TOO_LITTLE_DATA),
        (3, {3: row(finished_requests=3.0)}, Reason.TOO_LITTLE_DATA),
        (3, {3: row(covered_seconds=20.0)}, Reason.TOO_LITTLE_DATA),
    ],
)
def test_without_enough_data_nothing_is_claimed(tokens, rows, reason):
    found = tune(TuneInput(method="eagle3", num_speculative_tokens=tokens, observed=rows))
    assert (found.action, found.reason, found.num_speculative_tokens) == (Action.KEEP, reason, tokens)


@pytest.mark.parametrize(
    ("short", "words"),
    [
        ({"num_drafts": 100.0}, "100 of 5000 drafts"),
        ({"num_drafts": 9000.0, "covered_seconds": 56.0}, "56 of 120 seconds"),
        ({"finished_requests": 3.0, "covered_seconds": 56.0}, "3 of 30 finished requests, 56 of 120 seconds"),
    ],
)
def test_what_is_short_is_named_and_nothing_else(short, words):
    found = tune(given(3, {3: row(**short)}))
    assert found.sentence == f"Too little has been seen at 3 tokens for anything to be claimed: {words}."


def test_off_is_probed_again_only_where_there_are_replicas():
    lone = tune(given(0, {0: OFF}))
    several = tune(given(0, {0: OFF}, replicas=3))
    assert (lone.action, lone.reason) == (Action.KEEP, Reason.SPECULATION_OFF)
    assert (several.action, several.num_speculative_tokens) == (Action.PROBE, 1)


def test_off_with_known_rows_goes_back_when_that_is_predicted_to_pay():
    rows = {0: replace(OFF, step_seconds=0.008), 3: row((0.8, 0.6, 0.45), step_seconds=0.011)}
    assert tune(given(0, rows)).action is Action.RAISE


def test_only_a_length_still_gives_an_answer():
    """Degraded: no positions."""
    found = tune(given(8, {8: Row(length=2.2, num_drafts=40_000.0, step_seconds=0.02, batch=64.0)}))
    assert found.action is Action.LOWER


def test_no_step_time_still_gives_ratios():
    """Degraded: no latency histograms at all."""
    found = tune(given(8, {8: row((0.6, 0.3, 0.1, 0.05, 0.02, 0.01, 0.0, 0.0), step_seconds=None, batch=32.0)}))
    assert found.action is Action.LOWER
    assert all(forecast.step_seconds is None for forecast in found.forecasts.values())


def test_a_sure_gain_is_worth_more_than_an_unsure_one_of_the_same_size_only_below_the_noise():
    sure = Forecast(4, 3.0, 0.01, 0.03, 0.005, False)
    unsure = Forecast(4, 3.0, 0.01, 0.03, 0.10, False)
    assert worth(unsure, given()) > worth(sure, given()) > 0
    assert worth(replace(sure, log_gain=0.002), given()) < 0


def test_every_reason_has_a_sentence_that_reads():
    assert set(SENTENCES) == set(Reason)
    for reason in Reason:
        text = sentence(reason, now=3, to=1, forecast=Forecast(1, 2.0, 0.01, 0.05, 0.01, False))
        assert not text[0].islower()
        assert text.endswith(".")
        assert "{" not in text


@pytest.mark.parametrize(
    ("tokens", "survival", "action", "target"),
    [
        (2, (0.9, 0.7), Action.RAISE, 3),
        (8, (0.9,) * 8, Action.KEEP, 8),
        (3, (0.5, 0.3, 0.2), Action.LOWER, 2),
        (1, (0.3,), Action.KEEP, 1),
        (2, (0.7, 0.5), Action.KEEP, 2),
    ],
)
def test_the_rule_to_the_letter(tokens, survival, action, target):
    found = threshold_answer(row(survival), tokens, Limits(minimum=1, maximum=8))
    assert (found.action, found.num_speculative_tokens) == (action, target)


def test_the_rule_has_nothing_to_say_of_off_or_of_nothing():
    assert threshold_answer(OFF, 0, Limits()).action is Action.KEEP
    assert threshold_answer(None, None, Limits()).num_speculative_tokens is None
