"""One page further: what a reading makes of a server's track. Pure: the same track and reading give the same step.

Per engine, in this order: new start times, our own restart, falling counters without either (held back for one page,
since another worker behind the same address looks the same), a small fall (a glitch), else an ordinary difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.dialects import sglang, vllm_v0
from monitor.intervals.births import begin_life, learn, noted, page_tokens
from monitor.intervals.cut import Cut, cut_between, cut_from_zero, most_new
from monitor.intervals.differences import has_lost
from monitor.intervals.evidence import (
    CLOCK_SKEW_SECONDS,
    SAME_START_SECONDS,
    Starts,
    Turn,
    compare_starts,
    generation_speed,
    is_confirmed_same,
    is_near,
    is_plausible,
    most_fell,
)
from monitor.intervals.track import Context, EngineTrack, Event, EventKind, Moment, PageMark, Seen, Track
from monitor.model.counts import Counts
from monitor.model.interval import Interval
from monitor.model.life import Head, Life, SettingSource, StartEvidence
from monitor.model.reading import EngineReading, Flag, Reading, Verdict

#: Pages that must follow each other without a fall before an inconsistent endpoint is believed again: with two workers
#: taken at random, one in a thousand such runs is chance.
PAGES_TO_TRUST = 10
#: Start marks of earlier lives that are remembered, to know their processes again.
MARKS_KEPT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStep:
    """What one page made of one engine. `verdict` is None where nothing but time happened."""

    track: EngineTrack
    interval: Interval | None = None
    lives: tuple[Life, ...] = ()
    verdict: Verdict | None = None
    events: tuple[Event, ...] = ()
    #: The head before this page, of the same life: what the page is compared with.
    before: EngineTrack | None = None


def advance_engine(
    track: Track, old: EngineTrack | None, engine: EngineReading, reading: Reading, moment: Moment, context: Context
) -> EngineStep:
    """One engine one page further."""
    seen = Seen(
        engine=engine,
        moment=moment,
        starts=Starts(reading.process_start, engine.created, reading.start_mark),
        dialect=reading.dialect,
        flags=reading.flags,
    )
    tokens = page_tokens(reading, seen, context.engine_version)
    if old is None:
        return _first_met(track, seen, tokens, context)
    if old.doubts:
        return _doubt(old, seen, tokens, context)
    if seen.starts.mark in old.former_marks:
        return _distrust(old, seen, "a process that was there before answered again")
    if old.pending is not None:
        return _resolve(old, old.pending, seen, tokens, context)
    match turn_of(old, seen, tokens, context):
        case StartEvidence() as evidence:
            return _restart(old, seen, evidence, tokens, context)
        case Turn.OTHER_PROCESS:
            return _distrust(old, seen, "its start time went back: another process answered")
        case Turn.FELL:
            return _hold_back(old, seen)
    if old.former is not None and is_near(engine.counts, old.former, old.head.counts):
        return _distrust(old, seen, "its counters returned to where they were before they fell")
    if old.incomplete is None and has_lost(engine.counts, old.head.counts, estimated=seen.dialect == vllm_v0.DIALECT):
        return EngineStep(track=replace(old, incomplete=seen), before=old)
    return _continue(old, seen, tokens, context)


def turn_of(old: EngineTrack, seen: Seen, tokens: int | None, context: Context) -> StartEvidence | Turn:
    """What the page means for the life before it (a glitch shows only in the difference and is `SAME` here)."""
    starts = old.doubted or _starts_of(old.life)
    found = compare_starts(seen.starts, starts)
    if found is not None:
        return found
    fell = most_fell(seen.engine.counts, old.head.counts, estimated=seen.dialect == vllm_v0.DIALECT)
    confirmed_same = is_confirmed_same(seen.starts, starts)
    born = seen.starts.latest
    if not starts.is_known() and born is not None and context.wall_is_known and born > old.head.at.timestamp():
        return StartEvidence.PROCESS_START  # the old page had no start time; this process is younger than it
    if context.restarted and not confirmed_same:
        return StartEvidence.OUR_RESTART
    if _setting_moved(old.life, seen, tokens) and not confirmed_same:
        return StartEvidence.SETTING_CHANGED
    return Turn.FELL if fell else Turn.SAME


def _starts_of(life: Life) -> Starts:
    return Starts(life.process_start, life.created, life.start_mark)


def _setting_moved(life: Life, seen: Seen, tokens: int | None) -> bool:
    """Whether the page shows another number of tokens than the life began with; SGLang's may move by itself.

    Where a position appears with its first accepted token, one more is no other setting; nor is one fewer on a page
    that contradicts itself.
    """
    if not seen.engine.prints_zeros or Flag.IDENTITIES_BROKEN in seen.flags:
        return False
    said = life.setting.num_speculative_tokens
    by_page = life.sources.get("num_speculative_tokens") is SettingSource.PAGE
    return seen.dialect != sglang.DIALECT and by_page and said is not None and tokens is not None and tokens != said


def _first_met(track: Track, seen: Seen, tokens: int | None, context: Context) -> EngineStep:
    """An engine without a life: it counts from 0 where its counters were born while we watched the server."""
    since = _watched_before_birth(track, seen, context)
    life = begin_life(
        track.server, seen, StartEvidence.FIRST_SEEN, counts_from_zero=since is not None, tokens=tokens, context=context
    )
    new = EngineTrack(life=life, head=_head(life, seen), gauges=seen.engine.gauges)
    interval = None
    if since is not None:
        nothing = Head(life=life.id, at=since.at, monotonic=since.monotonic, boot_id=since.boot_id, counts=Counts())
        interval = cut_from_zero(
            life,
            nothing,
            seen,
            scrape_seconds=context.scrape_seconds,
            wall_is_known=context.wall_is_known,
            after_reset=_is_new_process(track, seen) and bool(track.engines),
        ).interval
    events = (Event(EventKind.BORN, life.id, f"first seen, {life.setting.describe()}"), *noted(life))
    return EngineStep(track=new, interval=interval, lives=(life,), events=events)


def _watched_before_birth(track: Track, seen: Seen, context: Context) -> Moment | None:
    """The last moment at which we know that the engine had counted nothing; None where we do not."""
    page = track.last_page
    start = seen.starts.process
    if page is not None and start is not None and page.process_start is not None:
        if abs(start - page.process_start) <= SAME_START_SECONDS:
            # New series of a process that was there before were 0 then, unless that page had lost them.
            return page.moment if _can_be_new(page.moment, seen, context) else None
        if not context.wall_is_known and _is_new_process(track, seen):
            return page.moment
    born = seen.starts.latest
    if born is None or not context.wall_is_known:
        return page.moment if page is not None and context.restarted else None
    watched = page.moment if page is not None else track.first_try
    return watched if watched is not None and born > watched.at.timestamp() else None


def _can_be_new(before: Moment, seen: Seen, context: Context) -> bool:
    """Whether all that an engine counted can be younger than a page without it."""
    created = seen.starts.created
    if created is not None and context.wall_is_known:
        return created > before.at.timestamp() - CLOCK_SKEW_SECONDS
    seconds = seen.moment.seconds_since(before.at, before.monotonic, before.boot_id)
    traffic = seen.engine.counts.traffic
    generated = traffic.generation_tokens if traffic is not None else None
    return generated is None or generated <= most_new(seconds)


def _is_new_process(track: Track, seen: Seen) -> bool:
    """Whether the page's process began later than that of the last page."""
    before = track.last_page.process_start if track.last_page is not None else None
    now = seen.starts.process
    return before is not None and now is not None and now > before + SAME_START_SECONDS


