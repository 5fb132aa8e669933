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
from monitor.clock import Clock
from monitor.errors import ConfigError, Problem
from monitor.model.alert import Fingerprint, SilenceId
from monitor.model.duration import DURATION_FORM, parse_duration
from monitor.model.record import CommandKind
from monitor.model.server import Group
from monitor.report.views import command_view, pause_view, silence_view
from monitor.store import Store
from monitor.web.source import NoSuchThing

#: How long a page waits for the daemon to take its request, and how often it looks (seconds).
_PATIENCE, _LOOK = 5.0, 0.2
#: Longest silence or pause with an end (seconds): a year.
_LONGEST_SECONDS = 365 * 86_400.0


class DaemonDesk:
    """Takes requests; see `monitor.web.source.Desk`."""

    def __init__(self, store: Store, scopes: Collection[str], clock: Clock, groups: Sequence[Group] = ()) -> None:
        self._groups = tuple(groups)
        self._store = store
        self._scopes = frozenset(scopes)
        self._clock = clock

    def ask(self, kind: str, subject: str, author: str) -> dict[str, Any]:
        """Request something of the daemon and wait a little for its answer."""
        with self._store.write() as unit:
            command = asking.ask(unit, CommandKind(kind), subject, author, self._clock.now())
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
            if alert is None:
                raise NoSuchThing(f"no alert {fingerprint!r}")
            return silence_view(asking.silence_alert(unit, alert, author, reason, now, seconds), now)

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
            if not asking.acknowledge(unit, fingerprint, author, self._clock.now()):
                raise NoSuchThing(f"no alert {fingerprint!r} fires")


def _seconds(text: str) -> float:
    try:
        found = parse_duration(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= _LONGEST_SECONDS:
        raise ConfigError([Problem("for", repr(text), f"{DURATION_FORM.partition(';')[0]}, at most 365d")])
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
