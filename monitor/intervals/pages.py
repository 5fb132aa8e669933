"""`acceptd read`: pages in, one plain dictionary out. The contract of its keys is documented in `docs/cli.md`.

It reads no files and no URLs, and prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from monitor.dialects import Dialects
from monitor.dialects.vllm_v0 import length_of
from monitor.intervals.adding import add_counts, counts_of, over_time
from monitor.intervals.server import advance, settle
from monitor.intervals.track import Context, Step, Track
from monitor.model.counts import Counts, SpeculationCounts
from monitor.model.interval import Interval
from monitor.model.life import LifeId
from monitor.model.reading import EngineReading, Flag, Reading, State, Verdict
from monitor.model.server import ServerName

_SERVER = ServerName("page")
#: One boot id for all pages given: their monotonic times are made from the elapsed seconds told.
_BOOT = "pages"
#: Wall time of the first page where none is told.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
#: Seconds between pages where nothing is told: only orders them, no rate is drawn from it.
_UNTOLD_SECONDS = 15.0
#: Verdicts on a run of pages that a later page does not take back.
_LASTING = (Verdict.INCONSISTENT_ENDPOINT, Verdict.RESET_DETECTED, Verdict.COUNTER_GLITCH)

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class PageInput:
    """One answer of a server: its body, content type and HTTP status."""

    body: bytes
    content_type: str | None = None
    status: int = 200


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
    last = readings[-1]
    return {
        "verdict": run.verdict.value,
        "reason": run.reason,
        "dialect": last.dialect,
        "state": run.state.value if run.state is not None else None,
        "flags": sorted(flag.value for flag in run.flags),
        "models": [_model(name, last, run, seconds is not None) for name in _models(last)],
    }


def _seconds_between(count: int, elapsed: Sequence[float], scraped_at: Sequence[float]) -> list[float] | None:
    gaps = count - 1
    if scraped_at and len(scraped_at) != count:
        raise ValueError(f"{len(scraped_at)} scrape times for {count} pages: expected one a page")
    if elapsed:
        if len(elapsed) not in (1, gaps):
            raise ValueError(f"{len(elapsed)} elapsed times for {count} pages: expected 1 or {gaps}")
        seconds = list(elapsed) if len(elapsed) == gaps else [elapsed[0]] * gaps
    elif scraped_at:
        seconds = [later - earlier for earlier, later in pairwise(scraped_at)]
    else:
        return None
    for gap in seconds:
        if not 0 < gap < float("inf"):
            raise ValueError(f"{gap} seconds between two pages: expected more than 0")
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
            )
            for page, at, seconds_since_first in zip(pages, times, monotonic, strict=True)
        ]

    readings = once()
    if len(pages) > 1 and any(engine.v0 is not None for engine in readings[-1].engines):
        # Two V0 pages tell num_speculative_tokens only together: with it the first one makes sense, too.
        readings = once()
    return readings


@dataclass(frozen=True, slots=True)
class _Run:
    """What a run of pages came to."""

    verdict: Verdict
    reason: str
    state: State | None
    flags: frozenset[Flag]
    intervals: Mapping[tuple[str, str], list[Interval]]
    has_interval: bool


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
    return _Run(verdict, reason, steps[-1].state, flags, intervals, len(readings) > 1)


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


def _models(reading: Reading) -> list[str]:
    return list(dict.fromkeys(engine.model for engine in reading.engines))


def _model(name: str, reading: Reading, run: _Run, has_times: bool) -> Json:
    engines = [engine for engine in reading.engines if engine.model == name]
    tokens = {engine.num_speculative_tokens for engine in engines}
    gauges = [engine.gauges for engine in engines]
    intervals = {engine.engine: run.intervals.get((name, engine.engine), []) for engine in engines}
    return {
        "model": name or None,
        "engines": [engine.engine for engine in engines],
        "num_speculative_tokens": tokens.pop() if len(tokens) == 1 else None,
        "running": _sum_known([gauge.running for gauge in gauges]),
        "waiting": _sum_known([gauge.waiting for gauge in gauges]),
        "kv_usage_max": max((gauge.kv_usage for gauge in gauges if gauge.kv_usage is not None), default=None),
        "lifetime": _lifetime(engines),
        "interval": _interval(list(intervals.values()), has_times) if run.has_interval else None,
        "per_engine": {
            engine.engine: {
                "num_speculative_tokens": engine.num_speculative_tokens,
                "running": engine.gauges.running,
                "waiting": engine.gauges.waiting,
                "kv_usage": engine.gauges.kv_usage,
                "lifetime": _lifetime([engine]),
                "interval": _interval([intervals[engine.engine]], has_times) if run.has_interval else None,
            }
            for engine in engines
        },
    }


def _lifetime(engines: Sequence[EngineReading]) -> Json:
    said = reading_json(add_counts([engine.counts for engine in engines]), rate=None, partial=False)
    if len(engines) == 1 and (length := length_of(engines[0].v0, engines[0].num_speculative_tokens)) is not None:
        # A V0 page knows the length even where nothing tells the number of drafts.
        tokens = engines[0].num_speculative_tokens or 0
        said["acceptance_length"] = length
        said["acceptance_rate"] = _ratio(length - 1, tokens)
    return said


def _interval(per_engine: Sequence[Sequence[Interval]], has_times: bool) -> Json | None:
    """What happened between the first and the last page, over all engines; None where no difference could be drawn."""
    lives = [_by_life(intervals) for intervals in per_engine if intervals]
    if not lives:
        return None
    counts = add_counts([part for parts, _, _ in lives for part in parts])
    rates = [rate for _, rate, _ in lives]
    rate = None if not has_times or any(one is None for one in rates) else sum(one for one in rates if one is not None)
    partial = len(lives) < len(per_engine) or any(is_partial for _, _, is_partial in lives)
    return reading_json(counts, rate=rate, partial=partial)


def _by_life(intervals: Sequence[Interval]) -> tuple[list[Counts], float | None, bool]:
    """Counts per life, tokens per second over the whole time, and whether a reset hides a part."""
    lives: dict[LifeId, list[Interval]] = {}
    for interval in intervals:
        lives.setdefault(interval.life, []).append(interval)
    totals = [over_time(found) for found in lives.values()]
    counts = add_counts([counts_of(total) for total in totals])
    seconds = sum(total.elapsed_seconds for total in totals)
    generated = counts.traffic.generation_tokens if counts.traffic is not None else None
    rate = generated / seconds if generated is not None and seconds > 0 else None
    return [counts], rate, any(total.partial for total in totals)


def reading_json(counts: Counts, *, rate: float | None, partial: bool) -> Json:
    """The READING of the contract. Ratios that are no ratios (accepted > drafted) are None, never clamped."""
    speculation = counts.speculation or SpeculationCounts(None, None, None)
    drafts, accepted = speculation.num_drafts, speculation.num_accepted_tokens
    at = speculation.accepted_per_pos
    length = 1 + accepted / drafts if accepted is not None and drafts else None
    return {
        "num_drafts": _whole(drafts),
        "num_draft_tokens": _whole(speculation.num_draft_tokens),
        "num_accepted_tokens": _whole(accepted),
        "acceptance_rate": _ratio(accepted, speculation.num_draft_tokens),
        "acceptance_length": length,
        "acceptance_rate_per_position": [_ratio(count, drafts) for count in at] if at is not None else None,
        "generation_tokens": _whole(counts.traffic.generation_tokens if counts.traffic is not None else None),
        "generation_tokens_per_second": rate,
        "prompt_tokens": _whole(counts.traffic.prompt_tokens if counts.traffic is not None else None),
        "partial": partial,
    }


def _ratio(part: float | None, whole: float | None) -> float | None:
    if part is None or not whole or not 0 <= part <= whole:
        return None
    return part / whole


def _whole(value: float | None) -> float | int | None:
    """Whole numbers without a decimal point."""
    return int(value) if value is not None and value.is_integer() else value


def _sum_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
