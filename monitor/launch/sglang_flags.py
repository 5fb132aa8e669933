"""SGLang's command-line flags as data. Source: `srt/arg_groups/fields/` of 0.5.23, the only release that was read."""

from __future__ import annotations

from typing import Final

from monitor.launch.argv import Flag, Habits, Kind, Takes

READ: Final = "0.5.23"

#: Python's argparse: dashes only, and an unambiguous beginning stands for the flag (`--tp` for `--tp-size`).
HABITS: Final = Habits(equals=True, underscores=False, beginnings=True, dotted=False, greedy=False)

ALGORITHM: Final = "speculative_algorithm"
MODEL: Final = "speculative_draft_model_path"
STEPS: Final = "speculative_num_steps"
TOPK: Final = "speculative_eagle_topk"
DRAFT_TOKENS: Final = "speculative_num_draft_tokens"
QUANTIZATION: Final = "speculative_draft_model_quantization"
DFLASH_BLOCK: Final = "speculative_dflash_block_size"
DSPARK_BLOCK: Final = "speculative_dspark_block_size"
ADAPTIVE: Final = "speculative_adaptive"


def _flag(key: str, kind: Kind = Kind.TEXT, takes: Takes = Takes.VALUE, *aliases: str) -> Flag:
    return Flag((f"--{key.replace('_', '-')}", *aliases), key, kind, takes)


_TEXTS = (
    "uno_lora_path",
    "speculative_draft_model_revision",
    "speculative_draft_load_format",
    "speculative_dspark_sps_table_path",
    "speculative_dspark_confidence_sts_path",
    "speculative_token_map",
    "speculative_attention_mode",
    "speculative_draft_attention_backend",
    "speculative_dsa_topk_backend",
    "speculative_draft_kv_cache_dtype",
    "speculative_moe_runner_backend",
    "speculative_moe_a2a_backend",
    "speculative_adaptive_config",
    "speculative_ngram_match_type",
    "speculative_ngram_external_corpus_path",
    QUANTIZATION,
)
_WHOLES = (
    STEPS,
    TOPK,
    DRAFT_TOKENS,
    DFLASH_BLOCK,
    DSPARK_BLOCK,
    "speculative_domino_candidate_pool_size",
    "speculative_draft_window_size",
    "speculative_draft_sink_size",
    "speculative_ngram_min_bfs_breadth",
    "speculative_ngram_max_bfs_breadth",
    "speculative_ngram_max_trie_depth",
    "speculative_ngram_capacity",
    "speculative_ngram_external_sam_budget",
    "speculative_ngram_external_corpus_max_tokens",
)
_NUMBERS = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
_SWITCHES = (
    "speculative_use_rejection_sampling",
    "speculative_use_block_verification",
    "speculative_dspark_align_verify_tokens_to_graph_tier",
    "enable_multi_layer_eagle",
    ADAPTIVE,
)

SPECULATION_FLAGS: Final = (
    _flag(ALGORITHM, Kind.TEXT, Takes.VALUE, "--speculative-algo"),
    _flag(MODEL, Kind.TEXT, Takes.VALUE, "--speculative-draft-model"),
    *(_flag(key) for key in _TEXTS),
    *(_flag(key, Kind.WHOLE) for key in _WHOLES),
    *(_flag(key, Kind.NUMBER) for key in _NUMBERS),
    *(_flag(key, Kind.TRUTH, Takes.SWITCH) for key in _SWITCHES),
    _flag(
        "speculative_enable_w4a4_mxfp4_megamoe",
        Kind.TRUTH,
        Takes.SWITCH,
        "--no-speculative-enable-w4a4-mxfp4-megamoe",
    ),
)

OTHER_FLAGS: Final = tuple(
    Flag(names, key, kind, takes, is_speculation=False)
    for names, key, kind, takes in (
        (("--model-path", "--model"), "model", Kind.TEXT, Takes.VALUE),
        (("--served-model-name",), "served_model_name", Kind.TEXT, Takes.VALUE),
        (("--host",), "host", Kind.TEXT, Takes.VALUE),
        (("--port",), "port", Kind.WHOLE, Takes.VALUE),
        (("--config",), "config", Kind.TEXT, Takes.VALUE),
        (("--tp-size", "--tensor-parallel-size", "--tp"), "tensor_parallel_size", Kind.WHOLE, Takes.VALUE),
        (("--pp-size", "--pipeline-parallel-size", "--pp"), "pipeline_parallel_size", Kind.WHOLE, Takes.VALUE),
        (("--dp-size", "--data-parallel-size", "--dp"), "data_parallel_size", Kind.WHOLE, Takes.VALUE),
        (("--nnodes",), "nnodes", Kind.WHOLE, Takes.VALUE),
        (("--node-rank",), "node_rank", Kind.WHOLE, Takes.VALUE),
        (("--disaggregation-mode",), "disaggregation_mode", Kind.TEXT, Takes.VALUE),
        (("--max-running-requests",), "max_num_seqs", Kind.WHOLE, Takes.VALUE),
        (("--enable-metrics",), "enable_metrics", Kind.TRUTH, Takes.SWITCH),
    )
)

FLAGS: Final = SPECULATION_FLAGS + OTHER_FLAGS

#: Our name of a method and SGLang's algorithm. NEXTN is EAGLE with the target's own heads, as `mtp` is with vLLM.
ALGORITHMS: Final = {
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
    "draft_model": "STANDALONE",
    "ngram": "NGRAM",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
    "uno": "UNO",
}
#: Methods that need `--speculative-draft-model-path`, and those that refuse or ignore one.
NEEDS_MODEL: Final = frozenset({"eagle", "eagle3", "draft_model", "dflash"})
TAKES_NO_MODEL: Final = frozenset({"ngram", "uno"})
#: Methods drafting one token a step; the others propose a block, counted with the token it starts from.
STEPWISE: Final = frozenset({"eagle", "eagle3", "mtp", "draft_model"})
