from __future__ import annotations

from datetime import datetime

import pytest

from monitor.model.outcome import RuleOutcome, Truth
from monitor.model.record import RuleTimer
from monitor.model.signal import NoData, SignalSet
from monitor.policy.evaluate import _quiet, evaluate, evidence_of, outcome_of, step_timer
from monitor.policy.facts import FACTS, is_neural_draft, rule_vocabulary, with_facts
from monitor.policy.rule import Scope
from tests.unit.policy.words import GROUP, SERVER, START, minute, rules, signal_set

TUNE = """
groups:
  - name: g
    rules:
      - tune: raise-tokens
        when: acceptance_rate > 0.70
        window: 30m
        for: 10m
        need: {num_drafts: 5000, acceptance_rate.samples: 100}
        show: [acceptance_rate_at_pos, goodput]
        do: {num_speculative_tokens: "+1"}
        guard: goodput
        labels: {team: chat}
        annotations: {summary: "{{ $labels.group }} {{ $value.acceptance_rate | humanizePercentage }}"}
"""
ALERT = """
groups:
  - name: g
    rules:
      - alert: Low
        when: acceptance_rate < 0.5
        need: {num_drafts: 100}
        labels: {severity: ticket}
        annotations: {summary: "{{ $labels.server }} of {{ $labels.group }}"}
"""


def group_set(rate: float | None | NoData, drafts: float | None = 6000.0, samples: float = 1e6) -> SignalSet:
    return signal_set(
        {"acceptance_rate": rate, "num_drafts": drafts, "goodput": None},
        {"acceptance_rate_at_pos": (0.8, 0.6, None)},
        scope="group:g", window=1800.0, samples={"acceptance_rate": samples},
    )


def tune_truth(found: SignalSet) -> RuleOutcome:
    return outcome_of(rules(TUNE).tunes[0], GROUP, {(1800.0, "group:g"): found})


class TestNeeds:
    @pytest.mark.parametrize(
        ("found", "truth", "reason"),
        [
            (group_set(0.8), Truth.TRUE, ""),
            (group_set(0.6), Truth.FALSE, ""),
            (group_set(0.8, drafts=4999.0), Truth.NO_DATA, "num_drafts: 4999 of the 5000 needed"),
            # Too little data forbids "false" as well.
            (group_set(0.6, drafts=0.0), Truth.NO_DATA, "num_drafts: 0 of the 5000 needed"),
            (group_set(0.8, drafts=None), Truth.NO_DATA, "num_drafts: no intervals in the window"),
            (group_set(0.8, samples=99.0), Truth.NO_DATA, "acceptance_rate.samples: 99 of the 100 needed"),
            (group_set(None), Truth.NO_DATA, "acceptance_rate.samples: no intervals in the window"),
            (group_set(NoData.SPECULATION_OFF, drafts=0.0), Truth.FALSE, ""),
        ],
    )
    def test_what_is_missing_is_said(self, found: SignalSet, truth: Truth, reason: str) -> None:
        outcome = tune_truth(found)
        assert (outcome.truth, outcome.reason) == (truth, reason)

    @pytest.mark.parametrize(
        ("drafts", "truth", "reason"),
        [(6000.0, Truth.TRUE, ""), (4999.0, Truth.NO_DATA, "num_drafts: 4999 of the 5000 needed")],
    )
    def test_what_a_page_never_tells_is_not_asked_of_it(self, drafts: float, truth: Truth, reason: str) -> None:
        # llama.cpp counts drafts but no requests: no rule of the shipped sets ever fired on it.
        two = TUNE.replace("acceptance_rate.samples: 100", "finished_requests: 30")
        found = signal_set(
            {"acceptance_rate": 0.8, "num_drafts": drafts, "finished_requests": NoData.NOT_EXPORTED, "goodput": None},
            {"acceptance_rate_at_pos": (0.8,)}, scope="group:g", window=1800.0,
        )
        outcome = outcome_of(rules(two).tunes[0], GROUP, {(1800.0, "group:g"): found})
        assert (outcome.truth, outcome.reason) == (truth, reason)

    def test_a_page_that_tells_nothing_of_what_is_needed_gives_no_data(self) -> None:
        found = signal_set({"acceptance_rate": 0.4, "num_drafts": NoData.NOT_EXPORTED})
        outcome = outcome_of(rules(ALERT).alerts[0], SERVER, {(300.0, "server:a"): found})
        assert (outcome.truth, outcome.reason) == (Truth.NO_DATA, "num_drafts: the page does not export it")

    def test_a_scope_without_signals_has_no_data(self) -> None:
        outcome = outcome_of(rules(ALERT).alerts[0], SERVER, {})
        assert (outcome.truth, outcome.reason) == (Truth.NO_DATA, "no signals of this scope")

    def test_signals_over_another_window_do_not_count(self) -> None:
        found = signal_set({"acceptance_rate": 0.1, "num_drafts": 1e6})
        assert outcome_of(rules(ALERT).alerts[0], SERVER, {(1800.0, "server:a"): found}).truth is Truth.NO_DATA


