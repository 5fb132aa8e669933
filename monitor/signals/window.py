"""Which intervals of a window count for what: streams, the newest setting. It adds nothing up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from monitor.model.interval import Interval
from monitor.model.life import Life, Setting
from monitor.signals.track import Pair, Track, merged

#: A stream is one engine of one server through its lives: intervals of a stream follow each other in time.
StreamKey = tuple[str, str, str]

#: A stream whose newest interval is this many times older than its own length, compared with the newest of its server,
#: belongs to an engine that is gone (a restart with fewer data-parallel ranks).
GONE_AFTER_INTERVALS = 3.0
#: Seconds that a stream may at least lag behind its server's newest interval.
GONE_AFTER_SECONDS = 60.0


def stream_of(life: Life) -> StreamKey:
    """The stream that the intervals of `life` belong to."""
    return (life.server, life.model, life.engine)


class Window:
    """Intervals ending in (at - seconds, at], by end; later ones are ignored, so that the past can be replayed.
    """

    def __init__(self, tracks: Sequence[Track], at: datetime, seconds: float) -> None:
        """`tracks`: one for each server; what they hold of earlier times serves falls and `stuck_seconds`."""
        self.tracks = tracks
        self.at = at
        self.seconds = seconds
        #: Pairs of the window, whatever their setting.
        self.recent: Sequence[Pair] = merged(tracks, at - timedelta(seconds=seconds), at)
        #: Newest life of every stream that still gives intervals, in the order of their streams.
        self.newest_lives = newest_lives(self.recent)
        settings = {life.setting for life in self.newest_lives}
        #: Whether the newest lives are at several settings.
        self.is_mixed = len(settings) > 1
        #: The setting of the newest lives; None when they differ or there are none.
        self.setting: Setting | None = None if len(settings) != 1 else settings.pop()

    @cached_property
    def _is_one_life(self) -> bool:
        """Whether all recent pairs are of one life, as in nearly every window of one server."""
        return bool(self.recent) and _are_of_one_life(self.recent)

    @cached_property
    def of_setting(self) -> Sequence[Pair]:
        """Recent pairs at the setting, whichever life they belong to."""
        if self.setting is None:
            return ()
        if self._is_one_life:
            return self.recent
        lives = {life.id: life for life, _ in self.recent}
        at = {life.id for life in lives.values() if life.setting == self.setting}
        return [pair for pair in self.recent if pair[0].id in at]

    @cached_property
    def intervals(self) -> Sequence[Interval]:
        """Recent intervals at the setting."""
        return [interval for _, interval in self.of_setting]

    @cached_property
    def recent_streams(self) -> list[list[Interval]]:
        """Intervals of the window per stream that is still alive, by end."""
        return self.streams(self.recent)

    def streams(self, pairs: Iterable[Pair]) -> list[list[Interval]]:
        """Intervals per stream that is still alive, by end."""
        if pairs is self.recent and self._is_one_life:
            return [[interval for _, interval in self.recent]]
        alive = {stream_of(life) for life in self.newest_lives}
        found: dict[StreamKey, list[Interval]] = {}
        for life, interval in pairs:
            key = stream_of(life)
            if key in alive:
                found.setdefault(key, []).append(interval)
        return list(found.values())


def _are_of_one_life(pairs: Sequence[Pair]) -> bool:
    newest = pairs[-1][0]
    return all(life is newest for life, _ in pairs)


def newest_lives(pairs: Sequence[Pair]) -> tuple[Life, ...]:
    """Newest life of every stream among pairs (by end) that still gives intervals, in the order of their streams."""
    if pairs and _are_of_one_life(pairs):
        return (pairs[-1][0],)
    last: dict[str, Pair] = {}
    for pair in pairs:
        last[pair[0].id] = pair
    streams: dict[StreamKey, Pair] = {}
    server_last: dict[str, datetime] = {}
    for pair in sorted(last.values(), key=lambda pair: pair[1].end):
        streams[stream_of(pair[0])] = pair
        server_last[pair[0].server] = pair[1].end
    alive = []
    for key in sorted(streams):
        life, interval = streams[key]
        lag = (server_last[life.server] - interval.end).total_seconds()
        if lag <= max(GONE_AFTER_SECONDS, GONE_AFTER_INTERVALS * interval.elapsed_seconds):
            alive.append(life)
    return tuple(alive)


def settled_since(lives: Iterable[Life]) -> datetime | None:
    """Since when a server is at the setting of its newest life; None where its lives know no other one."""
    began: datetime | None = None
    newest: Life | None = None
    for life in sorted(lives, key=lambda life: life.first_seen, reverse=True):
        if newest is None:
            newest = life
        elif life.setting != newest.setting:
            return began
        began = life.first_seen
    return None
