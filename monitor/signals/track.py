"""The past of one server as signals read it: intervals with their lives, by end. It adds nothing up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from monitor.model.interval import Interval
from monitor.model.life import Life, Setting
from monitor.model.reading import Flag

#: An interval and the life it belongs to.
Pair = tuple[Life, Interval]

#: Intervals with one of these flags are left out of acceptance: their counts contradict each other.
UNRELIABLE: frozenset[Flag] = frozenset(
    {Flag.IDENTITIES_BROKEN, Flag.V0_COUNTERS_UNRELIABLE, Flag.ACCEPTANCE_OUT_OF_RANGE}
)


class Drafted(NamedTuple):
    """Drafts of one interval, tokens accepted of them, and drafts whose first token was (None where not told)."""

    drafts: float
    accepted: float
    first: float | None


class Digest(NamedTuple):
    """What looking back needs of one interval, worked out once: when it was, what it drafted, and its load.

    `seconds` is how long it took, `batch` is of requests that decode together, `tokens` those generated; None where the
    interval does not say.
    """

    start: datetime
    seconds: float
    drafted: Drafted | None
    batch: float | None
    tokens: float | None


def is_rateable(interval: Interval) -> bool:
    """Whether a rate may be drawn from the interval: no gap, and wholly of one life."""
    return not interval.is_gap and not interval.partial


def is_reliable(interval: Interval) -> bool:
    """Whether its speculation counts may be believed."""
    return not (interval.flags & UNRELIABLE)


def drafted_of(interval: Interval, setting: Setting | None) -> Drafted | None:
    """What one interval drafted; None where it made no draft or may not be believed.

    Without a counter of drafts they are drafted tokens over the configured number (wrong where lengths vary).
    """
    counts = interval.speculation
    if counts is None or counts.num_accepted_tokens is None or not is_reliable(interval):
        return None
    drafts = counts.num_drafts
    if drafts is None and counts.num_draft_tokens is not None:
        tokens = setting.num_speculative_tokens if setting is not None else None
        drafts = counts.num_draft_tokens / tokens if tokens else None
    if drafts is None or drafts <= 0:
        return None
    positions = counts.accepted_per_pos
    return Drafted(drafts, counts.num_accepted_tokens, positions[0] if positions else None)


def batch_of(interval: Interval) -> float | None:
    """Requests that decoded together in the interval; None where neither steps nor running requests are known."""
    latency, traffic, gauges = interval.latency, interval.traffic, interval.gauges
    if latency and latency.inter_token and traffic and traffic.engine_steps and latency.inter_token.count > 0:
        return max(1.0, latency.inter_token.count / traffic.engine_steps)
    return gauges.running_mean if gauges.running_mean and interval.gauges_seconds > 0 else None


def digest_of(interval: Interval, setting: Setting | None) -> Digest:
    """The digest of an interval at that setting."""
    tokens = interval.traffic.generation_tokens if interval.traffic is not None else None
    return Digest(
        interval.start, interval.elapsed_seconds, drafted_of(interval, setting), batch_of(interval), tokens
    )


@dataclass(frozen=True, slots=True)
class Track:
    """Pairs of one server by end, with the lives, ends and what looking back needs of each beside them.

    Pairs may be unfolded only when they are asked for; the rest is always at hand.
    """

    pairs: Sequence[Pair]
    lives: Sequence[Life]
    ends: Sequence[datetime]
    digests: Sequence[Digest]

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Track:
        """The track of pairs in any order."""
        ordered = sorted(pairs, key=_end)
        return cls(
            ordered, [life for life, _ in ordered], [interval.end for _, interval in ordered],
            [digest_of(interval, life.setting) for life, interval in ordered],
        )

    def span(self, since: datetime, until: datetime) -> slice:
        """Where the pairs lie whose interval ends in (since, until]."""
        return slice(bisect_right(self.ends, since), bisect_right(self.ends, until))

    def between(self, since: datetime, until: datetime) -> Sequence[Pair]:
        """Pairs whose interval ends in (since, until]."""
        return self.pairs[self.span(since, until)]

    def cut(self, since: datetime, until: datetime) -> Track:
        """The part whose intervals end in (since, until]."""
        span = self.span(since, until)
        return Track(self.pairs[span], self.lives[span], self.ends[span], self.digests[span])

    def last_end(self, until: datetime) -> datetime | None:
        """End of the newest interval up to that moment; None without any."""
        found = bisect_right(self.ends, until)
        return self.ends[found - 1] if found else None


def tracks_of(pairs: Iterable[Pair]) -> list[Track]:
    """One track for each server of the pairs, which may come in any order."""
    servers: dict[str, list[Pair]] = {}
    for pair in pairs:
        servers.setdefault(pair[0].server, []).append(pair)
    return [Track.of(found) for found in servers.values()]


def merged(tracks: Sequence[Track], since: datetime, until: datetime) -> list[Pair]:
    """Pairs of all tracks whose interval ends in (since, until], by end."""
    if len(tracks) == 1:
        return list(tracks[0].between(since, until))
    # Runs that are sorted already are merged by the sort in little more than one pass.
    return sorted((pair for track in tracks for pair in track.between(since, until)), key=_end)


def _end(pair: Pair) -> datetime:
    return pair[1].end


