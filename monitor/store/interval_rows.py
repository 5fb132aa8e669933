"""Intervals as rows of numbers and back: the columns that raw intervals and rollups share. It owns no statement."""

from __future__ import annotations

from typing import Any

from monitor.model.interval import GaugeSpan, Interval
from monitor.model.reading import Flag
from monitor.store.edges import UnitEdges
from monitor.store.packing import Unpacked

#: Columns in the order in which `to_interval` takes them; a side row may follow.
COLUMNS = (
    "server", "life", "end_at", "start_at", "elapsed_seconds",
    "speculation_seconds", "num_drafts", "num_draft_tokens", "num_accepted_tokens",
    "traffic_seconds", "generation_tokens", "prompt_tokens", "cached_prompt_tokens", "engine_steps", "step_tokens",
    "rejections", "preemptions",
    "latency_seconds", "gauges_seconds",
    "running_mean", "running_max", "waiting_mean", "waiting_max", "kv_usage_mean", "kv_usage_max",
    "flags", "is_gap", "partial",
)  # fmt: skip


def to_row(interval: Interval) -> dict[str, Any]:
    """The numbers of an interval by column."""
    speculation, traffic, gauges = interval.speculation, interval.traffic, interval.gauges
    return {
        "server": interval.server,
        "life": interval.life,
        "end_at": interval.end,
        "start_at": interval.start,
        "elapsed_seconds": interval.elapsed_seconds,
        "speculation_seconds": interval.speculation_seconds if speculation else None,
        "num_drafts": speculation.num_drafts if speculation else None,
        "num_draft_tokens": speculation.num_draft_tokens if speculation else None,
        "num_accepted_tokens": speculation.num_accepted_tokens if speculation else None,
        "traffic_seconds": interval.traffic_seconds if traffic else None,
        "generation_tokens": traffic.generation_tokens if traffic else None,
        "prompt_tokens": traffic.prompt_tokens if traffic else None,
        "cached_prompt_tokens": traffic.cached_prompt_tokens if traffic else None,
        "engine_steps": traffic.engine_steps if traffic else None,
        "step_tokens": traffic.step_tokens if traffic else None,
        "rejections": traffic.rejections if traffic else None,
        "preemptions": traffic.preemptions if traffic else None,
        "latency_seconds": interval.latency_seconds if interval.latency else None,
        "gauges_seconds": interval.gauges_seconds,
        "running_mean": gauges.running_mean,
        "running_max": gauges.running_max,
        "waiting_mean": gauges.waiting_mean,
        "waiting_max": gauges.waiting_max,
        "kv_usage_mean": gauges.kv_usage_mean,
        "kv_usage_max": gauges.kv_usage_max,
        "flags": " ".join(sorted(interval.flags)) or None,
        "is_gap": interval.is_gap,
        "partial": interval.partial,
    }


def to_interval(row: Any, edges: UnitEdges) -> Interval:
    """The interval of a row of `COLUMNS`, with its side row where that was selected too."""
    (
        server, life, end, start, elapsed,
        speculation_seconds, drafts, draft_tokens, accepted,
        traffic_seconds, generation, prompt, cached_prompt, steps, step_tokens, rejections, preemptions,
        latency_seconds, gauges_seconds,
        running_mean, running_max, waiting_mean, waiting_max, kv_mean, kv_max,
        flags, is_gap, partial, *side,
    ) = row  # fmt: skip
    unpacked = Unpacked(side[0] if side else None, edges.edges)
    speculation = traffic = latency = None
    if speculation_seconds is not None:
        speculation = unpacked.speculation(drafts, draft_tokens, accepted)
    if traffic_seconds is not None:
        traffic = unpacked.traffic(
            generation, prompt, cached_prompt, steps, step_tokens, rejections, preemptions
        )
    if latency_seconds is not None:
        latency = unpacked.latency()
    return Interval(
        life=life,
        server=server,
        start=start,
        end=end,
        elapsed_seconds=elapsed,
        speculation=speculation,
        speculation_seconds=speculation_seconds or 0.0,
        traffic=traffic,
        traffic_seconds=traffic_seconds or 0.0,
        latency=latency,
        latency_seconds=latency_seconds or 0.0,
        gauges=GaugeSpan(running_mean, running_max, waiting_mean, waiting_max, kv_mean, kv_max),
        gauges_seconds=gauges_seconds,
        flags=frozenset(map(Flag, flags.split())) if flags else frozenset(),
        is_gap=is_gap,
        partial=partial,
    )
