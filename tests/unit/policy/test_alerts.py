from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.model.alert import FLAP_SECONDS, Alert, AlertState, Severity
from monitor.model.outcome import Truth
from monitor.policy.alerts import NO_DATA_ALERT, TransitionKind, step_alerts
from tests.unit.policy.words import alert, minute, outcome

T, F, N = Truth.TRUE, Truth.FALSE, Truth.NO_DATA


class Life:
    """One alert's life, a minute a letter: T true, F false, N no data."""

    def __init__(self, *, hold: float = 0.0, keep: float = 0.0) -> None:
        self.hold, self.keep = hold, keep
        self.alerts: tuple[Alert, ...] = ()
        self.at = -1.0
        self.happened: list[tuple[float, str]] = []

    def live(self, letters: str, step: float = 1.0) -> Life:
        for letter in letters:
            self.at += step
            said = outcome({"T": T, "F": F, "N": N}[letter], hold=self.hold * 60, keep=self.keep * 60)
            stepped = step_alerts(self.alerts, [said], minute(self.at))
            self.alerts = stepped.alerts
            self.happened += [(self.at, t.kind.value) for t in stepped.transitions if t.alert.name == "High"]
        return self

    @property
    def high(self) -> Alert:
        return next(a for a in self.alerts if a.name == "High")


@pytest.mark.parametrize(
    ("hold", "keep", "letters", "happened"),
    [
        (0, 0, "FFTTF", [(2, "firing"), (4, "resolved")]),
        (2, 0, "TTTF", [(0, "pending"), (2, "firing"), (3, "resolved")]),
        (2, 0, "TTFTT", [(0, "pending"), (2, "cleared"), (3, "pending")]),
        (0, 3, "TFFFTF", [(0, "firing")]),
        (0, 3, "TFFFF", [(0, "firing"), (4, "resolved")]),
        # Breach, breach, gap, gap, breach: exactly one firing, no resolve.
        (0, 0, "TTNNT", [(0, "firing")]),
        (1, 0, "TTNNT", [(0, "pending"), (1, "firing")]),
        (0, 0, "TNNNNF", [(0, "firing"), (5, "resolved")]),
        # A pending alert is not made to fire by time without data: 8 minutes of the 10 were not seen.
        (10, 0, "TT" + "N" * 10 + "T", [(0, "pending")]),
        (3, 0, "TNTT", [(0, "pending"), (3, "firing")]),
        (0, 0, "NNN", []),
        (0, 0, "FFF", []),
    ],
)
def test_the_life_of_an_alert(hold: float, keep: float, letters: str, happened: list[tuple[float, str]]) -> None:
    assert Life(hold=hold, keep=keep).live(letters).happened == happened


def test_a_firing_alert_knows_its_moments_and_its_numbers() -> None:
    high = Life(hold=2, keep=5).live("TTTTF").high
    assert (high.active_since, high.fired_at, high.last_true) == (minute(0), minute(2), minute(3))
    assert (high.clear_since, high.resolved_at) == (minute(4), None)
    assert (high.evidence, high.annotations) == ({"acceptance_rate": 0.9}, {"summary": "it is high"})
    assert (high.name, high.severity) == ("High", Severity.PAGE)


def test_a_daemon_that_was_down_neither_resolves_nor_fires_anything_by_the_time_alone() -> None:
    firing = Life().live("T")
    firing.at = 600
    assert firing.live("T").happened == [(0, "firing")]
    pending = Life(hold=60).live("T")
    pending.at = 600
    assert pending.live("T").happened == [(0, "pending")]


class TestNoData:
    def test_a_firing_alert_without_data_raises_one_of_its_own(self) -> None:
        life = Life().live("T" + "N" * 17)
        names = {a.name: a for a in life.alerts}
        assert set(names) == {"High", NO_DATA_ALERT}
        blind = names[NO_DATA_ALERT]
        assert (blind.state, blind.fired_at, blind.severity) == (AlertState.FIRING, minute(16), Severity.TICKET)
        assert blind.labels["server"] == "a"
        assert names["High"].state is AlertState.FIRING

    def test_it_ends_when_there_is_data_again_whatever_the_data_say(self) -> None:
        for letter in "TF":
            life = Life(keep=60).live("T" + "N" * 17 + letter)
            states = {a.name: a.state for a in life.alerts}
            assert states == {"High": AlertState.FIRING, NO_DATA_ALERT: AlertState.RESOLVED}

    def test_a_short_gap_raises_nothing(self) -> None:
        life = Life().live("T" + "N" * 10 + "T")
        assert [a.name for a in life.alerts if a.state is not AlertState.PENDING] == ["High"]

    def test_one_for_each_place_names_every_alert_it_is_about(self) -> None:
        def both(truth: Truth) -> list[object]:
            return [outcome(truth, name="B", reason="why b"), outcome(truth, name="A", reason="why a")]

        alerts: tuple[Alert, ...] = ()
        for m in range(20):
            alerts = step_alerts(alerts, both(T if m == 0 else N), minute(m)).alerts  # type: ignore[arg-type]
        blind = [a for a in alerts if a.name == NO_DATA_ALERT]
        assert len(blind) == 1
        assert blind[0].annotations["description"] == "Held as they were: A (why a); B (why b)."


