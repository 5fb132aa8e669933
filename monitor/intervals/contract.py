"""The JSON of `acceptd read`: a model's numbers as plain values, unknown as None. It works nothing out of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.dialects.vllm_v0 import length_of
from monitor.intervals.adding import add_counts, counts_of, over_time
from monitor.model.counts import Counts, SpeculationCounts
from monitor.model.interval import Interval
from monitor.model.life import LifeId
from monitor.model.reading import EngineReading, Reading

Json = dict[str, object]
EngineIntervals = Mapping[tuple[str, str], Sequence[Interval]]


def models_json(reading: Reading, intervals: EngineIntervals | None, *, has_times: bool) -> list[Json]:
    """Every model of a reading with its totals and, where there are several pages, what happened between them.

    `intervals` are None for a single page; without `has_times` no rate is drawn from them.
    """
    names = dict.fromkeys(engine.model for engine in reading.engines)
    return [_model(name, reading, intervals, has_times) for name in names]


def _model(name: str, reading: Reading, intervals: EngineIntervals | None, has_times: bool) -> Json:
    engines = [engine for engine in reading.engines if engine.model == name]
    tokens = {engine.num_speculative_tokens for engine in engines}
    gauges = [engine.gauges for engine in engines]
    found = None if intervals is None else [intervals.get((name, engine.engine), ()) for engine in engines]
    return {
        "model": name or None,
        "engines": [engine.engine for engine in engines],
        "num_speculative_tokens": tokens.pop() if len(tokens) == 1 else None,
        "running": _sum_known([gauge.running for gauge in gauges]),
        "waiting": _sum_known([gauge.waiting for gauge in gauges]),
        "kv_usage_max": max((gauge.kv_usage for gauge in gauges if gauge.kv_usage is not None), default=None),
        "lifetime": _lifetime(engines),
        "interval": _interval(found, has_times) if found is not None else None,
        "per_engine": {
            engine.engine: {
                "num_speculative_tokens": engine.num_speculative_tokens,
                "running": engine.gauges.running,
                "waiting": engine.gauges.waiting,
                "kv_usage": engine.gauges.kv_usage,
                "lifetime": _lifetime([engine]),
                "interval": _interval([found[index]], has_times) if found is not None else None,
            }
            for index, engine in enumerate(engines)
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
