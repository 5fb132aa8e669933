"""SGLang (0.5.23 read; names are older). Source: `srt/observability/metrics_collector.py`.

It prints no accepted or drafted counters and no positions. `spec_verify_calls_total` counts verify steps of finished
requests, so tokens per step over a span are (generated tokens - requests) / verify calls: a request's first token comes
from its prefill. `spec_num_draft_tokens` - 1 tokens are proposed per step where drafting is a chain. The gauges
`spec_accept_length` and `spec_accept_rate` keep the last busy moment's value and changed their meaning twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.dialects.bind import EngineCells
from monitor.dialects.cells import Cell, Values, lines_of, take, take_largest
from monitor.dialects.names import Kind, Known, Names
from monitor.dialects.parts import has_traffic, read_created, read_gauges, read_latency, read_traffic
from monitor.model.counts import Counts, SpeculationCounts, TrafficCounts
from monitor.model.reading import EngineReading, Verdict

DIALECT = "sglang"
#: More tokens a step than this are no setting but a broken gauge.
MAX_TOKENS = 1000

C, G, H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
TABLE: tuple[Known, ...] = (
    Known("spec_verify_calls", C, "verify_calls", "0.5.23"),
    Known("spec_accept_length", G, "accept_length", "0.5.23"),
    Known("spec_accept_rate", G, "accept_rate", "0.5.23"),
    Known("spec_num_steps", G, "num_steps", "0.5.23"),
    Known("spec_num_draft_tokens", G, "step_draft_tokens", "0.5.23"),
    Known("generation_tokens", C, "generation_tokens", "0.5.23"),
    Known("prompt_tokens", C, "prompt_tokens", "0.5.23"),
    Known("cached_tokens", C, "cached_prompt_tokens", "0.5.23"),
    Known("num_requests", C, "finished", "0.5.23"),
    Known("num_running_reqs", G, "running", "0.5.23"),
    Known("num_queue_reqs", G, "waiting", "0.5.23"),
    Known("token_usage", G, "kv_usage", "0.5.23"),
    Known("time_to_first_token_seconds", H, "time_to_first_token", "0.5.23"),
    # One observation a token, each its share of the step's time: no step time, but the time per output token of all
    # requests (`observe_inter_token_latency`). vLLM's metric of that name has one observation a step.
    Known("inter_token_latency_seconds", H, "time_per_output_token", "0.5.23", rank=1),
    Known("request_time_per_output_token_seconds", H, "time_per_output_token", "0.5.23"),
    Known("e2e_request_latency_seconds", H, "e2e_request", "0.5.23"),
    Known("queue_time_seconds", H, "queue", "0.5.23"),
    Known("prompt_tokens_histogram", H, "prompt_length", "0.5.23"),
    Known("generation_tokens_histogram", H, "output_length", "0.5.23"),
    Known("gen_throughput", G, None, "0.5.23"),
    Known("spec_cap_length", G, None, "0.5.23"),
    Known("spec_block_accept_length", G, None, "0.5.23"),
    Known("cache_hit_rate", G, None, ""),
    Known("num_used_tokens", G, None, ""),
)
NAMES = Names(TABLE)


def read_engine(cells: EngineCells, values: Values, http: Mapping[str, Cell]) -> EngineReading:
    """One engine of a SGLang page; its tensor-parallel ranks are one, its data-parallel ranks added up."""
    traffic = read_traffic(cells, values, http)
    tokens = speculative_tokens(cells, values)
    return EngineReading(
        model=cells.model,
        engine=cells.engine,
        counts=Counts(
            speculation=_read_speculation(cells, values, traffic, tokens),
            traffic=traffic if has_traffic(traffic) else None,
            latency=read_latency(cells, values),
        ),
        gauges=read_gauges(cells, values, acceptance_length=_length_now(cells, values)),
        num_speculative_tokens=tokens,
        created=read_created(cells, values),
    )


def speculative_tokens(cells: EngineCells, values: Values) -> int | None:
    """Tokens proposed per step now (moves under adaptive speculation); None where the page does not say or it is off.

    A chain of n steps proposes n tokens and verifies n + 1; where more are verified the draft is a tree, n deep.
    """
    verified = take_largest(values, cells.numbers.get("step_draft_tokens"))
    steps = take_largest(values, cells.numbers.get("num_steps"))
    proposed = verified - 1 if verified is not None and verified >= 2 else None
    known = [tokens for tokens in (proposed, steps) if tokens is not None and 1 <= tokens <= MAX_TOKENS]
    return int(min(known)) if known else None


def _read_speculation(
    cells: EngineCells, values: Values, traffic: TrafficCounts, tokens: int | None
) -> SpeculationCounts | None:
    calls = take(values, cells.numbers.get("verify_calls"))
    if calls is None:
        return None
    generated, finished = traffic.generation_tokens, traffic.finished_requests
    if generated is None or finished is None:
        return SpeculationCounts(calls, None, None)
    verified = take_largest(values, cells.numbers.get("step_draft_tokens"))
    is_chain = tokens is not None and (verified is None or verified == tokens + 1)
    accepted = generated - finished - calls if calls > 0 else 0.0
    return SpeculationCounts(
        num_drafts=calls,
        num_draft_tokens=calls * tokens if tokens is not None and is_chain else None,
        num_accepted_tokens=accepted if accepted >= 0 else None,
    )


def _length_now(cells: EngineCells, values: Values) -> float | None:
    """The length gauge, where all ranks that print one agree; a length below 1 is an idle server's zero."""
    cell = cells.numbers.get("accept_length")
    if cell is None:
        return None
    lengths = {values[line] for line in lines_of(cell)}
    length = lengths.pop() if len(lengths) == 1 else None
    return length if length is not None and length >= 1 else None


