"""Replaying the past: rules say what they said when it was now, and nothing is claimed that is not known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from monitor.cycle.evaluate import Evaluator
from monitor.cycle.history import History
from monitor.cycle.past import Answers, Past, Replayer, read_past
from monitor.cycle.replay import Replayed, not_judged, replay_group
from monitor.model.decision import Action, Reason
from monitor.model.interval import Interval
from monitor.model.life import Life, Setting
from monitor.model.reading import Flag, Verdict
from monitor.model.record import Checks, Rejection
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.policy.rule import RuleSet
from monitor.policy.telling import TellingPolicy
from monitor.policy.timeline import EventKind
from monitor.signals.track import Track
from monitor.store import Retention
from tests.fakes.memory_store import MemoryStore
from tests.unit.policy.words import rules
from tests.unit.signals.windows import NOON, interval, life

A, B = ServerName("a"), ServerName("b")
GROUP = Group(name=GroupName("g"), servers=(A, B))
SERVERS = [
    Server(name=name, group=GROUP.name, base_url=f"http://{name}", metrics_url=f"http://{name}/metrics")
    for name in (A, B)
]
ALERTS = """
groups:
  - name: alerts
    rules:
      - alert: Low
        when: acceptance_rate < 0.50
        for: 3m
        keep_firing_for: 2m
        need: {num_drafts: 2000}
        labels: {severity: page}
        annotations: {summary: "{{ $labels.server }} is low"}
      - alert: Cliff
        when: acceptance_length < 0.8 * baseline_acceptance_length
        window: 10m
        labels: {severity: ticket}
        annotations: {summary: "{{ $labels.server }} fell"}
      - alert: Silent
        when: seconds_since_last_sample > 300.0
        labels: {severity: page}
        annotations: {summary: "{{ $labels.server }} is silent"}
"""
TUNING = """
groups:
  - name: tuning
    rules:
      - {tune: raise-tokens, when: acceptance_rate > 0.70, window: 10m, for: 10m, do: {num_speculative_tokens: "+1"}}
      - {tune: lower-tokens, when: acceptance_rate < 0.50, window: 10m, for: 10m, do: {num_speculative_tokens: "-1"}}
