"""The metrics page of a simulated server, line for line as vLLM 0.32.0 prints one. It owns no figures."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

from monitor.simulator.blocks import Block, Labels, births, histogram_samples, histogram_values, number
from monitor.simulator.counts import Counts, Histogram
from monitor.simulator.engine import Engine, Limits
from monitor.simulator.families import CACHE_CONFIG, ENGINE, PYTHON, SPECULATION, Family
from monitor.simulator.http_counts import HttpCounts
from monitor.simulator.load import BLOCK_TOKENS
from monitor.simulator.page_http import http_text
from monitor.simulator.process_figures import Figures

#: vLLM's front end answers so, whatever the client accepts.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds between the births of two series: they are made one after the other at start.
_BIRTH_STEP = 1.3e-5
#: Bytes of KV a token, as of an 8B model with grouped attention in bf16; only shown.
_KV_BYTES_PER_TOKEN = 131_072

#: The label that tells the series of a family apart, and its values in the order of a live page.
_EXTRA_LABELS = {
    "vllm:num_requests_waiting_by_reason": ("reason", ("capacity", "deferred")),
    "vllm:engine_sleep_state": ("sleep_state", ("awake", "weights_offloaded", "discard_all")),
    "vllm:prompt_tokens_by_source_total": ("source", ("local_compute", "local_cache_hit", "external_kv_transfer")),
    "vllm:prompt_tokens_cached_by_source_total": ("source", ("device", "host", "p2p", "disk", "external_unspecified")),
    "vllm:request_success_total": ("finished_reason", ("stop", "length", "abort", "error", "repetition")),
    "vllm:admission_rejections_total": ("reason", ("max_num_queued_reqs", "max_num_queued_tokens")),
}


class MetricsPage:
    """Page of one engine life; the lines are made once, because only values change."""

    def __init__(
        self, engine: Engine, model_name: str, process_started: float, series_born: float, log_stats: bool = True
    ) -> None:
        """Times are unix seconds; `log_stats` False leaves the engine's series out, as `--disable-log-stats` does."""
        self._engine = engine
        self._process_started = process_started
        self._series_born = series_born
        self._births = 0
        counts, own = engine.counts, {"engine": "0", "model_name": model_name}
        families = (*(SPECULATION if counts.num_speculative_tokens else ()), *ENGINE) if log_stats else ()
        self._engine_blocks = {
            family.name: self._block(family, _series(family.name, own, counts, engine.limits), _histograms(counts))
            for family in families
        }
        self._process_blocks = {
            family.name: Block(family, [("", labels) for labels in _process_series(family.name)]) for family in PYTHON
        }

    def render(self, http: HttpCounts, figures: Figures) -> str:
        """The whole page at this moment."""
        process = self._process_values(figures)
        parts = [block.text(process[name]) for name, block in self._process_blocks.items()]
        if self._engine_blocks:
            values = {**_engine_values(self._engine), **_histogram_values(self._engine.counts)}
            parts += [block.text(values[name]) for name, block in self._engine_blocks.items()]
        parts.append(http_text(http, self._series_born))
        return "".join(parts)

    def _block(self, family: Family, series: Sequence[Labels], histograms: Mapping[str, Histogram]) -> Block:
        if family.type == "histogram":
            (labels,) = series
            return Block(family, histogram_samples(labels, histograms[family.name].edges), self._born(family, series))
        samples = [("", labels) for labels in series]
        return Block(family, samples, self._born(family, series) if family.type == "counter" else "")

    def _born(self, family: Family, series: Sequence[Labels]) -> str:
        times = [self._series_born + _BIRTH_STEP * (self._births + place) for place in range(len(series))]
        self._births += len(series)
        return births(family, series, times)

    def _process_values(self, figures: Figures) -> dict[str, Sequence[float]]:
        return {
            "python_gc_objects_collected_total": figures.gc_collected,
            "python_gc_objects_uncollectable_total": figures.gc_uncollectable,
            "python_gc_collections_total": figures.gc_collections,
            "python_info": (1,),
            "process_virtual_memory_bytes": (figures.virtual_bytes,),
            "process_resident_memory_bytes": (figures.resident_bytes,),
            "process_start_time_seconds": (self._process_started,),
            "process_cpu_seconds_total": (figures.cpu_seconds,),
            "process_open_fds": (figures.open_fds,),
            "process_max_fds": (figures.max_fds,),
        }


def _series(name: str, own: Labels, counts: Counts, limits: Limits) -> list[Labels]:
    """Label sets of an engine family."""
    if name == "vllm:spec_decode_num_accepted_tokens_per_pos_total":
        return [{**own, "position": str(position)} for position in range(counts.num_speculative_tokens)]
    if name == "vllm:cache_config_info":
        return [{**_cache_config(limits), "engine": own["engine"]}]
    if name == "vllm:admission_rejections_total":  # counted at the front end, before an engine is chosen
        own = {"model_name": own["model_name"]}
    if name not in _EXTRA_LABELS:
        return [own]
    label, values = _EXTRA_LABELS[name]
    return [{**own, label: value} for value in values]


