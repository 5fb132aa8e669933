"""How far a page may be believed: flags, and notes in words. It asks each dialect, and corrects nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.dialects import llamacpp, sglang, vllm_v0, vllm_v1
from monitor.dialects.bind import EngineCells
from monitor.dialects.parts import births_apart
from monitor.dialects.plan import Plan
from monitor.dialects.quantized import rounding_of
from monitor.dialects.trust import contradiction, flags_of, torn_slack
from monitor.exposition import Page
from monitor.model.reading import EngineReading, Flag


@dataclass(slots=True)
class Doubts:
    """What was found so far: notes in the order found, flags."""

    notes: list[str] = field(default_factory=list)
    flags: set[Flag] = field(default_factory=set)

    def add(self, flag: Flag, note: str | None = None) -> None:
        """Raise a flag, with a sentence for people where the flag's own words do not say enough."""
        self.flags.add(flag)
        if note is not None:
            self.notes.append(note)

    def contradict(self, found: str | None) -> None:
        """Say which numbers contradict each other, if any do."""
        if found is not None:
            self.add(Flag.IDENTITIES_BROKEN, f"counts contradict each other: {found}")


def doubts_of(page: Page, plan: Plan, dialect: str, engines: tuple[EngineReading, ...]) -> Doubts:
    """All that is to be said against a page's numbers."""
    doubts = Doubts()
    for sign in plan.joined:
        doubts.add(Flag.DUPLICATE_SERIES, sign)
    if plan.layout.duplicates:
        doubts.add(Flag.DUPLICATE_SERIES)
    if page.conflicting:
        doubts.notes.append(f"{len(page.conflicting)} series stand on the page twice with different values")
    lost = [line for line in plan.lines if page.values[line] is None]
    # A gauge may be NaN before its first value; a counter never is.
    if any(page.is_bad(line) for line in lost) or not set(lost).isdisjoint(plan.counter_lines):
        doubts.add(Flag.BAD_SAMPLE)
    rounding = rounding_of(plan, page)
    if rounding:
        doubts.add(Flag.QUANTIZED_COUNTERS)
    for engine, cells in zip(engines, plan.engines if engines else (), strict=True):
        if dialect == vllm_v0.DIALECT:
            _doubt_v0(doubts, engine, cells, page)
        else:
            at_one_moment = dialect == llamacpp.DIALECT or plan.process_start is not None
            _doubt_counts(doubts, dialect, engine, cells, slack=rounding + torn_slack(engine, at_one_moment))
        doubts.contradict(births_apart(cells, page.values))
        if dialect == sglang.DIALECT:
            _doubt_sglang(doubts, engine, cells, page)
        if dialect in (vllm_v0.DIALECT, vllm_v1.DIALECT) and _lost_more_than_speculation(engine):
            note = "nor is generation_tokens there, which every release prints: the page may be cut off"
            doubts.add(Flag.IDENTITIES_BROKEN, note)
    if _mixes_settings(engines):
        doubts.add(Flag.PER_POSITION_CONFOUNDED, "engines of one model draft different numbers of tokens")
    if dialect == vllm_v1.DIALECT and plan.mixes_generations:
        doubts.add(Flag.IDENTITIES_BROKEN, "series that only a V0 engine prints stand beside a V1 engine's")
    return doubts


def _doubt_counts(doubts: Doubts, dialect: str, engine: EngineReading, cells: EngineCells, *, slack: float) -> None:
    counts, positions = engine.counts.speculation, engine.num_speculative_tokens
    if counts is None:
        return
    doubts.flags |= flags_of(counts, positions, slack)
    # SGLang's setting may have moved since start, and Ray's page shows a lower bound: neither bounds the counts.
    limit = positions if engine.prints_zeros and dialect != sglang.DIALECT else None
    broken = contradiction(counts, positions=limit, traffic=engine.counts.traffic, slack=slack)
    if broken is None and dialect != sglang.DIALECT:
        broken = vllm_v1.missing_series(cells, counts, has_early_releases=dialect == vllm_v1.DIALECT)
    doubts.contradict(broken)


def _doubt_v0(doubts: Doubts, engine: EngineReading, cells: EngineCells, page: Page) -> None:
    if vllm_v0.undercounts_tokens(cells, engine):
        note = "generated tokens are counted one a step: too low by the length"
        doubts.add(Flag.V0_COUNTERS_UNRELIABLE, note)
    if engine.v0 is not None and engine.v0.draft_tokens and not vllm_v0.is_first_report(engine.v0):
        doubts.add(Flag.V0_COUNTERS_UNRELIABLE)
    doubts.contradict(vllm_v0.contradiction(cells, page.values, engine))


def _doubt_sglang(doubts: Doubts, engine: EngineReading, cells: EngineCells, page: Page) -> None:
    if sglang.rate_out_of_range(cells, page.values):
        doubts.add(Flag.ACCEPTANCE_OUT_OF_RANGE)
    doubts.contradict(sglang.missing_series(cells))


def _mixes_settings(engines: tuple[EngineReading, ...]) -> bool:
    """Whether engines of one model print different numbers of positions: added up, the late ones look worse."""
    positions: dict[str, set[int]] = {}
    for engine in engines:
        counts = engine.counts.speculation
        if counts is not None and counts.accepted_per_pos and counts.num_drafts and engine.prints_zeros:
            positions.setdefault(engine.model, set()).add(len(counts.accepted_per_pos))
    return any(len(numbers) > 1 for numbers in positions.values())


def _lost_more_than_speculation(engine: EngineReading) -> bool:
    """Whether a vLLM page without speculation also lacks what stands on every whole page."""
    traffic = engine.counts.traffic
    speaks = engine.counts.speculation is not None or engine.v0 is not None
    return engine.prints_zeros and not speaks and (traffic is None or traffic.generation_tokens is None)
