"""`acceptd read`: pages in, one plain dictionary out. The contract of its keys is documented in `docs/cli.md`.

It reads no files and no URLs, and prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from monitor.dialects import NO_DIALECT, Dialects, sglang
from monitor.intervals.contract import Json, models_json
from monitor.intervals.server import advance, settle
from monitor.intervals.track import Context, Step, Track
from monitor.model.counts import V0Sums
from monitor.model.interval import Interval
from monitor.model.life import LifeId
from monitor.model.reading import Flag, Reading, State, Verdict
from monitor.model.server import ServerName

_SERVER = ServerName("page")
#: One boot id for all pages given: their monotonic times are made from the elapsed seconds told.
_BOOT = "pages"
#: Wall time of the first page where none is told.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
#: Times beyond these (a generation between pages; the year 5138) are mistakes.
_LONGEST_SECONDS, _LATEST_UNIX = 1e9, 1e11
#: Seconds between pages where nothing is told: only orders them, no rate is drawn from it.
_UNTOLD_SECONDS = 15.0
#: Verdicts on a run of pages that a later page does not take back.
_LASTING = (Verdict.INCONSISTENT_ENDPOINT, Verdict.RESET_DETECTED, Verdict.COUNTER_GLITCH)


#: What makes one page doubtful makes the differences from it doubtful, too.
_OF_ALL_PAGES = frozenset(
    {Flag.IDENTITIES_BROKEN, Flag.ACCEPTANCE_OUT_OF_RANGE, Flag.DUPLICATE_SERIES, Flag.BAD_SAMPLE}
)


@dataclass(frozen=True, slots=True)
class PageInput:
    """One answer of a server: its body, content type, HTTP status, and what its headers say of its start."""

    body: bytes
    content_type: str | None = None
    status: int = 200
    start_mark: str | None = None


def read_pages(
    pages: Sequence[PageInput],
    *,
    elapsed: Sequence[float] = (),
    scraped_at: Sequence[float] = (),
    version: str | None = None,
) -> Json:
    """What consecutive pages of one server say, as the JSON of `acceptd read`; unknown is None.

    `elapsed` are the seconds between pages (one value serves for all gaps), `scraped_at` their unix times; without
    either there are differences but no rates. `lifetime` is the last page's totals, `interval` what happened between
    the first and the last page.

    Raises:
        ValueError: no pages, or times that do not fit the number of pages.
    """
    if not pages:
        raise ValueError("no pages: expected at least one")
    seconds = _seconds_between(len(pages), elapsed, scraped_at)
    times = _wall_times(len(pages), seconds, scraped_at)
    readings = _read(pages, seconds, times, version)
    run = _follow(readings, wall_is_known=bool(scraped_at))
    last = _without_moved_drafts(readings)
    return {
        "verdict": run.verdict.value,
        "reason": run.reason,
        "dialect": last.dialect,
        "state": run.state.value if run.state is not None else None,
        "flags": sorted(flag.value for flag in run.flags),
        "models": models_json(last, run.intervals if len(readings) > 1 else None, has_times=seconds is not None),
    }


def without_page(reason: str) -> Json:
    """The JSON of `acceptd read` where no page could be had."""
    return {
        "verdict": Verdict.SCRAPE_ERROR.value, "reason": reason, "dialect": NO_DIALECT, "state": None, "flags": [],
        "models": [],
    }  # fmt: skip


def _seconds_between(count: int, elapsed: Sequence[float], scraped_at: Sequence[float]) -> list[float] | None:
    gaps = count - 1
    if scraped_at and len(scraped_at) != count:
        raise ValueError(f"{len(scraped_at)} scrape times for {count} pages: expected one a page")
    for time in scraped_at:
        if not 0 <= time <= _LATEST_UNIX:
            raise ValueError(f"scrape time {time}: expected unix seconds")
    if elapsed:
        if len(elapsed) not in (1, gaps):
            raise ValueError(f"{len(elapsed)} elapsed times for {count} pages: expected 1 or {gaps}")
        seconds = list(elapsed) if len(elapsed) == gaps else [elapsed[0]] * gaps
    elif scraped_at:
        seconds = [later - earlier for earlier, later in pairwise(scraped_at)]
    else:
        return None
    for gap in seconds:
        if not 0 < gap <= _LONGEST_SECONDS:
            raise ValueError(f"{gap} seconds between two pages: expected above 0 and at most {_LONGEST_SECONDS:.0e}")
    return seconds


def _wall_times(count: int, seconds: Sequence[float] | None, scraped_at: Sequence[float]) -> list[datetime]:
    """Wall times that rise; told ones may stand still or go back, which only start times would notice."""
    first = datetime.fromtimestamp(scraped_at[0], UTC) if scraped_at else _EPOCH
    times = [first]
    for gap in seconds or [_UNTOLD_SECONDS] * (count - 1):
        times.append(times[-1] + timedelta(seconds=gap))
    return times


def _read(
    pages: Sequence[PageInput], seconds: Sequence[float] | None, times: Sequence[datetime], version: str | None
) -> list[Reading]:
    gaps = seconds or [_UNTOLD_SECONDS] * (len(pages) - 1)
    monotonic = [sum(gaps[:index]) for index in range(len(pages))]
    reader = Dialects().reader(_SERVER)

    def once() -> list[Reading]:
        return [
            reader.read(
                page.body,
                scraped_at=at,
                monotonic=seconds_since_first,
                status=page.status,
                content_type=page.content_type,
                version=version,
                start_mark=page.start_mark,
            )
            for page, at, seconds_since_first in zip(pages, times, monotonic, strict=True)
        ]

    readings = once()
    if (known := _v0_known(readings)) is not None:
        # V0 pages tell num_speculative_tokens only together: with it the earlier ones make sense, too.
        reader.follow(known)
        readings = once()
    return readings


def _v0_known(readings: Sequence[Reading]) -> Reading | None:
    """What a run of V0 pages told in the end, as if it had been known from the start; None unless one process ran."""
    last = readings[-1]
    if len(readings) < 2 or all(engine.v0 is None or not engine.num_speculative_tokens for engine in last.engines):
        return None
    rows = [reading for reading in readings if reading.engines]
    drafted = [sum((engine.v0.draft_tokens or 0) for engine in row.engines if engine.v0) for row in rows]
    if len({row.process_start for row in rows}) > 1 or drafted != sorted(drafted):
        return None
    return replace(last, engines=tuple(replace(engine, v0=V0Sums()) for engine in last.engines))


def _without_moved_drafts(readings: Sequence[Reading]) -> Reading:
    """The last reading without drafted tokens that SGLang's steps x k gave: its k moved while we looked."""
    last = readings[-1]
    shown: dict[tuple[str, str], set[int | None]] = {}
    for engine in (engine for reading in readings for engine in reading.engines):
        shown.setdefault((engine.model, engine.engine), set()).add(engine.num_speculative_tokens)
    if last.dialect != sglang.DIALECT or all(len(known) == 1 for known in shown.values()):
        return last
    engines = tuple(
        replace(engine, counts=replace(counts, speculation=replace(counts.speculation, num_draft_tokens=None)))
        if (counts := engine.counts).speculation is not None and len(shown[engine.model, engine.engine]) > 1
        else engine
        for engine in last.engines
    )
    return replace(last, engines=engines)


