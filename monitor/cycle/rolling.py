"""Servers that a change of ours keeps from their work now, so that what their pages say is our doing."""

from __future__ import annotations

from datetime import datetime, timedelta

from monitor.model.rollout import Change, ChangeState
from monitor.model.server import ServerName
from monitor.store.api import Unit

#: States of a change during which the server's alerts are ours, not its own.
_ROLLING = frozenset(
    {ChangeState.DRAINING, ChangeState.RESTARTING, ChangeState.WARMING, ChangeState.UNDOING}
)

#: A change that stands still for longer than its step may take mutes nothing any more: the time after its deadline,
#: and the longest that a step without one (the rest between two starts) may last.
_OVERDUE, _LONGEST_STEP = timedelta(minutes=10), timedelta(hours=2)


def rolling(unit: Unit, now: datetime) -> set[ServerName]:
    """Servers that a change of ours is draining, restarting or warming now."""
    return {c.server for c in unit.changes.active() if c.state in _ROLLING and not _is_overdue(c, now)}


def _is_overdue(change: Change, now: datetime) -> bool:
    return now > (change.deadline or change.entered_at + _LONGEST_STEP) + _OVERDUE
