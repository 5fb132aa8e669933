"""vLLM's command-line flags as data, each with the releases that take it. Source: 75 releases, 0.4.0 to 0.33.0.

`engine/arg_utils.py` of each release was read; bounds are exact to the release. It does not hold the keys of the
JSON behind `--speculative-config`: those are in `vllm_keys`.
"""

from __future__ import annotations

from typing import Final

from monitor.launch.argv import Flag, Habits, Kind, Takes
from monitor.launch.versions import Span

OLDEST: Final = "0.4.0"
NEWEST: Final = "0.33.0"
FIRST_WITH_SPECULATION: Final = "0.4.1"

#: `FlexibleArgumentParser` (`utils/argparse_utils.py`): dashes or underscores up to the first dot, dotted JSON.
HABITS: Final = Habits(equals=True, underscores=True, beginnings=True, dotted=True, greedy=False)

#: Speculation flags before the JSON form, by the JSON key that replaced each. Gone in 0.8.3 (argparse error).
OLD_FLAGS: Final = (
    Flag(("--speculative-model",), "model", span=Span("0.4.1", "0.8.2")),
    Flag(("--num-speculative-tokens",), "num_speculative_tokens", Kind.WHOLE, span=Span("0.4.1", "0.8.2")),
    Flag(
        ("--speculative-draft-tensor-parallel-size", "-spec-draft-tp"),
        "draft_tensor_parallel_size",
        Kind.WHOLE,
        span=Span("0.5.1", "0.8.2"),
    ),
    Flag(("--speculative-model-quantization",), "quantization", span=Span("0.5.5", "0.8.2")),
    Flag(("--ngram-prompt-lookup-max",), "prompt_lookup_max", Kind.WHOLE, span=Span("0.4.2", "0.8.2")),
    Flag(("--ngram-prompt-lookup-min",), "prompt_lookup_min", Kind.WHOLE, span=Span("0.4.2", "0.8.2")),
    Flag(("--speculative-max-model-len",), "max_model_len", Kind.WHOLE, span=Span("0.4.1", "0.8.2")),
    Flag(("--speculative-disable-by-batch-size",), "disable_by_batch_size", Kind.WHOLE, span=Span("0.4.3", "0.8.2")),
    Flag(
        ("--speculative-disable-mqa-scorer",),
        "disable_mqa_scorer",
        Kind.TRUTH,
        Takes.SWITCH,
        Span("0.6.3", "0.8.2"),
    ),
    Flag(("--spec-decoding-acceptance-method",), "acceptance_method", span=Span("0.5.1", "0.8.2")),
    Flag(
        ("--typical-acceptance-sampler-posterior-threshold",),
        "posterior_threshold",
        Kind.NUMBER,
        span=Span("0.5.1", "0.8.2"),
    ),
    Flag(
        ("--typical-acceptance-sampler-posterior-alpha",),
        "posterior_alpha",
        Kind.NUMBER,
        span=Span("0.5.1", "0.8.2"),
    ),
    Flag(
        ("--disable-logprobs-during-spec-decoding",),
        "disable_logprobs",
        Kind.TRUTH,
        Takes.TRUTH,
        Span("0.5.3", "0.8.2"),
    ),
)

#: The JSON form; 0.8.2 takes it beside the old flags. `-sc` came with 0.19.0.
CONFIG_FLAGS: Final = (
    Flag(("--speculative-config",), "speculative_config", Kind.JSON, span=Span("0.8.2")),
    Flag(("-sc",), "speculative_config", Kind.JSON, span=Span("0.19.0")),
)

#: Short forms of three JSON keys; together with the same key in the JSON the engine refuses them.
SHORT_FLAGS: Final = (
    Flag(("--spec-method",), "method", span=Span("0.22.0")),
    Flag(("--spec-model",), "model", span=Span("0.22.0")),
    Flag(("--spec-tokens",), "num_speculative_tokens", Kind.WHOLE, span=Span("0.22.0")),
)

#: Flags that are not speculation but say what is needed to render or manage the server.
OTHER_FLAGS: Final = tuple(
    Flag(names, key, kind, takes, span, is_speculation=False)
    for names, key, kind, takes, span in (
        (("--use-v2-block-manager",), "use_v2_block_manager", Kind.TRUTH, Takes.SWITCH, Span("0.4.0", "0.9.2")),
        (("--model",), "model", Kind.TEXT, Takes.VALUE, Span()),
        (("--served-model-name",), "served_model_name", Kind.TEXT, Takes.MANY, Span()),
        (("--host",), "host", Kind.TEXT, Takes.VALUE, Span()),
        (("--port",), "port", Kind.WHOLE, Takes.VALUE, Span()),
        (("--config",), "config", Kind.TEXT, Takes.VALUE, Span()),
        (("--tensor-parallel-size", "-tp"), "tensor_parallel_size", Kind.WHOLE, Takes.VALUE, Span()),
        (("--pipeline-parallel-size", "-pp"), "pipeline_parallel_size", Kind.WHOLE, Takes.VALUE, Span()),
        (("--data-parallel-size", "-dp"), "data_parallel_size", Kind.WHOLE, Takes.VALUE, Span()),
        (("--data-parallel-rank", "-dpn"), "data_parallel_rank", Kind.WHOLE, Takes.VALUE, Span()),
        (("--data-parallel-start-rank", "-dpr"), "data_parallel_start_rank", Kind.WHOLE, Takes.VALUE, Span()),
        (("--data-parallel-external-lb", "-dpe"), "data_parallel_external_lb", Kind.TRUTH, Takes.SWITCH, Span()),
        (("--data-parallel-hybrid-lb", "-dph"), "data_parallel_hybrid_lb", Kind.TRUTH, Takes.SWITCH, Span()),
        (("--data-parallel-size-local", "-dpl"), "data_parallel_size_local", Kind.WHOLE, Takes.VALUE, Span()),
        (("--nnodes", "-n"), "nnodes", Kind.WHOLE, Takes.VALUE, Span()),
        (("--node-rank", "-r"), "node_rank", Kind.WHOLE, Takes.VALUE, Span()),
        (("--headless",), "headless", Kind.TRUTH, Takes.SWITCH, Span()),
        (("--kv-transfer-config",), "kv_transfer_config", Kind.JSON, Takes.VALUE, Span()),
        (("--max-num-seqs",), "max_num_seqs", Kind.WHOLE, Takes.VALUE, Span()),
        (("--api-server-count",), "api_server_count", Kind.WHOLE, Takes.VALUE, Span()),
        (("--disable-log-stats",), "disable_log_stats", Kind.TRUTH, Takes.SWITCH, Span()),
        (("--shutdown-timeout",), "shutdown_timeout", Kind.NUMBER, Takes.VALUE, Span("0.18.0")),
    )
)

FLAGS: Final = OLD_FLAGS + CONFIG_FLAGS + SHORT_FLAGS + OTHER_FLAGS

#: Speculation needs `--use-v2-block-manager` here: off by default and refused without it.
NEEDS_V2_BLOCK_MANAGER: Final = Span("0.4.1", "0.6.2")
#: A flag that changes nothing from 0.6.4 on and is an unknown argument from 0.10.0 on.
TAKES_V2_BLOCK_MANAGER: Final = Span("0.4.0", "0.9.2")
#: Releases whose speculation is written with the flags of `OLD_FLAGS`.
USES_OLD_FLAGS: Final = Span("0.4.1", "0.8.1")
