"""What is remembered of a server between two pages, and what one page makes of it. Values only.

Lives and heads are what the store keeps: a track resumed from them after our own death gives the same differences. The
rest (gauges, a page in doubt) lasts from one page to the next and is rebuilt from pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from monitor.intervals.evidence import Starts
from monitor.model.counts import Counts, Gauges
from monitor.model.interval import Interval
from monitor.model.life import Head, Life, LifeId, Said
from monitor.model.reading import EngineReading, Flag, State, Verdict
from monitor.model.server import ServerName

EngineKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Moment:
    """When a page was taken: wall time, and the monotonic clock of the machine with that boot id."""

    at: datetime
    monotonic: float
    boot_id: str

    def seconds_since(self, at: datetime, monotonic: float, boot_id: str) -> float:
        """Seconds from an earlier moment: by the monotonic clock where it is the same one, else by wall time."""
        if boot_id == self.boot_id and self.monotonic > monotonic:
            return self.monotonic - monotonic
        return (self.at - at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An engine on one page."""

    engine: EngineReading
    moment: Moment
    starts: Starts
    dialect: str
    flags: frozenset[Flag] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTrack:
    """One engine so far: its life and head, and what the newest page left open.

    `pending` is a page whose counters fell without start evidence: the next page decides between a restart and another
    worker answering. `former` is the head before a life that began by falling counters alone, `former_marks` the start
    marks of the lives before. `incomplete` is a page that lacked counters which this life has: the next one counts them
    over both. `doubts` counts the pages that must still follow each other before an inconsistent
    endpoint gives intervals again, and `doubted` are the start times of the last of them. `fastest` is the highest
    generation seen (tokens/s), None before the first interval.
    """

    life: Life
    head: Head
    gauges: Gauges | None = None
    pending: Seen | None = None
    incomplete: Seen | None = None
    former: Counts | None = None
    former_marks: frozenset[str] = frozenset()
    doubts: int = 0
    doubted: Starts | None = None
    fastest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMark:
    """The last page that was read at all, for engines that appear on a later one."""

    moment: Moment
    process_start: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One server so far. `first_try` is when we first asked, whether or not it answered."""

    server: ServerName
    engines: Mapping[EngineKey, EngineTrack] = field(default_factory=dict)
    last_page: PageMark | None = None
    first_try: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What besides the page is known: the scrape interval, our own restart, the setting by other sources.

    `restarted` is True for the first page after our own restart of the server. `said` is what command line, launch file
    and the like say of the setting, most trusted first. `wall_is_known` is False where pages come without wall times.
    """

    scrape_seconds: float | None = None
    restarted: bool = False
    said: tuple[Said, ...] = ()
    engine_version: str | None = None
    wall_is_known: bool = True


class EventKind(StrEnum):
    """What happened to a life."""

    BORN = "born"
    ENDED = "ended"
    LEARNED = "learned"
    NOTED = "noted"
    HELD = "held back"
    GLITCH = "glitch"
    INCONSISTENT = "inconsistent"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a life, in words."""

    kind: EventKind
    life: LifeId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one page made of a track: store `lives`, `heads` and `intervals` in one transaction.

    `lives` are new ones and ones that changed. `verdict`, `reason`, `state` and `flags` are those of the page, refined
    by what came before it.
    """

    track: Track
    verdict: Verdict
    reason: str
    state: State | None = None
    flags: frozenset[Flag] = frozenset()
    intervals: tuple[Interval, ...] = ()
    lives: tuple[Life, ...] = ()
    heads: tuple[Head, ...] = ()
    events: tuple[Event, ...] = ()


def resume(server: ServerName, lives: Iterable[Life], heads: Mapping[LifeId, Head]) -> Track:
    """The track of a server from what the store kept: its open lives and their heads."""
    engines: dict[EngineKey, EngineTrack] = {}
    for life in sorted(lives, key=lambda life: life.first_seen):
        head = heads.get(life.id)
        if head is not None and life.ended is None:
            engines[life.model, life.engine] = EngineTrack(life=life, head=head)
    return Track(server=server, engines=engines)
