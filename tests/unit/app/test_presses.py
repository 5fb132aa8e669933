"""Presses of buttons: who may, what is written down, what everybody sees and what only one is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.app.presses import Presses, SocketRight, common_matchers
from monitor.errors import NotifyError, StoreError
from monitor.model.alert import Alert, AlertState, fingerprint
from monitor.model.notice import Button, Notice
from monitor.model.record import Command, CommandKind
from monitor.notify.buttons import Press
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.unit.notify.test_compose import decision


class Desk:
    def __init__(self) -> None:
        self.store, self.clock = MemoryStore(), FakeClock()
        self.whispers: list[tuple[str, str, str]] = []
        self.presses = Presses(
            self.store, self.clock, users=["U0ANN"], receivers=lambda _: ["slack"],  # type: ignore[arg-type]
            whisper=lambda *said: self.whispers.append(said), wake=lambda: None, simulated=False,
        )

    def alert(self, server: str, *, incident: str = "inc", name: str = "Cliff", **changes: object) -> Alert:
        labels = {"alertname": name, "severity": "page", "server": server, "group": "g"}
        now = self.clock.now()
        made = replace(
            Alert(fingerprint=fingerprint(labels), labels=labels, state=AlertState.FIRING, active_since=now,
                  fired_at=now, notified_at=now, annotations={"summary": f"{server} fell"}, incident=incident),
            **changes,
        )  # type: ignore[arg-type]
        with self.store.write() as unit:
            unit.alerts.put([made])
        return made

    def press(self, button: Button, subject: str = "alert:inc", user: str = "U0ANN") -> None:
        self.presses.pressed(Press(button, subject, user, user.lower().removeprefix("u0"), "C1", f"{user}:{button}"))

    def notices(self) -> list[Notice]:
        with self.store.read() as unit:
            return [notice for notice, _ in reversed(unit.outbox.recent(10))]

    def commands(self) -> list[Command]:
        with self.store.read() as unit:
            return unit.commands.pending()

    def audit(self) -> list[tuple[str, str]]:
        with self.store.read() as unit:
            return [(entry.actor, entry.what) for entry in reversed(unit.audit.recent(10))]


class TestAcknowledge:
    def test_every_alert_of_the_incident_is_and_the_thread_is_told(self) -> None:
        desk = Desk()
        one, two, other = desk.alert("a"), desk.alert("b"), desk.alert("c", incident="another")
        desk.press(Button.ACKNOWLEDGE)
        with desk.store.read() as unit:
            by = [unit.alerts.get(a.fingerprint).acknowledged_by for a in (one, two, other)]  # type: ignore[union-attr]
        assert by == ["slack:U0ANN (ann)", "slack:U0ANN (ann)", None]
        (said,) = desk.notices()
        assert (said.thread, said.in_thread, said.buttons) == ("alert:inc", True, ())
        assert said.text.startswith("Acknowledged by ann")
        assert desk.audit() == [("slack:U0ANN (ann)", "acknowledge")] * 2
        assert desk.whispers == []

    def test_one_that_is_over_says_so_to_who_pressed(self) -> None:
        desk = Desk()
        desk.alert("a", state=AlertState.RESOLVED, resolved_at=desk.clock.now())
        desk.press(Button.ACKNOWLEDGE)
        assert desk.whispers == [("C1", "U0ANN", "Nothing of this fires any more.")]
        assert desk.notices() == [] and desk.audit() == []


class TestSilence:
    def test_it_holds_for_four_hours_over_this_incident_and_no_more(self) -> None:
        desk = Desk()
        one, two = desk.alert("a"), desk.alert("b.1")
        desk.press(Button.SILENCE)
        now = desk.clock.now()
        with desk.store.read() as unit:
            (silence,) = unit.silences.all()
        assert silence.ends_at == now + timedelta(hours=4)
        assert silence.mutes(one.labels, now) and silence.mutes(two.labels, now)
        for label, value in (("server", "c"), ("server", "bx1"), ("alertname", "Other"), ("group", "h")):
            assert not silence.mutes({**one.labels, label: value}, now)
        (said,) = desk.notices()
        assert said.text == (
            f"Silenced until 16:00 UTC by ann: alertname=Cliff group=g server=~a|b\\.1 (silence {silence.id})"
        )
        assert desk.audit() == [("slack:U0ANN (ann)", "silence")]

    def test_alerts_of_a_group_as_a_whole_have_no_server(self) -> None:
        labels = {"alertname": "ErrorBudgetBurn", "group": "g", "slo": "uptime", "severity": "page"}
        burn = replace(Desk().alert("a"), labels=labels)
        assert list(map(str, common_matchers([burn]))) == ["alertname=ErrorBudgetBurn", "group=g", "slo=uptime"]


class TestApprove:
    @pytest.mark.parametrize(
        ("button", "kind"), [(Button.APPROVE, CommandKind.APPROVE), (Button.REJECT, CommandKind.REJECT)]
    )
    def test_it_is_a_request_like_that_of_the_command_line(self, button: Button, kind: CommandKind) -> None:
        desk = Desk()
        with desk.store.write() as unit:
            unit.decisions.add(decision())
        desk.press(button, "decision:d-1")
        (command,) = desk.commands()
        assert (command.kind, command.subject, command.author) == (kind, "d-1", "slack:U0ANN (ann)")
        # What comes of it is told when it is known.
        assert desk.notices() == [] and desk.whispers == []

    def test_a_decision_that_is_gone_is_said_to_who_pressed(self) -> None:
        desk = Desk()
        desk.press(Button.APPROVE, "decision:d-0")
        assert desk.commands() == []
        assert "no decision 'd-0'" in desk.whispers[0][2]


@pytest.mark.parametrize(
    ("button", "subject"),
    [(Button.APPROVE, "decision:d-1"), (Button.REJECT, "decision:d-1"), (Button.ACKNOWLEDGE, "alert:inc"),
     (Button.SILENCE, "alert:inc")],
)  # fmt: skip
def test_who_is_not_on_the_list_changes_nothing_and_leaves_a_line(button: Button, subject: str) -> None:
    desk = Desk()
    one = desk.alert("a")
    with desk.store.write() as unit:
        unit.decisions.add(decision())
    desk.press(button, subject, user="U0EVE")
    with desk.store.read() as unit:
        assert unit.silences.all() == [] and unit.alerts.get(one.fingerprint) == one
    assert desk.commands() == [] and desk.notices() == []
    assert desk.audit() == [("slack:U0EVE (eve)", "slack.refused")]
    assert desk.whispers[0][:2] == ("C1", "U0EVE") and "not on the list" in desk.whispers[0][2]


@pytest.mark.parametrize("subject", ["", "alert:", "alert:unknown", "report:2026-W10", "decision:inc"])
@pytest.mark.parametrize("button", list(Button))
def test_a_subject_that_nobody_wrote_does_nothing(button: Button, subject: str) -> None:
    desk = Desk()
    desk.alert("a", incident="")
    desk.press(button, subject)
    assert len(desk.whispers) == 1
    assert desk.commands() == [] and desk.audit() == []


class Away:
    """A store that is away."""

    def write(self) -> object:
        raise StoreError("the database is locked")


def test_with_the_store_away_it_says_so_and_nobody_has_the_right() -> None:
    desk = Desk()
    presses = Presses(
        Away(), desk.clock, users=["U0ANN"], receivers=lambda _: [], wake=lambda: None,  # type: ignore[arg-type]
        whisper=lambda *said: desk.whispers.append(said), simulated=False,
    )
    presses.pressed(Press(Button.SILENCE, "alert:inc", "U0ANN", "ann", "C1", "k"))
    assert desk.whispers == [("C1", "U0ANN", "That could not be done: the database is locked")]
    right = SocketRight(Away(), desk.clock, "host-a")  # type: ignore[arg-type]
    assert not right.hold()
    right.release()


def test_a_daemon_that_has_no_part_in_the_fleet_does_not_listen() -> None:
    trouble = ""
    store, clock = MemoryStore(), FakeClock()
    right = SocketRight(store, clock, "host-a", trouble=lambda: trouble)
    assert right.hold()
    trouble = "another daemon has the name host-a"
    assert not right.hold()


def test_slack_being_away_for_the_answer_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()

    def refuse(*_: str) -> None:
        raise NotifyError("gone", reason="unreachable", retryable=True)

    presses = Presses(
        desk.store, desk.clock, users=[], receivers=lambda _: [], wake=lambda: None, whisper=refuse,  # type: ignore[arg-type]
        simulated=False,
    )
    presses.pressed(Press(Button.SILENCE, "alert:inc", "U0ANN", "ann", "C1", "k"))
    assert "cannot be told" in caplog.text