class TestFlapping:
    def test_each_fire_soon_after_a_resolve_holds_on_longer_before_the_next(self) -> None:
        life = Life().live("TFFFFFFF" * 20)
        # Undamped it would have fired 20 times; it holds on for 5, then 10 minutes, and true comes every 8.
        assert life.happened == [
            (0, "firing"), (1, "resolved"), (8, "firing"), (14, "resolved"), (16, "firing"),
        ]
        assert life.high.refired == 2

    def test_it_stays_the_same_incident(self) -> None:
        told = alert(state=AlertState.RESOLVED, fired=0, resolved=5, incident="High-1")
        stepped = step_alerts([told], [outcome(T)], minute(10))
        assert (stepped.alerts[0].incident, stepped.alerts[0].refired) == ("High-1", 1)
        assert stepped.alerts[0].acknowledged_by is None

    def test_a_fire_long_after_is_another_incident(self) -> None:
        told = alert(state=AlertState.RESOLVED, fired=0, resolved=5, incident="High-1")
        again = step_alerts([told], [outcome(T)], minute(5 + FLAP_SECONDS / 60 + 1)).alerts[0]
        assert (again.incident, again.refired, again.resolved_at) == ("", 0, None)

    def test_resolved_alerts_are_forgotten_when_that_time_is_over(self) -> None:
        told = alert(state=AlertState.RESOLVED, fired=0, resolved=5)
        assert step_alerts([told], [outcome(F)], minute(34)).alerts == (told,)
        stepped = step_alerts([told], [outcome(F)], minute(36))
        assert stepped.alerts == ()
        assert [a.state for a in stepped.changed] == [AlertState.INACTIVE]


class TestRemoved:
    def test_an_alert_whose_rule_or_server_is_gone_ends_and_says_why(self) -> None:
        stepped = step_alerts([alert()], [], minute(1))
        assert [(t.kind, t.alert.state) for t in stepped.transitions] == [
            (TransitionKind.RESOLVED, AlertState.RESOLVED)
        ]
        assert "no longer configured" in stepped.alerts[0].annotations["resolved"]

    def test_a_pending_one_just_goes(self) -> None:
        stepped = step_alerts([alert(state=AlertState.PENDING)], [], minute(1))
        assert (stepped.alerts, [t.kind for t in stepped.transitions]) == ((), [TransitionKind.CLEARED])


def test_only_what_changed_is_to_be_stored() -> None:
    firing = step_alerts([], [outcome(T)], minute(0)).alerts
    changed = step_alerts(firing, [outcome(N)], minute(1)).changed
    assert [(a.name, a.state) for a in changed] == [(NO_DATA_ALERT, AlertState.PENDING)]
    assert len(step_alerts(firing, [outcome(T)], minute(1)).changed) == 1


@settings(deadline=None)
@given(
    st.text(alphabet="TFN", max_size=80),
    st.integers(0, 4),
    st.integers(0, 4),
    st.lists(st.sampled_from([1.0, 1.0, 20.0])),
)
def test_whatever_happens_a_life_goes_its_way(letters: str, hold: int, keep: int, steps: list[float]) -> None:
    life = Life(hold=hold, keep=keep)
    for i, letter in enumerate(letters):
        before = {a.name: a for a in life.alerts}
        life.live(letter, steps[i % len(steps)] if steps else 1.0)
        after = {a.name: a for a in life.alerts}
        if letter == "N" and "High" in before and before["High"].state is not AlertState.RESOLVED:
            assert after["High"] == before["High"]
        for one in life.alerts:
            assert (one.resolved_at is not None) == (one.state is AlertState.RESOLVED)
            assert (one.fired_at is not None) == (one.state is not AlertState.PENDING)
            assert one.unseen_seconds >= 0
    kinds = [what for _, what in life.happened if what in ("firing", "resolved")]
    assert kinds == ["firing", "resolved"] * (len(kinds) // 2) + ["firing"] * (len(kinds) % 2)
    if "T" not in letters:
        assert not life.happened
