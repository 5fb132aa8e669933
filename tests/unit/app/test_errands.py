"""Requests that arrive on one host for things of another: taken there once, answered, and told to who asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.app.desk import DaemonDesk
from monitor.app.errands import Errands, Taking
from monitor.app.presses import Presses
from monitor.errors import StoreError
from monitor.model.alert import Alert, AlertState, fingerprint
from monitor.model.notice import Button
from monitor.model.record import Command, CommandKind
from monitor.notify.buttons import Press
from monitor.web.source import NoSuchThing
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.unit.notify.test_compose import decision


class Waiting(FakeClock):
    """A clock while whose sleeping the other daemons have their turns."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts: list[Host] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for host in self.hosts:
            host.taking.turn()


class Host:
    """One daemon's store, buttons and page."""

    def __init__(self, shared: MemoryStore, clock: Waiting, *, users: tuple[str, ...] = ("U0ANN",), pages: bool = True,
                 trouble: str = "") -> None:
        self.store = MemoryStore()
        self.whispers: list[str] = []
        errands = Errands(shared, clock, trouble=lambda: trouble)
        self.presses = Presses(
            self.store, clock, users=users, receivers=lambda _: ["slack"],
            whisper=lambda channel, user, text: self.whispers.append(text), wake=lambda: None, simulated=False,
            errands=errands,
        )
        self.taking = Taking(
            shared, self.store, clock, presses=self.presses, pages=pages, trouble=lambda: trouble
        )
        self.desk = DaemonDesk(self.store, ["*"], clock, errands=errands)
        clock.hosts.append(self)

    def commands(self) -> list[Command]:
        with self.store.read() as unit:
            return unit.commands.pending()

    def act(self, clock: FakeClock, outcome: str) -> None:
        """What the thread that acts would do."""
        with self.store.write() as unit:
            for command in unit.commands.pending():
                unit.commands.finish(command.id, clock.now(), outcome)


class World:
    """Two hosts: somebody asks on the first, the second is the one whose things it is about."""

    def __init__(self, **second: object) -> None:
        self.clock, self.shared = Waiting(), MemoryStore()
        self.asked, self.owner = Host(self.shared, self.clock), Host(self.shared, self.clock, **second)  # type: ignore[arg-type]
        with self.owner.store.write() as unit:
            unit.decisions.add(decision())
        labels = {"alertname": "Cliff", "severity": "page", "server": "rag-1", "group": "g"}
        now = self.clock.now()
        self.alert = Alert(fingerprint=fingerprint(labels), labels=labels, state=AlertState.FIRING, active_since=now,
                           fired_at=now, notified_at=now, annotations={"summary": "fell"}, incident="inc")
        with self.owner.store.write() as unit:
            unit.alerts.put([self.alert])

    def press(self, button: Button, subject: str, user: str = "U0ANN") -> None:
        self.asked.presses.pressed(Press(button, subject, user, "ann", "C1", "k"))

    def known(self) -> Alert:
        with self.owner.store.read() as unit:
            found = unit.alerts.get(self.alert.fingerprint)
        assert found is not None
        return found

    def open_requests(self) -> list[Command]:
        with self.shared.read() as unit:
            return unit.commands.pending()


