"""Families of a vLLM 0.32.0 page that a simulated server prints: name, type, our own help text. Data only.

Names, types and their order were taken from a live page; the texts are ours. Counters carry their `_total`.
"""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """One family as its HELP and TYPE lines show it."""

    name: str
    type: str
    help: str


PYTHON = (
    Family("python_gc_objects_collected_total", "counter", "Objects freed by the garbage collector"),
    Family("python_gc_objects_uncollectable_total", "counter", "Objects that the garbage collector could not free"),
    Family("python_gc_collections_total", "counter", "Runs of the garbage collector, by generation"),
    Family("python_info", "gauge", "Interpreter that serves this page"),
    Family("process_virtual_memory_bytes", "gauge", "Address space of the process"),
    Family("process_resident_memory_bytes", "gauge", "Memory of the process that is in RAM"),
    Family("process_start_time_seconds", "gauge", "When the process began, unix time"),
    Family("process_cpu_seconds_total", "counter", "CPU time of the process, user and system"),
    Family("process_open_fds", "gauge", "File descriptors that are open"),
    Family("process_max_fds", "gauge", "File descriptors that may be open"),
)
SPECULATION = (
    Family("vllm:spec_decode_num_drafts_total", "counter", "Drafts: one for each request and step with draft tokens"),
    Family("vllm:spec_decode_num_draft_tokens_total", "counter", "Draft tokens that were verified"),
    Family("vllm:spec_decode_num_accepted_tokens_total", "counter", "Draft tokens that were accepted"),
    Family("vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter", "Accepted draft tokens by their place"),
)
ENGINE = (
    Family("vllm:estimated_flops_per_gpu_total", "counter", "Estimated floating point operations of one GPU"),
    Family("vllm:estimated_read_bytes_per_gpu_total", "counter", "Estimated bytes read from one GPU's memory"),
    Family("vllm:estimated_write_bytes_per_gpu_total", "counter", "Estimated bytes written to one GPU's memory"),
    Family("vllm:num_requests_running", "gauge", "Requests in the running batch"),
    Family("vllm:num_requests_waiting", "gauge", "Requests that wait to be admitted"),
    Family("vllm:num_requests_waiting_by_reason", "gauge", "Requests that wait, by why"),
    Family("vllm:engine_sleep_state", "gauge", "1 for the sleep state that the engine is in"),
    Family("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use, 1 is full"),
    Family("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache"),
    Family("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache"),
    Family("vllm:external_prefix_cache_queries_total", "counter", "Prompt tokens looked up in caches outside"),
    Family("vllm:external_prefix_cache_hits_total", "counter", "Prompt tokens found in caches outside"),
    Family("vllm:mm_cache_queries_total", "counter", "Items looked up in the multi-modal cache"),
    Family("vllm:mm_cache_hits_total", "counter", "Items found in the multi-modal cache"),
    Family("vllm:num_preemptions_total", "counter", "Times that a running request lost its KV blocks"),
    Family("vllm:prompt_tokens_total", "counter", "Prompt tokens taken in"),
    Family("vllm:prompt_tokens_by_source_total", "counter", "Prompt tokens taken in, by where their KV came from"),
    Family("vllm:prompt_tokens_cached_total", "counter", "Prompt tokens whose KV was not computed anew"),
    Family("vllm:prompt_tokens_cached_by_source_total", "counter", "Prompt tokens from caches, by the cache's place"),
    Family("vllm:generation_tokens_total", "counter", "Tokens generated"),
    Family("vllm:request_success_total", "counter", "Requests that ended, by reason"),
    Family("vllm:admission_rejections_total", "counter", "Requests refused at the door, by limit"),
    Family("vllm:request_prompt_tokens", "histogram", "Prompt tokens of a finished request"),
    Family("vllm:request_generation_tokens", "histogram", "Generated tokens of a finished request"),
    Family("vllm:iteration_tokens_total", "histogram", "Tokens of one engine step, prompt and generated"),
    Family("vllm:request_max_num_generation_tokens", "histogram", "Longest answer of a finished request"),
    Family("vllm:request_params_n", "histogram", "Answers asked for by a request"),
    Family("vllm:request_params_max_tokens", "histogram", "Token limit asked for by a request"),
    Family("vllm:time_to_first_token_seconds", "histogram", "From arrival to the first token"),
    Family("vllm:inter_token_latency_seconds", "histogram", "Between two outputs of one request: one step each"),
    Family("vllm:request_time_per_output_token_seconds", "histogram", "Decode time of a request over its later tokens"),
    Family("vllm:e2e_request_latency_seconds", "histogram", "From arrival to the last token"),
    Family("vllm:request_queue_time_seconds", "histogram", "From arrival to admission"),
    Family("vllm:request_inference_time_seconds", "histogram", "From admission to the last token"),
    Family("vllm:request_prefill_time_seconds", "histogram", "From admission to the first token"),
    Family("vllm:request_decode_time_seconds", "histogram", "From the first to the last token"),
    Family("vllm:request_num_preemptions", "histogram", "Preemptions of a finished request"),
    Family("vllm:request_prefill_kv_computed_tokens", "histogram", "Prompt tokens computed for a request"),
    Family("vllm:cache_config_info", "gauge", "Settings of the KV cache, as labels"),
)
HTTP = (
    Family("http_requests_total", "counter", "HTTP requests by handler, method and class of status"),
    Family("http_request_size_bytes", "summary", "Length of request bodies by handler"),
    Family("http_response_size_bytes", "summary", "Length of response bodies by handler"),
    Family("http_request_duration_highr_seconds", "histogram", "Duration of all HTTP requests, fine buckets"),
    Family("http_request_duration_seconds", "histogram", "Duration of HTTP requests by handler, coarse buckets"),
)
#: Label of a KV cache setting to the value a simulated server shows; the three sizes are filled in from its limits.
CACHE_CONFIG = {
    "_block_size_resolved": "True",
    "cache_dtype": "auto",
    "cache_hit_alignment_tokens": "None",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "enable_prefix_caching": "True",
    "gpu_memory_utilization": "0.92",
    "hash_block_size": "None",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_cache_layout": "None",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "float32",
    "num_cpu_blocks": "None",
    "num_gpu_blocks_override": "None",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": "None",
    "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None",
    "sliding_window": "None",
    "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "False",
}
