"""Why nothing moves: idle, counted later, speculation suspended, or perhaps stuck. It looks at one step of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.dialects import llamacpp, sglang, vllm_v1
from monitor.intervals.advance import EngineStep
from monitor.intervals.evidence import moved
from monitor.intervals.track import Moment
from monitor.model.counts import Gauges
from monitor.model.reading import EngineReading, Reading, State

#: Engines whose counters move only when a request ends: flat counters beside running requests are their normal state.
DEFERRED = frozenset({llamacpp.DIALECT, sglang.DIALECT})
#: Shortest span (seconds) over which flat counters say anything: a long prefill may take as long.
FLAT_SECONDS = 10.0
#: Tokens generated without a single draft from which speculation is suspended and not merely unused: the first token
#: of every request comes without a draft.
SUSPENDED_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Movement:
    """What the counters' standing still means; `needs_probe` is the sentence where gauges alone cannot tell."""

    state: State | None = None
    needs_probe: str | None = None


def judge_movement(reading: Reading, moment: Moment, steps: Sequence[EngineStep]) -> Movement:
    """The state of a server between two pages; nothing where there is only one, or clocks do not tell."""
    rows = [
        (engine, step)
        for engine, step in zip(reading.engines, steps, strict=True)
        if step.before is not None and step.interval is not None
    ]
    if not rows:
        return Movement()
    still = {step.track.life.id: moved(engine.counts, step.before.head.counts) is False
             for engine, step in rows if step.before is not None}
    flat = [(engine, step) for engine, step in rows if still[step.track.life.id]]
    stuck = [engine for engine, step in flat if _is_busy(engine.gauges) and _was_busy(step)]
    if stuck and reading.dialect in DEFERRED:
        return Movement(State.BUSY_COUNTERS_DEFERRED)
    if stuck and _seconds(moment, rows) >= FLAT_SECONDS and not any(engine.gauges.sleeping for engine in stuck):
        return Movement(None, _probe_sentence(stuck, _seconds(moment, rows)))
    if len(flat) == len(rows) and not any(_is_busy(engine.gauges) for engine, _ in rows):
        return Movement(State.IDLE)
    return Movement(State.SPECULATION_SUSPENDED if _is_suspended(reading, rows) else None)


def _is_busy(gauges: Gauges) -> bool:
    return (gauges.running or 0) + (gauges.waiting or 0) > 0


def _was_busy(step: EngineStep) -> bool:
    before = step.before.gauges if step.before is not None else None
    return before is not None and _is_busy(before)


def _seconds(moment: Moment, rows: Sequence[tuple[EngineReading, EngineStep]]) -> float:
    heads = [step.before.head for _, step in rows if step.before is not None]
    return min(moment.seconds_since(head.at, head.monotonic, head.boot_id) for head in heads)


def _probe_sentence(stuck: Sequence[EngineReading], seconds: float) -> str:
    running = sum(engine.gauges.running or 0 for engine in stuck)
    waiting = sum(engine.gauges.waiting or 0 for engine in stuck)
    return (
        f"{running:.0f} running and {waiting:.0f} waiting, yet no counter moved for {seconds:.0f} s: "
        "stale gauges or a stuck engine, one tiny generation tells"
    )


def _is_suspended(reading: Reading, rows: Sequence[tuple[EngineReading, EngineStep]]) -> bool:
    """Whether tokens flowed without a draft on a server that drafted before: its schedule has 0 for this load."""
    if reading.dialect != vllm_v1.DIALECT:
        return False
    drafts = generated = finished = total = 0.0
    for engine, step in rows:
        interval, counts = step.interval, engine.counts.speculation
        if interval is None or interval.speculation is None or counts is None or interval.traffic is None:
            continue
        drafts += interval.speculation.num_drafts or interval.speculation.num_draft_tokens or 0
        generated += interval.traffic.generation_tokens or 0
        finished += interval.traffic.finished_requests or 0
        total += counts.num_drafts or counts.num_draft_tokens or 0
    return total > 0 and drafts == 0 and generated >= SUSPENDED_TOKENS + 2 * finished
