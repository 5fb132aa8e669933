"""One decision from what rules and tuner say: every reason, what no rule may do, and what stands beside it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.decide import FAULTS, LIFETIME_SECONDS, decide
from monitor.model.decision import Action, Decision, Reason
from monitor.model.life import Setting
from monitor.model.outcome import ChangeKind, Truth, TuneChange
from monitor.model.server import ActionLimits, Group, GroupName
from monitor.tuning import Fact, Limits
from tests.unit.cycle.questions import DOWN, EAGLE, FIXED, SERVER, UP, firing, given, outcome, question, row

LOW = {3: row(0.45, 0.30, 0.20)}
HIGH = {3: row(0.90, 0.80, 0.70)}


def decided(*firings: object, **more: object) -> Decision:
    return decide(question(*firings, **more))  # type: ignore[arg-type]


def shown(decision: Decision) -> tuple[Action, int | None, Reason]:
    return decision.action, decision.proposed.num_speculative_tokens, decision.reason


class TestTheLiteralRule:
    def test_it_raises_and_lowers_by_one_and_carries_what_it_rests_on(self) -> None:
        decision = decided(firing(UP), given=given(HIGH))
        assert shown(decision) == (Action.RAISE, 4, Reason.ABOVE_RAISE_THRESHOLD)
        assert decision.sentence == "Acceptance 77%, above 70 % (over 30 min, for 40 min)."
        assert (decision.rule, decision.window_seconds) == ("raise-tokens", 1800.0)
        assert decision.evidence["acceptance_rate"] == 0.77
        assert decision.expires_at == decision.made_at + timedelta(seconds=LIFETIME_SECONDS)
        assert decision.precondition.lives == {"a": ("a-0-1",)}
        assert decision.precondition.setting == decision.current == EAGLE
        assert decision.proposed.draft_model == EAGLE.draft_model
        lowered = decided(firing(DOWN, rule="lower-tokens"), given=given(LOW))
        assert shown(lowered) == (Action.LOWER, 2, Reason.BELOW_LOWER_THRESHOLD)

    def test_the_prediction_stands_beside_it_even_where_it_is_a_loss(self) -> None:
        slow = {3: row(*FIXED, step_seconds=0.010), 4: row(*FIXED, 0.2, step_seconds=0.020)}
        decision = decided(firing(UP), given=given(slow))
        assert decision.action is Action.RAISE
        assert decision.gain is not None and decision.gain_low is not None and decision.gain_high is not None
        assert decision.gain_low <= decision.gain <= decision.gain_high < 0

    def test_a_number_far_off_is_predicted_too(self) -> None:
        decision = decided(firing(TuneChange(ChangeKind.SET, 7)), given=given(HIGH))
        assert decision.proposed.num_speculative_tokens == 7
        assert decision.gain is not None

    def test_where_nothing_may_be_predicted_it_says_what_was_seen_and_what_is_short(self) -> None:
        few = {3: row(0.9, 0.8, 0.7, drafts=100.0)}
        decision = decided(firing(UP), given=given(few))
        assert (decision.action, decision.gain) == (Action.RAISE, None)
        assert decision.sentence.endswith(
            "What 4 tokens would bring is not known: so far 3 tokens were seen, "
            "the present setting for 100 of 5000 drafts."
        )

    def test_what_was_seen_is_listed_as_one_says_it(self) -> None:
        few = {2: row(0.9, 0.8, drafts=100.0), 1: row(0.9, drafts=100.0), 3: row(0.9, 0.8, 0.7, drafts=100.0)}
        decision = decided(firing(UP), given=given(few))
        assert "so far 1 token, 2 tokens and 3 tokens were seen, the present setting for 100 of" in decision.sentence

    @pytest.mark.parametrize(
        ("tokens", "change", "limits"),
        [
            (8, UP, Limits(maximum=8)),
            (3, UP, Limits(maximum=3)),
            (2, DOWN, Limits(minimum=2)),
            (1, DOWN, Limits(minimum=1)),
            # A step down from the smallest setting is never a way of switching off, whatever is allowed.
            (1, DOWN, Limits(minimum=1, allow_off=True)),
            (3, TuneChange(ChangeKind.SET, 9), Limits(maximum=8)),
            (3, TuneChange(ChangeKind.OFF), Limits(allow_off=False)),
        ],
    )
    def test_it_stays_within_the_limits(self, tokens: int, change: TuneChange, limits: Limits) -> None:
        survival = [0.9 - 0.05 * i for i in range(tokens)]
        known = given({tokens: row(*survival)}, tokens=tokens, limits=limits)
        decision = decided(firing(change), given=known)
        assert shown(decision) == (Action.KEEP, tokens, Reason.AT_LIMIT)
        assert not decision.changes_setting

    def test_a_limit_that_forbids_off_is_named(self) -> None:
        decision = decided(firing(TuneChange(ChangeKind.OFF)), given=given(LOW))
        assert "allow_off" in decision.sentence

    def test_setting_a_number_and_switching_off_where_they_are_allowed(self) -> None:
        known = given(HIGH, limits=Limits(allow_off=True))
        assert shown(decided(firing(TuneChange(ChangeKind.SET, 6)), given=known))[:2] == (Action.RAISE, 6)
        assert shown(decided(firing(TuneChange(ChangeKind.SET, 1)), given=known))[:2] == (Action.LOWER, 1)
        assert shown(decided(firing(TuneChange(ChangeKind.OFF)), given=known))[:2] == (Action.OFF, 0)

    def test_the_setting_in_force_is_no_change(self) -> None:
        decision = decided(firing(TuneChange(ChangeKind.SET, 3)), given=given(HIGH))
        assert shown(decision) == (Action.KEEP, 3, Reason.AT_LIMIT)

    def test_a_setting_that_lost_is_not_tried_again(self) -> None:
        decision = decided(firing(UP), given=given(HIGH, rejected=frozenset({4})))
        assert shown(decision) == (Action.KEEP, 3, Reason.REJECTED_BEFORE)

    def test_a_number_that_is_never_to_be_set_is_not_asked_for(self) -> None:
        group = Group(name=GroupName("g"), servers=(SERVER,), limits=ActionLimits(never=(4,)))
        decision = decide(replace(question(firing(UP), given=given(HIGH)), group=group))
        assert shown(decision) == (Action.KEEP, 3, Reason.AT_LIMIT)
        assert "limits.never" in decision.sentence

    def test_a_step_from_off_is_no_setting(self) -> None:
        decision = decided(firing(UP), given=given({0: row(), 3: row(*FIXED)}, tokens=0))
        assert shown(decision) == (Action.KEEP, 0, Reason.SPECULATION_OFF)

    def test_a_rule_that_may_act_goes_before_one_that_may_not(self) -> None:
        known = given(HIGH, rejected=frozenset({4}))
        decision = decided(firing(UP), firing(TuneChange(ChangeKind.SET, 5), rule="own"), given=known)
        assert (decision.rule, decision.proposed.num_speculative_tokens) == ("own", 5)


class TestTheGuardedRule:
    def test_it_acts_where_the_tuner_agrees(self) -> None:
        decision = decided(firing(UP, guard="goodput"), given=given(HIGH))
        assert shown(decision) == (Action.RAISE, 4, Reason.PREDICTED_GAIN)
        assert decision.gain is not None and decision.gain > 0

    def test_a_loss_is_refused(self) -> None:
        costly = {3: row(0.90, 0.80, 0.70), 4: row(0.90, 0.80, 0.70, 0.60, step_seconds=0.020)}
        decision = decided(firing(UP, guard="goodput"), given=given(costly))
        assert shown(decision) == (Action.KEEP, 3, Reason.PREDICTED_LOSS)

    def test_what_would_trip_the_opposite_rule_is_refused(self) -> None:
        known = {2: row(0.90, 0.55), 3: row(0.90, 0.55, 0.00)}
        decision = decided(firing(UP, guard="goodput"), given=given(known, tokens=2))
        assert shown(decision) == (Action.KEEP, 2, Reason.TRIPS_OPPOSITE_TRIGGER)

    def test_saturation_forbids_more_tokens(self) -> None:
        known = given(HIGH, facts=frozenset({Fact.SATURATED}))
        assert shown(decided(firing(UP, guard="goodput"), given=known)) == (Action.KEEP, 3, Reason.SATURATED)

    def test_a_setting_that_lost_is_refused(self) -> None:
        known = given(HIGH, rejected=frozenset({4}))
        assert shown(decided(firing(UP, guard="goodput"), given=known)) == (Action.KEEP, 3, Reason.REJECTED_BEFORE)

    def test_too_little_to_claim_anything_is_refused(self) -> None:
        known = given({3: row(0.9, 0.8, 0.7, drafts=100.0)})
        assert shown(decided(firing(UP, guard="goodput"), given=known)) == (Action.KEEP, 3, Reason.TOO_LITTLE_DATA)

    def test_below_the_smallest_setting_lies_off_where_that_is_allowed_and_predicted_to_help(self) -> None:
        known = {0: row(step_seconds=0.010), 1: row(0.30, step_seconds=0.018)}
        lower = firing(DOWN, rule="lower-tokens", guard="goodput")
        allowed = decided(lower, given=given(known, tokens=1, limits=Limits(allow_off=True)))
        assert shown(allowed) == (Action.OFF, 0, Reason.PREDICTED_GAIN)
        forbidden = decided(lower, given=given(known, tokens=1))
        assert shown(forbidden) == (Action.KEEP, 1, Reason.AT_LIMIT)
        pays = {0: row(step_seconds=0.010), 1: row(0.45, step_seconds=0.0101)}
        kept = decided(lower, given=given(pays, tokens=1, limits=Limits(allow_off=True)))
        assert shown(kept) == (Action.KEEP, 1, Reason.PREDICTED_LOSS)


class TestTheTunersOwnAnswer:
    def test_a_rule_may_ask_for_it(self) -> None:
        known = given({3: row(0.92, 0.86, 0.80), 5: row(0.92, 0.86, 0.80, 0.74, 0.68, step_seconds=0.0102)})
        decision = decided(firing(TuneChange(ChangeKind.TUNER), rule="tune"), given=known)
        assert shown(decision) == (Action.RAISE, 5, Reason.PREDICTED_GAIN)
        assert decision.rule == "tune"
        assert decision.gain is not None and decision.gain > 0.2


class TestFaults:
    """No rule changes a setting while the numbers show a fault, or are not the setting's."""

    @pytest.mark.parametrize("change", [UP, DOWN, TuneChange(ChangeKind.SET, 1), TuneChange(ChangeKind.TUNER)])
    @pytest.mark.parametrize(
        ("fact", "action", "reason"),
        [
            (Fact.STUCK, Action.KEEP, Reason.ENGINE_STUCK),
            (Fact.UNRELIABLE, Action.KEEP, Reason.UNRELIABLE_COUNTERS),
            (Fact.DIFFUSION, Action.KEEP, Reason.DIFFUSION_MODEL),
            (Fact.ADAPTS_ITSELF, Action.KEEP, Reason.ENGINE_ADAPTS_ITSELF),
            (Fact.SCHEDULE, Action.KEEP, Reason.SCHEDULE_SET),
            (Fact.FELL_SUDDENLY, Action.RESTART, Reason.BROKEN_DRAFT),
            (Fact.DECAYS, Action.RESTART, Reason.DECAY_WITH_UPTIME),
        ],
    )
    def test_they_stand_above_every_rule(
        self, fact: Fact, action: Action, reason: Reason, change: TuneChange
    ) -> None:
        decision = decided(firing(change), given=given(LOW, facts=frozenset({fact})))
        assert shown(decision) == (action, 3, reason)
        assert decision.proposed == decision.current
        assert decision.rule == "tuner"

    def test_perfect_acceptance_of_a_head_is_not_believed(self) -> None:
        decision = decided(firing(UP), given=given({3: row(1.0, 1.0, 1.0)}))
        assert shown(decision) == (Action.KEEP, 3, Reason.UNRELIABLE_COUNTERS)

    def test_perfect_acceptance_of_lookup_is_normal(self) -> None:
        decision = decided(firing(UP), given=given({3: row(1.0, 1.0, 1.0)}, method="ngram"))
        assert shown(decision)[:2] == (Action.RAISE, 4)

    @pytest.mark.parametrize("tokens", [1, 2, 3, 5])
    def test_a_pair_that_never_fits_is_switched_off_or_kept_and_never_lowered(self, tokens: int) -> None:
        survival = [0.04 * 0.3**i for i in range(tokens)]
        rows = {tokens: row(*survival, step_seconds=0.014), 0: row(step_seconds=0.010)}
        off = decided(firing(DOWN), given=given(rows, tokens=tokens, limits=Limits(allow_off=True)))
        assert shown(off) == (Action.OFF, 0, Reason.WRONG_PAIR)
        kept = decided(firing(DOWN), given=given(rows, tokens=tokens))
        assert shown(kept) == (Action.KEEP, tokens, Reason.WRONG_PAIR)
        assert "another draft" in kept.sentence

    def test_servers_of_different_settings_are_not_judged_as_one(self) -> None:
        decision = decided(firing(UP), given=None, setting=Setting())
        assert shown(decision) == (Action.KEEP, None, Reason.SETTING_UNKNOWN)
        assert decision.threshold is None

    def test_a_setting_without_a_number_is_kept(self) -> None:
        decision = decided(firing(UP), given=given({}, tokens=None))
        assert shown(decision) == (Action.KEEP, None, Reason.SETTING_UNKNOWN)

    def test_every_fault_is_listed(self) -> None:
        assert Reason.BETWEEN_THRESHOLDS not in FAULTS
        assert Reason.TOO_LITTLE_DATA not in FAULTS  # an unguarded rule has needs of its own


