"""vLLM's metric names with the releases that print them, both engine generations. Data only.

Ranges are exact to the release: the sources of 75 releases from 0.4.0 to 0.33.0 were scanned (V0 in
`vllm/engine/metrics.py`, V1 in `vllm/v1/metrics/loggers.py` and `vllm/v1/spec_decode/metrics.py`).
"""

from __future__ import annotations

from monitor.dialects.names import Kind, Known, Names

C, G, H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

V0: tuple[Known, ...] = (
    Known("spec_decode_draft_acceptance_rate", G, "v0_acceptance_rate", "0.5.3", "0.9.2", "V0"),
    Known("spec_decode_efficiency", G, "v0_efficiency", "0.5.3", "0.9.2", "V0"),
    Known("spec_decode_num_accepted_tokens", C, "num_accepted_tokens", "0.5.3", "0.9.2", "V0"),
    Known("spec_decode_num_draft_tokens", C, "num_draft_tokens", "0.5.3", "0.9.2", "V0"),
    Known("spec_decode_num_emitted_tokens", C, "v0_emitted", "0.5.3", "0.9.2", "V0"),
    Known("generation_tokens", C, "generation_tokens", "0.4.0", "0.11.0", "V0"),
    Known("prompt_tokens", C, "prompt_tokens", "0.4.0", "0.11.0", "V0"),
    Known("time_to_first_token_seconds", H, "time_to_first_token", "0.4.0", "0.11.0", "V0"),
    Known("time_per_output_token_seconds", H, "inter_token", "0.4.0", "0.11.0", "V0", rank=1),
    Known("inter_token_latency_seconds", H, "inter_token", "0.10.2", "0.11.0", "V0"),
    Known("e2e_request_latency_seconds", H, "e2e_request", "0.4.0", "0.11.0", "V0"),
    Known("request_queue_time_seconds", H, "queue", "0.6.4", "0.11.0", "V0"),
    Known("request_generation_tokens", H, "output_length", "0.4.2", "0.11.0", "V0"),
    Known("request_prompt_tokens", H, "prompt_length", "0.4.2", "0.11.0", "V0"),
    Known("iteration_tokens_total", H, "iteration", "0.6.4", "0.11.0", "V0"),
    Known("num_requests_running", G, "running", "0.4.0", "0.11.0", "V0"),
    Known("num_requests_waiting", G, "waiting", "0.4.0", "0.11.0", "V0"),
    Known("gpu_cache_usage_perc", G, "kv_usage", "0.4.0", "0.11.0", "V0", rank=1),
    Known("num_preemptions", C, "preemptions", "0.4.3", "0.11.0", "V0"),
    Known("request_success", C, "finished", "0.4.2", "0.11.0", "V0"),
    Known("num_requests_swapped", G, "v0_swapped", "0.4.0", "0.9.0.1", "V0"),
    Known("cpu_cache_usage_perc", G, "v0_cpu_cache", "0.4.0", "0.9.0.1", "V0"),
    Known("avg_generation_throughput_toks_per_s", G, None, "0.4.0", "0.6.6.post1", "V0"),
    Known("avg_prompt_throughput_toks_per_s", G, None, "0.4.0", "0.6.6.post1", "V0"),
    Known("tokens", C, None, "0.6.4", "0.7.3", "V0"),
    Known("gpu_prefix_cache_hit_rate", G, None, "", None, "V0"),
    Known("cpu_prefix_cache_hit_rate", G, None, "", None, "V0"),
)