def rate_out_of_range(cells: EngineCells, values: Values) -> bool:
    """Whether the acceptance gauge is no ratio (before sgl-project/sglang#11572 it counted the bonus token)."""
    cell = cells.numbers.get("accept_rate")
    lines = lines_of(cell) if cell is not None else ()
    return any((rate := values[line]) is not None and not 0 <= rate <= 1 for line in lines)


def missing_series(cells: EngineCells) -> str | None:
    """Which counters of finished requests are missing beside others that move with them, in words; None where all are.

    A finished request adds to its prompt, its generated tokens and the number of requests at once, under one value of
    `is_streaming` (`observe_one_finished_request`).
    """
    if "verify_calls" in cells.numbers and "generation_tokens" not in cells.numbers:
        return "generation_tokens missing"
    if "verify_calls" in cells.numbers and "finished" not in cells.keyed:
        return "num_requests missing"
    together = ("generation_tokens", "prompt_tokens", "finished")
    ways = {found for name in together if (found := cells.streaming.get(name))}
    return "counters of finished requests are split into different parts" if len(ways) > 1 else None


def judge(engines: Sequence[EngineReading], cells: Sequence[EngineCells], values: Values) -> tuple[Verdict, str]:
    """What the page is good for; gauges that stand at 0 belong to a server without speculation."""
    calls = sum(
        engine.counts.speculation.num_drafts or 0 for engine in engines if engine.counts.speculation is not None
    )
    if calls > 0:
        return Verdict.OK, f"speculation: {calls:,.0f} verify steps of finished requests since start"
    if (lengths := sorted(length for one in cells for length in _lengths(one, values))):
        span = f"{lengths[0]:.2f}" + (f" to {lengths[-1]:.2f}" if lengths[-1] > lengths[0] else "")
        return Verdict.OK, (
            f"{span} tokens a draft in its last busy moment, by gauges alone: no verify counter to take differences of"
        )
    if any(engine.num_speculative_tokens for engine in engines):
        return Verdict.NO_DRAFTS_YET, "speculation is configured and no verify step was counted yet"
    return Verdict.NOT_SPEC_DECODE, "engine metrics without speculation"


def _lengths(cells: EngineCells, values: Values) -> list[float]:
    """What the ranks say that is a length: an idle server's gauge is 0."""
    lines = lines_of(cell) if (cell := cells.numbers.get("accept_length")) is not None else ()
    return [length for line in lines if (length := values[line]) is not None and length >= 1]

