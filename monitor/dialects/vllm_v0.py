"""vLLM's V0 engine (0.4.0 to 0.11.0; speculation 0.5.3 to 0.9.2). Names in `vllm_names`.

What V0 prints of speculation is mostly wrong (`spec_decode/metrics.py`, `engine/metrics.py`; reproduced on a real
0.8.5): its counters add up running totals, so they grow with the square of time; "accepted" counts tokens after a
rejected one; generated tokens count one per step. What holds: `efficiency` x (k + 1) = tokens per draft since start;
`time_per_output_token_seconds_count` = one per sequence and step, the missing number of drafts; and the token sum of
finished requests. Gauges move every 5 seconds of work and keep their last value when idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from monitor.dialects.bind import EngineCells
from monitor.dialects.cells import Cell, Values, take
from monitor.dialects.parts import has_traffic, read_gauges, read_latency, read_traffic
from monitor.model.counts import Counts, SpeculationCounts, TrafficCounts, V0Sums
from monitor.model.reading import EngineReading, Verdict

DIALECT = "vllm_v0"

#: Share by which the averages may differ from the counters' ratio at the first report (they are printed with 6 digits
#: at least): only then are the counters totals. Later the two agree this well only by accident.
FIRST_REPORT_TOLERANCE = 1e-6
#: Distance from a whole number within which an estimate of num_speculative_tokens is taken (tokens).
TOKENS_TOLERANCE = 0.25
#: The same at the first report, where the numbers of one page must fit exactly (tokens).
FIRST_REPORT_TOKENS_TOLERANCE = 0.01
#: What printed averages may be beside counters that say the same (ratio).
PRINTED_RATIO = 1e-4
#: By how much a share worked out from printed numbers may leave its range.
_ROUNDING = 0.01
#: Above this an estimate is noise: its error grows with the square of num_speculative_tokens.
MAX_TOKENS = 20


def read_engine(
    cells: EngineCells, values: Values, http: Mapping[str, Cell], previous: EngineReading | None
) -> EngineReading:
    """One engine of a V0 page; `previous` is the same engine on the page before, for what a single page cannot say."""
    sums = _read_sums(cells, values)
    traffic = read_traffic(cells, values, http)
    if sums is not None and (finished := take(values, cells.numbers.get("output_length_sum"))) is not None:
        traffic = _with_generation(traffic, finished)
    tokens = _tokens(sums, previous)
    steps = take(values, cells.numbers.get("inter_token_count"))
    return EngineReading(
        model=cells.model,
        engine=cells.engine,
        counts=Counts(
            speculation=_estimate(sums, tokens, steps, traffic.generation_tokens),
            traffic=traffic if has_traffic(traffic) else None,
            latency=read_latency(cells, values),
        ),
        gauges=read_gauges(cells, values),
        num_speculative_tokens=tokens,
        v0=sums,
    )


def _read_sums(cells: EngineCells, values: Values) -> V0Sums | None:
    numbers = cells.numbers
    if not any(name in numbers for name in ("v0_efficiency", "v0_acceptance_rate", "v0_emitted", "num_draft_tokens")):
        return None
    return V0Sums(
        efficiency=_share(take(values, numbers.get("v0_efficiency"))),
        acceptance_rate=_share(take(values, numbers.get("v0_acceptance_rate"))),
        accepted=take(values, numbers.get("num_accepted_tokens")),
        draft_tokens=take(values, numbers.get("num_draft_tokens")),
        emitted=take(values, numbers.get("v0_emitted")),
    )


def _tokens(sums: V0Sums | None, previous: EngineReading | None) -> int | None:
    """num_speculative_tokens, found once per process: it cannot change while counters go on."""
    before = previous.v0 if previous is not None else None
    if sums is not None and before is not None and previous is not None and previous.num_speculative_tokens is not None:
        if (sums.draft_tokens or 0) >= (before.draft_tokens or 0) and not is_first_report(sums):
            return previous.num_speculative_tokens
    return find_tokens(sums, before)


def is_first_report(sums: V0Sums) -> bool:
    """Whether the counters are still totals: their ratio is the average that the gauge gives.

    With perfect acceptance, or none, the ratio never moves, so nothing can be told.
    """
    if not sums.draft_tokens or sums.accepted is None or sums.emitted is None or sums.acceptance_rate is None:
        return False
    ratio = sums.accepted / sums.draft_tokens
    return 0 < sums.acceptance_rate < 1 and abs(ratio - sums.acceptance_rate) <= FIRST_REPORT_TOLERANCE


def find_tokens(now: V0Sums | None, before: V0Sums | None) -> int | None:
    """num_speculative_tokens from the page, or from two pages; None where the numbers give no whole number.

    With e the efficiency and q = emitted / drafted of the same span, q = e (k + 1) / k, so k = e / (q - e). The
    counters' growth between two pages mixes the reports in it by weight; the same mix of the acceptance average (whose
    ends are known) tells the weight, and with it the efficiency to compare with.
    """
    if now is None or now.efficiency is None or now.draft_tokens is None or now.emitted is None:
        return None
    if is_first_report(now):
        return _whole(now.efficiency, now.emitted / now.draft_tokens, FIRST_REPORT_TOKENS_TOLERANCE)
    if before is None or before.draft_tokens is None or before.emitted is None or before.accepted is None:
        return None
    drafted, emitted = now.draft_tokens - before.draft_tokens, now.emitted - before.emitted
    if drafted <= 0 or emitted <= 0 or now.accepted is None:
        return None
    mixed = _mixed_efficiency(now, before, (now.accepted - before.accepted) / drafted)
    return None if mixed is None else _whole(mixed, emitted / drafted)


def _mixed_efficiency(now: V0Sums, before: V0Sums, accepted_ratio: float) -> float | None:
    assert now.efficiency is not None
    if before.efficiency is None or before.acceptance_rate is None or now.acceptance_rate is None:
        return now.efficiency
    span = before.acceptance_rate - now.acceptance_rate
    weight = (accepted_ratio - now.acceptance_rate) / span if abs(span) > 1e-3 else 0.0
    if not -_ROUNDING <= weight <= 1 + _ROUNDING:
        return None
    return now.efficiency + min(1.0, max(0.0, weight)) * (before.efficiency - now.efficiency)


def _whole(efficiency: float, emitted_per_drafted: float, tolerance: float = TOKENS_TOLERANCE) -> int | None:
    rest = emitted_per_drafted - efficiency
    if rest * (MAX_TOKENS + 1) <= efficiency:
        return None
    tokens = efficiency / rest
    whole = round(tokens)
    return whole if 1 <= whole <= MAX_TOKENS and abs(tokens - whole) <= tolerance else None


def length_of(sums: V0Sums | None, tokens: int | None) -> float | None:
    """Tokens per draft since start, bonus included: efficiency x (k + 1), 1 at least; None where either is unknown."""
    if sums is None or sums.efficiency is None or tokens is None:
        return None
    length = sums.efficiency * (tokens + 1)
    return length if length >= 1 - PRINTED_RATIO else None


def contradiction(cells: EngineCells, values: Values, engine: EngineReading) -> str | None:
    """The first identity that a V0 engine's numbers break, in words; None where they agree.

    Adding up running totals keeps order and bounds: accepted <= drafted; drafts = drafted / k emit 1 to k + 1 tokens.
    """
    for name in ("v0_efficiency", "v0_acceptance_rate"):
        share = take(values, cells.numbers.get(name))
        if share is not None and not 0 <= share <= 1:
            return f"{name.removeprefix('v0_')} is {share:g}: expected a share"
    sums, tokens = engine.v0, engine.num_speculative_tokens
    if sums is None or not sums.draft_tokens:
        return None
    drafted, accepted, emitted = sums.draft_tokens, sums.accepted, sums.emitted
    if accepted is not None and accepted > drafted:
        return f"{accepted:.0f} accepted of {drafted:.0f} draft tokens"
    if emitted is not None:
        least, most = (drafted / tokens, drafted * (tokens + 1) / tokens) if tokens else (0.0, 2 * drafted)
        if not least * (1 - PRINTED_RATIO) <= emitted <= most * (1 + PRINTED_RATIO):
            return f"{emitted:.0f} emitted for {drafted:.0f} draft tokens"
    if sums.efficiency is not None and tokens and length_of(sums, tokens) is None:
        return f"efficiency {sums.efficiency:g} with {tokens} tokens is less than one token a draft"
    if is_first_report(sums) and tokens is None and None not in (sums.efficiency, emitted):
        return "the averages do not fit the counters of the first report"
    return None


def undercounts_tokens(cells: EngineCells, engine: EngineReading) -> bool:
    """Whether generated tokens are the counter's, one a step, on an engine that drafted.

    At the first report the emitted tokens are known: a counter that reaches them is right.
    """
    sums, traffic = engine.v0, engine.counts.traffic
    if sums is None or not sums.draft_tokens or "output_length_sum" in cells.numbers:
        return False
    counted = traffic.generation_tokens if traffic is not None else None
    emitted = sums.emitted if is_first_report(sums) else None
    return counted is None or emitted is None or counted < emitted


def _estimate(
    sums: V0Sums | None, tokens: int | None, steps: float | None, generated: float | None
) -> SpeculationCounts | None:
    """Cumulative counts in V1's sense, as far as they follow from efficiency, k and the number of drafts."""
    length = length_of(sums, tokens)
    if sums is None or length is None or tokens is None:
        return None
    drafts = steps
    if drafts is None and is_first_report(sums) and sums.draft_tokens is not None:
        drafts = sums.draft_tokens / tokens
    if drafts is None or (generated is not None and drafts > max(generated, 1) * 2):
        return None
    return SpeculationCounts(drafts, drafts * tokens, drafts * (length - 1))


