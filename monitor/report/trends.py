"""Acceptance of the last day or hour, small enough to stand in a table of many servers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from monitor.intervals.buckets import bucket_end
from monitor.model.interval import Interval
from monitor.model.server import Group, ServerName
from monitor.signals.track import UNRELIABLE
from monitor.store.api import Unit

#: Points of a trend, and their lengths (seconds): a day by the hour, an hour by three minutes.
POINTS, _HOUR, _THREE_MINUTES = 24, 3600, 180
#: A fleet of more servers is large.
LARGE = 100


def day_trends(unit: Unit, groups: Sequence[Group], now: datetime) -> dict[str, list[float | None]]:
    """Acceptance rate of each hour of the last day by server name and `group:NAME`, the running hour last.

    Accepted over drafted tokens of the hour, whatever the setting was; None without drafts.
    """
    end = bucket_end(now, _HOUR)
    since = end - timedelta(hours=POINTS)
    found = unit.intervals.between_coarse(_servers(groups), since, now, _HOUR, details=False)
    return _by_step(found, groups, end, _HOUR, POINTS)


def hour_trends(unit: Unit, groups: Sequence[Group], now: datetime) -> dict[str, list[float | None]]:
    """The same of the last hour by three minutes, the running ones last."""
    end = bucket_end(now, _THREE_MINUTES)
    points = _HOUR // _THREE_MINUTES
    since = end - timedelta(seconds=points * _THREE_MINUTES)
    return _by_step(
        unit.intervals.between(_servers(groups), since, now, details=False), groups, end, _THREE_MINUTES, points
    )


def _servers(groups: Sequence[Group]) -> list[ServerName]:
    return [name for group in groups for name in group.servers]


def _by_step(
    intervals: Iterable[Interval], groups: Sequence[Group], end: datetime, step: int, points: int
) -> dict[str, list[float | None]]:
    owner = {name: group.name for group in groups for name in group.servers}
    since = end - timedelta(seconds=points * step)
    sums: dict[str, list[list[float]]] = {}
    for interval in intervals:
        counts = interval.speculation
        if counts is None or not counts.num_draft_tokens or counts.num_accepted_tokens is None:
            continue
        if interval.flags & UNRELIABLE:
            continue
        index = int((bucket_end(interval.end, step) - since).total_seconds() // step) - 1
        for key in (interval.server, f"group:{owner[interval.server]}"):
            part = sums.setdefault(key, [[0.0, 0.0] for _ in range(points)])[index]
            part[0] += counts.num_accepted_tokens
            part[1] += counts.num_draft_tokens
    return {key: [one[0] / one[1] if one[1] > 0 else None for one in parts] for key, parts in sums.items()}
