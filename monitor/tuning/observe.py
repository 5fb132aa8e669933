"""From lives and intervals to the tuner's input: one row per setting seen, the load of the day, costs of others."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from monitor.intervals.adding import sum_known
from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId, Setting
from monitor.signals.accepted import add_accepted
from monitor.signals.steps import decode_batch, decode_context, prefill_per_step, step_time
from monitor.signals.track import Track, is_rateable, is_reliable
from monitor.tuning.cost import STEP_ERROR
from monitor.tuning.observed import CostRow, Row

#: Newest intervals of a setting that its row rests on (seconds): acceptance drifts with the traffic.
ROW_SECONDS = 6 * 3600.0
#: Relative error (1 sd) that a day adds to a length and to a step time; it grows with the square root of time. Ours:
#: ten workloads of one server lie within a factor of 1.5 in tokens gained, so that a month may move it by a tenth.
LENGTH_DRIFT, STEP_DRIFT = 0.02, 0.005
#: Relative error (1 sd) that a step time of another server has here: its prompts are longer or shorter. Ours: so that
#: at the same setting three of them make the 15 % at which two sources of a step time disagree.
ELSEWHERE_ERROR = 0.05
#: Bins per doubling of the decode batch in the load of a day: what forecasts are weighted by, and as fine as tells
#: where batches dwell.
BINS_PER_DOUBLING, FINE_BINS = 1, 6


def row_of(intervals: Sequence[Interval], setting: Setting) -> Row:
    """What the intervals, all at `setting`, show of it; parts that they do not show are None."""
    accepted = add_accepted(intervals, setting)
    outputs, drafts = _outputs_and_drafts(intervals)
    coverage = min(1.0, drafts / outputs) if outputs > 0 and drafts > 0 else 1.0
    length = 1.0 if setting.is_off else accepted.length if accepted else None
    steps = step_time(intervals, 1.0 + coverage * (length - 1.0) if length is not None else None)
    batch, context = decode_batch(intervals), decode_context(intervals)
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
        decode_context=context[0] if context else None,
        length_error=error,
        covered_seconds=_longest(intervals),
        counts_drafts=accepted is None or accepted.counts_drafts,
    )


def rows_of(
    tracks: Sequence[Track], newest_seconds: float = ROW_SECONDS, *, of: Callable[[Life], bool] = lambda _: True
) -> dict[int, Row]:
    """One row per number of speculative tokens among the lives; the newest method and draft model only, no schedules.

    Each rests on the newest `newest_seconds` that were spent at its setting (summed over engines and servers). Rows of
    another method or draft would be compared as if their acceptance were the same. What was seen days before the
    newest of all is trusted the less: traffic drifts. Only lives that are `of` the kind asked for count.
    """
    ordered = sorted(
        (_Place(track, at) for track in tracks for at, life in enumerate(track.lives) if of(life)),
        key=_Place.end,
    )
    comparable = _comparable([place.life() for place in ordered])
    groups: dict[int, list[_Place]] = defaultdict(list)
    for place in ordered:
        tokens = comparable.get(place.life().id)
        if tokens is not None:
            groups[tokens].append(place)
    return {
        tokens: _aged(
            row_of([place.interval() for place in _newest(group, newest_seconds)], group[-1].life().setting),
            (ordered[-1].end() - group[-1].end()).total_seconds() / 86_400.0,
        )
        for tokens, group in groups.items()
    }


class _Place(NamedTuple):
    """One interval of a track, which is looked at only where a row rests on it."""

    track: Track
    at: int

    def end(self) -> datetime:
        return self.track.ends[self.at]

    def life(self) -> Life:
        return self.track.lives[self.at]

    def interval(self) -> Interval:
        return self.track.pairs[self.at][1]


def _comparable(lives: Sequence[Life]) -> dict[LifeId, int]:
    """Speculative tokens of those lives (by end) that are off, or draft as the newest one that drafts."""
    known = {life.id: life.setting for life in lives}
    newest = {life.id: place for place, life in enumerate(lives)}
    drafting = next(
        (
            (setting.method, setting.draft_model)
            for key in sorted(newest, key=newest.__getitem__, reverse=True)
            if not (setting := known[key]).is_off and setting.method
        ),
        None,
    )
    return {
        key: setting.num_speculative_tokens
        for key, setting in known.items()
        if setting.num_speculative_tokens is not None
        and not setting.schedule
        and (setting.is_off or drafting is None or (setting.method, setting.draft_model) == drafting)
    }


def _aged(row: Row, days: float) -> Row:
    """The row with the errors that it has after so many days."""
    if days < 1.0:
        return row
    length, step = LENGTH_DRIFT * math.sqrt(days), STEP_DRIFT * math.sqrt(days)
    return replace(
        row,
        length_error=math.hypot(row.length_error, length) if row.length_error is not None else None,
        step_error=math.hypot(STEP_ERROR if row.step_error is None else row.step_error, step),
    )


def _newest(places: Sequence[_Place], seconds: float) -> list[_Place]:
    """The last of the places, by end, that together last `seconds`; at least one."""
    kept: list[_Place] = []
    total = 0.0
    for place in reversed(places):
        if kept and total >= seconds:
            break
        kept.append(place)
        total += place.track.digests[place.at].seconds
    return kept[::-1]


def cost_rows(
    track: Track, method: str | None, draft_model: str | None, *, of: Callable[[Life], bool] = lambda _: True
) -> tuple[CostRow, ...]:
    """Step times that another server of the same model and GPU showed, by setting; none where it shows none.

    Only lives that are off, or draft with the same method and draft model: another drafter's passes cost otherwise;
    and of those only the ones that are `of` the kind asked for.
    """

    def drafts_alike(life: Life) -> bool:
        own = life.setting
        return of(life) and (own.is_off or (own.method, own.draft_model) == (method, draft_model))

    return tuple(
        CostRow(
            num_speculative_tokens=tokens, batch=row.batch, step_seconds=row.step_seconds, coverage=row.coverage,
            prefill_tokens_per_step=row.prefill_tokens_per_step, decode_context=row.decode_context,
            step_error=math.hypot(STEP_ERROR if row.step_error is None else row.step_error, ELSEWHERE_ERROR),
        )
        for tokens, row in rows_of([track], of=drafts_alike).items()
        if row.step_seconds is not None and row.batch is not None
    )


def load_of(
    tracks: Sequence[Track], since: datetime, per_doubling: int = BINS_PER_DOUBLING
) -> tuple[tuple[float, float], ...]:
    """Decode batches since then as (batch, share of the tokens served), so many per doubling; empty if unknown."""
    bins: dict[int, tuple[float, float]] = {}
    for track in tracks:
        for digest in track.digests[bisect_right(track.ends, since) :]:
            if not digest.batch or not digest.tokens:
                continue
            size = math.log(max(1.0, digest.batch))
            number = round(size / math.log(2.0) * per_doubling)
            work, weight = bins.get(number, (0.0, 0.0))
            bins[number] = (work + size * digest.tokens, weight + digest.tokens)
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
