"""Storms: past a number of new incidents what is new is one message, which is closed as it was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from monitor.model.alert import Alert, AlertState, Matcher, Silence, SilenceId
from monitor.policy.mute import Muter
from monitor.policy.telling import Telling, TellingPolicy, TellReason, tellings
from tests.unit.policy.words import alert, minute, true_at

POLICY = TellingPolicy(digest_above=3)


def decide(
    alerts: Sequence[Alert], at: float, policy: TellingPolicy = POLICY, silences: Sequence[Silence] = ()
) -> list[Telling]:
    alerts = true_at(alerts, at)
    found = tellings(alerts, Muter(alerts, (), silences, (), minute(at)), minute(at), policy)
    return [telling for telling in found if telling.is_due]


def down(count: int, *, fired: float = 0, severity: str = "page", first: int = 0) -> list[Alert]:
    """Servers of as many groups, all down."""
    return [
        alert("ServerDown", server=f"s{n}", group=f"g{n}", fired=fired, severity=severity)
        for n in range(first, first + count)
    ]


class Desk:
    """Alerts and what was told of them, as the store keeps both."""

    def __init__(self, alerts: Sequence[Alert], policy: TellingPolicy = POLICY) -> None:
        self.alerts = {a.fingerprint: a for a in alerts}
        self.policy = policy

    def tell(self, at: float) -> list[Telling]:
        told = decide(list(self.alerts.values()), at, self.policy)
        for telling in told:
            self.alerts |= {a.fingerprint: a for a in telling.told(minute(at))}
        return told

    def resolve(self, server: str, at: float) -> None:
        for one in list(self.alerts.values()):
            if one.labels["server"] == server:
                self.alerts[one.fingerprint] = replace(one, state=AlertState.RESOLVED, resolved_at=minute(at))

    def add(self, alerts: Sequence[Alert]) -> None:
        self.alerts |= {a.fingerprint: a for a in alerts}


def test_a_few_are_told_one_by_one() -> None:
    assert [len(told.new) for told in decide(down(3), 0)] == [1, 1, 1]


def test_one_more_and_they_are_one_message() -> None:
    (told,) = decide(down(4), 0)
    assert (told.reason, len(told.new)) == (TellReason.FIRST, 4)
    assert told.incident.startswith("digest-")


def test_pages_and_tickets_are_not_mixed() -> None:
    told = decide([*down(3), *down(3, severity="ticket", first=3)], 0)
    assert sorted({a.severity.value for a in one.new} for one in told) == [{"page"}, {"ticket"}]
    assert [len(one.new) for one in told] == [3, 3]


def test_alerts_of_different_places_are_not_mixed() -> None:
    policy = replace(POLICY, place=lambda labels: ("odd" if labels["server"][-1] in "13579" else "even",))
    told = decide(down(6), 0, policy)
    assert [len(one.new) for one in told] == [3, 3]


def test_it_is_closed_as_it_was_told_and_wakes_nobody_for_it() -> None:
    desk = Desk(down(4))
    (told,) = desk.tell(0)
    desk.resolve("s0", 6)
    (changed,) = desk.tell(6)
    assert (changed.reason, changed.edits, changed.incident) == (TellReason.CHANGED, True, told.incident)
    assert (len(changed.still), len(changed.ended)) == (3, 1)
    for number in (1, 2, 3):
        desk.resolve(f"s{number}", 12)
    (over,) = desk.tell(12)
    assert (over.reason, len(over.ended), over.incident) == (TellReason.RESOLVED, 3, told.incident)
    assert desk.tell(30) == []


def test_what_comes_while_it_storms_joins_after_the_interval() -> None:
    desk = Desk(down(4))
    (told,) = desk.tell(0)
    desk.add(down(3, fired=1, first=4))
    # Three new groups beside one young incident: still a storm.
    assert desk.tell(1) == []
    (changed,) = desk.tell(5)
    assert (changed.reason, changed.incident) == (TellReason.CHANGED, told.incident)
    assert (len(changed.new), len(changed.still), changed.edits) == (3, 4, False)


def test_another_server_of_a_group_in_the_digest_joins_it() -> None:
    desk = Desk(down(4))
    (told,) = desk.tell(0)
    desk.add([alert("ServerDown", server="s0-twin", group="g0", fired=20)])
    (changed,) = desk.tell(20)
    assert (changed.incident, [a.labels["server"] for a in changed.new]) == (told.incident, ["s0-twin"])


def test_later_incidents_are_messages_of_their_own_again() -> None:
    desk = Desk(down(4))
    desk.tell(0)
    desk.add(down(2, fired=20, first=4))
    assert [len(told.new) for told in desk.tell(20)] == [1, 1]


def test_a_page_of_a_digest_that_nobody_acknowledged_is_repeated() -> None:
    desk = Desk(down(4))
    desk.tell(0)
    assert desk.tell(29) == []
    (again,) = desk.tell(30)
    assert (again.reason, len(again.still)) == (TellReason.REPEAT, 4)


def test_one_that_comes_back_after_the_storm_is_an_incident_of_its_own() -> None:
    desk = Desk(down(4))
    desk.tell(0)
    for number in range(4):
        desk.resolve(f"s{number}", 10)
    desk.tell(10)
    old = next(a for a in desk.alerts.values() if a.labels["server"] == "s0")
    desk.add([replace(old, state=AlertState.FIRING, active_since=minute(20), fired_at=minute(20), refired=1)])
    (back,) = desk.tell(20)
    assert (back.reason, len(back.new)) == (TellReason.FIRST, 1)


@pytest.mark.parametrize("above", [3, 4])
def test_silenced_ones_make_no_storm(above: int) -> None:
    quiet = Silence(
        id=SilenceId("s"), matchers=(Matcher("group", "=~", "g[3-9]"),), author="ann", reason="x",
        starts_at=minute(0), ends_at=minute(60),
    )
    told = decide(down(9), 0, replace(POLICY, digest_above=above), [quiet])
    assert [[a.labels["group"] for a in one.new] for one in told] == [["g0"], ["g1"], ["g2"]]
