"""What a press of a button does: the rows that command line and page write, with who pressed. It restarts nothing.

A press arrives at the one daemon of the fleet that listens. What is not about its own alerts and decisions is sent to
whichever host it is about, which takes it as if it had been pressed there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from monitor.actions import asking
from monitor.clock import Clock
from monitor.errors import MonitorError, NotifyError, StoreError
from monitor.model.alert import Alert, AlertState, Matcher
from monitor.model.decision import DecisionId
from monitor.model.notice import Button
from monitor.model.record import AuditEntry, Command, CommandKind
from monitor.model.rollout import Lease
from monitor.notify.buttons import SILENCE_SECONDS, Press
from monitor.notify.compose_alerts import note_notice
from monitor.notify.routing import Routing
from monitor.store import Store
from monitor.store.api import Unit

log = logging.getLogger(__name__)

#: Name of the lease of the fleet's one connection, and how long it holds without being renewed (seconds).
SOCKET_LEASE, _LEASE_SECONDS = "slack-socket", 30.0

#: How names of those who pressed begin.
SLACK_AUTHOR = "slack:"
#: How long another host has to take a press (seconds): some turns of its looking.
_ELSEWHERE_SECONDS = 20.0
#: How far back a button of something that is over is still known.
_OVER = timedelta(days=7)
_KINDS = {
    Button.APPROVE: CommandKind.APPROVE, Button.REJECT: CommandKind.REJECT,
    Button.ACKNOWLEDGE: CommandKind.ACKNOWLEDGE, Button.SILENCE: CommandKind.SILENCE,
}  # fmt: skip

#: Tells one person something in a channel: channel, user, text.
Whisper = Callable[[str, str, str], None]


class Carrier(Protocol):
    """Sends requests to other hosts of the fleet; see `monitor.app.errands.Errands`."""

    def send(self, kind: CommandKind, subject: str, author: str, patience_seconds: float) -> Command:
        """Ask the fleet and wait a little."""
        ...

    def withdraw(self, command: Command) -> Command:
        """Take back what nobody has answered."""
        ...


class SocketRight:
    """The right to Slack's one connection, as a lease in the store that all daemons share."""

    def __init__(
        self, store: Store, clock: Clock, holder: str, *, trouble: Callable[[], str] = lambda: ""
    ) -> None:
        """`trouble` is why this daemon has no part in the fleet now: another has its name, or the database is away."""
        self._trouble = trouble
        self._store = store
        self._clock = clock
        self._holder = holder
        self._lease: Lease | None = None

    def hold(self) -> bool:
        """Take the lease, or keep it; without the store nobody may."""
        if self._trouble():
            self._lease = None
            return False
        try:
            with self._store.write() as unit:
                self._lease = unit.leases.acquire(SOCKET_LEASE, self._holder, _LEASE_SECONDS, self._clock.now())
        except StoreError as error:
            log.warning("right to the slack socket not known: %s", error)
            self._lease = None
        return self._lease is not None

    def release(self) -> None:
        """Give it back, so that another daemon need not wait."""
        if self._lease is None:
            return
        try:
            with self._store.write() as unit:
                unit.leases.release(self._lease)
        except StoreError as error:
            log.warning("right to the slack socket not given back: %s", error)
        self._lease = None


