"""The recent past of every server in memory: what is stored, kept at hand so that no evaluation reads it again.

It holds nothing that the store does not: it is filled from it at start, and every addition was stored first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId
from monitor.model.server import ServerName
from monitor.signals.window import Pair


class History:
    """Lives and intervals of the last `keep_seconds`, by server. Safe from any thread."""

    def __init__(self, keep_seconds: float) -> None:
        self.keep_seconds = keep_seconds
        self._lock = threading.Lock()
        self._lives: dict[LifeId, Life] = {}
        self._intervals: dict[ServerName, deque[Interval]] = {}

    def fill(self, lives: Iterable[Life], intervals: Iterable[Interval]) -> None:
        """Take over what the store has, by end."""
        with self._lock:
            self._lives = {life.id: life for life in lives}
            self._intervals = {}
            for interval in intervals:
                self._intervals.setdefault(interval.server, deque()).append(interval)

    def add(self, lives: Iterable[Life], intervals: Sequence[Interval], now: datetime) -> None:
        """Add lives (new or with more known of them) and the newest intervals, and drop what is too old."""
        oldest = now - timedelta(seconds=self.keep_seconds)
        with self._lock:
            self._lives.update({life.id: life for life in lives})
            for interval in intervals:
                kept = self._intervals.setdefault(interval.server, deque())
                kept.append(interval)
                while kept and kept[0].end < oldest:
                    kept.popleft()
            if len(self._lives) > 100 + 4 * len(self._intervals):
                self._drop_lives()

    def pairs(self, servers: Iterable[ServerName], since: datetime | None = None) -> list[Pair]:
        """Lives and intervals of `servers` that end after `since`; each interval with its life as known now."""
        with self._lock:
            return [
                (self._lives[interval.life], interval)
                for server in servers
                for interval in self._intervals.get(server, ())
                if since is None or interval.end > since
            ]

    def last_end(self, server: ServerName) -> datetime | None:
        """End of the newest interval of `server`; None without any."""
        with self._lock:
            kept = self._intervals.get(server)
            return kept[-1].end if kept else None

    def newest_lives(self, server: ServerName) -> tuple[Life, ...]:
        """Lives of `server` that have not ended and gave an interval, by engine."""
        with self._lock:
            seen = {i.life for i in self._intervals.get(server, ())}
            open_lives = [life for key in seen if (life := self._lives[key]).ended is None]
        return tuple(sorted(open_lives, key=lambda life: (life.model, life.engine, life.first_seen)))

    def _drop_lives(self) -> None:
        used = {interval.life for kept in self._intervals.values() for interval in kept}
        self._lives = {key: life for key, life in self._lives.items() if key in used or life.ended is None}
