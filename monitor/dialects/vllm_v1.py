"""vLLM's V1 engine (0.7.1 and later; its speculation series from 0.8.3). Names in `vllm_names`.

Semantics: `v1/spec_decode/metrics.py` and `v1/core/sched/scheduler.py`, read in 0.8.5 to 0.33.0. `num_drafts` counts
requests that had a draft in a step; the series exist with value 0 from the start if and only if a speculative
configuration is set (0.8.5 and later), one position label per speculative token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.dialects import ray
from monitor.dialects.bind import EngineCells
from monitor.dialects.cells import Cell, Values, take, take_each
from monitor.dialects.parts import has_traffic, read_created, read_gauges, read_latency, read_traffic
from monitor.model.counts import Counts, SpeculationCounts
from monitor.model.reading import EngineReading, Verdict

DIALECT = "vllm_v1"
#: Generated tokens after which draft counters that still say 0 mean "off", on versions that print them either way.
OFF_AFTER_TOKENS = 64
_SPECULATION: tuple[str, ...] = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")


def read_engine(cells: EngineCells, values: Values, http: Mapping[str, Cell]) -> EngineReading:
    """One engine of a V1 page."""
    traffic = read_traffic(cells, values, http)
    speculation, tokens = _read_speculation(cells, values), highest_position(cells)
    if cells.is_rays and speculation is not None:
        tokens = ray.least_tokens(tokens, speculation.num_drafts, speculation.num_draft_tokens)
        has_accepted = "num_accepted_tokens" in cells.numbers or "accepted_per_pos" in cells.keyed
        speculation = ray.with_zeros(speculation, tokens, has_accepted=has_accepted)
    return EngineReading(
        model=cells.model,
        engine=cells.engine,
        counts=Counts(
            speculation=speculation,
            traffic=traffic if has_traffic(traffic) else None,
            latency=read_latency(cells, values),
        ),
        gauges=read_gauges(cells, values, sleeping=_is_sleeping(cells, values)),
        num_speculative_tokens=tokens,
        prints_zeros=not cells.is_rays,
        created=read_created(cells, values),
        is_diffusion="denoising_steps" in cells.numbers,
    )


def _read_speculation(cells: EngineCells, values: Values) -> SpeculationCounts | None:
    if not has_speculation(cells):
        return None
    return SpeculationCounts(
        num_drafts=take(values, cells.numbers.get("num_drafts")),
        num_draft_tokens=take(values, cells.numbers.get("num_draft_tokens")),
        num_accepted_tokens=take(values, cells.numbers.get("num_accepted_tokens")),
        accepted_per_pos=read_positions(cells.keyed.get("accepted_per_pos", {}), values),
        drafted_per_pos=read_positions(cells.keyed.get("drafted_per_pos", {}), values),
    )


def has_speculation(cells: EngineCells) -> bool:
    """Whether the page has any speculation counter of this engine."""
    return any(name in cells.numbers for name in _SPECULATION) or "accepted_per_pos" in cells.keyed


def read_positions(cells: Mapping[str, Cell], values: Values) -> tuple[float, ...] | None:
    """Counts by draft position, from position 0; None where one is missing or unknown."""
    known = take_each(values, cells)
    try:
        return tuple(known[str(position)] for position in range(len(cells))) or None
    except KeyError:
        return None


def highest_position(cells: EngineCells) -> int | None:
    """Number of draft positions on the page: the configured num_speculative_tokens; None where it has none."""
    labels = cells.keyed.get("accepted_per_pos", ())
    positions = [int(label) for label in labels if label.isascii() and label.isdecimal() and len(label) <= 3]
    return max(positions) + 1 if positions else None


def _is_sleeping(cells: EngineCells, values: Values) -> bool | None:
    states = take_each(values, cells.keyed.get("sleep_state", {}))
    return None if "awake" not in states else states["awake"] == 0


def judge(engines: Sequence[EngineReading], declared: bool) -> tuple[Verdict, str]:
    """What the page is good for. `declared`: it has TYPE lines of speculation series without samples."""
    speculating = [engine for engine in engines if engine.counts.speculation is not None]
    if not speculating:
        if declared:
            return Verdict.NO_DRAFTS_YET, "speculation series are declared but have no sample yet"
        if any(engine.is_diffusion for engine in engines):
            return Verdict.NOT_SPEC_DECODE, "a diffusion language model: its steps denoise, nothing is drafted"
        return Verdict.NOT_SPEC_DECODE, "engine metrics without any speculation series"
    drafted = [drafted_so_far(engine) for engine in speculating]
    if any(count is None or count > 0 for count in drafted):
        drafts = [_drafts(engine) for engine in speculating]
        early = all(count is None for count in drafts)
        return Verdict.OK, said_of(drafted, "draft tokens") if early else said_of(drafts, "drafts")
    if all(engine.num_speculative_tokens is None for engine in speculating) and _has_generated(speculating):
        # Before 0.8.5 the counters stand on the page whether or not speculation is configured.
        return Verdict.NOT_SPEC_DECODE, "draft counters stay 0 while tokens are generated"
    return Verdict.NO_DRAFTS_YET, "speculation is configured and nothing has been drafted yet"


def said_of(drafted: Sequence[float | None], unit: str) -> str:
    """How much was drafted, in words; engines whose count is lost are not counted as 0."""
    known = [count for count in drafted if count is not None]
    if not known:
        return f"speculation: its number of {unit} is not on the page"
    missing = len(drafted) - len(known)
    but = f", not counting {missing} of {len(drafted)} engines" if missing else ""
    return f"speculation: {sum(known):,.0f} {unit} since start{but}"


def drafted_so_far(engine: EngineReading) -> float | None:
    """Drafts since start, draft tokens where the version has no draft counter; None where the sample is lost."""
    counts = engine.counts.speculation
    assert counts is not None
    return counts.num_drafts if counts.num_drafts is not None else counts.num_draft_tokens


def _drafts(engine: EngineReading) -> float | None:
    return engine.counts.speculation.num_drafts if engine.counts.speculation is not None else None


def _has_generated(engines: Sequence[EngineReading]) -> bool:
    traffic = [engine.counts.traffic for engine in engines if engine.counts.traffic is not None]
    return sum(counts.generation_tokens or 0 for counts in traffic) >= OFF_AFTER_TOKENS


def missing_series(cells: EngineCells, counts: SpeculationCounts, *, has_early_releases: bool = True) -> str | None:
    """Which speculation series are missing beside others that always come with them, in words; None where all are.

    vLLM 0.8.3 and 0.8.4 print draft and accepted tokens only; every later release, and llama-server from b10289, prints
    the three counters together. Through Ray those that are still 0 are missing.
    """
    has_positions = "accepted_per_pos" in cells.keyed
    if has_positions and counts.accepted_per_pos is None:
        return "a draft position is missing"
    present = _SPECULATION
    if has_early_releases and "num_drafts" not in cells.numbers and not has_positions:
        present = ("num_draft_tokens", "num_accepted_tokens")
    elif cells.is_rays and not has_positions:
        present = ("num_drafts", "num_draft_tokens")
    missing = [name for name in present if name not in cells.numbers]
    return f"{', '.join(missing)} missing" if missing else None
