"""Acceptance of the last day by the hour, small enough to stand in a table of many servers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from monitor.intervals.buckets import bucket_end
from monitor.model.server import Group
from monitor.signals.track import UNRELIABLE
from monitor.store.api import Unit

#: Points of a trend, an hour each.
POINTS = 24
_HOUR = 3600


def day_trends(unit: Unit, groups: Sequence[Group], now: datetime) -> dict[str, list[float | None]]:
    """Acceptance rate of each hour of the last day by server name and `group:NAME`, the running hour last.

    Accepted over drafted tokens of the hour, whatever the setting was; None without drafts.
    """
    end = bucket_end(now, _HOUR)
    since = end - timedelta(hours=POINTS)
    owner = {name: group.name for group in groups for name in group.servers}
    sums: dict[str, list[list[float]]] = {}
    for interval in unit.intervals.between_coarse(list(owner), since, now, _HOUR, details=False):
        counts = interval.speculation
        if counts is None or not counts.num_draft_tokens or counts.num_accepted_tokens is None:
            continue
        if interval.flags & UNRELIABLE:
            continue
        index = int((bucket_end(interval.end, _HOUR) - since).total_seconds() // _HOUR) - 1
        for key in (interval.server, f"group:{owner[interval.server]}"):
            hour = sums.setdefault(key, [[0.0, 0.0] for _ in range(POINTS)])[index]
            hour[0] += counts.num_accepted_tokens
            hour[1] += counts.num_draft_tokens
    return {key: [part[0] / part[1] if part[1] > 0 else None for part in hours] for key, hours in sums.items()}