def _restart(
    old: EngineTrack, seen: Seen, evidence: StartEvidence, tokens: int | None, context: Context
) -> EngineStep:
    """A new life. It counts from 0 where it was born after the last page, or its counters fell."""
    born = seen.starts.latest
    from_zero = most_fell(seen.engine.counts, old.head.counts)
    if not from_zero and evidence in (StartEvidence.PROCESS_START, StartEvidence.CREATED) and born is not None:
        from_zero = not context.wall_is_known or born > old.head.at.timestamp() - CLOCK_SKEW_SECONDS
    return _new_life(old, seen, evidence, from_zero, tokens, context)


def _new_life(
    old: EngineTrack, seen: Seen, evidence: StartEvidence, from_zero: bool, tokens: int | None, context: Context
) -> EngineStep:
    ended = replace(old.life, ended=seen.moment.at)
    life = begin_life(
        old.life.server, seen, evidence, counts_from_zero=from_zero, tokens=tokens, context=context
    )
    cut = Cut(None)
    if from_zero:
        cut = cut_from_zero(
            life,
            old.head,
            seen,
            scrape_seconds=context.scrape_seconds,
            wall_is_known=context.wall_is_known,
            after_reset=True,
        )
    former = old.head.counts if evidence is StartEvidence.COUNTERS_FELL else None
    marks = [mark for mark in (*old.former_marks, old.life.start_mark) if mark not in (None, life.start_mark)]
    events = (
        Event(EventKind.ENDED, ended.id, f"ended: {evidence.value}"),
        Event(EventKind.BORN, life.id, f"began: {evidence.value}, {life.setting.describe()}"),
        *noted(life),
    )
    return EngineStep(
        track=EngineTrack(
            life=life,
            head=_head(life, seen),
            gauges=seen.engine.gauges,
            former=former,
            former_marks=frozenset(mark for mark in marks[-MARKS_KEPT:] if mark is not None),
        ),
        interval=cut.interval,
        lives=(ended, life),
        verdict=Verdict.RESET_DETECTED,
        events=events,
        before=old,
    )


