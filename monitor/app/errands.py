"""Requests of people that arrive on one host for things of another, carried through the fleet's database.

A request is a row there; every daemon looks for rows about its own decisions, rollouts and alerts, writes such a
request into its own store as if it had been made there, and puts the outcome into the row. Nothing is carried out
twice: the request keeps its id. One that nobody takes within its time is void.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from monitor.actions import asking
from monitor.app.presses import SLACK_AUTHOR, Presses
from monitor.clock import Clock
from monitor.errors import StoreError
from monitor.model.alert import Alert, AlertState, Fingerprint
from monitor.model.decision import DecisionId
from monitor.model.record import Command, CommandKind
from monitor.model.rollout import RolloutId
from monitor.store import Store
from monitor.store.api import Unit

log = logging.getLogger(__name__)

#: How often a daemon looks for requests that are its own to take (seconds).
LOOK_SECONDS = 2.0
#: A request is taken while it is as young as this (hosts' clocks may differ by some of it), and void after that.
_TAKEN_WITHIN = timedelta(minutes=2)
#: How often whoever asked looks for the outcome (seconds).
_OUTCOME_SECONDS = 0.5
_NOBODY = "refused (nobody): no host of the fleet has answered: its daemon is down or busy, or what it is about is over"


class Errands:
    """Sends requests to whichever host they are for."""

    def __init__(self, shared: Store, clock: Clock, *, trouble: Callable[[], str]) -> None:
        """`trouble` is why the fleet's database cannot be used, where that is known."""
        self._shared = shared
        self._clock = clock
        self._trouble = trouble

    def send(self, kind: CommandKind, subject: str, author: str, patience_seconds: float) -> Command:
        """Ask the fleet and wait a little for an answer; without an outcome where none has come. Raises StoreError."""
        if self._trouble():
            raise StoreError(f"this is another host's, and the fleet's database is away: {self._trouble()}")
        made = Command(uuid.uuid4().hex[:12], kind, subject, author, self._clock.now())
        with self._shared.write() as unit:
            unit.commands.add(made)
        deadline = self._clock.monotonic() + patience_seconds
        while made.done_at is None and self._clock.monotonic() < deadline:
            self._clock.sleep(_OUTCOME_SECONDS)
            with self._shared.read() as unit:
                made = unit.commands.get(made.id) or made
        return made

    def withdraw(self, command: Command) -> Command:
        """Take back a request that nobody has answered; as it stands then. Raises StoreError."""
        with self._shared.write() as unit:
            found = unit.commands.get(command.id) or command
            if found.done_at is None:
                found = replace(found, done_at=self._clock.now(), outcome=_NOBODY)
                unit.commands.finish(found.id, self._clock.now(), _NOBODY)
        return found


class Taking:
    """Takes the requests that are about this host's own things."""

    def __init__(
        self, shared: Store, local: Store, clock: Clock, *, presses: Presses, pages: bool, trouble: Callable[[], str]
    ) -> None:
        """`presses` take what was pressed in Slack; requests of other hosts' pages are taken where `pages` says so."""
        self._shared = shared
        self._local = local
        self._clock = clock
        self._presses = presses
        self._pages = pages
        self._trouble = trouble

    def turn(self) -> None:
        """Take what is ours, and answer what is done."""
        if self._trouble():
            return
        try:
            with self._shared.read() as unit:
                waiting = unit.commands.pending()
            for command in waiting:
                outcome = self._outcome(command)
                if outcome:
                    with self._shared.write() as unit:
                        unit.commands.finish(command.id, self._clock.now(), outcome)
        except StoreError as error:
            log.warning("requests of other hosts not looked for: %s", error)

    def _outcome(self, command: Command) -> str:
        """What came of it, empty while nothing has."""
        if self._clock.now() - command.asked_at > _TAKEN_WITHIN:
            with self._local.read() as unit:
                known = unit.commands.get(command.id)
            return known.outcome if known is not None else _NOBODY
        with self._local.write() as unit:
            known = unit.commands.get(command.id)
            if known is not None:
                return known.outcome
            outcome = self._take(unit, command)
            if outcome:
                unit.commands.add(replace(command, done_at=self._clock.now(), outcome=outcome))
        if outcome:
            self._presses.wake()
        return outcome

    def _take(self, unit: Unit, command: Command) -> str:
        """The outcome of what is done at once; empty for what is not ours, or left to the thread that acts."""
        if command.author.startswith(SLACK_AUTHOR):
            said = self._presses.take(unit, command)
            return "" if said is None else f"refused: {said}" if said else "done"
        if not _is_ours(unit, command):
            return ""
        if not self._pages:
            return "refused (switched_off): its host takes no requests of pages (web.actions: false)"
        now, name = self._clock.now(), command.subject.split(" ", 1)[0]
        if command.kind is CommandKind.ACKNOWLEDGE:
            return "acknowledged" if asking.acknowledge(unit, name, command.author, now) else "refused: it is over"
        if command.kind is CommandKind.SILENCE:
            _, seconds, reason = command.subject.split(" ", 2)
            alert = unit.alerts.get(Fingerprint(name))
            assert alert is not None  # it is ours
            made = asking.silence_alert(unit, alert, command.author, reason, now, float(seconds))
            return f"silence {made.id} on its host"
        unit.commands.add(command)
        return ""


def silence_subject(fingerprint: str, seconds: float, reason: str) -> str:
    """The subject of a request to silence one alert."""
    return f"{fingerprint} {seconds:.0f} {reason}"


def _is_ours(unit: Unit, command: Command) -> bool:
    """Whether a request of a page is about something that this host decided, changes, or alerts of."""
    if command.kind in (CommandKind.ACKNOWLEDGE, CommandKind.SILENCE):
        alert: Alert | None = unit.alerts.get(Fingerprint(command.subject.split(" ", 1)[0]))
        return alert is not None and alert.state is AlertState.FIRING
    if command.kind is CommandKind.ROLLBACK:
        return unit.rollouts.get(RolloutId(command.subject)) is not None
    return unit.decisions.get(DecisionId(command.subject)) is not None
