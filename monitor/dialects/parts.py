"""Parts that engines have in common: traffic, latency and gauges from an engine's cells. It judges nothing."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.dialects.bind import EngineCells
from monitor.dialects.cells import Cell, Values, lines_of, take, take_each, take_histogram, take_largest
from monitor.model.counts import Gauges, LatencyCounts, TrafficCounts

#: Which counter's `_created` stands for the whole engine's, first found first: those that every request moves.
_CREATED_OF = ("generation_tokens", "prompt_tokens", "num_draft_tokens", "num_accepted_tokens", "num_drafts")
#: Counters of one engine are made within milliseconds (seen on 0.32.0); further apart (seconds) they are of two lives.
_BORN_TOGETHER_SECONDS = 30.0
_TRAFFIC = ("generation_tokens", "prompt_tokens", "finished")


def read_traffic(cells: EngineCells, values: Values, http: Mapping[str, Cell]) -> TrafficCounts:
    """Token, step and request counts; what the page does not have is None (or an empty mapping)."""
    numbers, histograms = cells.numbers, cells.histograms
    return TrafficCounts(
        generation_tokens=take(values, numbers.get("generation_tokens")),
        prompt_tokens=take(values, numbers.get("prompt_tokens")),
        cached_prompt_tokens=take(values, numbers.get("cached_prompt_tokens")),
        engine_steps=take(values, numbers.get("iteration_count")),
        step_tokens=take(values, numbers.get("iteration_sum")),
        finished=take_each(values, cells.keyed.get("finished", {})),
        http_responses=take_each(values, http),
        rejections=take(values, numbers.get("rejections")),
        preemptions=take(values, numbers.get("preemptions")),
        prompt_length=take_histogram(values, histograms.get("prompt_length")),
        output_length=take_histogram(values, histograms.get("output_length")),
    )


def read_latency(cells: EngineCells, values: Values) -> LatencyCounts | None:
    """Latency histograms; None where the page has none of them."""
    histograms = cells.histograms
    found = LatencyCounts(
        time_to_first_token=take_histogram(values, histograms.get("time_to_first_token")),
        inter_token=take_histogram(values, histograms.get("inter_token")),
        time_per_output_token=take_histogram(values, histograms.get("time_per_output_token")),
        e2e_request=take_histogram(values, histograms.get("e2e_request")),
        queue=take_histogram(values, histograms.get("queue")),
    )
    return found if found != _NO_LATENCY else None


def read_gauges(
    cells: EngineCells, values: Values, *, sleeping: bool | None = None, acceptance_length: float | None = None
) -> Gauges:
    """What the engine is doing now: requests add up over ranks that differ, the fullest KV cache counts."""
    kv_usage = take_largest(values, cells.numbers.get("kv_usage"))
    return Gauges(
        running=_count(take(values, cells.numbers.get("running"))),
        waiting=_count(take(values, cells.numbers.get("waiting"))),
        kv_usage=kv_usage if kv_usage is not None and 0 <= kv_usage <= 1 else None,
        sleeping=sleeping,
        acceptance_length=acceptance_length,
    )


def read_created(cells: EngineCells, values: Values) -> float | None:
    """Unix seconds at which the engine's counters were born; None where the page has no `_created` of them."""
    for name in _CREATED_OF:
        created = take_largest(values, cells.created.get(name))
        if created is not None and created > 0:
            return created
    return None


def births_apart(cells: EngineCells, values: Values) -> str | None:
    """How far apart in time an engine's counters were made, in words: a page of two lives; None where together."""
    lines = [line for name in _CREATED_OF if (cell := cells.created.get(name)) is not None for line in lines_of(cell)]
    known = [born for line in lines if (born := values[line]) is not None and born > 0]
    apart = max(known, default=0.0) - min(known, default=0.0)
    return f"counters of one engine were made {apart:.0f} s apart" if apart > _BORN_TOGETHER_SECONDS else None


def has_traffic(traffic: TrafficCounts) -> bool:
    """Whether the page knows any count of tokens, steps or requests."""
    return any(getattr(traffic, name) not in (None, {}) for name in _TRAFFIC) or traffic.engine_steps is not None


def _count(value: float | None) -> float | None:
    return value if value is not None and value >= 0 else None


_NO_LATENCY = LatencyCounts()