def _hold_back(old: EngineTrack, seen: Seen) -> EngineStep:
    event = Event(EventKind.HELD, old.life.id, "its counters fell without a new start time: the next page decides")
    return EngineStep(track=replace(old, pending=seen), verdict=Verdict.RESET_DETECTED, events=(event,), before=old)


def settle_engine(old: EngineTrack, tokens: int | None, context: Context) -> EngineStep | None:
    """What a page held back most likely shows, where no further page will come; None without one."""
    if old.incomplete is not None:
        return _continue(old, old.incomplete, tokens, context)
    if old.pending is None:
        return None
    return _new_life(
        replace(old, pending=None), old.pending, StartEvidence.COUNTERS_FELL, True, tokens, context
    )


def _resolve(old: EngineTrack, pending: Seen, seen: Seen, tokens: int | None, context: Context) -> EngineStep:
    """The page after a fall: counters that stay low are a restart, counters that return are another worker's."""
    found = turn_of(old, seen, tokens, context)
    if isinstance(found, StartEvidence):
        return _restart(replace(old, pending=None), seen, found, tokens, context)
    if found is Turn.OTHER_PROCESS:
        return _distrust(old, seen, "its start time went back: another process answered")
    if most_fell(seen.engine.counts, pending.engine.counts):
        return _distrust(old, seen, "its counters fell twice in two pages")
    if found is not Turn.FELL:
        return _distrust(old, seen, "its counters fell and returned within two pages: several processes answer")
    if not _can_have_restarted(old, pending, seen):
        return _distrust(old, seen, "its counters fell to more than a restart counts: another process answers")
    return _new_life(replace(old, pending=None), seen, StartEvidence.COUNTERS_FELL, True, tokens, context)


