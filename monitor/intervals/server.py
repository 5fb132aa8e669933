"""A whole server one page further: all its engines, one verdict, what to store. It decides nothing per engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from monitor.intervals.advance import EngineStep, advance_engine, page_mark, settle_engine
from monitor.intervals.evidence import SAME_START_SECONDS
from monitor.intervals.movement import judge_movement
from monitor.intervals.track import Context, EngineKey, EngineTrack, Moment, Step, Track
from monitor.model.interval import Interval
from monitor.model.life import Head
from monitor.model.reading import Reading, State, Verdict

#: Verdicts that say more than the page itself does, most important first.
_REFINED = (Verdict.INCONSISTENT_ENDPOINT, Verdict.RESET_DETECTED, Verdict.COUNTER_GLITCH)
#: An engine that pages have lacked for so long is gone (seconds): replicas come and go under new names.
ABSENT_SECONDS = 3600.0
#: Engines of one server that are followed at once; a page that makes up labels would fill memory and store with lives.
MAX_FOLLOWED = 1000
_SENTENCES = {
    Verdict.INCONSISTENT_ENDPOINT: "pages come from different processes: no differences are drawn",
    Verdict.RESET_DETECTED: "the server started anew: counts since then only",
    Verdict.COUNTER_GLITCH: "a counter went back: it gives no difference this time",
}


def advance(track: Track, reading: Reading, *, boot_id: str, context: Context | None = None) -> Step:
    """The track after this reading, with the lives, heads and intervals to store.

    A reading without engines changes nothing but the time since when the server is watched. Engines that a page lacks
    keep their heads: their next page gives the whole difference.
    """
    context = context or Context()
    moment = Moment(reading.scraped_at, reading.monotonic, boot_id)
    if track.first_try is None:
        track = replace(track, first_try=moment)
    if not reading.engines:
        is_page = reading.verdict in (Verdict.NO_ENGINE_METRICS, Verdict.NO_SAMPLES_YET)
        track = replace(track, last_page=page_mark(reading, moment)) if is_page else track
        return Step(track=track, verdict=reading.verdict, reason=reading.reason, flags=reading.flags)
    met = {(engine.model, engine.engine) for engine in reading.engines}
    if len(track.engines.keys() | met) > MAX_FOLLOWED:
        return _crowded(track, reading, moment, len(met - track.engines.keys()))
    steps = {
        (engine.model, engine.engine): advance_engine(
            track, track.engines.get((engine.model, engine.engine)), engine, reading, moment, context
        )
        for engine in reading.engines
    }
    return _step(track, reading, moment, steps)


def _crowded(track: Track, reading: Reading, moment: Moment, new: int) -> Step:
    """A page with more new engines than a server can have: none is followed until the old ones are gone."""
    gone = {key: engine for key, engine in track.engines.items() if _is_absent(engine, moment)}
    kept = {key: engine for key, engine in track.engines.items() if key not in gone}
    return Step(
        track=replace(track, engines=kept),
        verdict=Verdict.INCONSISTENT_ENDPOINT,
        reason=f"{new} engines that were not there before beside {len(track.engines)} known ones: labels that change "
        "with every page? No differences are drawn",
        flags=reading.flags,
        lives=tuple(replace(engine.life, ended=moment.at) for engine in gone.values()),
    )


def settle(track: Track, context: Context | None = None) -> tuple[Track, tuple[Interval, ...]]:
    """The track and intervals if no further page comes: pages held back count as the restarts they look like."""
    engines, intervals = dict(track.engines), []
    for key, engine in track.engines.items():
        pending = engine.pending or engine.incomplete
        tokens = pending.engine.num_speculative_tokens if pending is not None else None
        step = settle_engine(engine, tokens, context or Context())
        if step is not None:
            engines[key] = step.track
            intervals += [step.interval] if step.interval is not None else []
    return replace(track, engines=engines), tuple(intervals)


def _step(track: Track, reading: Reading, moment: Moment, steps: Mapping[EngineKey, EngineStep]) -> Step:
    lacked = {key: engine for key, engine in track.engines.items() if key not in steps}
    gone = {key: engine for key, engine in lacked.items() if _is_over(engine, reading)}
    left = {**gone, **{key: engine for key, engine in lacked.items() if _is_absent(engine, moment)}}
    engines: dict[EngineKey, EngineTrack] = {
        **{key: engine for key, engine in track.engines.items() if key not in left},
        **{key: step.track for key, step in steps.items()},
    }
    ended = tuple(replace(engine.life, ended=moment.at) for engine in left.values())
    verdict, reason, state = _judge(reading, moment, list(steps.values()))
    if gone and verdict not in _REFINED:
        names = ", ".join(f"{model or 'model'} engine {engine}" for model, engine in gone)
        verdict, reason = Verdict.RESET_DETECTED, f"{_SENTENCES[Verdict.RESET_DETECTED]} (gone: {names})"
    intervals = tuple(step.interval for step in steps.values() if step.interval is not None)
    return Step(
        track=replace(track, engines=engines, last_page=page_mark(reading, moment)),
        verdict=verdict,
        reason=reason,
        state=state,
        flags=reading.flags.union(*(interval.flags for interval in intervals)),
        intervals=intervals,
        lives=ended + tuple(life for step in steps.values() for life in step.lives),
        heads=_new_heads(track, steps),
        events=tuple(event for step in steps.values() for event in step.events),
    )


def _is_over(engine: EngineTrack, reading: Reading) -> bool:
    """Whether an engine that the page lacks belonged to a process that was there before this one."""
    start, now = engine.life.process_start, reading.process_start
    return start is not None and now is not None and now > start + SAME_START_SECONDS


def _is_absent(engine: EngineTrack, moment: Moment) -> bool:
    """Whether no page has had this engine for long."""
    head = engine.head
    return moment.seconds_since(head.at, head.monotonic, head.boot_id) > ABSENT_SECONDS


def _new_heads(track: Track, steps: Mapping[EngineKey, EngineStep]) -> tuple[Head, ...]:
    """Heads that moved; a page held back until the next one decides moves none."""
    before = track.engines
    return tuple(
        step.track.head
        for key, step in steps.items()
        if key not in before or step.track.head is not before[key].head
    )


def _judge(reading: Reading, moment: Moment, steps: Sequence[EngineStep]) -> tuple[Verdict, str, State | None]:
    found = {step.verdict for step in steps if step.verdict is not None}
    if not found:
        movement = judge_movement(reading, moment, steps)
        state = reading.state or movement.state
        if movement.needs_probe is not None:
            return Verdict.NEEDS_PROBE, movement.needs_probe, state
        return reading.verdict, reading.reason, state
    state = reading.state
    for verdict in _REFINED:
        if verdict in found:
            why = "; ".join(dict.fromkeys(_why(step) for step in steps if step.verdict is verdict))
            return verdict, f"{_SENTENCES[verdict]} ({why})" if why else _SENTENCES[verdict], state
    return reading.verdict, reading.reason, state


def _why(step: EngineStep) -> str:
    """What an engine's step rests on: the evidence of its new life and what it was started with, else what happened."""
    if step.verdict is Verdict.RESET_DETECTED and step.lives:
        life = step.lives[-1]
        return f"evidence: {life.evidence.value}; now: {life.setting.describe()}"
    return "; ".join(event.text for event in step.events)