@dataclass(frozen=True, slots=True)
class _Run:
    """What a run of pages came to."""

    verdict: Verdict
    reason: str
    state: State | None
    flags: frozenset[Flag]
    intervals: Mapping[tuple[str, str], list[Interval]]


def _follow(readings: Sequence[Reading], *, wall_is_known: bool) -> _Run:
    context = Context(wall_is_known=wall_is_known)
    track, steps = Track(server=_SERVER), []
    for reading in readings:
        step = advance(track, reading, boot_id=_BOOT, context=context)
        track = step.track
        steps.append(step)
    settled, late = settle(track, context)
    verdict, reason = _overall(steps)
    found = [interval for step in steps for interval in step.intervals] + list(late)
    if verdict is Verdict.INCONSISTENT_ENDPOINT:
        found = []
    names = _names_of_lives([*(step.track for step in steps), settled])
    intervals: dict[tuple[str, str], list[Interval]] = {}
    for interval in found:
        intervals.setdefault(names[interval.life], []).append(interval)
    flags = steps[-1].flags.union(*(interval.flags for interval in found))
    if found:
        flags = flags.union(*(step.flags & _OF_ALL_PAGES for step in steps))
    if _mixes_settings(intervals):
        flags |= {Flag.PER_POSITION_CONFOUNDED}
    return _Run(verdict, reason, steps[-1].state, flags, intervals)


def _mixes_settings(intervals: Mapping[tuple[str, str], Sequence[Interval]]) -> bool:
    """Whether what is added up for one model was drafted at different numbers of tokens: across a restart, say."""
    positions: dict[str, dict[LifeId, int]] = {}
    for (model, _), found in intervals.items():
        lives = positions.setdefault(model, {})
        for interval in found:
            counts = interval.speculation
            if counts is not None and counts.accepted_per_pos and counts.num_drafts:
                # Within a life positions only appear, where the page leaves out those that are still 0.
                lives[interval.life] = max(lives.get(interval.life, 0), len(counts.accepted_per_pos))
    return any(len(set(lives.values())) > 1 for lives in positions.values())


def _overall(steps: Sequence[Step]) -> tuple[Verdict, str]:
    """The verdict on all pages: what lasts from any of them, else that of the last."""
    last = steps[-1]
    if not last.track.engines or last.verdict in (Verdict.SCRAPE_ERROR, Verdict.STARTING):
        return last.verdict, last.reason
    for verdict in _LASTING:
        for step in reversed(steps):
            if step.verdict is verdict:
                return step.verdict, step.reason
    if last.verdict is Verdict.NO_DRAFTS_YET and any(step.verdict is Verdict.OK for step in steps):
        return Verdict.OK, "speculation was at work before; its gauges stand at 0 now"
    return last.verdict, last.reason


def _names_of_lives(tracks: Sequence[Track]) -> dict[LifeId, tuple[str, str]]:
    return {engine.life.id: key for track in tracks for key, engine in track.engines.items()}