class Presses:
    """Carries presses into the store; called by the threads of the connection."""

    def __init__(
        self, store: Store, clock: Clock, *, users: Collection[str], receivers: Routing, whisper: Whisper,
        wake: Callable[[], None], simulated: bool, errands: Carrier | None = None,
    ) -> None:
        """`users` are the ids of those who may press; `wake` says that something was queued. With `errands` what is not
        of this host is sent to others.
        """
        self._errands = errands
        self.wake = wake
        self._store = store
        self._clock = clock
        self._users = frozenset(users)
        self._receivers = receivers
        self._whisper = whisper
        self._simulated = simulated

    def pressed(self, press: Press) -> None:
        """Do what the button asks, or say to who pressed why not."""
        log.info("button=%s subject=%s author=%s", press.button.value, press.subject, press.author)
        try:
            with self._store.write() as unit:
                said = self._carry(unit, press)
            if said is None:
                said = self._send(press)
        except MonitorError as error:
            log.error("button not carried out button=%s subject=%s: %s", press.button.value, press.subject, error)
            said = f"That could not be done: {error}"
        self.wake()
        if not said:
            return
        try:
            self._whisper(press.channel, press.user, said)
        except NotifyError as error:
            log.warning("whoever pressed cannot be told user=%s: %s", press.user, error)

    def take(self, unit: Unit, command: Command) -> str | None:
        """Do what was pressed on another host, as if it had been pressed here; None where it is about nothing here.

        What only the person who pressed is told is answered, empty where everybody sees it.
        """
        user, _, name = command.author.removeprefix(SLACK_AUTHOR).partition(" ")
        button = next(button for button, kind in _KINDS.items() if kind is command.kind)
        return self._carry(unit, Press(button, command.subject, user, name.strip("()"), "", command.id), command)

    def _carry(self, unit: Unit, press: Press, command: Command | None = None) -> str | None:
        """Write it down; what only the person who pressed is told, empty where everybody sees it.

        None where it is about nothing of this host. `command` is the request that another host made of it.
        """
        now = self._clock.now()
        about, _, name = press.subject.partition(":")
        if press.button in (Button.APPROVE, Button.REJECT):
            if about != "decision" or unit.decisions.get(DecisionId(name)) is None:
                return None
            refusal = self._refusal(unit, press)
            if refusal:
                return refusal
            if command is None:
                asking.ask(unit, _KINDS[press.button], name, press.author, now)
                return ""
            unit.commands.add(replace(command, subject=name))
            return None
        known = unit.alerts.since(now - _OVER) if about == "alert" and name else []
        known = [alert for alert in known if alert.incident == name]
        if not known:
            return None
        refusal = self._refusal(unit, press)
        if refusal:
            return refusal
        firing = [alert for alert in known if alert.state is AlertState.FIRING]
        if not firing:
            return "Nothing of this fires any more."
        if press.button is Button.ACKNOWLEDGE:
            return self._acknowledge(unit, press, firing)
        return self._silence(unit, press, firing)

    def _refusal(self, unit: Unit, press: Press) -> str:
        """Why this person may not; empty for those on the list."""
        if press.user in self._users:
            return ""
        sentence = f"{press.author} pressed {press.button.value} and is not on the list (slack.users)"
        unit.audit.add(AuditEntry(self._clock.now(), press.author, "slack.refused", press.subject, sentence))
        return "You are not on the list of those who may do that (`slack.users` in acceptd's configuration)."

    def _send(self, press: Press) -> str:
        """Ask the other hosts; what the person who pressed is told, empty where everybody sees it."""
        about, _, name = press.subject.partition(":")
        is_over = "Nothing of this fires any more."
        if press.button in (Button.APPROVE, Button.REJECT):
            is_over = f"There is no decision {name!r} here any more: look at the newest one."
        if self._errands is None or about not in ("alert", "decision") or not name:
            return is_over
        with self._store.write() as unit:
            refusal = self._refusal(unit, press)
        if refusal:
            return refusal
        sent = self._errands.send(_KINDS[press.button], press.subject, press.author, _ELSEWHERE_SECONDS)
        if sent.done_at is None and press.button in (Button.APPROVE, Button.REJECT):
            # Its host may have it, and be at work: what is not taken soon is void there by itself.
            return "Its host has not answered yet: what comes of it is told here, within two minutes or not at all."
        if sent.done_at is None:
            sent = self._errands.withdraw(sent)
        log.info("button=%s subject=%s carried to its host: %s", press.button.value, press.subject, sent.outcome)
        reason, _, said = sent.outcome.partition(": ")
        return said[:1].upper() + said[1:] if reason.startswith("refused") else ""

    def _acknowledge(self, unit: Unit, press: Press, firing: list[Alert]) -> str:
        now = self._clock.now()
        for alert in firing:
            asking.acknowledge(unit, alert.fingerprint, press.author, now)
        self._answer(unit, press, firing, f"Acknowledged by {press.user_name or press.user}: it is not repeated every"
                                          " half hour any more.")
        return ""

    def _silence(self, unit: Unit, press: Press, firing: list[Alert]) -> str:
        now = self._clock.now()
        matchers = common_matchers(firing)
        silence = asking.silence(unit, matchers, press.author, "button in Slack", now, SILENCE_SECONDS)
        words = " ".join(map(str, matchers))
        until = now + timedelta(seconds=SILENCE_SECONDS)
        self._answer(unit, press, firing, f"Silenced until {until:%H:%M} UTC by {press.user_name or press.user}:"
                                          f" {words} (silence {silence.id})")
        return ""

    def _answer(self, unit: Unit, press: Press, firing: list[Alert], text: str) -> None:
        notice = note_notice(press.subject, press.key, firing, text, self._clock.now(), simulated=self._simulated)
        unit.outbox.queue(notice, self._receivers(notice), self._clock.now())


def common_matchers(alerts: list[Alert]) -> list[Matcher]:
    """Matchers that fit these alerts and no other of their names: for each label its value, or one of its values."""
    found = []
    for label in ("alertname", "group", "server", "slo", "host"):
        values = sorted({alert.labels.get(label, "") for alert in alerts})
        if values == [""]:
            continue
        is_one = len(values) == 1
        found.append(Matcher(label, "=" if is_one else "=~", values[0] if is_one else "|".join(map(_literal, values))))
    return found


def _literal(value: str) -> str:
    """A value in a regular expression, escaped no more than it needs."""
    return "".join(f"\\{c}" if c in r".^$*+?{}[]\|()" else c for c in value)
