from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from monitor.model.alert import Alert, AlertState, Matcher, Silence, SilenceId
from monitor.model.outcome import Truth
from monitor.policy.alerts import step_alerts
from monitor.policy.mute import Muter
from monitor.policy.telling import Telling, TellingPolicy, TellReason, tellings
from tests.unit.policy.words import alert, minute, outcome, true_at

POLICY = TellingPolicy()


def decide(
    alerts: Sequence[Alert], at: float, policy: TellingPolicy = POLICY, silences: Sequence[Silence] = ()
) -> list[Telling]:
    alerts = true_at(alerts, at)
    return list(tellings(alerts, Muter(alerts, (), silences, (), minute(at)), minute(at), policy))


def reason(alerts: Sequence[Alert], at: float, policy: TellingPolicy = POLICY, *silences: Silence) -> TellReason:
    (only,) = decide(alerts, at, policy, silences)
    return only.reason


def quiet(end: float = 60) -> Silence:
    return Silence(
        id=SilenceId("s"), matchers=(Matcher("server", "=", "a"),), author="ann", reason="x",
        starts_at=minute(0), ends_at=minute(end),
    )


class TestReason:
    @pytest.mark.parametrize(
        ("one", "at", "expected"),
        [
            (alert(), 0, TellReason.FIRST),
            (alert(notified=0), 5, TellReason.NONE),
            (alert(notified=0), 29.9, TellReason.NONE),
            # A page that nobody acknowledged is repeated every half hour, one that somebody has every 4 hours.
            (alert(notified=0), 30, TellReason.REPEAT),
            (alert(notified=0, acknowledged="ann"), 30, TellReason.NONE),
            (alert(notified=0, acknowledged="ann"), 240, TellReason.REPEAT),
            (alert(notified=0, severity="ticket"), 30, TellReason.NONE),
            (alert(notified=0, severity="ticket"), 240, TellReason.REPEAT),
            (alert(severity="info"), 0, TellReason.INFO),
            (alert(state=AlertState.RESOLVED, resolved=9, notified=0), 9, TellReason.RESOLVED),
            (alert(state=AlertState.RESOLVED, resolved=9, notified=9), 12, TellReason.NONE),
            # It came and went before anybody was told: nothing to say.
            (alert(state=AlertState.RESOLVED, resolved=9), 9, TellReason.NONE),
        ],
    )
    def test_of_one_alert(self, one: Alert, at: float, expected: TellReason) -> None:
        assert reason([one], at) is expected

    def test_a_pending_alert_is_no_news(self) -> None:
        assert decide([alert(state=AlertState.PENDING)], 0) == []

    def test_a_group_waits_for_others_if_it_is_asked_to(self) -> None:
        policy = TellingPolicy(wait_seconds=30)
        assert reason([alert()], 0.4, policy) is TellReason.WAITING
        assert reason([alert()], 0.5, policy) is TellReason.FIRST

    def test_another_server_of_the_group_changes_it_after_the_interval(self) -> None:
        both = [alert(notified=0), alert(server="b", fired=2)]
        assert reason(both, 2) is TellReason.WAITING
        (told,) = decide(both, 5)
        assert (told.reason, [a.labels["server"] for a in told.new]) == (TellReason.CHANGED, ["b"])
        assert not told.edits

    def test_one_of_two_resolved_is_an_edit_and_wakes_nobody(self) -> None:
        (told,) = decide([alert(notified=0), alert(server="b", state=AlertState.RESOLVED, resolved=6, notified=0)], 6)
        assert (told.reason, told.edits, len(told.still), len(told.ended)) == (TellReason.CHANGED, True, 1, 1)

    def test_alerts_of_one_rule_and_group_are_one_message_others_are_not(self) -> None:
        told = decide([alert(), alert(server="b"), alert("Other"), alert(group="h", server="c")], 0)
        assert sorted(len(t.new) for t in told) == [1, 1, 2]


class TestMuted:
    def test_a_silenced_alert_is_not_told(self) -> None:
        assert reason([alert()], 1, POLICY, quiet()) is TellReason.MUTED
        assert reason([alert(notified=0)], 59, POLICY, quiet()) is TellReason.MUTED

    def test_it_is_told_when_the_silence_ends(self) -> None:
        assert reason([alert()], 61, POLICY, quiet(60)) is TellReason.FIRST

    def test_what_was_told_is_closed_even_while_muted(self) -> None:
        done = alert(state=AlertState.RESOLVED, resolved=9, notified=0)
        assert reason([done], 9, POLICY, quiet()) is TellReason.RESOLVED

    def test_a_group_is_not_resolved_while_a_muted_alert_of_it_fires(self) -> None:
        alerts = [alert(notified=0), alert(server="b", state=AlertState.RESOLVED, resolved=9, notified=0)]
        (told,) = decide(alerts, 9, POLICY, [quiet()])
        assert (told.reason, len(told.ended)) == (TellReason.CHANGED, 1)


