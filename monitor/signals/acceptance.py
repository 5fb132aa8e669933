"""The acceptance signals of one window at one setting: rates, positions, length, coverage, with their certainty."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.intervals.adding import sum_known
from monitor.model.interval import Interval
from monitor.model.record import Baseline
from monitor.model.signal import NoData
from monitor.signals.accepted import Accepted, add_accepted, censored_alpha
from monitor.signals.sheet import Sheet
from monitor.signals.uncertainty import ratio_estimate
from monitor.signals.window import Window, is_rateable, is_reliable


def why_no_acceptance(window: Window) -> NoData:
    """The reason that a window has no acceptance."""
    if window.is_mixed:
        return NoData.MIXED_SETTINGS
    if not window.recent:
        return NoData.NO_INTERVALS
    if window.setting is not None and window.setting.is_off:
        return NoData.SPECULATION_OFF
    families = [interval.speculation for _, interval in window.of_setting]
    if all(family is None for family in families):
        return NoData.NOT_EXPORTED
    if not any(is_reliable(interval) for _, interval in window.of_setting):
        return NoData.UNRELIABLE
    return NoData.NO_DRAFTS


def write_acceptance(sheet: Sheet, window: Window, baseline: Baseline | None) -> None:
    """Write every signal of the acceptance family down."""
    intervals = [interval for _, interval in window.of_setting]
    setting = window.setting
    accepted = add_accepted(intervals, setting)
    _write_samples(sheet, window, intervals, accepted)
    _write_baseline(sheet, baseline)
    absent = why_no_acceptance(window)
    tokens = setting.num_speculative_tokens if setting is not None else None
    if accepted is None:
        for name in ("acceptance_rate", "acceptance_alpha", "acceptance_length", "effective_acceptance_length",
                     "draft_coverage", "efficiency", "mean_draft_tokens", "acceptance_design_effect"):
            sheet.put(name, None, absent=absent)
        for name in ("acceptance_rate_at_pos", "conditional_acceptance_rate_at_pos"):
            sheet.put_vector(name, (), absent=absent)
        return
    if tokens is None and accepted.survival:
        tokens = len(accepted.survival)
    drafts = accepted.num_drafts
    length = accepted.length_estimate()
    sheet.put_estimate("acceptance_length", length, drafts, absent=absent)
    sheet.put("acceptance_design_effect", length.design_effect, length.batches)
    per_draft = accepted.num_draft_tokens / drafts if accepted.num_draft_tokens else None
    sheet.put("mean_draft_tokens", per_draft, drafts)
    if per_draft:
        rate, low, high = ((x - 1.0) / per_draft for x in (length.value, length.low, length.high))
        sheet.put("acceptance_rate", rate, drafts, low=low, high=min(1.0, high) if rate <= 1 else high)
    else:
        sheet.put("acceptance_rate", None, drafts)
    sheet.put_estimate("acceptance_alpha", censored_alpha(accepted, tokens), drafts, absent=NoData.NOT_EXPORTED)
    _write_positions(sheet, accepted)
    _write_coverage(sheet, intervals, accepted, tokens)


def _write_samples(
    sheet: Sheet, window: Window, intervals: Sequence[Interval], accepted: Accepted | None
) -> None:
    absent = NoData.MIXED_SETTINGS if window.is_mixed else NoData.NO_INTERVALS
    drafts = accepted.num_drafts if accepted is not None else None
    if drafts is None and intervals and not window.is_mixed:
        absent = why_no_acceptance(window)
        if absent in (NoData.NO_DRAFTS, NoData.SPECULATION_OFF):
            drafts = 0.0
    sheet.put("num_drafts", drafts, drafts or 0.0, absent=absent)
    finished = sum_known(interval.traffic.finished_requests for interval in intervals if interval.traffic is not None)
    sheet.put("finished_requests", finished, finished or 0.0,
              absent=NoData.NOT_EXPORTED if intervals else absent)
    covered = [
        sum(interval.speculation_seconds for interval in stream if is_rateable(interval))
        for stream in window.streams(window.of_setting)
    ]
    sheet.put("covered_seconds", max(covered) if covered else None, absent=absent)
    known = window.setting.num_speculative_tokens if window.setting is not None else None
    if known is None and accepted is not None and accepted.survival:
        known = len(accepted.survival)
    sheet.put("num_speculative_tokens", known, len(window.newest_lives),
              absent=NoData.MIXED_SETTINGS if window.is_mixed
              else NoData.NOT_KNOWN if window.recent else NoData.NO_INTERVALS)


def _write_baseline(sheet: Sheet, baseline: Baseline | None) -> None:
    drafts = baseline.num_drafts if baseline else 0.0
    for name, value in (
        ("baseline_acceptance_length", baseline.acceptance_length if baseline else None),
        ("baseline_acceptance_rate", baseline.acceptance_rate if baseline else None),
        ("baseline_first_position_rate", baseline.first_position_rate if baseline else None),
    ):
        sheet.put(name, value, drafts, absent=NoData.NO_BASELINE)


def _write_positions(sheet: Sheet, accepted: Accepted) -> None:
    drafts, survival = accepted.num_drafts, accepted.survival
    if not survival or accepted.blocks_per_pos is None:
        for name in ("acceptance_rate_at_pos", "conditional_acceptance_rate_at_pos"):
            sheet.put_vector(name, (), absent=NoData.NOT_EXPORTED)
        return
    made = [block[0] for block in accepted.blocks]
    lows, highs = [], []
    for position, rate in enumerate(survival):
        hits = [block[position] if position < len(block) else 0.0 for block in accepted.blocks_per_pos]
        estimate = ratio_estimate(hits, made, max(rate * (1 - rate), 1e-12), bounds=(0.0, 1.0))
        # Counted against all drafts; moved to the survival where the engine says which drafts reached the position.
        scale = rate / estimate.value if estimate is not None and estimate.value > 0 else 1.0
        lows.append(min(1.0, estimate.low * scale) if estimate is not None else None)
        highs.append(min(1.0, estimate.high * scale) if estimate is not None else None)
    sheet.put_vector("acceptance_rate_at_pos", survival, drafts, lows=lows, highs=highs)
    before = (1.0, *survival[:-1])
    conditional = [rate / above if above > 0 else None for rate, above in zip(survival, before, strict=True)]
    sheet.put_vector("conditional_acceptance_rate_at_pos", conditional, drafts)


def _write_coverage(
    sheet: Sheet, intervals: Sequence[Interval], accepted: Accepted, tokens: int | None
) -> None:
    both = [i for i in intervals if i.speculation and i.latency and i.latency.inter_token and is_reliable(i)]
    outputs = sum(i.latency.inter_token.count for i in both if i.latency and i.latency.inter_token)
    inside = add_accepted(both, None) if outputs > 0 else None
    if inside is not None:
        coverage = min(1.0, inside.num_drafts / outputs)
        effective: float | None = 1.0 + coverage * (inside.length - 1.0)
        sheet.put("draft_coverage", coverage, outputs)
        sheet.put("effective_acceptance_length", effective, outputs)
    else:
        effective = None
        sheet.put("draft_coverage", None)
        sheet.put("effective_acceptance_length", None)
    per_step = effective if effective is not None else accepted.length
    sheet.put("efficiency", per_step / (tokens + 1) if tokens else None, outputs or accepted.num_drafts,
              absent=NoData.NOT_KNOWN)
