"""What verdicts, states, flags and dialects mean, for people. docs/words.md says the same at more length."""

from __future__ import annotations

VERDICTS = {
    "ok": "It speculates and its counters can be read.",
    "spec_decode_no_drafts_yet": "It is set up to speculate but has drafted nothing yet: acceptance is unknown, not 0.",
    "not_spec_decode": "It serves without speculative decoding.",
    "no_engine_metrics": "The page has no metrics of an inference engine.",
    "no_samples_yet": "The page names the metrics but has no values yet.",
    "scrape_error": "The page could not be had or is not a metrics page.",
    "starting": "The server is still starting.",
    "reset_detected": "The server was restarted between the pages; what it did before that is lost to the second one.",
    "counter_glitch": "A counter went back a little without a restart: that interval is left out for it.",
    "inconsistent_endpoint": "The pages come from several processes in turn: their differences mean nothing.",
    "needs_probe": "Work is queued or running but nothing moved: only a generated token can tell whether it hangs.",
}

STATES = {
    "idle": "Nothing was asked of it.",
    "sleeping": "It was put to sleep on purpose.",
    "busy_counters_deferred": "It is at work; this engine counts only when a request ends.",
    "speculation_suspended": "It generates without drafting for now, as its schedule has it at this load.",
}

FLAGS = {
    "duplicate_series": "Something stands on the page twice, as where a proxy joins pages; what differs is left out.",
    "quantized_counters": "Large counters are printed with six digits only: short spans are rough.",
    "acceptance_out_of_range": "A gauge, or two counters, say more was accepted than drafted: no such rate counts.",
    "v0_counters_unreliable": "vLLM's V0 engine counts speculation, and tokens with it, wrong: only its averages hold.",
    "suspicious_perfect_acceptance": "Every draft token was accepted: true of looping text, else of a broken check.",
    "per_position_confounded": "Drafts were often shorter than the setting, or settings mix: late positions look bad.",
    "identities_broken": "Counters of this page contradict each other: none of them is used for tuning.",
    "bad_sample": "Some values are no numbers and were left out.",
}

DIALECTS = {
    "vllm_v1": "vLLM (V1 engine)",
    "vllm_v0": "vLLM (V0 engine)",
    "sglang": "SGLang",
    "llamacpp": "llama-server (llama.cpp)",
}
