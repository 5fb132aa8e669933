"""The recent past of every server in memory: what is stored, kept at hand so that no evaluation reads it again.

It holds nothing that the store does not: it is filled from it at start, and every addition was stored first.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId
from monitor.model.server import ServerName
from monitor.signals.track import Drafted, Pair, Track, drafted_of
from monitor.signals.window import settled_since


@dataclass(slots=True)
class _Kept:
    """One server's intervals by end, each with its life as known now, and what it drafted; and its lives."""

    pairs: list[Pair] = field(default_factory=list)
    ends: list[datetime] = field(default_factory=list)
    drafted: list[Drafted | None] = field(default_factory=list)
    #: How many intervals each life has here.
    lives: Counter[LifeId] = field(default_factory=Counter)

    def add(self, life: Life, interval: Interval) -> None:
        at = len(self.ends)
        while at and self.ends[at - 1] > interval.end:
            at -= 1
        self.pairs.insert(at, (life, interval))
        self.ends.insert(at, interval.end)
        self.drafted.insert(at, drafted_of(interval, life.setting))
        self.lives[life.id] += 1

    def drop_before(self, oldest: datetime) -> None:
        count = bisect_left(self.ends, oldest)
        for life, _ in self.pairs[:count]:
            self.lives[life.id] -= 1
            if not self.lives[life.id]:
                del self.lives[life.id]
        del self.pairs[:count], self.ends[:count], self.drafted[:count]

    def learn(self, life: Life) -> None:
        """More is known of a life than when its intervals came."""
        for at, (known, interval) in enumerate(self.pairs):
            if known.id == life.id:
                self.pairs[at] = (life, interval)
                self.drafted[at] = drafted_of(interval, life.setting)


class History:
    """Lives and intervals of the last `keep_seconds`, by server. Safe from any thread."""

    def __init__(self, keep_seconds: float) -> None:
        self.keep_seconds = keep_seconds
        self._lock = threading.Lock()
        self._lives: dict[LifeId, Life] = {}
        self._kept: dict[ServerName, _Kept] = {}

    def fill(self, lives: Iterable[Life], intervals: Iterable[Interval]) -> None:
        """Take over what the store has."""
        with self._lock:
            self._lives = {life.id: life for life in lives}
            self._kept = {}
            for interval in intervals:
                self._add(interval)

    def add(self, lives: Iterable[Life], intervals: Sequence[Interval], now: datetime) -> None:
        """Add lives (new or with more known of them) and the newest intervals, and drop what is too old."""
        oldest = now - timedelta(seconds=self.keep_seconds)
        with self._lock:
            for life in lives:
                old = self._lives.get(life.id)
                self._lives[life.id] = life
                if old is not None and old != life and life.server in self._kept:
                    self._kept[life.server].learn(life)
            for interval in intervals:
                self._add(interval)
                self._kept[interval.server].drop_before(oldest)
            if len(self._lives) > 100 + 4 * len(self._kept):
                self._drop_lives()

    def track(self, server: ServerName) -> Track:
        """The past of one server."""
        with self._lock:
            kept = self._kept.get(server)
            return Track(kept.pairs[:], kept.ends[:], kept.drafted[:]) if kept is not None else Track((), (), ())

    def pairs(self, servers: Iterable[ServerName], since: datetime | None = None) -> list[Pair]:
        """Lives and intervals of `servers` that end after `since`; each interval with its life as known now."""
        tracks = [self.track(server) for server in servers]
        return [pair for track in tracks for pair in track.pairs if since is None or pair[1].end > since]

    def last_end(self, server: ServerName) -> datetime | None:
        """End of the newest interval of `server`; None without any."""
        with self._lock:
            kept = self._kept.get(server)
            return kept.ends[-1] if kept is not None and kept.ends else None

    def newest_lives(self, server: ServerName) -> tuple[Life, ...]:
        """Lives of `server` that have not ended and gave an interval, by engine."""
        with self._lock:
            kept = self._kept.get(server)
            lives = [self._lives[key] for key in kept.lives] if kept is not None else []
        open_lives = [life for life in lives if life.ended is None]
        return tuple(sorted(open_lives, key=lambda life: (life.model, life.engine, life.first_seen)))

    def settled_since(self, server: ServerName) -> datetime | None:
        """Since when `server` is at the setting it is at; None where no other is remembered."""
        with self._lock:
            kept = self._kept.get(server)
            lives = [self._lives[key] for key in kept.lives] if kept is not None else []
        return settled_since(lives)

    def _add(self, interval: Interval) -> None:
        kept = self._kept.setdefault(interval.server, _Kept())
        kept.add(self._lives[interval.life], interval)

    def _drop_lives(self) -> None:
        used = {key for kept in self._kept.values() for key in kept.lives}
        self._lives = {key: life for key, life in self._lives.items() if key in used or life.ended is None}