def test_evidence_holds_every_number_the_rule_rests_on_or_shows() -> None:
    assert evidence_of(rules(TUNE).tunes[0], group_set(0.8)) == {
        "acceptance_rate": 0.8,
        "num_drafts": 6000.0,
        "acceptance_rate_at_pos[0]": 0.8,
        "acceptance_rate_at_pos[1]": 0.6,
        "goodput": None,
    }


def test_labels_and_texts_of_an_alert() -> None:
    found = signal_set({"acceptance_rate": 0.4, "num_drafts": 1e6})
    outcome = outcome_of(rules(ALERT).alerts[0], SERVER, {(300.0, "server:a"): found})
    assert outcome.labels == {"alertname": "Low", "severity": "ticket", "server": "a", "group": "g"}
    assert outcome.annotations == {"summary": "a of g"}


class TestFor:
    def run(self, truths: list[tuple[float, float | None]]) -> list[float]:
        """Minutes at which the rule fires, given (minute, acceptance rate) pairs."""
        found, timers = [], {}
        for at, rate in truths:
            said = evaluate(
                rules(TUNE), {(1800.0, "group:g"): group_set(rate)}, [GROUP], timers, minute(at)
            )
            timers = dict(said.timers)
            found += [at] if said.firings else []
        return found

    def test_it_fires_once_the_condition_has_held_for_it_and_as_long_as_it_holds(self) -> None:
        assert self.run([(m, 0.8) for m in range(13)]) == [10, 11, 12]

    def test_false_starts_it_anew(self) -> None:
        assert self.run([(m, 0.6 if m == 5 else 0.8) for m in range(18)]) == [16, 17]

    def test_time_without_data_does_not_count(self) -> None:
        gap = range(5, 35)
        minutes = [(m, None if m in gap else 0.8) for m in range(45)]
        # 30 evaluations without data; 2.5 minutes of the gap count, as one late evaluation would.
        assert self.run(minutes) == [39, 40, 41, 42, 43, 44]

    def test_a_daemon_that_was_down_does_not_count_the_time(self) -> None:
        assert self.run([(0, 0.8), (1, 0.8), (600, 0.8), (601, 0.8), (610, 0.8)]) == []

    def test_a_clock_that_was_set_back_does_no_harm(self) -> None:
        assert self.run([(0, 0.8), (5, 0.8), (-60, 0.8), (-59, 0.8)]) == []

    def test_a_firing_carries_what_it_rests_on(self) -> None:
        timers = {("raise-tokens", "group:g"): RuleTimer("raise-tokens", "group:g", START, minute(11), "true")}
        said = evaluate(rules(TUNE), {(1800.0, "group:g"): group_set(0.8)}, [GROUP], timers, minute(12))
        firing = said.firings[0]
        assert (firing.rule, firing.scope, firing.change.describe(), firing.guard) == (
            "raise-tokens", "group:g", "+1", "goodput",
        )
        assert (firing.held_since, firing.held_seconds, firing.window_seconds) == (START, 720.0, 1800.0)
        assert firing.annotations == {"summary": "g 80%"}
        assert firing.evidence["num_drafts"] == 6000.0

    def test_only_timers_that_changed_are_to_be_stored(self) -> None:
        found = {(1800.0, "group:g"): group_set(0.6)}
        first = evaluate(rules(TUNE), found, [GROUP], {}, minute(0))
        assert len(first.changed) == 1
        assert evaluate(rules(TUNE), found, [GROUP], first.timers, minute(1)).changed == ()

    def test_timers_of_rules_and_scopes_that_are_gone_are_dropped(self) -> None:
        timers = {("old", "group:g"): RuleTimer("old", "group:g", START, START, "true")}
        assert set(evaluate(rules(TUNE), {}, [GROUP], timers, minute(0)).timers) == {("raise-tokens", "group:g")}