class TestWhereNoRuleFires:
    def test_a_condition_that_has_not_held_for_long_enough(self) -> None:
        outcomes = (outcome("lower-tokens", Truth.FALSE), outcome("raise-tokens", Truth.TRUE))
        decision = decided(given=given(), outcomes=outcomes)
        assert shown(decision) == (Action.KEEP, 3, Reason.CONDITION_NOT_HELD)
        assert decision.rule == "raise-tokens"
        assert "30 min" in decision.sentence

    def test_no_data_is_neither_true_nor_false(self) -> None:
        blind = outcome("raise-tokens", Truth.NO_DATA, "acceptance_rate: no intervals in the window")
        decision = decided(given=given(), outcomes=(blind, blind))
        assert shown(decision) == (Action.KEEP, 3, Reason.NO_DATA)
        assert "no intervals in the window" in decision.sentence

    def test_too_little_data_is_told_from_none(self) -> None:
        few = outcome("raise-tokens", Truth.NO_DATA, "num_drafts: 12 of the 5000 needed")
        decision = decided(given=given(), outcomes=(few, few))
        assert shown(decision) == (Action.KEEP, 3, Reason.TOO_LITTLE_DATA)

    def test_between_the_thresholds(self) -> None:
        outcomes = (outcome("raise-tokens", Truth.FALSE), outcome("lower-tokens", Truth.FALSE))
        decision = decided(given=given(), outcomes=outcomes)
        assert shown(decision) == (Action.KEEP, 3, Reason.BETWEEN_THRESHOLDS)
        assert decision.sentence == "Acceptance is 60.0%: no rule asks for a change."

    def test_a_rule_that_cannot_be_judged_is_named_beside_those_that_ask_for_nothing(self) -> None:
        few = outcome("lower-tokens", Truth.NO_DATA, "num_drafts: 12 of the 5000 needed")
        decision = decided(given=given(), outcomes=(outcome("raise-tokens", Truth.FALSE), few))
        assert shown(decision) == (Action.KEEP, 3, Reason.BETWEEN_THRESHOLDS)
        assert decision.sentence.endswith("Rule lower-tokens cannot be judged: num_drafts: 12 of the 5000 needed.")

    def test_an_unknown_rate_is_called_unknown(self) -> None:
        assert "unknown" in decided(given=given(), rate=None).sentence


class TestTheThresholdAnswerBesideIt:
    def test_it_says_why_it_differs(self) -> None:
        costly = {3: row(0.90, 0.80, 0.70), 4: row(0.90, 0.80, 0.70, 0.60, step_seconds=0.020)}
        decision = decided(firing(UP, guard="goodput"), given=given(costly))
        beside = decision.threshold
        assert beside is not None
        assert (beside.action, beside.num_speculative_tokens) == (Action.RAISE, 4)
        assert beside.sentence.startswith("raise to 4. Acceptance is 80.0 %")
        assert "alone" in beside.sentence

    def test_it_says_nothing_more_where_they_agree(self) -> None:
        decision = decided(firing(UP), given=given(HIGH))
        assert decision.threshold is not None
        assert "tuner" not in decision.threshold.sentence

    def test_a_proposal_drops_a_schedule_only_where_the_number_moves(self) -> None:
        scheduled = Setting(method="eagle3", num_speculative_tokens=3, schedule=((1, 8, 3),))
        kept = decided(given=given(facts=frozenset({Fact.SCHEDULE})), setting=scheduled)
        assert kept.proposed == kept.current == scheduled
        raised = decided(firing(UP), given=given(HIGH), setting=scheduled)
        assert raised.proposed.schedule == ()
