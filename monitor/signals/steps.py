"""Engine steps of one window at one setting: their duration, batch, prefill share and context, and goodput.

Four ways give the step time; the best one that the pages allow is used, and the first is checked against the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor.intervals.adding import pool_histograms, sum_known
from monitor.model.interval import Interval
from monitor.model.signal import NoData
from monitor.signals.acceptance import why_no_acceptance
from monitor.signals.material import Material
from monitor.signals.sheet import Sheet, Writer
from monitor.signals.track import is_rateable
from monitor.signals.window import Window

#: The way that rests on running requests alone, where a page has neither histograms nor a count of steps: good for
#: advice, too high by the requests that prefill.
ESTIMATED_WAY = 3


@dataclass(frozen=True, slots=True)
class StepTime:
    """Duration of a step (seconds), the way it was found (1 best to 4) and the steps it rests on."""

    seconds: float
    way: int
    sample: float


def from_inter_token(intervals: Sequence[Interval]) -> StepTime | None:
    """Way 1: mean of the inter-token histogram, which has one observation per step and request (request-weighted)."""
    histograms = [i.latency.inter_token for i in intervals if i.latency and i.latency.inter_token]
    count = sum(h.count for h in histograms)
    return StepTime(sum(h.total for h in histograms) / count, 1, count) if count > 0 else None


def from_engine_steps(intervals: Sequence[Interval]) -> StepTime | None:
    """Way 2: busy time over engine steps; busy where requests ran on average through the interval.

    An interval counts as busy by the share min(1, running): a single request through half of it makes half a busy one.
    """
    busy = steps = 0.0
    for i in intervals:
        if i.traffic and i.traffic.engine_steps and i.gauges.running_mean is not None and is_rateable(i):
            busy += min(1.0, i.gauges.running_mean) * i.traffic_seconds
            steps += i.traffic.engine_steps
    return StepTime(busy / steps, 2, steps) if steps > 0 and busy > 0 else None


def from_drafts(intervals: Sequence[Interval]) -> StepTime | None:
    """Way 3: running requests x time / drafts; too high, since running counts prefilling requests too."""
    work = drafts = 0.0
    for i in intervals:
        if i.speculation and i.speculation.num_drafts and i.gauges.running_mean is not None and is_rateable(i):
            work += i.gauges.running_mean * i.speculation_seconds
            drafts += i.speculation.num_drafts
    return StepTime(work / drafts, ESTIMATED_WAY, drafts) if drafts > 0 and work > 0 else None


def from_output_time(intervals: Sequence[Interval], length: float | None) -> StepTime | None:
    """Way 4: time per output token x tokens per step; only finished requests, so it lags."""
    histograms = [i.latency.time_per_output_token for i in intervals if i.latency and i.latency.time_per_output_token]
    count = sum(h.count for h in histograms)
    if count <= 0 or length is None:
        return None
    return StepTime(sum(h.total for h in histograms) / count * length, 4, count)


def step_time(intervals: Sequence[Interval], length: float | None) -> StepTime | None:
    """Step time by the best way that the intervals allow; None where they allow none."""
    return (
        from_inter_token(intervals)
        or from_engine_steps(intervals)
        or from_drafts(intervals)
        or from_output_time(intervals, length)
    )


def decode_batch(intervals: Sequence[Interval]) -> tuple[float, float] | None:
    """Requests that decode together and the steps counted; None where neither steps nor running requests are known."""
    outputs = steps = 0.0
    for i in intervals:
        if i.latency and i.latency.inter_token and i.traffic and i.traffic.engine_steps:
            outputs += i.latency.inter_token.count
            steps += i.traffic.engine_steps
    if steps > 0 and outputs > 0:
        return max(1.0, outputs / steps), steps
    weight = sum(i.gauges_seconds for i in intervals if i.gauges.running_mean)
    if weight <= 0:
        return None
    running = sum(i.gauges.running_mean * i.gauges_seconds for i in intervals if i.gauges.running_mean) / weight
    return running, weight


def tokens_per_step(sheet: Sheet, window: Window) -> float | None:
    """Tokens emitted per step: 1 when off, over all steps where coverage is known, else per draft."""
    if window.setting is not None and window.setting.is_off:
        return 1.0
    effective = sheet.value("effective_acceptance_length")
    return effective if effective is not None else sheet.value("acceptance_length")


def write_step_time(sheet: Sheet, material: Material) -> None:
    """Step time by the best way there is."""
    window = material.window
    found = from_inter_token(window.intervals) or step_time(window.intervals, tokens_per_step(sheet, window))
    absent, sample = _why_none(window), found.sample if found else 0.0
    sheet.put("step_seconds", found.seconds if found else None, sample, absent=absent)
    sheet.put("step_seconds_way", found.way if found else None, sample, absent=absent)


def write_disagreement(sheet: Sheet, material: Material) -> None:
    """The first way against the last."""
    window = material.window
    first = from_inter_token(window.intervals)
    last = from_output_time(window.intervals, tokens_per_step(sheet, window))
    sheet.put(
        "step_seconds_disagreement",
        abs(last.seconds / first.seconds - 1.0) if first and last and first.seconds > 0 else None,
        min(first.sample, last.sample) if first and last else 0.0, absent=_why_none(window),
    )


def write_batch(sheet: Sheet, material: Material) -> None:
    """Requests that decode together."""
    batch = decode_batch(material.window.intervals)
    absent = _why_none(material.window)
    sheet.put("decode_batch", batch[0] if batch else None, batch[1] if batch else 0.0, absent=absent)


def write_prefill(sheet: Sheet, material: Material) -> None:
    """Prompt tokens that a step computes."""
    share, steps = prefill_per_step(material.window.intervals)
    sheet.put("prefill_tokens_per_step", share, steps, absent=_why_none(material.window))


def decode_context(intervals: Sequence[Interval]) -> tuple[float, float] | None:
    """Tokens of context that a decoding request holds, and the requests counted; None where lengths are not told.

    An answer is half made on average. Long answers are under way for longer, which means of finished requests do not
    show: it is too low where answers vary in length, too high where long prompts get the short answers.
    """
    prompts = pool_histograms(i.traffic.prompt_length for i in intervals if i.traffic is not None)
    answers = pool_histograms(i.traffic.output_length for i in intervals if i.traffic is not None)
    if prompts is None or answers is None or prompts.mean is None or answers.mean is None:
        return None
    return prompts.mean + answers.mean / 2.0, min(prompts.count, answers.count)


def write_context(sheet: Sheet, material: Material) -> None:
    """Tokens that each decoding request makes a step read."""
    context = decode_context(material.window.intervals)
    absent = _why_none(material.window)
    sheet.put("decode_context", context[0] if context else None, context[1] if context else 0.0, absent=absent)


def write_goodput(sheet: Sheet, material: Material) -> None:
    """Goodput, and what it is over that without speculation."""
    window, length = material.window, tokens_per_step(sheet, material.window)
    seconds, off = sheet.scalars["step_seconds"], material.off_step_seconds
    goodput = length / seconds.value if seconds.value and length is not None else None
    why = why_no_acceptance(window) if length is None else _why_none(window)
    sheet.put("goodput", goodput, seconds.sample_size, absent=why)
    gain = goodput * off - 1.0 if goodput is not None and off else None
    sheet.put("gain_over_off", gain, seconds.sample_size, absent=NoData.NO_BASELINE if goodput is not None else why)


def prefill_per_step(intervals: Sequence[Interval]) -> tuple[float | None, float]:
    """Prompt tokens computed per engine step (cached ones are not), and the steps; None where steps are not counted."""
    tokens = steps = 0.0
    for i in intervals:
        if i.traffic and i.traffic.engine_steps and i.traffic.prompt_tokens is not None:
            tokens += max(0.0, i.traffic.prompt_tokens - (i.traffic.cached_prompt_tokens or 0.0))
            steps += i.traffic.engine_steps
    return (tokens / steps if steps > 0 else None), steps


def _why_none(window: Window) -> NoData:
    if window.is_mixed:
        return NoData.MIXED_SETTINGS
    if not window.recent:
        return NoData.NO_INTERVALS
    moved = [i.traffic.generation_tokens for i in window.intervals if i.traffic is not None]
    return NoData.NO_TRAFFIC if moved and not sum_known(moved) else NoData.NOT_EXPORTED


WRITERS: Mapping[Writer, tuple[str, ...]] = {
    write_step_time: ("step_seconds", "step_seconds_way"),
    write_disagreement: ("step_seconds_disagreement",),
    write_batch: ("decode_batch",),
    write_prefill: ("prefill_tokens_per_step",),
    write_context: ("decode_context",),
    write_goodput: ("goodput", "gain_over_off"),
}