"""
LOW, MIDDLE, HIGH = (500.0, 300.0, 100.0), (700.0, 600.0, 500.0), (900.0, 800.0, 700.0)
#: Minutes at each level of acceptance; None is a minute without a page.
STORY = [*[MIDDLE] * 30, *[LOW] * 20, *[None] * 9, *[LOW] * 5, *[HIGH] * 40]


def story(of: Life, minutes: Sequence[tuple[float, ...] | None] = tuple(STORY)) -> list[Interval]:
    return [
        interval(of, 60.0 * (n + 1), seconds=60.0, per_pos=per_pos) for n, per_pos in enumerate(minutes) if per_pos
    ]


def stored(*lives: Life, minutes: Sequence[tuple[float, ...] | None] = tuple(STORY)) -> MemoryStore:
    store = MemoryStore()
    with store.write() as unit:
        for one in lives:
            unit.lives.add(one)
            unit.intervals.add(story(one, minutes))
    return store


def past(store: MemoryStore, until: datetime, step: float = 60.0, since: datetime = NOON) -> Past:
    with store.read() as unit:
        return read_past(unit, GROUP, SERVERS, since, until, step_seconds=step, longest_window=600.0)


def told(store: MemoryStore, text: str, minutes: int = len(STORY), *, step: float = 60.0,
         rejections: Sequence[Rejection] = ()) -> list[Replayed]:
    until = NOON + timedelta(minutes=minutes)
    found = replay_group(past(store, until, step), rules(text), until, step_seconds=step, baseline_seconds=300.0,
                         rejections=rejections)
    return list(found)


def live(store: MemoryStore, alerts: RuleSet, minutes: int) -> list[tuple[datetime, str, str, str]]:
    """What the daemon itself said, evaluating every minute."""
    history = History(86_400.0)
    history.fill([life("a"), life("b")], [])

    class Nobody:
        def look(self, *_: object) -> None: ...
        def look_health(self, *_: object) -> None: ...
        def result(self, _: object) -> None: ...
        def health(self, _: object) -> None: ...

    evaluator = Evaluator(
        store, history, Nobody(), servers=SERVERS, groups=[GROUP], alert_rules=alerts, tuning_rules={}, host="h",  # type: ignore[arg-type]
        receivers=lambda _: [], telling=TellingPolicy(), watched_since=NOON, simulated=False, credit_seconds=150.0,
    )  # fmt: skip
    with store.read() as unit:
        every = unit.intervals.between(None, NOON, NOON + timedelta(days=1))
    found, before = [], {}
    for minute in range(1, minutes + 1):
        now = NOON + timedelta(minutes=minute)
        history.add([life("a"), life("b")], [one for one in every if one.end == now], now)
        for alert in evaluator.run(now).alerts:
            was, state = before.get(alert.fingerprint), alert.state.value
            if alert.state is not was and state in ("firing", "resolved") and alert.name != "AlertHasNoData":
                found.append((now, alert.name, alert.state.value, alert.labels["server"]))
            before[alert.fingerprint] = alert.state
    return found


def test_alerts_of_the_past_are_those_that_the_daemon_raised() -> None:
    store = stored(life("a"), life("b"))
    events = [one.event for one in told(store, ALERTS) if one.event.rule != "AlertHasNoData"]
    replayed = [
        (event.at, event.rule, event.kind.value.removeprefix("alert_"), event.scope.removeprefix("server:"))
        for event in events
    ]
    said = live(store, rules(ALERTS), len(STORY))
    assert sorted(replayed) == sorted(said)
    assert {rule for _, rule, _, _ in replayed} == {"Low", "Cliff", "Silent"}


def test_windows_of_one_life_say_what_windows_of_any_lives_say() -> None:
    """Nearly every window is of one life and takes a short way; lives that are equal, but not one object, do not."""
    until = NOON + timedelta(minutes=len(STORY))
    found = past(stored(life("a"), life("b")), until)
    apart = {
        name: Track.of((replace(of), one) for of, one in track.pairs) for name, track in found.tracks.items()
    }
    both = [
        list(replay_group(one, rules(ALERTS + TUNING.replace("groups:\n", "")), until, step_seconds=60.0,
                          baseline_seconds=300.0))
        for one in (found, replace(found, tracks=apart))
    ]  # fmt: skip
    assert both[0] == both[1]
    assert {one.event.rule for one in both[0]} >= {"Low", "Cliff", "Silent", "raise-tokens"}


class TestTuning:
    def test_what_a_rule_would_have_come_to_is_said_where_it_begins_and_where_the_answer_changes(self) -> None:
        minutes = [*[LOW] * 30, *[HIGH] * 40]
        found = told(stored(life("a"), life("b"), minutes=minutes), TUNING, len(minutes))
        seen = [(one.event.kind, one.event.rule, one.decision.action if one.decision else None) for one in found]
        assert seen == [
            (EventKind.TUNE_BEGAN, "lower-tokens", Action.LOWER),
            (EventKind.TUNE_ENDED, "lower-tokens", None),
            (EventKind.TUNE_BEGAN, "raise-tokens", Action.RAISE),
        ]
        first = found[0].decision
        assert first is not None
        assert (first.current.num_speculative_tokens, first.proposed.num_speculative_tokens) == (3, 2)
        assert first.reason is Reason.BELOW_LOWER_THRESHOLD
        assert found[0].event.at == NOON + timedelta(minutes=11)

    def test_a_sudden_fall_is_a_fault_and_no_setting(self) -> None:
        (first, *_) = [one for one in told(stored(life("a"), life("b")), TUNING) if one.decision]
        assert first.decision is not None and first.decision.action is Action.RESTART

    def test_the_guard_has_its_say(self) -> None:
        guarded = TUNING.replace('"-1"}', '"-1"}, guard: goodput')
        (first, *_) = [one for one in told(stored(life("a"), life("b")), guarded) if one.decision]
        assert first.decision is not None
        assert first.decision.reason is not Reason.BELOW_LOWER_THRESHOLD

    def test_an_answer_that_stays_the_same_is_said_once_though_it_is_asked_every_hour(self) -> None:
        found = told(stored(life("a"), life("b"), minutes=[HIGH] * 240), TUNING, 240)
        assert [one.event.kind for one in found] == [EventKind.TUNE_BEGAN]

    def test_what_had_lost_by_then_is_not_asked_for_again(self) -> None:
        lost = Rejection(GROUP.name, 4, "eagle3", NOON, NOON + timedelta(days=1), 1, "it lost")
        (one,) = told(stored(life("a"), life("b"), minutes=[HIGH] * 60), TUNING, 60, rejections=[lost])
        assert one.decision is not None and one.decision.reason is Reason.REJECTED_BEFORE
        later = replace(lost, at=NOON + timedelta(hours=2))
        (one,) = told(stored(life("a"), life("b"), minutes=[HIGH] * 60), TUNING, 60, rejections=[later])
        assert one.decision is not None and one.decision.action is Action.RAISE

    def test_servers_at_different_settings_are_not_tuned(self) -> None:
        other = replace(life("b"), setting=Setting(method="eagle3", num_speculative_tokens=5))
        found = told(stored(life("a"), other, minutes=[HIGH] * 60), TUNING, 60)
        assert [one.decision.reason for one in found if one.decision] in ([Reason.SETTING_UNKNOWN], [])

    def test_counters_that_contradict_each_other_are_not_tuned_by(self) -> None:
        store = MemoryStore()
        with store.write() as unit:
            for name in ("a", "b"):
                unit.lives.add(life(name))
                unit.intervals.add(
                    [replace(one, flags=frozenset({Flag.BAD_SAMPLE})) for one in story(life(name), [HIGH] * 60)]
                )
        (one,) = told(store, TUNING, 60)
        assert one.decision is not None and one.decision.action is Action.RAISE


class TestSums:
    def test_over_five_minutes_the_same_is_found_a_little_later(self) -> None:
        store = stored(life("a"), life("b"))
        exact = [(one.event.rule, one.event.kind) for one in told(store, TUNING)]
        coarse = told(store, TUNING, step=300.0)
        assert [(one.event.rule, one.event.kind) for one in coarse] == exact
        assert past(store, NOON + timedelta(hours=2)).sums_until is None
        assert past(store, NOON + timedelta(hours=2)).begins == NOON + timedelta(minutes=1)

    def test_what_was_pruned_is_read_in_sums_and_said(self) -> None:
        store = stored(life("a"), life("b"))
        cut = NOON + timedelta(minutes=60)
        store.prune(cut + timedelta(hours=1, seconds=1), Retention(raw_hours=1.0))
        found = past(store, NOON + timedelta(minutes=len(STORY)))
        assert found.sums_until == cut
        ends = [end for end in found.tracks[A].ends if end <= cut]
        assert ends == [NOON + timedelta(minutes=m) for m in (5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60)]


def alerts(**conditions: str) -> str:
    """Rules of nothing but a name and a condition, each a page."""
    told = [{"alert": name, "when": when, "labels": {"severity": "page"}, "annotations": {"summary": "x"}}
            for name, when in conditions.items()]
    return json.dumps({"groups": [{"name": "g", "rules": told}]})


class TestWhatIsKnown:
    def test_whether_a_server_was_up_is_known_from_its_checks(self) -> None:
        checks = [Checks(A, NOON + timedelta(minutes=5), 20, 0), Checks(A, NOON + timedelta(minutes=10), 0, 20)]
        track = Answers(checks)
        assert track.last(NOON + timedelta(minutes=4)) is None
        up, down = track.last(NOON + timedelta(minutes=9)), track.last(NOON + timedelta(minutes=12))
        assert up is not None and (up.reading.verdict, up.last_ok) == (Verdict.OK, NOON + timedelta(minutes=5))
        assert down is not None and (down.reading.verdict, down.last_ok) == (Verdict.SCRAPE_ERROR, None)
        assert track.last(NOON + timedelta(minutes=21)) is None

    def test_rules_that_rest_on_facts_nobody_stored_are_named(self) -> None:
        text = alerts(
            Stuck="stuck_seconds > 60.0 && probe_failed == 1.0",
            Perfect="acceptance_rate > 0.99 && is_neural_draft == 1.0",
            Down="up == 0.0 && !(known(health_ok) && health_ok == 1.0)",
        )  # fmt: skip
        assert not_judged(rules(text)) == {"Stuck": ("probe_failed",)}

    def test_a_rule_of_unstored_facts_alone_says_nothing_unless_it_holds_whatever_they_are(self) -> None:
        text = alerts(
            Failed="restart_failed == 1.0", NobodyAsked="!known(probe_failed)",
            StuckOrLow="probe_failed == 1.0 || acceptance_rate < 0.50",
        )  # fmt: skip
        found = told(stored(life("a"), minutes=[LOW] * 5), text, 5)
        fired = {(one.event.rule, one.event.scope) for one in found}
        assert fired == {
            ("NobodyAsked", "server:a"), ("NobodyAsked", "server:b"), ("StuckOrLow", "server:a"),
        }

    @pytest.mark.parametrize(("method", "expected"), [("eagle3", 1.0), ("ngram", 0.0), (None, None)])
    def test_the_kind_of_draft_is_known(self, method: str | None, expected: float | None) -> None:
        own = replace(life("a"), setting=Setting(method=method, num_speculative_tokens=3))
        store = stored(own, minutes=[MIDDLE] * 5)
        until = NOON + timedelta(minutes=5)
        found = list(Replayer(past(store, until), rules(ALERTS), 300.0).moments(until, 300.0))[-1].signals
        assert found[300.0, "server:a"].value("is_neural_draft") == expected

    def test_a_span_without_history_says_nothing(self) -> None:
        assert told(MemoryStore(), TUNING) == []


def test_only_servers_of_the_group_are_read() -> None:
    store = stored(life("c"))
    assert past(store, NOON + timedelta(hours=1)).pairs(NOON, NOON + timedelta(hours=1)) == []