class TestHeld:
    """`keep_firing_for` holds an alert whose condition is no longer true."""

    def test_one_that_is_only_held_is_no_news_when_its_silence_ends(self) -> None:
        held = replace(alert(), clear_since=minute(60))
        assert reason([held], 61, POLICY, quiet(60)) is TellReason.NONE
        assert reason([replace(held, clear_since=None)], 62, POLICY, quiet(60)) is TellReason.FIRST

    def test_it_is_repeated_when_it_is_true_again(self) -> None:
        held = replace(alert(notified=0), clear_since=minute(28))
        assert reason([held], 30) is TellReason.NONE
        assert reason([replace(held, clear_since=None)], 31) is TellReason.REPEAT
        # Another of its group is true.
        assert reason([held, alert(server="b", notified=0)], 30) is TellReason.REPEAT

    def test_without_data_it_is_not_repeated(self) -> None:
        """That it is blind is told by an alert of its own; that it "still fires" would be a guess."""
        blind = alert(notified=0)
        for at, last_true, expected in ((30, 29, TellReason.NONE), (240, 29, TellReason.NONE),
                                        (241, 241, TellReason.REPEAT)):  # fmt: skip
            alerts = true_at([blind], last_true)
            (only,) = tellings(alerts, Muter(alerts, (), (), (), minute(at)), minute(at), POLICY)
            assert only.reason is expected

    def test_its_end_is_told(self) -> None:
        done = alert(state=AlertState.RESOLVED, resolved=9, notified=0)
        assert reason([done], 9) is TellReason.RESOLVED


class TestIdentity:
    def test_the_same_question_has_the_same_key_so_that_a_crash_in_between_sends_nothing_twice(self) -> None:
        (first,), (again,) = decide([alert()], 0), decide([alert()], 3)
        assert first.dedupe_key == again.dedupe_key
        assert first.incident == again.incident

    def test_every_news_has_a_key_of_its_own(self) -> None:
        keys = set()
        for alerts, at in (
            ([alert()], 0),
            ([alert(notified=0, incident="i"), alert(server="b", fired=6)], 6),
            ([alert(notified=6, incident="i")], 40),
            ([alert(notified=40, incident="i")], 80),
            ([alert(state=AlertState.RESOLVED, resolved=90, notified=80, incident="i")], 90),
        ):
            (told,) = decide(alerts, at)
            assert told.is_due
            keys.add(told.dedupe_key)
        assert len(keys) == 5

    def test_an_incident_keeps_its_thread_though_its_first_alert_is_over(self) -> None:
        (first,) = decide([alert()], 0)
        marked = [*first.told(minute(0)), alert(server="b", fired=6)]
        (second,) = decide(marked, 6)
        left = [a for a in second.told(minute(6)) if a.labels["server"] == "b"]
        (third,) = decide(left, 40)
        assert first.incident == second.incident == third.incident

    def test_the_next_incident_has_another_thread(self) -> None:
        (one,), (two,) = decide([alert(fired=0)], 0), decide([alert(fired=500)], 500)
        assert one.incident != two.incident


class Shift:
    """The loop as the daemon runs it: step, decide, mark. A restart between any two minutes changes nothing."""

    def __init__(self, *, hold: float = 0, keep: float = 0) -> None:
        self.alerts: tuple[Alert, ...] = ()
        self.sent: list[tuple[float, str]] = []
        self.keys: set[str] = set()
        self.hold, self.keep = hold, keep

    def minute(self, at: float, truth: Truth, silences: Sequence[Silence] = ()) -> None:
        said = outcome(truth, hold=self.hold * 60, keep=self.keep * 60)
        self.alerts = step_alerts(self.alerts, [said], minute(at)).alerts
        for told in decide(self.alerts, at, POLICY, silences):
            if told.is_due and told.dedupe_key not in self.keys:
                self.keys.add(told.dedupe_key)
                self.sent.append((at, str(told.reason)))
            if told.is_due:
                marked = {a.fingerprint: a for a in told.told(minute(at))}
                self.alerts = tuple(marked.get(a.fingerprint, a) for a in self.alerts)


def test_an_incident_from_end_to_end() -> None:
    shift = Shift(hold=2, keep=5)
    for m in range(120):
        shift.minute(m, Truth.TRUE if 3 <= m < 80 else Truth.FALSE)
    assert shift.sent == [(5, "first"), (35, "repeat"), (65, "repeat"), (85, "resolved")]


def test_gaps_page_once_and_resolve_once() -> None:
    shift = Shift()
    for m, letter in enumerate("TTNNTNNNNTTF"):
        shift.minute(m, {"T": Truth.TRUE, "F": Truth.FALSE, "N": Truth.NO_DATA}[letter])
    assert shift.sent == [(0, "first"), (11, "resolved")]


def test_a_flapping_alert_pages_a_few_times_only() -> None:
    shift = Shift()
    for m in range(240):
        shift.minute(m, Truth.TRUE if m % 2 == 0 else Truth.FALSE)
    pages = [at for at, why in shift.sent if why == "first"]
    assert len(pages) <= 3


def test_a_silence_in_the_middle_of_an_incident() -> None:
    shift = Shift()
    for m in range(100):
        shift.minute(m, Truth.TRUE if m < 90 else Truth.FALSE, [quiet(60)] if m >= 10 else [])
    assert shift.sent == [(0, "first"), (60, "repeat"), (90, "resolved")]