def _process_series(name: str) -> list[Labels]:
    if name.startswith("python_gc"):
        return [{"generation": str(generation)} for generation in range(3)]
    if name != "python_info":
        return [{}]
    version = dict(zip(("major", "minor", "patchlevel"), platform.python_version_tuple(), strict=True))
    return [{"implementation": platform.python_implementation(), "version": platform.python_version(), **version}]


def _engine_values(engine: Engine) -> dict[str, Sequence[float]]:
    counts, asleep, none = engine.counts, engine.is_asleep, (0,)
    cached, prompts = counts.cached_prompt_tokens, counts.prompt_tokens
    return {
        "vllm:spec_decode_num_drafts_total": (counts.num_drafts,),
        "vllm:spec_decode_num_draft_tokens_total": (counts.num_draft_tokens,),
        "vllm:spec_decode_num_accepted_tokens_total": (counts.num_accepted_tokens,),
        "vllm:spec_decode_num_accepted_tokens_per_pos_total": counts.accepted_per_pos,
        "vllm:estimated_flops_per_gpu_total": none,
        "vllm:estimated_read_bytes_per_gpu_total": none,
        "vllm:estimated_write_bytes_per_gpu_total": none,
        "vllm:num_requests_running": (engine.running,),
        "vllm:num_requests_waiting": (engine.waiting,),
        "vllm:num_requests_waiting_by_reason": (engine.waiting, 0),
        "vllm:engine_sleep_state": (0, 1, 0) if asleep else (1, 0, 0),
        "vllm:kv_cache_usage_perc": (engine.kv_usage,),
        "vllm:prefix_cache_queries_total": (prompts,),
        "vllm:prefix_cache_hits_total": (cached,),
        "vllm:external_prefix_cache_queries_total": none,
        "vllm:external_prefix_cache_hits_total": none,
        "vllm:mm_cache_queries_total": none,
        "vllm:mm_cache_hits_total": none,
        "vllm:num_preemptions_total": (counts.preemptions,),
        "vllm:prompt_tokens_total": (prompts,),
        "vllm:prompt_tokens_by_source_total": (prompts - cached, cached, 0),
        "vllm:prompt_tokens_cached_total": (cached,),
        "vllm:prompt_tokens_cached_by_source_total": (cached, 0, 0, 0, 0),
        "vllm:generation_tokens_total": (counts.generation_tokens,),
        "vllm:request_success_total": tuple(counts.finished.values()),
        "vllm:admission_rejections_total": (0, 0),
        "vllm:cache_config_info": (1,),
    }


def _histograms(counts: Counts) -> dict[str, Histogram]:
    return {
        "vllm:request_prompt_tokens": counts.prompt_lengths,
        "vllm:request_generation_tokens": counts.generation_lengths,
        "vllm:iteration_tokens_total": counts.iteration_tokens,
        "vllm:request_max_num_generation_tokens": counts.max_generation_lengths,
        "vllm:request_params_n": counts.params_n,
        "vllm:request_params_max_tokens": counts.params_max_tokens,
        "vllm:time_to_first_token_seconds": counts.first_token,
        "vllm:inter_token_latency_seconds": counts.step,
        "vllm:request_time_per_output_token_seconds": counts.time_per_output_token,
        "vllm:e2e_request_latency_seconds": counts.e2e,
        "vllm:request_queue_time_seconds": counts.queue,
        "vllm:request_inference_time_seconds": counts.inference,
        "vllm:request_prefill_time_seconds": counts.prefill,
        "vllm:request_decode_time_seconds": counts.decode,
        "vllm:request_num_preemptions": counts.preemptions_per_request,
        "vllm:request_prefill_kv_computed_tokens": counts.computed_prompt_lengths,
    }


def _histogram_values(counts: Counts) -> dict[str, Sequence[float]]:
    return {name: histogram_values(histogram) for name, histogram in _histograms(counts).items()}


def _cache_config(limits: Limits) -> Labels:
    return {
        **CACHE_CONFIG,
        "block_size": str(BLOCK_TOKENS),
        "effective_attention_block_size": str(BLOCK_TOKENS),
        "num_gpu_blocks": str(limits.kv_tokens // BLOCK_TOKENS),
        "kv_cache_size_tokens": str(limits.kv_tokens),
        "kv_cache_memory_bytes": str(limits.kv_tokens * _KV_BYTES_PER_TOKEN),
        "kv_cache_max_concurrency": number(round(limits.kv_tokens / limits.max_model_len, 2)),
    }
