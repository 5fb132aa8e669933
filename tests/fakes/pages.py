"""Metrics pages in the words of each engine, made from counts: for tests that need a page nobody took yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PYTHON = 'python_info{implementation="CPython",major="3",minor="12",version="3.12.11"} 1.0\n'


def labelled(name: str, labels: Mapping[str, str], value: object) -> str:
    inner = ",".join(f'{key}="{text}"' for key, text in sorted(labels.items()))
    return f"{name}{{{inner}}} {value}\n" if inner else f"{name} {value}\n"


def histogram(name: str, labels: Mapping[str, str], edges: Sequence[str], counts: Sequence[int], total: float) -> str:
    assert len(edges) == len(counts)
    lines = [f"# TYPE {name} histogram\n"]
    buckets = zip(edges, counts, strict=True)
    lines += [labelled(f"{name}_bucket", {**labels, "le": edge}, float(count)) for edge, count in buckets]
    lines += [labelled(f"{name}_count", labels, float(counts[-1])), labelled(f"{name}_sum", labels, total)]
    return "".join(lines)


@dataclass(frozen=True)
class V1:
    """One engine of a V1 page; `at` are accepted tokens per position (its length is k), None without speculation."""

    drafts: float = 0
    at: Sequence[float] | None = (0, 0, 0)
    draft_tokens: float | None = None
    generation: float = 0
    prompt: float = 0
    running: float = 0
    waiting: float = 0
    kv: float = 0.1
    finished: float = 0
    model: str = "model-a"
    engine: str = "0"
    created: float | None = 1788616077.0
    extra: Mapping[str, str] = field(default_factory=dict)
    more: str = ""

    @property
    def accepted(self) -> float:
        return sum(self.at or ())

    def samples(self) -> Iterable[tuple[str, str, Mapping[str, str], float]]:
        labels = {"engine": self.engine, "model_name": self.model, **self.extra}
        yield "gauge", "num_requests_running", labels, self.running
        yield "gauge", "num_requests_waiting", labels, self.waiting
        yield "gauge", "kv_cache_usage_perc", labels, self.kv
        yield "counter", "prompt_tokens", labels, self.prompt
        yield "counter", "generation_tokens", labels, self.generation
        yield "counter", "request_success", {**labels, "finished_reason": "stop"}, self.finished
        if self.at is None:
            return
        k = len(self.at)
        yield "counter", "spec_decode_num_drafts", labels, self.drafts
        drafted = self.drafts * k if self.draft_tokens is None else self.draft_tokens
        yield "counter", "spec_decode_num_draft_tokens", labels, drafted
        yield "counter", "spec_decode_num_accepted_tokens", labels, self.accepted
        for position, count in enumerate(self.at):
            yield "counter", "spec_decode_num_accepted_tokens_per_pos", {**labels, "position": str(position)}, count


def v1_page(
    *engines: V1,
    process_start: float | None = 1788615982.0,
    prefix: str = "vllm:",
    suffix: str = "_total",
    value: Callable[[float], str] = repr,
    openmetrics: bool = False,
) -> bytes:
    """A page of these engines; `prefix` and `suffix` spell its names, `value` prints its numbers."""
    text = ""
    if process_start is not None:
        text += PYTHON + f"process_start_time_seconds {process_start!r}\n"
    seen: set[str] = set()
    rows = [(engine, *row) for engine in engines for row in engine.samples()]
    for name in dict.fromkeys(row[2] for row in rows):
        for engine, kind, own, labels, number in rows:
            if own != name:
                continue
            sample = prefix + name + (suffix if kind == "counter" else "")
            if name not in seen:
                seen.add(name)
                text += f"# TYPE {prefix + name if openmetrics else sample} {kind}\n"
            text += labelled(sample, labels, value(float(number)))
            if kind == "counter" and engine.created is not None:
                text += labelled(f"{prefix}{name}_created", labels, repr(engine.created))
    text += "".join(engine.more for engine in engines)
    return (text + ("# EOF\n" if openmetrics else "")).encode()


def v0_page(
    *,
    efficiency: float | str | None = None,
    rate: float | str | None = None,
    accepted: float | None = None,
    drafted: float | None = None,
    emitted: float | None = None,
    generation: float = 0,
    steps: int | None = None,
    running: float = 0,
    process_start: float | None = 1729080000.0,
) -> bytes:
    """A page of a V0 engine, whose speculation series have samples as far as they are given."""
    labels = {"model_name": "model-a"}
    text = PYTHON + (f"process_start_time_seconds {process_start!r}\n" if process_start is not None else "")
    text += labelled("vllm:num_requests_running", labels, running)
    text += labelled("vllm:num_requests_swapped", labels, 0.0)
    text += labelled("vllm:generation_tokens_total", labels, float(generation))
    if steps is not None:
        text += histogram(
            "vllm:time_per_output_token_seconds", labels, ("0.01", "0.1", "+Inf"), (0, steps, steps), steps * 0.02
        )
    for name, number in {
        "draft_acceptance_rate": rate,
        "efficiency": efficiency,
        "num_accepted_tokens_total": accepted,
        "num_draft_tokens_total": drafted,
        "num_emitted_tokens_total": emitted,
    }.items():
        text += f"# TYPE vllm:spec_decode_{name} gauge\n"
        if number is not None:
            text += labelled(f"vllm:spec_decode_{name}", labels, number)
    return text.encode()


SGLANG_RANKS = {
    "engine_type": "unified", "model_name": "model-s", "pp_rank": "0", "tp_rank": "0", "moe_ep_rank": "0",
}  # fmt: skip


def sglang_page(
    *,
    calls: float | None = 0,
    generation: Mapping[str, float] | None = None,
    requests: float = 0,
    running: float = 0,
    queue: float = 0,
    length: float = 0.0,
    rate: float = 0.0,
    steps: float = 3,
    draft_tokens: float = 4,
    usage: float = 0.3,
    more: str = "",
) -> bytes:
    """A page of SGLang with one rank; `generation` by `is_streaming`."""
    base = {"engine_type": "unified", "model_name": "model-s"}
    gauges = {
        "num_running_reqs": running,
        "num_queue_reqs": queue,
        "token_usage": usage,
        "spec_accept_length": length,
        "spec_accept_rate": rate,
        "spec_num_steps": steps,
        "spec_num_draft_tokens": draft_tokens,
    }
    text = "".join(
        f"# TYPE sglang:{name} gauge\n" + labelled(f"sglang:{name}", SGLANG_RANKS, v) for name, v in gauges.items()
    )
    if calls is not None:
        name = "sglang:spec_verify_calls_total"
        text += f"# TYPE {name} counter\n" + labelled(name, base, calls)
    for streaming, tokens in (generation or {}).items():
        text += labelled("sglang:generation_tokens_total", {**base, "is_streaming": streaming}, tokens)
    for number, streaming in enumerate(generation or {"true": 0}):
        text += labelled("sglang:num_requests_total", {**base, "is_streaming": streaming}, 0 if number else requests)
    return (text + more).encode()


def llamacpp_page(
    *,
    predicted: object = 0,
    prompt: object = 0,
    processing: object = 0,
    deferred: object = 0,
    drafts: object | None = 0,
    draft_tokens: object = 0,
    accepted: object = 0,
    at: Sequence[object] | None = None,
    busy: object = 1,
) -> bytes:
    """A page of llama-server; numbers as they are given, also as text (`1.23457e+06`, `-nan`)."""
    rows: dict[str, object] = {
        "prompt_tokens_total": prompt,
        "tokens_predicted_total": predicted,
        "n_decode_total": predicted,
        "requests_processing": processing,
        "requests_deferred": deferred,
        "n_busy_slots_per_decode": busy,
    }
    if drafts is not None:
        rows |= {
            "spec_decode_num_drafts_total": drafts,
            "spec_decode_num_draft_tokens_total": draft_tokens,
            "spec_decode_num_accepted_tokens_total": accepted,
        }
    text = "".join(
        f"# TYPE llamacpp:{name} {'counter' if name.endswith('_total') else 'gauge'}\nllamacpp:{name} {value}\n"
        for name, value in rows.items()
    )
    for position, count in enumerate(at or ()):
        text += labelled("llamacpp:spec_decode_num_accepted_tokens_per_pos_total", {"position": str(position)}, count)
    return text.encode()
