"""Whether a group's maintenance windows allow a change to begin now, and how long its later changes may wait. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from monitor.model.maintenance import Window, open_until, opens_next
from monitor.model.server import Group


def outside_windows(group: Group, now: datetime, needed_seconds: float = 0.0) -> str | None:
    """Why no change of the group may begin now: no maintenance window is open for as long as one takes. None if so."""
    windows = group.limits.maintenance
    if not windows:
        return None
    closes = open_until(windows, now)
    if closes is not None and closes - now >= timedelta(seconds=needed_seconds):
        return None
    opens = f"the next opens at {opens_next(windows, now):%Y-%m-%d %H:%M} UTC"
    if closes is None:
        return f"outside the maintenance windows of {group.name}: {opens}"
    return f"the window of {group.name} closes at {closes:%H:%M} UTC, before a restart would be over: {opens}"


def end_of_next(windows: Sequence[Window], now: datetime) -> datetime:
    """When the next of the windows (at least one) to open after `now` closes again."""
    opens = opens_next(windows, now)
    return open_until(windows, opens) or opens
