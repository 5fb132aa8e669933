"""Whether some servers of a group could carry the busiest minutes of its last day. Pure; it knows no servers by name.

The busiest minutes are the five with most requests in the group, running and waiting together. Fewer servers share the
same requests: each must have the places and the KV cache for its share, with a tenth to spare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from monitor.model.interval import Interval
from monitor.model.server import ServerName
from monitor.signals.load import has_queue

#: Length of the buckets that requests are counted in (seconds): long enough to outlast a burst, and as rollups are.
BUCKET_SECONDS = 300
#: Share of places and KV cache that may be taken at the peak: what is full queues at the next burst.
FULL_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The busiest bucket of a group, ending at `at`: requests of all its servers, running and waiting.

    `kv_usage` is the KV cache in use, added over servers (2.0: as much as two whole caches); None where no page says.
    `queued` is whether requests queued for want of room.
    """

    at: datetime
    requests: float
    kv_usage: float | None
    queued: bool


@dataclass(frozen=True, slots=True)
class Carrying:
    """Whether the survivors would carry a peak (None: nothing to predict it from), in a sentence."""

    ok: bool | None
    sentence: str


def peak_of(intervals: Iterable[Interval]) -> Peak | None:
    """The busiest bucket; None where no interval says how many requests ran."""
    buckets: dict[datetime, list[Interval]] = defaultdict(list)
    for interval in intervals:
        if interval.gauges.running_mean is not None and interval.gauges_seconds > 0:
            buckets[_bucket_end(interval.end)].append(interval)
    peaks = [_peak(at, found) for at, found in buckets.items()]
    return max(peaks, key=lambda peak: (peak.requests, peak.at)) if peaks else None


def carrying(peak: Peak | None, survivors: int, places: int | None) -> Carrying:
    """Whether `survivors` servers with so many places for requests each (None: not known) would carry `peak`."""
    if peak is None:
        return Carrying(None, "no page of the last day says how many requests ran")
    each = peak.requests / survivors
    share = f"{each:.1f} requests each at the last day's peak ({peak.at:%Y-%m-%d %H:%M} UTC)"
    who = f"{survivors} remaining server{'s' if survivors != 1 else ''}: {share}"
    if peak.queued:
        return Carrying(False, f"{who}, when requests already queued with all servers there")
    if places is not None and each > FULL_SHARE * places:
        return Carrying(False, f"{who}, more than {FULL_SHARE:.0%} of the {places} places of a server")
    cache = None if peak.kv_usage is None else peak.kv_usage / survivors
    if cache is not None and cache > FULL_SHARE:
        return Carrying(False, f"{who}, which would take {cache:.0%} of a server's KV cache (at most {FULL_SHARE:.0%})")
    if places is None and cache is None:
        return Carrying(False, f"{who}: neither places nor KV cache of a server are known to hold it against")
    of_places = f", of {places} places" if places is not None else ""
    of_cache = f", {cache:.0%} of its KV cache" if cache is not None else ""
    return Carrying(True, f"{who}{of_places}{of_cache}")


def _bucket_end(moment: datetime) -> datetime:
    seconds = moment.astimezone(UTC).timestamp()
    ends = -(-seconds // BUCKET_SECONDS) * BUCKET_SECONDS
    return datetime.fromtimestamp(ends, UTC)


def _peak(at: datetime, intervals: Sequence[Interval]) -> Peak:
    """Means over the time that the bucket is covered, added over servers; engines of one server share its caches."""
    covered: dict[str, float] = defaultdict(float)
    by_server: dict[ServerName, list[Interval]] = defaultdict(list)
    for interval in intervals:
        covered[interval.life] += interval.gauges_seconds
        by_server[interval.server].append(interval)
    span = max(covered.values())
    work = sum(((i.gauges.running_mean or 0.0) + (i.gauges.waiting_mean or 0.0)) * i.gauges_seconds for i in intervals)
    caches = [usage for own in by_server.values() if (usage := _kv_usage(own)) is not None]
    waits = (sum(i.gauges_seconds for i in own if has_queue(i.gauges)) for own in by_server.values())
    return Peak(
        at=at,
        requests=work / span,
        kv_usage=sum(caches) if caches else None,
        queued=any(seconds > span / 2 for seconds in waits),
    )


def _kv_usage(intervals: Iterable[Interval]) -> float | None:
    known = [i for i in intervals if i.gauges.kv_usage_mean is not None]
    if not known:
        return None
    return sum((i.gauges.kv_usage_mean or 0.0) * i.gauges_seconds for i in known) / sum(i.gauges_seconds for i in known)
