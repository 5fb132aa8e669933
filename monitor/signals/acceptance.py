"""The acceptance signals of one window at one setting: rates, positions, length, coverage, with their certainty."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.intervals.adding import sum_known
from monitor.model.signal import NoData
from monitor.signals.accepted import add_accepted, censored_alpha
from monitor.signals.material import Material
from monitor.signals.sheet import Sheet, Writer
from monitor.signals.track import is_rateable, is_reliable
from monitor.signals.uncertainty import ratio_estimate
from monitor.signals.window import Window


def why_no_acceptance(window: Window) -> NoData:
    """The reason that a window has no acceptance."""
    if window.is_mixed:
        return NoData.MIXED_SETTINGS
    if not window.recent:
        return NoData.NO_INTERVALS
    if window.setting is not None and window.setting.is_off:
        return NoData.SPECULATION_OFF
    if all(interval.speculation is None for interval in window.intervals):
        return NoData.NOT_EXPORTED
    if not any(is_reliable(interval) for interval in window.intervals):
        return NoData.UNRELIABLE
    return NoData.NO_DRAFTS


def write_drafts(sheet: Sheet, material: Material) -> None:
    """The number of drafts: 0 where speculation made none, absent where nobody counted."""
    window = material.window
    drafts = material.accepted.num_drafts if material.accepted is not None else None
    absent = NoData.MIXED_SETTINGS if window.is_mixed else NoData.NO_INTERVALS
    if drafts is None and window.intervals and not window.is_mixed:
        absent = why_no_acceptance(window)
        if absent in (NoData.NO_DRAFTS, NoData.SPECULATION_OFF):
            drafts = 0.0
    sheet.put("num_drafts", drafts, drafts or 0.0, absent=absent)


def write_samples(sheet: Sheet, material: Material) -> None:
    """What a claim about the setting rests on besides drafts."""
    window = material.window
    absent = NoData.MIXED_SETTINGS if window.is_mixed else NoData.NO_INTERVALS
    finished = sum_known(i.traffic.finished_requests for i in window.intervals if i.traffic is not None)
    sheet.put("finished_requests", finished, finished or 0.0,
              absent=NoData.NOT_EXPORTED if window.intervals else absent)
    covered = [
        sum(interval.speculation_seconds for interval in stream if is_rateable(interval))
        for stream in window.streams(window.of_setting)
    ]
    sheet.put("covered_seconds", max(covered) if covered else None, absent=absent)


def write_setting(sheet: Sheet, material: Material) -> None:
    """The setting in force."""
    window = material.window
    absent = NoData.NOT_KNOWN if window.recent else NoData.NO_INTERVALS
    sheet.put("num_speculative_tokens", material.tokens, len(window.newest_lives),
              absent=NoData.MIXED_SETTINGS if window.is_mixed else absent)


def write_baseline(sheet: Sheet, material: Material) -> None:
    """What is normal at the setting."""
    baseline = material.baseline
    drafts = baseline.num_drafts if baseline else 0.0
    for name, value in (
        ("baseline_acceptance_length", baseline.acceptance_length if baseline else None),
        ("baseline_acceptance_rate", baseline.acceptance_rate if baseline else None),
        ("baseline_first_position_rate", baseline.first_position_rate if baseline else None),
    ):
        sheet.put(name, value, drafts, absent=NoData.NO_BASELINE)


def write_length(sheet: Sheet, material: Material) -> None:
    """Length and rate, with intervals."""
    accepted = material.accepted
    if accepted is None:
        absent = why_no_acceptance(material.window)
        for name in WRITERS[write_length]:
            sheet.put(name, None, absent=absent)
        return
    drafts, length = accepted.num_drafts, accepted.length_estimate()
    sheet.put_estimate("acceptance_length", length, drafts, absent=NoData.NO_DRAFTS)
    sheet.put("acceptance_design_effect", length.design_effect, length.batches)
    per_draft = accepted.num_draft_tokens / drafts if accepted.num_draft_tokens else None
    sheet.put("mean_draft_tokens", per_draft, drafts)
    if per_draft:
        rate, low, high = ((x - 1.0) / per_draft for x in (length.value, length.low, length.high))
        sheet.put("acceptance_rate", rate, drafts, low=low, high=min(1.0, high) if rate <= 1 else high)
    else:
        sheet.put("acceptance_rate", None, drafts)


def write_alpha(sheet: Sheet, material: Material) -> None:
    """Acceptance per token tested."""
    accepted = material.accepted
    if accepted is None:
        sheet.put("acceptance_alpha", None, absent=why_no_acceptance(material.window))
        return
    estimate = censored_alpha(accepted, material.tokens)
    sheet.put_estimate("acceptance_alpha", estimate, accepted.num_drafts, absent=NoData.NOT_EXPORTED)


def write_positions(sheet: Sheet, material: Material) -> None:
    """Survival and conditional rates by position."""
    accepted = material.accepted
    if accepted is None or not accepted.survival or accepted.blocks_per_pos is None:
        absent = NoData.NOT_EXPORTED if accepted is not None else why_no_acceptance(material.window)
        for name in WRITERS[write_positions]:
            sheet.put_vector(name, (), absent=absent)
        return
    drafts, survival = accepted.num_drafts, accepted.survival
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


def write_coverage(sheet: Sheet, material: Material) -> None:
    """Share of steps with a draft, and tokens over all steps."""
    accepted = material.accepted
    if accepted is None:
        absent = why_no_acceptance(material.window)
        for name in WRITERS[write_coverage]:
            sheet.put(name, None, absent=absent)
        return
    both = [
        i for i in material.window.intervals if i.speculation and i.latency and i.latency.inter_token and is_reliable(i)
    ]
    outputs = sum(i.latency.inter_token.count for i in both if i.latency and i.latency.inter_token)
    inside = None
    if outputs > 0:
        is_whole = len(both) == len(material.window.intervals) and accepted.counts_drafts
        inside = accepted if is_whole else add_accepted(both, None)
    effective: float | None = None
    if inside is not None:
        coverage = min(1.0, inside.num_drafts / outputs)
        effective = 1.0 + coverage * (inside.length - 1.0)
        sheet.put("draft_coverage", coverage, outputs)
    else:
        sheet.put("draft_coverage", None)
    sheet.put("effective_acceptance_length", effective, outputs if inside is not None else 0.0)
    tokens, per_step = material.tokens, effective if effective is not None else accepted.length
    sheet.put("efficiency", per_step / (tokens + 1) if tokens else None, outputs or accepted.num_drafts,
              absent=NoData.NOT_KNOWN)


WRITERS: Mapping[Writer, tuple[str, ...]] = {
    write_drafts: ("num_drafts",),
    write_samples: ("finished_requests", "covered_seconds"),
    write_setting: ("num_speculative_tokens",),
    write_baseline: ("baseline_acceptance_length", "baseline_acceptance_rate", "baseline_first_position_rate"),
    write_length: ("acceptance_length", "acceptance_rate", "acceptance_design_effect", "mean_draft_tokens"),
    write_alpha: ("acceptance_alpha",),
    write_positions: ("acceptance_rate_at_pos", "conditional_acceptance_rate_at_pos"),
    write_coverage: ("draft_coverage", "effective_acceptance_length", "efficiency"),
}
