"""What is gathered for an alert's causes: past, peers, engines; and that a fault there costs no alert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.diagnose import Diagnoser
from monitor.cycle.history import History
from monitor.cycle.sight import Seen
from monitor.errors import StoreError
from monitor.model.alert import Alert, AlertState, fingerprint
from monitor.model.counts import Histogram, TrafficCounts
from monitor.model.interval import Interval
from monitor.model.life import Life
from monitor.model.server import Group, GroupName, ServerName
from monitor.model.signal import SignalSet
from monitor.signals.build import signals
from tests.fakes.memory_store import MemoryStore
from tests.unit.signals.windows import NOON, interval, life

A, B = ServerName("a"), ServerName("b")
GROUPS = (Group(name=GroupName("g"), servers=(A, B)),)
WEEK = 7 * 86_400.0
FINE, LOW = (800.0, 600.0, 500.0), (100.0, 20.0, 0.0)


def fired(name: str = "AcceptanceSlowFall", **labels: str) -> Alert:
    found = {"alertname": name, "severity": "ticket", "group": "g", **labels}
    return Alert(
        fingerprint=fingerprint(found), labels=found, state=AlertState.FIRING, active_since=NOON, fired_at=NOON,
        annotations={"summary": "x"},
    )


def prompts(tokens: float) -> TrafficCounts:
    """Ten requests with prompts of that length."""
    return TrafficCounts(prompt_length=Histogram((float("inf"),), (10.0,), 10.0 * tokens, 10.0))


class Desk:
    """Servers with lives and a minute of traffic each."""

    def __init__(self, *served: tuple[Life, Interval]) -> None:
        self.store = MemoryStore()
        self.history = History(86_400.0)
        self.history.fill([one for one, _ in served], [made for _, made in served])
        servers = {one.server for one, _ in served}
        self.lives = {name: self.history.newest_lives(name) for name in servers}
        self.shorts: Mapping[ServerName, SignalSet] = {
            name: signals(self.history.pairs([name]), scope=f"server:{name}", at=NOON, window_seconds=300.0)
            for name in servers
        }

    def past(self, of: Life, made: Interval) -> None:
        with self.store.write() as unit:
            unit.lives.add(of)
            unit.intervals.add([made])

    def causes(self, *alerts: Alert, store: object = None) -> list[tuple[str, ...]]:
        seen = Seen(
            lives=self.lives, readings={}, changes={}, rolling=set(), alerts=[], timers={}, baselines={}, daemon={}
        )
        diagnoser = Diagnoser(store or self.store, self.history, GROUPS)  # type: ignore[arg-type]
        found = diagnoser.causes(alerts, seen, self.shorts, NOON)
        return [found[alert.fingerprint] for alert in alerts if alert.fingerprint in found]


def test_the_same_hour_last_week_is_read_from_the_store() -> None:
    now = replace(life("a", number=2), first_seen=NOON - timedelta(days=2))
    then = replace(life("a", number=1), first_seen=NOON - timedelta(days=9))
    desk = Desk((now, interval(now, traffic=prompts(2_000.0))))
    desk.past(then, interval(then, -WEEK, traffic=prompts(200.0)))
    ((cause, *_),) = desk.causes(fired(server="a"))
    assert cause.startswith("The traffic is another: prompts of 2,000 tokens, 200 at this hour last week.")


def test_the_life_that_was_replaced_tells_of_another_version() -> None:
    now = replace(life("a", number=2, version="0.12.0"), first_seen=NOON - timedelta(hours=3))
    then = replace(life("a", number=1), first_seen=NOON - timedelta(days=3))
    other = replace(life("a", number=3, engine="1", version="0.9.0"), first_seen=NOON - timedelta(days=2))
    desk = Desk((now, interval(now)))
    for one in (then, other):
        with desk.store.write() as unit:
            unit.lives.add(one)
    assert desk.causes(fired(server="a")) == [
        ("Another version since 2026-03-04 09:00 UTC: 0.12.0, before it 0.11.0.",)
    ]


def test_engines_are_told_apart() -> None:
    good, bad = life("a", engine="0"), life("a", engine="1")
    desk = Desk((good, interval(good, per_pos=FINE)), (bad, interval(bad, per_pos=LOW)))
    ((cause, *_),) = desk.causes(fired(server="a"))
    assert cause == "One of 2 engines is bad: engine 1 gets 1.12 tokens a draft, the others 2.90."


def test_a_server_of_another_model_is_no_peer() -> None:
    one, other = life("a"), replace(life("b"), model="another")
    desk = Desk((one, interval(one)), (other, interval(other)))
    assert desk.causes(fired(server="a")) == [
        ("Nothing measured stands out. The page cannot show temperature, language or sampling: ask who sends.",)
    ]


def test_an_alert_about_a_group_names_the_server_that_shows_something() -> None:
    one, other = life("a"), life("b")
    desk = Desk((one, interval(one)), (other, interval(other, waiting=8.0, running=4.0)))
    ((cause,),) = desk.causes(fired("ErrorBudgetBurn", slo="first-token"))
    assert cause == "b: It has more to do than it can: requests queue 100% of the time, 8 at a time."


@pytest.mark.parametrize("name", ["ServerDown", "NoSamples"])
def test_of_a_server_that_is_not_there_nothing_is_measured(name: str) -> None:
    one = life("a")
    assert Desk((one, interval(one))).causes(fired(name, server="a")) == []


class Away:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def read(self) -> object:
        raise self._error


@pytest.mark.parametrize("error", [StoreError("locked"), KeyError("unforeseen")])
def test_what_goes_wrong_here_costs_a_cause_and_never_an_alert(error: Exception) -> None:
    one = life("a")
    assert Desk((one, interval(one))).causes(fired(server="a"), store=Away(error)) == []


def test_a_storm_is_not_looked_into_one_by_one() -> None:
    one = life("a")
    desk = Desk((one, interval(one)))
    assert len(desk.causes(*(fired(server="a", number=str(n)) for n in range(50)))) == 20
