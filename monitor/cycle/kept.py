"""What is remembered of one server: its newest intervals as scraped, and sums of all of a day. No clock, no lock.

Sums are made as soon as their five minutes are over, so that who weighs a day need not add up every page of it. All
intervals are folded, the newest too: as objects five minutes of them took more memory than the rest of the day.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from monitor.cycle.folding import (
    Digests,
    Moments,
    Pairs,
    fold,
    microseconds,
    moment,
    numbers_of,
    span_of_numbers,
)
from monitor.intervals.buckets import STEPS, by_bucket, complete_until
from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId, Setting
from monitor.signals.track import Pair, Track, digest_of

#: Age from which sums over five minutes become sums over an hour: what a row of the tuner rests on is younger.
FINE_SUMS = timedelta(hours=6)
#: How long everything is kept: the day whose load the tuner weighs.
DAY = timedelta(days=1)
#: How long hours at other settings are kept beyond that, and how many of each: what a row of the tuner rests on.
OTHERS, OTHER_HOURS = timedelta(days=30), 6

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Stretch:
    """Intervals by end with their lives, ends and digests, and how many of them each life has."""

    lives: list[Life] = field(default_factory=list)
    intervals: list[bytes] = field(default_factory=list)
    #: Microseconds since 1970.
    ends: array[int] = field(default_factory=lambda: array("q"))
    digests: array[float] = field(default_factory=lambda: array("d"))
    counts: Counter[LifeId] = field(default_factory=Counter)

    @property
    def pairs(self) -> Pairs:
        """Unfolded when they are asked for."""
        return Pairs(self.lives, self.intervals)

    def put(self, span: slice, pairs: Sequence[Pair]) -> None:
        """Put pairs in place of those of the span."""
        for life in self.lives[span]:
            self.counts[life.id] -= 1
            if not self.counts[life.id]:
                del self.counts[life.id]
        self.counts.update(life.id for life, _ in pairs)
        self.lives[span] = [life for life, _ in pairs]
        self.intervals[span] = [fold(interval) for _, interval in pairs]
        self.ends[span] = array("q", [microseconds(interval.end) for _, interval in pairs])
        self.digests[span_of_numbers(span)] = numbers_of(digest_of(interval, life.setting) for life, interval in pairs)

    def after(self, at: datetime) -> int:
        """Place of the first that ends after the moment."""
        return bisect_right(self.ends, microseconds(at))

    def between(self, since: datetime, until: datetime) -> slice:
        return slice(self.after(since), self.after(until))

    def learn(self, life: Life) -> None:
        for place, known in enumerate(self.lives):
            if known.id == life.id:
                self.lives[place] = life
                if known.setting != life.setting:
                    digest = digest_of(self.pairs[place][1], life.setting)
                    self.digests[span_of_numbers(slice(place, place + 1))] = numbers_of([digest])

    def sums(self, span: slice, step: int) -> list[Pair]:
        """The pairs of the span added up over buckets, by end."""
        lives = {life.id: life for life in self.lives[span]}
        found = by_bucket([interval for _, interval in self.pairs[span]], step).values()
        return sorted(((lives[one.life], one) for one in found), key=lambda pair: pair[1].end)


@dataclass(slots=True)
class Kept:
    """Intervals of one server, each with its life as known now."""

    _scraped: _Stretch = field(default_factory=_Stretch)
    _sums: _Stretch = field(default_factory=_Stretch)
    #: Up to where there are sums over five minutes, over an hour, and since when nothing is kept as scraped.
    _summed: dict[int, datetime] = field(default_factory=lambda: dict.fromkeys(STEPS, _NEVER))
    _scraped_since: datetime = _NEVER
    #: The last full hour at which old ones were dropped.
    _dropped: datetime = _NEVER

    @property
    def lives(self) -> set[LifeId]:
        """Lives that have an interval here."""
        return self._scraped.counts.keys() | self._sums.counts.keys()

    @property
    def last_end(self) -> datetime | None:
        """End of the newest interval; None without any."""
        ends = self._scraped.ends or self._sums.ends
        return moment(ends[-1]) if ends else None

    def fill(self, sums: Sequence[Pair], scraped: Sequence[Pair]) -> None:
        """Take over, while empty, older intervals that are sums already and newer ones as scraped, each by end."""
        self._sums.put(slice(0, 0), sums)
        self._scraped.put(slice(0, 0), scraped)
        if sums:
            self._summed[STEPS[0]] = self._scraped_since = sums[-1][1].end

    def add(self, life: Life, interval: Interval) -> None:
        """Add one interval."""
        at = self._scraped.after(interval.end)
        self._scraped.put(slice(at, at), [(life, interval)])

    def learn(self, life: Life) -> None:
        """More is known of a life than when its intervals came."""
        for stretch in (self._scraped, self._sums):
            stretch.learn(life)

    def age(self, scraped_since: datetime, now: datetime) -> None:
        """Sum up what is over, and drop what is too old."""
        fine, coarse = STEPS[:2]
        self._sum_up(complete_until(now, fine))
        self._make_coarse(complete_until(now - FINE_SUMS, coarse))
        since = min(complete_until(scraped_since, fine), self._summed[fine])
        if since > self._scraped_since:
            self._scraped_since = since
            self._scraped.put(slice(0, self._scraped.after(since)), [])
        hour = complete_until(now, coarse)
        if hour > self._dropped:
            self._dropped = hour
            self._drop(now)

    def track(self) -> Track:
        """As fine as it is kept."""
        return self._joined(self._scraped_since)

    def coarse_track(self) -> Track:
        """In sums but for the minutes that are not over."""
        return self._joined(self._summed[STEPS[0]])

    def _joined(self, at: datetime) -> Track:
        """Sums up to a moment, and what was scraped after it."""
        old, new = self._sums, self._scraped
        sums, rest = slice(0, old.after(at)), slice(new.after(at), None)
        lives, ends = old.lives[sums] + new.lives[rest], old.ends[sums] + new.ends[rest]
        digests = old.digests[span_of_numbers(sums)] + new.digests[span_of_numbers(rest)]
        return Track(
            Pairs(lives, old.intervals[sums] + new.intervals[rest]), lives, Moments(ends), Digests(digests)
        )

    def _sum_up(self, until: datetime) -> None:
        fine = STEPS[0]
        if until > self._summed[fine]:
            made = self._scraped.sums(self._scraped.between(self._summed[fine], until), fine)
            self._summed[fine] = until
            end = len(self._sums.lives)
            self._sums.put(slice(end, end), made)

    def _make_coarse(self, until: datetime) -> None:
        coarse = STEPS[1]
        if until > self._summed[coarse]:
            span = self._sums.between(self._summed[coarse], until)
            self._summed[coarse] = until
            self._sums.put(span, self._sums.sums(span, coarse))

    def _drop(self, now: datetime) -> None:
        """Drop what is older than a day, but for the newest hours at other settings than the newest."""
        old = bisect_left(self._sums.ends, microseconds(now - DAY))
        newest = (self._scraped.lives or self._sums.lives)[-1].setting
        counts: Counter[Setting] = Counter(_others(self._sums.lives[old:], newest))
        keep: list[Pair] = []
        for life, interval in reversed(self._sums.pairs[:old]):
            counts[life.setting] += 1
            is_other = life.setting != newest and life.ended is not None
            if is_other and interval.end >= now - OTHERS and counts[life.setting] <= OTHER_HOURS:
                keep.append((life, interval))
        self._sums.put(slice(0, old), keep[::-1])


def _others(lives: Iterable[Life], newest: Setting) -> Iterable[Setting]:
    return (life.setting for life in lives if life.setting != newest)
