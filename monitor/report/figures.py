"""Which signals people are shown of servers and groups, in reading order."""

from __future__ import annotations

#: Signals of the overview, in reading order; all over the same window.
FIGURES = (
    "acceptance_rate",
    "acceptance_length",
    "acceptance_alpha",
    "efficiency",
    "generation_tokens_per_second",
    "step_seconds",
    "goodput",
    "running",
    "waiting",
    "kv_usage",
    "num_drafts",
    "time_to_first_token_seconds_p95",
    "time_per_output_token_seconds_p95",
)
#: Signals of one step of a history.
HISTORY_FIGURES = ("num_speculative_tokens", *FIGURES, "mean_prompt_tokens", "mean_output_tokens")
#: Signals of a week's report.
REPORT_FIGURES = (
    "num_speculative_tokens",
    "acceptance_rate",
    "acceptance_length",
    "acceptance_alpha",
    "efficiency",
    "generation_tokens_per_second",
    "step_seconds",
    "goodput",
    "gain_over_off",
    "decode_batch",
    "time_to_first_token_seconds_p50",
    "time_to_first_token_seconds_p95",
    "time_per_output_token_seconds_p50",
    "time_per_output_token_seconds_p95",
    "running",
    "waiting",
    "kv_usage",
    "num_drafts",
    "finished_requests",
)
