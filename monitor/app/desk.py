"""Where the pages' requests arrive: written to the store as the command line writes them."""

from __future__ import annotations

import stat
from collections.abc import Collection, Sequence
from grp import getgrgid
from pathlib import Path
from pwd import getpwuid
from typing import Any

from monitor.actions import asking
from monitor.actions.drift import release_all
from monitor.app.errands import Errands, silence_subject
from monitor.clock import Clock
from monitor.errors import ConfigError, Problem
from monitor.model.alert import Fingerprint, SilenceId
from monitor.model.decision import DecisionId
from monitor.model.duration import DURATION_FORM, parse_duration
from monitor.model.record import Command, CommandKind
from monitor.model.rollout import RolloutId
from monitor.model.server import Group
from monitor.report.views import command_view, pause_view, silence_view
from monitor.store import Store
from monitor.store.api import Unit
from monitor.web.source import NoSuchThing

#: How long a page waits for the daemon to take its request, and how often it looks (seconds).
_PATIENCE, _LOOK = 5.0, 0.2
#: Longest silence or pause with an end (seconds): a year.
_LONGEST_SECONDS = 365 * 86_400.0


class DaemonDesk:
    """Takes requests; see `monitor.web.source.Desk`."""

    def __init__(
        self, store: Store, scopes: Collection[str], clock: Clock, groups: Sequence[Group] = (), *,
        errands: Errands | None = None,
    ) -> None:
        """With `errands` what is about another host's decisions, rollouts and alerts is sent there."""
        self._errands = errands
        self._groups = tuple(groups)
        self._store = store
        self._scopes = frozenset(scopes)
        self._clock = clock

    def ask(self, kind: str, subject: str, author: str) -> dict[str, Any]:
        """Request something of the daemon and wait a little for its answer."""
        wanted = CommandKind(kind)
        with self._store.write() as unit:
            if self._errands is None or _is_here(unit, wanted, subject):
                command = asking.ask(unit, wanted, subject, author, self._clock.now())
            else:
                command = None
        if command is None:
            assert self._errands is not None
            return command_view(self._errands.send(wanted, subject, author, _PATIENCE))
        deadline = self._clock.monotonic() + _PATIENCE
        while command.done_at is None and self._clock.monotonic() < deadline:
            self._clock.sleep(_LOOK)
            with self._store.read() as unit:
                command = unit.commands.get(command.id) or command
        return command_view(command)

    def silence(self, matchers: Sequence[str], length: str, reason: str, author: str) -> dict[str, Any]:
        """Silence alerts that match."""
        wanted = [asking.matcher(text) for text in matchers if text.strip()]
        now, seconds = self._clock.now(), _seconds(length)
        with self._store.write() as unit:
            return silence_view(asking.silence(unit, wanted, author, reason, now, seconds), now)

    def silence_alert(self, fingerprint: str, length: str, reason: str, author: str) -> dict[str, Any]:
        """Silence exactly one alert."""
        now, seconds = self._clock.now(), _seconds(length)
        with self._store.write() as unit:
            alert = unit.alerts.get(Fingerprint(fingerprint))
            if alert is not None:
                return silence_view(asking.silence_alert(unit, alert, author, reason, now, seconds), now)
        subject = silence_subject(fingerprint, seconds, reason)
        return command_view(self._elsewhere(CommandKind.SILENCE, subject, author, fingerprint))

    def end_silence(self, name: str, author: str) -> None:
        """End a silence now."""
        with self._store.write() as unit:
            if not asking.end_silence(unit, SilenceId(name), author, self._clock.now()):
                raise NoSuchThing(f"no silence {name!r} is in force")

    def pause(self, scope: str, length: str, reason: str, author: str) -> dict[str, Any]:
        """Start no change in a scope."""
        if scope not in self._scopes:
            raise NoSuchThing(f"no scope {scope!r}: expected * or group:NAME or server:NAME of this fleet")
        seconds = _seconds(length) if length else None
        with self._store.write() as unit:
            return pause_view(asking.pause(unit, scope, author, reason, self._clock.now(), seconds))

    def resume(self, scope: str, author: str) -> None:
        """Lift a pause."""
        now = self._clock.now()
        with self._store.write() as unit:
            released = release_all(unit, self._groups, scope, author, now)
            if not asking.resume(unit, scope, author, now) and not released:
                raise NoSuchThing(f"{scope!r} is not paused")

    def acknowledge(self, fingerprint: str, author: str) -> None:
        """Say that somebody is on it."""
        with self._store.write() as unit:
            found = asking.acknowledge(unit, fingerprint, author, self._clock.now())
        if not found:
            self._elsewhere(CommandKind.ACKNOWLEDGE, fingerprint, author, fingerprint)

    def _elsewhere(self, kind: CommandKind, subject: str, author: str, fingerprint: str) -> Command:
        """Ask the other hosts about an alert, and wait for the answer of the one whose it is."""
        if self._errands is None:
            raise NoSuchThing(f"no alert {fingerprint!r} fires")
        sent = self._errands.send(kind, subject, author, _PATIENCE)
        if sent.done_at is None:
            sent = self._errands.withdraw(sent)
        if sent.outcome.startswith("refused"):
            raise NoSuchThing(f"alert {fingerprint!r}: {sent.outcome}")
        return sent


def _is_here(unit: Unit, kind: CommandKind, subject: str) -> bool:
    """Whether a request is this host's: about what it decided or changes, or about nothing in particular."""
    if kind is CommandKind.REPORT:
        return True
    if kind is CommandKind.ROLLBACK:
        return unit.rollouts.get(RolloutId(subject)) is not None
    return unit.decisions.get(DecisionId(subject)) is not None


def _seconds(text: str) -> float:
    try:
        found = parse_duration(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= _LONGEST_SECONDS:
        raise ConfigError([Problem("for", repr(text), f"{DURATION_FORM.partition(';')[0]}), at most 365d")])
    return found


def may_write(path: Path, uid: int) -> bool:
    """Whether a user may write a file, by its mode: who may change the store by command line may do so by page."""
    try:
        status = path.stat()
    except OSError:
        return False
    if uid in (0, status.st_uid):
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False
    try:
        user, group = getpwuid(uid), getgrgid(status.st_gid)
    except KeyError:
        return False
    return user.pw_gid == status.st_gid or user.pw_name in group.gr_mem
