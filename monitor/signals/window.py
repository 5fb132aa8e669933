"""Which intervals of a window count for what: streams, the newest setting, what may give a rate. It adds nothing up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.model.interval import Interval
from monitor.model.life import Life, Setting
from monitor.model.reading import Flag

#: An interval and the life it belongs to.
Pair = tuple[Life, Interval]
#: A stream is one engine of one server through its lives: intervals of a stream follow each other in time.
StreamKey = tuple[str, str, str]

#: Intervals with one of these flags are left out of acceptance: their counts contradict each other.
UNRELIABLE: frozenset[Flag] = frozenset(
    {Flag.IDENTITIES_BROKEN, Flag.V0_COUNTERS_UNRELIABLE, Flag.ACCEPTANCE_OUT_OF_RANGE}
)
#: A stream whose newest interval is this many times older than its own length, compared with the newest of its server,
#: belongs to an engine that is gone (a restart with fewer data-parallel ranks).
GONE_AFTER_INTERVALS = 3.0
#: Seconds that a stream may at least lag behind its server's newest interval.
GONE_AFTER_SECONDS = 60.0


def stream_of(life: Life) -> StreamKey:
    """The stream that the intervals of `life` belong to."""
    return (life.server, life.model, life.engine)


@dataclass(frozen=True, slots=True)
class Window:
    """Intervals ending in (at - seconds, at], by end. `history` also holds what the caller gave of earlier times.

    `setting` is that of the newest lives; None when they differ (`is_mixed`) or there are none. `of_setting` are the
    recent pairs at that setting, whichever life they belong to.
    """

    at: datetime
    seconds: float
    history: tuple[Pair, ...]
    recent: tuple[Pair, ...]
    of_setting: tuple[Pair, ...]
    newest_lives: tuple[Life, ...]
    setting: Setting | None
    is_mixed: bool

    def streams(self, pairs: Iterable[Pair] | None = None) -> list[list[Interval]]:
        """Intervals per stream that is still alive, by end; from the recent ones unless told otherwise."""
        alive = {stream_of(life) for life in self.newest_lives}
        found: dict[StreamKey, list[Interval]] = {}
        for life, interval in self.recent if pairs is None else pairs:
            key = stream_of(life)
            if key in alive:
                found.setdefault(key, []).append(interval)
        return list(found.values())

    def history_at_setting(self) -> tuple[Pair, ...]:
        """All pairs, also older than the window, at its setting; empty where that is unknown."""
        if self.setting is None:
            return ()
        return tuple(pair for pair in self.history if pair[0].setting == self.setting)


def cut(pairs: Iterable[Pair], at: datetime, seconds: float) -> Window:
    """The window of `seconds` that ends at `at`; pairs that end later are ignored (replay of the past)."""
    history = tuple(sorted((pair for pair in pairs if pair[1].end <= at), key=lambda pair: pair[1].end))
    since = at - timedelta(seconds=seconds)
    recent = tuple(pair for pair in history if pair[1].end > since)
    newest = _newest_lives(recent)
    settings = {life.setting for life in newest}
    setting = next(iter(settings)) if len(settings) == 1 else None
    return Window(
        at=at,
        seconds=seconds,
        history=history,
        recent=recent,
        of_setting=tuple(pair for pair in recent if pair[0].setting == setting) if setting is not None else (),
        newest_lives=newest,
        setting=setting,
        is_mixed=len(settings) > 1,
    )


def _newest_lives(pairs: Sequence[Pair]) -> tuple[Life, ...]:
    """Newest life of every stream that still gives intervals, in the order of their streams."""
    last: dict[StreamKey, Pair] = {}
    server_last: dict[str, datetime] = {}
    for pair in pairs:
        last[stream_of(pair[0])] = pair
        server_last[pair[0].server] = pair[1].end
    alive = []
    for key in sorted(last):
        life, interval = last[key]
        lag = (server_last[life.server] - interval.end).total_seconds()
        if lag <= max(GONE_AFTER_SECONDS, GONE_AFTER_INTERVALS * interval.elapsed_seconds):
            alive.append(life)
    return tuple(alive)


def is_rateable(interval: Interval) -> bool:
    """Whether a rate may be drawn from the interval: no gap, and wholly of one life."""
    return not interval.is_gap and not interval.partial


def is_reliable(interval: Interval) -> bool:
    """Whether its speculation counts may be believed."""
    return not (interval.flags & UNRELIABLE)