def judge(engines: Sequence[EngineReading]) -> tuple[Verdict, str]:
    """What the page is good for. V0 declares the speculation series whether or not it speculates."""
    sums = [engine.v0 for engine in engines if engine.v0 is not None]
    if not sums:
        return Verdict.NOT_SPEC_DECODE, "speculation series without a sample: off, or nothing reported yet"
    telling = [one for one in sums if one.efficiency is not None or one.acceptance_rate is not None]
    if telling:
        lengths = [length_of(engine.v0, engine.num_speculative_tokens) for engine in engines]
        known = [length for length in lengths if length is not None]
        told = f"{known[0]:.2f} tokens a draft" if known else _told_without_tokens(telling[0])
        return Verdict.OK, f"V0 engine, averages since its start only: {told}"
    return Verdict.NO_DRAFTS_YET, "the averages are NaN: nothing has been drafted yet"


def _told_without_tokens(sums: V0Sums) -> str:
    """What the averages say where k is not known: a share of the k + 1 tokens that a draft could make."""
    if sums.efficiency is None:
        return f"{sums.acceptance_rate:.1%} of draft tokens accepted, each counted whatever came before it"
    return (
        f"a draft makes {sums.efficiency:.1%} of the k + 1 tokens that it could, and two pages taken under load show k"
    )


def _with_generation(traffic: TrafficCounts, generated: float) -> TrafficCounts:
    return replace(traffic, generation_tokens=generated)


def _share(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= 1 else None
