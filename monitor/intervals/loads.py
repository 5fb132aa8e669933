"""How much was generated at which load: tokens and seconds of intervals by their running requests. It reads nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from monitor.model.interval import Interval
from monitor.model.server import ServerName

#: Generated tokens and the seconds they took, by the place of the load between edges.
Loads = dict[int, tuple[float, float]]


def by_load(intervals: Iterable[Interval], edges: Sequence[float]) -> dict[ServerName, Loads]:
    """Tokens and seconds of each server by how many of `edges` (rising) its mean of running requests has reached.

    Left out are gaps, partial intervals, and those without tokens, time or running requests.
    """
    found: dict[ServerName, Loads] = {}
    for interval in intervals:
        running, traffic = interval.gauges.running_mean, interval.traffic
        if running is None or traffic is None or traffic.generation_tokens is None or interval.traffic_seconds <= 0:
            continue
        if interval.is_gap or interval.partial:
            continue
        own, place = found.setdefault(interval.server, {}), bisect_right(edges, running)
        tokens, seconds = own.get(place, (0.0, 0.0))
        own[place] = (tokens + traffic.generation_tokens, seconds + interval.traffic_seconds)
    return found


def add_loads(parts: Iterable[Mapping[ServerName, Loads]]) -> dict[ServerName, Loads]:
    """Sums of the same servers and places."""
    found: dict[ServerName, Loads] = {}
    for part in parts:
        for server, loads in part.items():
            own = found.setdefault(server, {})
            for place, (tokens, seconds) in loads.items():
                before = own.get(place, (0.0, 0.0))
                own[place] = (before[0] + tokens, before[1] + seconds)
    return found