def _can_have_restarted(old: EngineTrack, pending: Seen, seen: Seen) -> bool:
    head, before = old.head, pending.moment
    since_head = seen.moment.seconds_since(head.at, head.monotonic, head.boot_id)
    since_pending = seen.moment.seconds_since(before.at, before.monotonic, before.boot_id)
    now = generation_speed(seen.engine.counts, pending.engine.counts, since_pending)
    return is_plausible(seen.engine.counts, since_head, (old.fastest, now))


def _distrust(old: EngineTrack, seen: Seen, why: str) -> EngineStep:
    new = replace(
        old,
        head=_head(old.life, seen),
        gauges=seen.engine.gauges,
        pending=None,
        former=None,
        doubts=PAGES_TO_TRUST,
        doubted=seen.starts,
    )
    event = Event(EventKind.INCONSISTENT, old.life.id, why)
    return EngineStep(track=new, verdict=Verdict.INCONSISTENT_ENDPOINT, events=(event,), before=old)


def _doubt(old: EngineTrack, seen: Seen, tokens: int | None, context: Context) -> EngineStep:
    """A page of an endpoint that contradicted itself: no interval until enough pages in a row agree."""
    turn = turn_of(old, seen, tokens, context)
    trusted = replace(old, doubts=0, doubted=None)
    if isinstance(turn, StartEvidence) and turn is not StartEvidence.SETTING_CHANGED:
        starts_later = seen.starts.latest is not None and seen.starts.latest > old.head.at.timestamp()
        if starts_later or turn is StartEvidence.OUR_RESTART:
            return _restart(trusted, seen, turn, tokens, context)
    doubts = old.doubts - 1 if turn is Turn.SAME else PAGES_TO_TRUST
    if not doubts and compare_starts(seen.starts, _starts_of(old.life)) is not None:
        # It is one process again, and not the one that this life was.
        return _new_life(trusted, seen, StartEvidence.PROCESS_START, False, tokens, context)
    new = replace(
        old,
        head=_head(old.life, seen),
        gauges=seen.engine.gauges,
        doubts=doubts,
        doubted=seen.starts if doubts else None,
    )
    return EngineStep(track=new, verdict=Verdict.INCONSISTENT_ENDPOINT if doubts else None, before=None)


def _continue(old: EngineTrack, seen: Seen, tokens: int | None, context: Context) -> EngineStep:
    life = learn(old.life, seen, tokens, context)
    cut = cut_between(life, old.head, old.gauges, seen, scrape_seconds=context.scrape_seconds)
    events: tuple[Event, ...] = ()
    if life is not old.life:
        events += (Event(EventKind.LEARNED, life.id, f"now known: {life.setting.describe()}"), *noted(life, old.life))
    if cut.fallen:
        events += (Event(EventKind.GLITCH, life.id, f"fell without a restart: {', '.join(cut.fallen)}"),)
    if cut.interval is None:
        return EngineStep(track=replace(old, life=life), lives=(life,) if life is not old.life else (), before=old)
    return EngineStep(
        track=replace(
            old,
            life=life,
            head=_head(life, seen),
            gauges=seen.engine.gauges,
            incomplete=None,
            fastest=_fastest(old, cut.interval),
        ),
        interval=cut.interval,
        lives=(life,) if life is not old.life else (),
        verdict=Verdict.COUNTER_GLITCH if cut.fallen else None,
        events=events,
        before=old,
    )


def _fastest(old: EngineTrack, interval: Interval) -> float | None:
    generated = interval.traffic.generation_tokens if interval.traffic is not None else None
    if generated is None or interval.is_gap:
        return old.fastest
    return max(old.fastest or 0.0, generated / interval.elapsed_seconds)


def _head(life: Life, seen: Seen) -> Head:
    return Head(
        life=life.id,
        at=seen.moment.at,
        monotonic=seen.moment.monotonic,
        boot_id=seen.moment.boot_id,
        counts=seen.engine.counts,
    )


def page_mark(reading: Reading, moment: Moment) -> PageMark:
    """What later pages need to know of this one."""
    return PageMark(moment=moment, process_start=reading.process_start)
