"""Repositories of what people asked for and what rules remember: pauses, silences, commands, timers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, or_

from monitor.errors import StoreError
from monitor.model.alert import Silence, SilenceId
from monitor.model.record import Command, Pause, RuleTimer
from monitor.store.records import Records
from monitor.store.tables.asking import CommandRow, PauseRow, SilenceRow, TimerRow


class SqlPauses:
    """Where no change may start."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Pause, PauseRow)

    def set(self, pause: Pause) -> None:
        """Store a pause in place of the scope's last."""
        self._rows.put([pause])

    def clear(self, scope: str) -> bool:
        """Lift the pause of `scope`."""
        return self._rows.remove(PauseRow.scope == scope) > 0

    def active(self, now: datetime) -> list[Pause]:
        """Pauses that are not over; one dated ahead by another host's clock counts, since that is the safe side."""
        return self._rows.many(or_(PauseRow.until.is_(None), PauseRow.until > now), order=(PauseRow.scope,))


class SqlSilences:
    """Who asked not to hear of what."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Silence, SilenceRow)

    def add(self, silence: Silence) -> None:
        """Store a new silence."""
        self._rows.insert([silence])

    def expire(self, silence: SilenceId, now: datetime) -> bool:
        """End a silence now."""
        return self._rows.change((SilenceRow.id == silence, SilenceRow.ends_at > now), ends_at=now) > 0

    def active(self, now: datetime) -> list[Silence]:
        """Silences in force at `now`."""
        where = (SilenceRow.starts_at <= now, SilenceRow.ends_at > now)
        return self._rows.many(*where, order=(SilenceRow.starts_at, SilenceRow.id))

    def all(self) -> list[Silence]:
        """Every silence kept."""
        return self._rows.many(order=(SilenceRow.starts_at, SilenceRow.id))


class SqlCommands:
    """Requests of CLI, page and chat."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Command, CommandRow)

    def add(self, command: Command) -> None:
        """Store a new request."""
        self._rows.insert([command])

    def pending(self) -> list[Command]:
        """Requests without an outcome, oldest first."""
        return self._rows.many(CommandRow.done_at.is_(None), order=(CommandRow.asked_at, CommandRow.id))

    def finish(self, command: str, at: datetime, outcome: str) -> None:
        """Write the outcome of a request."""
        if self._rows.change((CommandRow.id == command,), done_at=at, outcome=outcome) == 0:
            raise StoreError(f"cannot finish command {command}: it is not in the store")

    def get(self, command: str) -> Command | None:
        """The request of that id."""
        return self._rows.one(CommandRow.id == command)


class SqlTimers:
    """How long rules have held."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, RuleTimer, TimerRow)

    def all(self) -> list[RuleTimer]:
        """Every timer, by rule and scope."""
        return self._rows.many(order=(TimerRow.rule, TimerRow.scope))

    def put(self, timers: Iterable[RuleTimer]) -> None:
        """Store timers in place of the last ones."""
        self._rows.put(timers)
