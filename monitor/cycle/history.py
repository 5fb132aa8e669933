"""The past of every server in memory: what is stored, kept at hand so that no evaluation reads it again.

The older, the coarser: as scraped for as long as rules look back, then sums over five minutes, then over an hour, for a
day; hours at other settings than today's longer, since what a setting took is worth knowing after a month. It holds
nothing that the store does not: it is filled from it at start, and every addition was stored first.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from monitor.cycle.kept import Kept
from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId
from monitor.model.server import ServerName
from monitor.signals.track import Pair, Track
from monitor.signals.window import settled_since


class History:
    """Lives and intervals by server, as scraped over the last `scraped_seconds`. Safe from any thread."""

    def __init__(self, scraped_seconds: float) -> None:
        self.scraped_seconds = scraped_seconds
        self._lock = threading.Lock()
        self._lives: dict[LifeId, Life] = {}
        self._kept: dict[ServerName, Kept] = {}

    def fill(self, lives: Iterable[Life], scraped: Iterable[Interval], sums: Iterable[Interval] = ()) -> None:
        """Take over what the store has of some servers, in place of what was kept of them.

        `sums` over five minutes or an hour are older than all that is as scraped.
        """
        with self._lock:
            self._lives.update({life.id: life for life in lives})
            older, newer = self._by_server(sums), self._by_server(scraped)
            for server in older.keys() | newer.keys():
                kept = self._kept[server] = Kept()
                kept.fill(older.get(server, ()), newer.get(server, ()))

    def age(self, servers: Iterable[ServerName], now: datetime) -> None:
        """Sum up and drop what has become too old of these, so that their next interval finds nothing to be done."""
        scraped_since = now - timedelta(seconds=self.scraped_seconds)
        with self._lock:
            for server in servers:
                if server in self._kept:
                    self._kept[server].age(scraped_since, now)

    def add(self, lives: Iterable[Life], intervals: Sequence[Interval], now: datetime) -> None:
        """Add lives (new or with more known of them) and the newest intervals; sum up and drop what is too old."""
        scraped_since = now - timedelta(seconds=self.scraped_seconds)
        with self._lock:
            for life in lives:
                old = self._lives.get(life.id)
                self._lives[life.id] = life
                if old is not None and old != life and life.server in self._kept:
                    self._kept[life.server].learn(life)
            for interval in intervals:
                self._add(interval)
                self._kept[interval.server].age(scraped_since, now)
            if len(self._lives) > 100 + 4 * len(self._kept):
                self._drop_lives()

    def track(self, server: ServerName) -> Track:
        """The past of one server."""
        with self._lock:
            kept = self._kept.get(server)
            return kept.track() if kept is not None else Track((), (), (), ())

    def coarse_track(self, server: ServerName) -> Track:
        """The past of one server in sums, but for the minutes that are not over: a tenth of the work to weigh."""
        with self._lock:
            kept = self._kept.get(server)
            return kept.coarse_track() if kept is not None else Track((), (), (), ())

    def pairs(self, servers: Iterable[ServerName], since: datetime | None = None) -> list[Pair]:
        """Lives and intervals of `servers` that end after `since`; each interval with its life as known now."""
        tracks = [self.track(server) for server in servers]
        return [
            pair for track in tracks for pair in track.pairs[0 if since is None else bisect_right(track.ends, since) :]
        ]

    def last_end(self, server: ServerName) -> datetime | None:
        """End of the newest interval of `server`; None without any."""
        with self._lock:
            kept = self._kept.get(server)
            return kept.last_end if kept is not None else None

    def newest_lives(self, server: ServerName) -> tuple[Life, ...]:
        """Lives of `server` that have not ended and gave an interval, by engine."""
        open_lives = [life for life in self._of(server) if life.ended is None]
        return tuple(sorted(open_lives, key=lambda life: (life.model, life.engine, life.first_seen)))

    def settled_since(self, server: ServerName) -> datetime | None:
        """Since when `server` is at the setting it is at; None where no other is remembered."""
        return settled_since(self._of(server))

    def _of(self, server: ServerName) -> list[Life]:
        with self._lock:
            kept = self._kept.get(server)
            return [self._lives[key] for key in kept.lives] if kept is not None else []

    def _by_server(self, intervals: Iterable[Interval]) -> dict[ServerName, list[Pair]]:
        found: dict[ServerName, list[Pair]] = {}
        for interval in sorted(intervals, key=lambda one: one.end):
            found.setdefault(interval.server, []).append((self._lives[interval.life], interval))
        return found

    def _add(self, interval: Interval) -> None:
        self._kept.setdefault(interval.server, Kept()).add(self._lives[interval.life], interval)

    def _drop_lives(self) -> None:
        used = {key for kept in self._kept.values() for key in kept.lives}
        self._lives = {key: life for key, life in self._lives.items() if key in used or life.ended is None}