class TestPresses:
    def test_a_press_for_another_hosts_alert_is_done_there_and_told_in_its_thread(self) -> None:
        world = World()
        world.press(Button.ACKNOWLEDGE, "alert:inc")
        assert world.known().acknowledged_by == "slack:U0ANN (ann)"
        with world.owner.store.read() as unit:
            ((said, _),) = unit.outbox.recent(9)
        assert (said.thread, said.in_thread) == ("alert:inc", True) and "Acknowledged by ann" in said.text
        assert world.asked.whispers == [] and world.open_requests() == []

    def test_a_silence_is_made_once_however_often_the_owner_looks(self) -> None:
        world = World()
        world.press(Button.SILENCE, "alert:inc")
        world.owner.taking.turn()
        with world.owner.store.read() as unit:
            (silence,) = unit.silences.all()
        assert silence.author == "slack:U0ANN (ann)"
        with world.asked.store.read() as unit:
            assert unit.silences.all() == []

    def test_an_approval_becomes_a_request_of_the_owner_with_all_its_checks(self) -> None:
        world = World()
        turn = world.owner.taking.turn

        def acting() -> None:
            turn()
            world.owner.act(world.clock, "started rollout r-1: k 2 -> 3")

        world.owner.taking.turn = acting  # type: ignore[method-assign]
        world.press(Button.APPROVE, "decision:d-1")
        with world.owner.store.read() as unit:
            (made,) = [one for one in (unit.commands.get(c) for c in world.owner.store.tables.commands.rows) if one]
        assert (made.kind, made.subject, made.author) == (CommandKind.APPROVE, "d-1", "slack:U0ANN (ann)")
        assert world.asked.whispers == [] and world.open_requests() == []

    def test_an_approval_that_takes_its_host_long_is_not_called_refused_since_it_may_be_carried_out(self) -> None:
        world = World()
        world.press(Button.APPROVE, "decision:d-1")
        assert world.asked.whispers == [
            "Its host has not answered yet: what comes of it is told here, within two minutes or not at all."
        ]
        with world.owner.store.read() as unit:
            assert [one.subject for one in unit.commands.pending()] == ["d-1"]
        world.owner.act(world.clock, "started rollout r-1: k 2 -> 3")
        world.owner.taking.turn()
        assert world.open_requests() == []

    def test_what_the_owner_refuses_is_told_to_who_pressed(self) -> None:
        world = World(users=("U0BOB",))
        world.press(Button.ACKNOWLEDGE, "alert:inc")
        assert "not on the list" in world.asked.whispers[0] and world.known().acknowledged_by is None
        with world.owner.store.read() as unit:
            assert [entry.what for entry in unit.audit.recent(5)] == ["slack.refused"]

    def test_who_is_on_no_list_is_not_even_sent(self) -> None:
        world = World(users=("U0ANN", "U0EVE"))
        world.press(Button.SILENCE, "alert:inc", user="U0EVE")
        assert "not on the list" in world.asked.whispers[0]
        with world.shared.read() as unit:
            assert unit.commands.pending() == [] and world.known() == world.alert

    def test_what_is_over_there_is_said(self) -> None:
        world = World()
        with world.owner.store.write() as unit:
            unit.alerts.put([replace(world.alert, state=AlertState.RESOLVED, resolved_at=world.clock.now())])
        world.press(Button.ACKNOWLEDGE, "alert:inc")
        assert world.asked.whispers == ["Nothing of this fires any more."]

    def test_a_press_that_no_host_takes_is_not_lost_silently_and_not_taken_later(self) -> None:
        world = World()
        world.clock.hosts.clear()
        world.press(Button.ACKNOWLEDGE, "alert:inc")
        assert world.asked.whispers == [
            "No host of the fleet has answered: its daemon is down or busy, or what it is about is over"
        ]
        world.owner.taking.turn()
        assert world.known().acknowledged_by is None

    def test_with_the_database_away_it_says_so(self) -> None:
        clock, shared = Waiting(), MemoryStore()
        alone = Host(shared, clock, trouble="connection refused")
        alone.presses.pressed(Press(Button.ACKNOWLEDGE, "alert:inc", "U0ANN", "ann", "C1", "k"))
        assert alone.whispers == [
            "That could not be done: this is another host's, and the fleet's database is away: connection refused"
        ]
        alone.taking.turn()


class TestPages:
    def test_a_page_of_one_host_acknowledges_and_silences_for_another(self) -> None:
        world = World()
        world.asked.desk.acknowledge(world.alert.fingerprint, "mira")
        assert world.known().acknowledged_by == "mira"
        made = world.asked.desk.silence_alert(world.alert.fingerprint, "2h", "being looked at", "mira")
        assert made["taken"] is True and made["outcome"].startswith("silence ")
        with world.owner.store.read() as unit:
            (silence,) = unit.silences.all()
        assert (silence.reason, silence.author) == ("being looked at", "mira")
        assert silence.ends_at - silence.starts_at == timedelta(hours=2)

    def test_a_decision_of_another_host_is_asked_for_there(self) -> None:
        world = World()
        assert world.asked.desk.ask("reject", "d-1", "mira")["taken"] is None
        assert [(c.kind.value, c.author) for c in world.owner.commands()] == [("reject", "mira")]
        assert world.asked.commands() == []
        world.owner.act(world.clock, "declined")
        world.owner.taking.turn()
        assert world.open_requests() == []

    def test_a_host_whose_page_takes_no_actions_takes_none_of_others(self) -> None:
        world = World(pages=False)
        with pytest.raises(NoSuchThing, match=r"web\.actions"):
            world.asked.desk.acknowledge(world.alert.fingerprint, "mira")
        assert world.asked.desk.ask("approve", "d-1", "mira")["taken"] is False

    def test_an_unknown_alert_is_nobodys(self) -> None:
        with pytest.raises(NoSuchThing, match="no host of the fleet has answered"):
            World().asked.desk.acknowledge("f-none", "mira")

    def test_own_things_need_no_database(self) -> None:
        clock, shared = Waiting(), MemoryStore()
        alone = Host(shared, clock, trouble="away")
        with alone.store.write() as unit:
            unit.decisions.add(decision())
        assert alone.desk.ask("approve", "d-1", "mira")["taken"] is None
        assert len(alone.commands()) == 1
        with pytest.raises(StoreError, match="the fleet's database is away"):
            alone.desk.ask("approve", "d-2", "mira")


def test_an_old_request_that_nobody_withdrew_is_void() -> None:
    world = World()
    with world.shared.write() as unit:
        unit.commands.add(Command("c-1", CommandKind.ACKNOWLEDGE, "alert:inc", "slack:U0ANN (ann)", world.clock.now()))
    world.clock.advance(180.0)
    world.owner.taking.turn()
    assert world.known().acknowledged_by is None and world.open_requests() == []