@pytest.mark.parametrize(
    ("truth", "held", "last"),
    [(Truth.TRUE, START, minute(2)), (Truth.FALSE, None, minute(1)), (Truth.NO_DATA, START, minute(1))],
)
def test_a_timer_after_one_more_outcome(truth: Truth, held: datetime | None, last: datetime) -> None:
    before = RuleTimer("r", "s", START, minute(1), "true")
    assert step_timer("r", "s", truth, before, minute(2)) == RuleTimer("r", "s", held, last, str(truth))


def test_the_same_question_gets_the_same_answer() -> None:
    found = {(1800.0, "group:g"): group_set(0.8)}
    assert evaluate(rules(TUNE), found, [GROUP], {}, minute(0)) == evaluate(rules(TUNE), found, [GROUP], {}, minute(0))


class TestFacts:
    @pytest.mark.parametrize(
        ("method", "fact"),
        [("eagle3", 1.0), ("draft_model", 1.0), ("mtp", 1.0), ("ngram", 0.0), ("[ngram]", 0.0), ("ngram_gpu", 0.0),
         ("NGRAM", 0.0), ("suffix", 0.0), ("ngram-mod,draft-simple", 1.0), ("ngram-mod, ngram-cache", 0.0),
         (None, None)],
    )
    def test_which_methods_draft_with_a_model(self, method: str | None, fact: float | None) -> None:
        assert is_neural_draft(method) == fact

    def test_facts_are_signals_that_rules_may_name(self) -> None:
        assert set(rule_vocabulary({"up": "scalar"})) == {"up", *FACTS}
        found = with_facts(signal_set({"up": 0.0}), {"health_ok": 1.0, "probe_failed": None})
        assert (found.value("up"), found.value("health_ok"), found.value("probe_failed")) == (0.0, 1.0, None)

    def test_a_name_that_is_no_fact_is_refused(self) -> None:
        with pytest.raises(ValueError, match="healthy: expected one of probe_failed"):
            with_facts(signal_set(), {"healthy": 1.0})


def test_an_alert_that_does_not_hold_says_the_same_each_time_and_of_its_own_scope() -> None:
    """What is remembered of one scope must not be told of another one of the same name."""
    (rule,) = rules("""
groups:
  - name: g
    rules:
      - {alert: Low, when: acceptance_rate < 0.50, labels: {severity: page}, annotations: {summary: low}}
""").alerts
    moved = Scope(SERVER.name, SERVER.kind, {**SERVER.labels, "group": "other"})
    signals = {(rule.window_seconds, SERVER.name): signal_set({"acceptance_rate": 0.7}, window=rule.window_seconds)}
    first, again, other = (outcome_of(rule, scope, signals) for scope in (SERVER, SERVER, moved))
    assert first is again and first.truth is Truth.FALSE
    assert (first.labels["group"], other.labels["group"]) == ("g", "other")
    blind = outcome_of(rule, SERVER, {})
    assert (blind.truth, blind.reason) == (Truth.NO_DATA, "no signals of this scope")


def test_samples_that_change_each_time_leave_nothing_behind_that_is_remembered() -> None:
    (rule,) = rules("""
groups:
  - name: g
    rules:
      - {alert: Low, when: acceptance_rate < 0.50, need: {num_drafts: 500}, labels: {severity: page},
         annotations: {summary: low}}
""").alerts
    outcomes = []
    before = _quiet.cache_info().currsize
    for drafts in range(1, 40):
        found = signal_set({"acceptance_rate": 0.4, "num_drafts": float(drafts)}, window=rule.window_seconds)
        outcomes.append(outcome_of(rule, SERVER, {(rule.window_seconds, SERVER.name): found}))
    assert {one.truth for one in outcomes} == {Truth.NO_DATA}
    assert len({one.reason for one in outcomes}) == 39
    assert _quiet.cache_info().currsize <= before + 1