V1: tuple[Known, ...] = (
    Known("spec_decode_num_drafts", C, "num_drafts", "0.8.5", None, "V1"),
    Known("spec_decode_num_draft_tokens", C, "num_draft_tokens", "0.8.3", None, "V1"),
    Known("spec_decode_num_accepted_tokens", C, "num_accepted_tokens", "0.8.3", None, "V1"),
    Known("spec_decode_num_accepted_tokens_per_pos", C, "accepted_per_pos", "0.8.5", None, "V1"),
    # Collected from 0.24.0, printed by builds after 0.33.0 (vllm-project/vllm#47808).
    Known("spec_decode_num_draft_tokens_per_pos", C, "drafted_per_pos", "0.34.0", None, "V1"),
    Known("generation_tokens", C, "generation_tokens", "0.7.1", None, "V1"),
    Known("prompt_tokens", C, "prompt_tokens", "0.7.1", None, "V1"),
    # Seen in 0.29 and 0.32; releases before were not looked up.
    Known("prompt_tokens_cached", C, "cached_prompt_tokens", "0.29.0", None, "V1"),
    Known("time_to_first_token_seconds", H, "time_to_first_token", "0.7.1", None, "V1"),
    # One observation per engine step, not per token; renamed in 0.10.2, both printed until 0.11.2.
    Known("time_per_output_token_seconds", H, "inter_token", "0.7.1", "0.14.1", "V1", rank=1),
    Known("inter_token_latency_seconds", H, "inter_token", "0.10.2", None, "V1"),
    Known("request_time_per_output_token_seconds", H, "time_per_output_token", "0.11.0", None, "V1"),
    Known("e2e_request_latency_seconds", H, "e2e_request", "0.7.3", None, "V1"),
    Known("request_queue_time_seconds", H, "queue", "0.7.3", None, "V1"),
    Known("request_generation_tokens", H, "output_length", "0.7.1", None, "V1"),
    Known("request_prompt_tokens", H, "prompt_length", "0.7.1", None, "V1"),
    Known("iteration_tokens_total", H, "iteration", "0.7.3", None, "V1"),
    Known("num_requests_running", G, "running", "0.7.1", None, "V1"),
    Known("num_requests_waiting", G, "waiting", "0.7.1", None, "V1"),
    Known("gpu_cache_usage_perc", G, "kv_usage", "0.7.1", "0.11.2", "V1", rank=1),
    Known("kv_cache_usage_perc", G, "kv_usage", "0.9.2", None, "V1"),
    Known("num_preemptions", C, "preemptions", "0.8.0", None, "V1"),
    Known("request_success", C, "finished", "0.7.2", None, "V1"),
    Known("admission_rejections", C, "rejections", "0.32.0", None, "V1"),
    Known("engine_sleep_state", G, "sleep_state", "0.11.1", None, "V1"),
    # Diffusion language models, which print no speculation series (their steps denoise, nothing is drafted).
    Known("diffusion_num_denoising_steps", C, "denoising_steps", "0.24.0", None, "V1"),
)

#: Printed by some releases and of no use to acceptd: known, so that they are not reported as new. Their versions were
#: not looked up.
NOT_READ: tuple[Known, ...] = tuple(
    Known(name, kind, None, "")
    for kind, names in {
        C: (
            "prompt_tokens_by_source prompt_tokens_cached_by_source prompt_tokens_recomputed prefix_cache_queries "
            "prefix_cache_hits gpu_prefix_cache_queries gpu_prefix_cache_hits external_prefix_cache_queries "
            "external_prefix_cache_hits mm_cache_queries mm_cache_hits corrupted_requests "
            "diffusion_num_canvas_positions diffusion_num_committed_tokens "
            "estimated_flops_per_gpu estimated_read_bytes_per_gpu estimated_write_bytes_per_gpu"
        ),
        G: "cache_config_info cache_config lora_requests_info num_requests_waiting_by_reason",
        H: (
            "request_inference_time_seconds request_prefill_time_seconds request_decode_time_seconds "
            "model_forward_time_milliseconds model_execute_time_milliseconds time_in_queue_requests "
            "request_max_num_generation_tokens request_params_n request_params_best_of request_params_max_tokens "
            "request_num_preemptions request_prefill_kv_computed_tokens kv_block_lifetime_seconds "
            "kv_block_idle_before_evict_seconds kv_block_reuse_gap_seconds"
        ),
    }.items()
    for name in names.split()
)

#: Names that only routers and gateways in front of vLLM print: a page of these alone is no engine's.
ROUTER_NAMES = frozenset(
    {
        "current_qps",
        "avg_decoding_length",
        "avg_itl",
        "avg_latency",
        "healthy_pods_total",
        "num_decoding_requests",
        "num_prefill_requests",
        "num_incoming_requests_total",
        "uncomputed_prefix_tokens",
    }
)

NAMES = Names((*V1, *V0, *NOT_READ))
