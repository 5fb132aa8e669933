"""From lives and intervals to the tuner's input: one row per setting seen, the load of the day, costs of others."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from monitor.intervals.adding import sum_known
from monitor.model.interval import Interval
from monitor.model.life import Setting
from monitor.signals.accepted import add_accepted
from monitor.signals.steps import decode_batch, prefill_per_step, step_time
from monitor.signals.track import Pair, is_rateable, is_reliable
from monitor.tuning.observed import CostRow, Row

#: Newest intervals of a setting that its row rests on (seconds): acceptance drifts with the traffic.
ROW_SECONDS = 6 * 3600.0
#: Bins per doubling of the decode batch in the load of a day.
BINS_PER_DOUBLING = 1.0


def row_of(intervals: Sequence[Interval], setting: Setting) -> Row:
    """What the intervals, all at `setting`, show of it; parts that they do not show are None."""
    accepted = add_accepted(intervals, setting)
    outputs, drafts = _outputs_and_drafts(intervals)
    coverage = min(1.0, drafts / outputs) if outputs > 0 and drafts > 0 else 1.0
    length = 1.0 if setting.is_off else accepted.length if accepted else None
    steps = step_time(intervals, 1.0 + coverage * (length - 1.0) if length is not None else None)
    batch = decode_batch(intervals)
    error = None
    if accepted is not None:
        estimate = accepted.length_estimate()
        error = max(1e-4, (estimate.high - estimate.low) / 4.0 / estimate.value)
    finished = sum_known(i.traffic.finished_requests for i in intervals if i.traffic is not None)
    return Row(
        survival=_full(accepted.survival, setting) if accepted else None,
        length=length,
        num_drafts=accepted.num_drafts if accepted else 0.0,
        finished_requests=finished,
        step_seconds=steps.seconds if steps else None,
        batch=max(1.0, batch[0]) if batch else None,
        coverage=coverage,
        prefill_tokens_per_step=prefill_per_step(intervals)[0] or 0.0,
        length_error=error,
        covered_seconds=_longest(intervals),
    )


def rows_of(pairs: Iterable[Pair], newest_seconds: float = ROW_SECONDS) -> dict[int, Row]:
    """One row per number of speculative tokens among the lives; the newest method and draft model only, no schedules.

    Each rests on the newest `newest_seconds` that were spent at its setting (summed over engines and servers). Rows of
    another method or draft would be compared as if their acceptance were the same.
    """
    ordered = sorted(pairs, key=lambda pair: pair[1].end)
    drafting = next(
        ((s.method, s.draft_model) for life, _ in reversed(ordered) if not (s := life.setting).is_off and s.method),
        None,
    )
    groups: dict[int, list[Pair]] = defaultdict(list)
    for life, interval in ordered:
        setting = life.setting
        tokens = setting.num_speculative_tokens
        same = setting.is_off or drafting is None or (setting.method, setting.draft_model) == drafting
        if tokens is not None and same and not setting.schedule:
            groups[tokens].append((life, interval))
    return {
        tokens: row_of(_newest([interval for _, interval in group], newest_seconds), group[-1][0].setting)
        for tokens, group in groups.items()
    }


def _newest(intervals: Sequence[Interval], seconds: float) -> list[Interval]:
    """The last of the intervals, by end, that together last `seconds`; at least one."""
    kept: list[Interval] = []
    total = 0.0
    for interval in reversed(intervals):
        if kept and total >= seconds:
            break
        kept.append(interval)
        total += interval.elapsed_seconds
    return kept[::-1]


def cost_rows(pairs: Iterable[Pair]) -> tuple[CostRow, ...]:
    """Step times of other servers of the same model and GPU, by setting; those that show none are left out."""
    return tuple(
        CostRow(
            num_speculative_tokens=tokens, batch=row.batch, step_seconds=row.step_seconds, coverage=row.coverage,
            prefill_tokens_per_step=row.prefill_tokens_per_step,
        )
        for tokens, row in rows_of(pairs).items()
        if row.step_seconds is not None and row.batch is not None
    )


def load_of(intervals: Iterable[Interval]) -> tuple[tuple[float, float], ...]:
    """Decode batches of the time covered as (batch, share of the tokens served), one per doubling; empty if unknown."""
    bins: dict[int, tuple[float, float]] = {}
    for interval in intervals:
        found = decode_batch([interval])
        tokens = interval.traffic.generation_tokens if interval.traffic is not None else None
        if found is None or not tokens or found[0] <= 0:
            continue
        batch = max(1.0, found[0])
        number = round(math.log2(batch) * BINS_PER_DOUBLING)
        work, weight = bins.get(number, (0.0, 0.0))
        bins[number] = (work + math.log(batch) * tokens, weight + tokens)
    total = sum(weight for _, weight in bins.values())
    return tuple((math.exp(work / weight), weight / total) for _, (work, weight) in sorted(bins.items()))


def _full(survival: tuple[float, ...] | None, setting: Setting) -> tuple[float, ...] | None:
    """Survival with one number per configured position: pages that show fewer have not reached the later ones."""
    tokens = setting.num_speculative_tokens
    if survival is None or tokens is None or not survival:
        return None
    return (survival + (0.0,) * tokens)[:tokens]


def _outputs_and_drafts(intervals: Sequence[Interval]) -> tuple[float, float]:
    outputs = drafts = 0.0
    for i in intervals:
        if i.speculation and i.speculation.num_drafts and i.latency and i.latency.inter_token and is_reliable(i):
            outputs += i.latency.inter_token.count
            drafts += i.speculation.num_drafts
    return outputs, drafts


def _longest(intervals: Sequence[Interval]) -> float:
    """Seconds covered by the server or engine that was covered longest."""
    covered: dict[str, float] = defaultdict(float)
    for i in intervals:
        if is_rateable(i):
            covered[i.life] += i.speculation_seconds or i.traffic_seconds
    return max(covered.values(), default=0.0)
