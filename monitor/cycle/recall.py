"""Filling the memory from the store, so that a daemon goes on where the last one stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from monitor.cycle.history import History
from monitor.cycle.kept import DAY, FINE_SUMS, OTHER_HOURS, OTHERS
from monitor.intervals.buckets import STEPS
from monitor.intervals.track import Track, resume
from monitor.model.interval import Interval
from monitor.model.life import Life
from monitor.model.server import ServerName
from monitor.store.api import Store, Unit

#: Intervals kept as scraped over all servers: adding them up at each evaluation costs more than the 0.4 kB of each.
_SCRAPED = 40_000
#: Longest window that is kept as scraped however many servers there are, and what is kept beyond it (seconds). Of
#: longer windows of a large fleet the older part is sums over five minutes, the first of which may be cut.
_LONGEST, _BEYOND = 300.0, 300.0


def scraped_seconds(servers: int, interval_seconds: float, window_seconds: float) -> float:
    """How long intervals are kept as scraped for so many servers, where rules look back at most `window_seconds`."""
    least = min(window_seconds, _LONGEST) + _BEYOND
    return min(DAY.total_seconds(), max(least, _SCRAPED / max(1, servers) * interval_seconds))


@dataclass(frozen=True, slots=True)
class Recalled:
    """Lives and intervals of servers as a `History` takes them over: newest as scraped, older ones in sums."""

    lives: list[Life] = field(default_factory=list)
    scraped: list[Interval] = field(default_factory=list)
    sums: list[Interval] = field(default_factory=list)


def recall(unit: Unit, server: ServerName, now: datetime, scraped_seconds: float) -> Recalled:
    """What a `History` keeps of a server."""
    own = unit.lives.of(server, now - OTHERS, now)
    lives = {life.id: life for life in [*own, *unit.lives.open_of(server)]}
    sums, scraped = _of_day(unit, server, now, scraped_seconds)
    sums += _of_other_settings(unit, own, now)
    missing = {interval.life for interval in [*sums, *scraped]} - lives.keys()
    lives.update({key: life for key in missing if (life := unit.lives.get(key)) is not None})

    def known(intervals: list[Interval]) -> list[Interval]:
        return [interval for interval in intervals if interval.life in lives]

    return Recalled(list(lives.values()), known(scraped), known(sums))


def _of_day(
    unit: Unit, server: ServerName, now: datetime, scraped_seconds: float
) -> tuple[list[Interval], list[Interval]]:
    """A day of one server: sums over an hour, then over five minutes; and as scraped, from where those end."""
    scraped = max(now - timedelta(seconds=scraped_seconds), now - DAY)
    fine, coarse = STEPS[:2]
    begin, found = now - DAY, list[Interval]()
    for step, until in ((coarse, min(scraped, now - FINE_SUMS)), (fine, scraped)):
        if until > begin:
            sums = unit.intervals.between_coarse([server], begin, until, step)
            found += sums
            begin = max((one.end for one in sums), default=begin)
    return found, unit.intervals.between([server], begin, now)


def _of_other_settings(unit: Unit, lives: Sequence[Life], now: datetime) -> list[Interval]:
    """The last hours at each setting that is not the newest one."""
    if not lives:
        return []
    newest = max(lives, key=lambda life: life.first_seen).setting
    left = {life.setting: OTHER_HOURS for life in lives if life.setting != newest}
    found: list[Interval] = []
    for life in sorted(lives, key=lambda life: life.first_seen, reverse=True):
        until = min(life.ended or now, now - DAY)
        if not left.get(life.setting) or life.ended is None or until <= life.first_seen:
            continue
        since = max(until - timedelta(seconds=(OTHER_HOURS + 1) * STEPS[1]), now - OTHERS)
        hours = [one for one in unit.intervals.between_coarse([life.server], since, until, STEPS[1])
                 if one.life == life.id][-left[life.setting]:]
        left[life.setting] -= len(hours)
        found += hours
    return found


def remember(
    store: Store, history: History, names: Sequence[ServerName], now: datetime
) -> tuple[dict[ServerName, Track], dict[ServerName, datetime]]:
    """Fill the memory from the store, so that a daemon goes on where the last one stopped. Raises StoreError.

    What is known of each server's open lives, and when its page was last read.
    """
    with store.read() as unit:
        for name in names:
            # One by one: as objects the past of a fleet takes eight times what it takes folded.
            found = recall(unit, name, now, history.scraped_seconds)
            history.fill(found.lives, found.scraped, found.sums)
            history.age([name], now)
        tracks = {name: resume(name, unit.lives.open_of(name), unit.heads.of_server(name)) for name in names}
        last = {name: reading for name in names if (reading := unit.readings.get(name)) is not None}
    last_ok = {name: reading.last_ok for name, reading in last.items() if reading.last_ok is not None}
    for name, track in tracks.items():
        # Taken over from another daemon, a head is newer than what we read: a feed goes on from there, not before.
        newest = max((engine.head.at for engine in track.engines.values()), default=None)
        if newest is not None:
            last_ok[name] = max(last_ok.get(name, newest), newest)
    return tracks, last_ok
