"""The words that rules, pages and reports may use: every signal with unit, sample and meaning. It computes nothing.

`SignalSet`s built by `monitor.signals.build` hold every name of the family asked for, with a value or with a reason
for its absence, and no other name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Shape of a signal: one number, or one number per draft position."""

    SCALAR = "scalar"
    VECTOR = "vector"


class Family(StrEnum):
    """Signals that are computed together, from the same part of the intervals."""

    ACCEPTANCE = "acceptance"
    STEPS = "steps"
    LATENCY = "latency"
    LOAD = "load"
    CHANGE = "change"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class SignalSpec:
    """One word of the vocabulary. `of_setting` signals rest only on the part of the window at the newest setting."""

    name: str
    unit: str
    kind: Kind
    #: What `sample_size` counts.
    sample: str
    meaning: str
    source: str
    family: Family
    of_setting: bool


def _table() -> dict[str, SignalSpec]:
    specs: dict[str, SignalSpec] = {}

    def add(
        family: Family, name: str, unit: str, sample: str, meaning: str, source: str, *,
        of_setting: bool = False, kind: Kind = Kind.SCALAR,
    ) -> None:
        specs[name] = SignalSpec(name, unit, kind, sample, meaning, source, family, of_setting)

    def acceptance(name: str, unit: str, sample: str, meaning: str, source: str, kind: Kind = Kind.SCALAR) -> None:
        add(Family.ACCEPTANCE, name, unit, sample, meaning, source, of_setting=True, kind=kind)

    acceptance("num_drafts", "drafts", "drafts", "Drafts proposed.", "spec_decode_num_drafts")
    acceptance("finished_requests", "requests", "requests", "Requests that ended, for whatever reason.",
               "request_success by finished_reason")
    acceptance("covered_seconds", "seconds", "seconds", "Time that the speculation counts cover (longest engine).",
               "intervals, gaps excluded")
    acceptance("acceptance_rate", "ratio 0-1", "drafts", "Accepted of drafted tokens. Falls with "
               "num_speculative_tokens by construction.", "accepted tokens / draft tokens")
    acceptance("acceptance_rate_at_pos", "ratio 0-1", "drafts", "Share of drafts whose token at the position, and all "
               "before it, were accepted (survival).", "accepted at position / drafts that reached it", Kind.VECTOR)
    acceptance("conditional_acceptance_rate_at_pos", "ratio 0-1", "drafts", "Share accepted at the position among "
               "drafts accepted up to the one before.", "survival at position / survival before it", Kind.VECTOR)
    acceptance("acceptance_alpha", "ratio 0-1", "tokens tested", "Acceptance per token tested, independent of "
               "num_speculative_tokens: drafts accepted whole are censored, not misses.",
               "accepted / (accepted + drafts that ended in a miss)")
    acceptance("acceptance_length", "tokens per draft", "drafts", "Tokens emitted per draft, bonus token included "
               "(1 to num_speculative_tokens + 1).", "1 + accepted tokens / drafts")
    acceptance("effective_acceptance_length", "tokens per step", "steps", "Tokens emitted per decode step, steps "
               "without a draft included (n-gram and suffix often find none).",
               "1 + accepted tokens / inter-token observations")
    acceptance("draft_coverage", "ratio 0-1", "steps", "Share of decode steps that had a draft.",
               "drafts / inter-token observations")
    acceptance("efficiency", "ratio 0-1", "steps", "Tokens emitted per decode step over the most possible, "
               "num_speculative_tokens + 1.", "effective_acceptance_length / (num_speculative_tokens + 1)")
    acceptance("num_speculative_tokens", "tokens", "engines", "The setting in force (0 = off).", "setting of the life")
    acceptance("mean_draft_tokens", "tokens per draft", "drafts", "Length of the drafts really made; far below the "
               "setting means that a schedule, length limits or the token budget cut them.", "draft tokens / drafts")
    acceptance("acceptance_design_effect", "factor", "blocks", "How much wider than independent drafts would make "
               "it the error of the acceptance length is, measured from blocks (floor 2, 10 until measured).",
               "variance between blocks / variance within drafts")
    acceptance("baseline_acceptance_length", "tokens per draft", "drafts", "What is normal here at this setting and "
               "engine version.", "stored baseline")
    acceptance("baseline_acceptance_rate", "ratio 0-1", "drafts", "What is normal here at this setting and engine "
               "version.", "stored baseline")
    acceptance("baseline_first_position_rate", "ratio 0-1", "drafts", "Normal acceptance at the first position.",
               "stored baseline")

    def steps(name: str, unit: str, sample: str, meaning: str, source: str) -> None:
        add(Family.STEPS, name, unit, sample, meaning, source, of_setting=True)

    steps("step_seconds", "seconds", "steps", "Duration of one engine step as a request sees it.",
          "inter-token histogram mean; else busy time / steps; else running x time / drafts; else TPOT x length")
    steps("step_seconds_way", "1-4", "steps", "Which of the four ways gave step_seconds (1 is the best).", "as above")
    steps("step_seconds_disagreement", "ratio", "steps", "Relative difference of the first way and of TPOT x length; "
          "above 0.15 the metrics do not mean what they seem to.", "as above")
    steps("decode_batch", "requests", "steps", "Requests that decode together in a step.",
          "inter-token observations / engine steps; else mean running")
    steps("prefill_tokens_per_step", "tokens per step", "steps", "Prompt tokens computed per step (cached ones not).",
          "prompt tokens / engine steps")
    steps("decode_context", "tokens", "requests", "Context that a decoding request reads in each step: its prompt and"
          " half of its answer. An estimate: it is more where answers vary in length, less where long prompts get short"
          " answers. Step time grows with it as with the batch.",
          "mean prompt + mean answer / 2 of finished requests")
    steps("goodput", "tokens per second", "steps", "Tokens per second for each running request.",
          "effective_acceptance_length / step_seconds")
    steps("gain_over_off", "ratio", "steps", "Goodput against no speculation at the same batch, minus 1; only where "
          "a step time without speculation is known.", "goodput x step_seconds when off - 1")

    def load(name: str, unit: str, sample: str, meaning: str, source: str) -> None:
        add(Family.LOAD, name, unit, sample, meaning, source)

    load("generation_tokens_per_second", "tokens per second", "seconds", "Tokens generated per second, all engines.",
         "generation_tokens")
    load("prompt_tokens_per_second", "tokens per second", "seconds", "Prompt tokens per second, all engines.",
         "prompt_tokens")
    load("requests_per_second", "requests per second", "seconds", "Requests finished per second.", "request_success")
    load("running", "requests", "seconds", "Requests being served, time-weighted mean, engines added.",
         "num_requests_running")
    load("running_max", "requests", "seconds", "Most requests being served at once.", "num_requests_running")
    load("waiting", "requests", "seconds", "Requests queued, time-weighted mean, engines added.",
         "num_requests_waiting")
    load("waiting_max", "requests", "seconds", "Most requests queued at once.", "num_requests_waiting")
    load("waiting_share", "ratio 0-1", "intervals", "Share of intervals with a queue: at least one request "
         "waiting, and a tenth as many as run, at both ends.",
         "num_requests_waiting")
    load("kv_usage", "ratio 0-1", "seconds", "KV cache in use, time-weighted mean over engines.", "kv_cache_usage_perc")
    load("kv_usage_max", "ratio 0-1", "seconds", "Highest KV cache use of any engine.", "kv_cache_usage_perc")
    load("preemptions_per_minute", "per minute", "seconds", "Requests preempted per minute, all engines.",
         "num_preemptions")
    load("error_ratio", "ratio 0-1", "responses", "Share of HTTP answers that were 5xx; without HTTP counters, of "
         "requests that finished with an error.", "http_requests by status; request_success by finished_reason")
    load("rejections_per_minute", "per minute", "seconds", "Requests refused before they ran, per minute.",
         "rejections")
    load("mean_prompt_tokens", "tokens", "requests", "Mean prompt length.", "request_prompt_tokens")
    load("mean_output_tokens", "tokens", "requests", "Mean answer length.", "request_generation_tokens")

    latencies = {
        "time_to_first_token_seconds": ("from arrival to the first token", "requests"),
        "inter_token_latency_seconds": ("between outputs of a request; one observation per engine step, so under "
                                        "speculation it is step time", "steps"),
        "time_per_output_token_seconds": ("per output token after the first, finished requests", "requests"),
        "e2e_request_latency_seconds": ("from arrival to the last token", "requests"),
        "queue_time_seconds": ("waiting before being scheduled", "requests"),
    }
    for stem, (what, sample) in latencies.items():
        add(Family.LATENCY, f"{stem}_mean", "seconds", sample, f"Mean time {what}.", f"{stem} histogram")
        for percent in (50, 95, 99):
            add(Family.LATENCY, f"{stem}_p{percent}", "seconds", sample,
                f"{percent}th percentile of the time {what}.", f"{stem} histogram, interpolated in its bucket")

    def change(name: str, unit: str, meaning: str) -> None:
        add(Family.CHANGE, name, unit, "blocks", meaning, "blocks of 30 s against the baseline", of_setting=True)

    change("acceptance_length_drop", "standard deviations", "One-sided CUSUM of a fall of the acceptance length: 6 is "
           "worth a notice, 8 an action.")
    change("first_position_drop", "standard deviations", "One-sided CUSUM of a fall of the first position's "
           "acceptance: 6 is worth a notice, 8 an action.")
    add(Family.CHANGE, "acceptance_length_since_start", "ratio", "drafts", "Acceptance length now over that of the "
        "same process's first hours; falling with uptime points at the process, not at the setting.",
        "stored first hours of the life", of_setting=True)

    def server(name: str, unit: str, meaning: str, source: str, sample: str = "servers") -> None:
        add(Family.SERVER, name, unit, sample, meaning, source)

    server("up", "ratio 0-1", "Share of the servers whose newest scrape was answered (0 or 1 for one server).",
           "newest reading")
    server("seconds_since_last_sample", "seconds", "Age of the newest interval, the oldest of the servers.",
           "newest interval; before the first, since watched")
    server("uptime_seconds", "seconds", "Age of the youngest engine process.", "process start or counter creation time")
    server("stuck_seconds", "seconds", "How long work has been running or waiting while prompt, generation and step "
           "counters all stayed flat, up to the newest interval (the worst engine).", "gauges and counters", "engines")
    server("is_sleeping", "0 or 1", "1 when the engine was put to sleep on purpose.", "engine_sleep_state")
    server("needs_probe", "0 or 1", "1 when only a generation probe can tell whether the engine works.",
           "newest reading")
    server("is_starting", "0 or 1", "1 while the server answers that it is still loading.", "newest reading")
    server("servers", "servers", "Servers that the window has intervals of.", "intervals")
    return specs


#: Every signal by name, in the order in which people read them.
VOCABULARY: Mapping[str, SignalSpec] = _table()
