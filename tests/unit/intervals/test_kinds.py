"""Pages of kinds that field reports tell of and no sample file holds: what must be read from each.

Each case is a sentence, the pages, how they were had, and what is expected; only what is stated is compared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from monitor.intervals.pages import PageInput, read_pages
from tests.fakes.pages import V1, histogram, labelled, llamacpp_page, sglang_page, v0_page, v1_page
from tests.fakes.sample_check import complaints

LABELS = {"engine": "0", "model_name": "model-a"}
HALF = {
    "num_drafts": 100,
    "num_draft_tokens": 300,
    "num_accepted_tokens": 150,
    "acceptance_rate": 0.5,
    "acceptance_length": 2.5,
    "acceptance_rate_per_position": [0.7, 0.5, 0.3],
    "generation_tokens": 255,
}
ENGINE = V1(100, (70, 50, 30), generation=255, prompt=900)
OM = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True)
class Case:
    pages: tuple[bytes, ...]
    expected: dict[str, Any]
    how: dict[str, Any] = field(default_factory=dict)
    content_type: str | None = None
    status: int = 200

    def say(self) -> dict[str, Any]:
        inputs = [PageInput(body, self.content_type, self.status) for body in self.pages]
        said: dict[str, Any] = json.loads(json.dumps(read_pages(inputs, **self.how), allow_nan=False))
        return said


def one(expected: dict[str, Any], verdict: str = "ok", **more: Any) -> dict[str, Any]:
    return {"verdict": verdict, "models": {"*": expected}, **more}


def replaced(page: bytes, *pairs: tuple[str, str]) -> bytes:
    for old, new in pairs:
        assert old.encode() in page, old
        page = page.replace(old.encode(), new.encode())
    return page


def by_pid(page: bytes, name: str, *values: float) -> bytes:
    """The gauge printed once per process instead of once."""
    [line] = [line for line in page.splitlines(keepends=True) if line.startswith(f"vllm:{name}{{".encode())]
    labels = {"engine": "0", "model_name": "model-a"}
    many = "".join(labelled(f"vllm:{name}", {**labels, "pid": str(10 + i)}, v) for i, v in enumerate(values))
    return page.replace(line, many.encode())


def without(page: bytes, *words: str) -> bytes:
    return b"".join(line for line in page.splitlines(keepends=True) if not any(w.encode() in line for w in words))


def sleep_state(awake: float) -> str:
    states = {"awake": awake, "weights_offloaded": 1 - awake, "discard_all": 0.0}
    return "".join(labelled("vllm:engine_sleep_state", {**LABELS, "sleep_state": s}, v) for s, v in states.items())


def early(drafted: int, accepted: int, generated: int) -> bytes:
    """0.8.3 and 0.8.4: two counters only."""
    page = without(v1_page(V1(0, (0, 0, 0), generation=generated)), "num_drafts", "per_pos")
    return replaced(
        page,
        (
            'draft_tokens_total{engine="0",model_name="model-a"} 0.0',
            f'draft_tokens_total{{engine="0",model_name="model-a"}} {drafted}',
        ),
        (
            'accepted_tokens_total{engine="0",model_name="model-a"} 0.0',
            f'accepted_tokens_total{{engine="0",model_name="model-a"}} {accepted}',
        ),
    )


ODD_NAME = 'org/my model "v1", {beta} \\ end'
OLD_NAMES = (
    labelled("vllm:gpu_cache_usage_perc", LABELS, 0.4)
    + histogram("vllm:time_per_output_token_seconds", LABELS, ("1", "+Inf"), (100, 100), 2.0)
    + histogram("vllm:inter_token_latency_seconds", LABELS, ("1", "+Inf"), (100, 100), 2.0)
)
DRAFT_WORKER = "".join(
    labelled(f"sglang:{name}", {"engine_type": "draft", "model_name": "draft-model", "tp_rank": "0"}, value)
    for name, value in {"num_running_reqs": 3.0, "spec_accept_length": 2.7, "token_usage": 0.9}.items()
)
RAY = [
    V1(
        100,
        (70, 50, 30),
        generation=255,
        running=2,
        kv=0.4,
        extra={"ReplicaId": "r1", "WorkerId": "w1", "Component": "c"},
    ),
    V1(
        300,
        (150, 90, 60),
        generation=610,
        running=1,
        kv=0.1,
        extra={"ReplicaId": "r2", "WorkerId": "w2", "Component": "c"},
    ),
]
RAY_ALONE: dict[str, Any] = {"created": None, "extra": {"ReplicaId": "r1", "WorkerId": "w1"}}
RAY_PAGE: dict[str, Any] = {"prefix": "ray_vllm_", "process_start": None}
LORA = "".join(
    labelled("vllm:lora_requests_info", {"max_lora": "8", "running_lora_adapters": f"a{i}"}, 1.7e9) for i in range(5000)
)
BEFORE = V1(5000, (4000, 3000, 2000, 1000, 500), generation=15600, created=None)
AFTER = V1(400, (300, 200), generation=905, created=None)


def dp(first: tuple[float, ...], second: tuple[float, ...], created: float | None = None) -> bytes:
    """Two data-parallel engines: drafts, positions, generated tokens each."""
    engines = [
        V1(drafts, at, generation=generated, engine=name, created=born)
        for name, (drafts, *at, generated), born in (
            ("0", first, 1788616077.0 if created is not None else None),
            ("1", second, created),
        )
    ]
    return v1_page(*engines)


def v0_reports(k: int, drafts: tuple[int, ...], lengths: tuple[float, ...]) -> list[bytes]:
    """What V0 prints after each report, from the true number of drafts and length: its counters add totals up."""
    pages, accepted, drafted, emitted = [], 0.0, 0.0, 0.0
    for count, length in zip(drafts, lengths, strict=True):
        mask = (length - 1) / k + 0.2
        accepted, drafted, emitted = accepted + count * k * mask, drafted + count * k, emitted + count * length
        pages.append(
            v0_page(
                efficiency=length / (k + 1), rate=mask, accepted=accepted, drafted=drafted, emitted=emitted,
                generation=count, steps=count, running=2,
            )
        )  # fmt: skip
    return pages


CASES = {
    "KV usage with a pid label: the largest, not the mean": Case(
        (by_pid(v1_page(ENGINE, process_start=None), "kv_cache_usage_perc", 0.0, 0.37, 0.0),),
        one({"kv_usage_max": 0.37, "lifetime": HALF}),
    ),
    "running with a pid label: repeated, not added": Case(
        (by_pid(v1_page(ENGINE, process_start=None), "num_requests_running", 0.0, 6.0, 6.0),), one({"running": 6})
    ),
    "blanks, quotes, commas, braces and backslashes in a model name, and timestamps": Case(
        (
            replaced(
                v1_page(V1(100, (70, 50, 30), generation=255, model="MODEL")),
                ("MODEL", ODD_NAME.replace("\\", r"\\").replace('"', r"\"")),
                (".0\n", ".0 1788616077000\n"),
            ),
        ),
        {"verdict": "ok", "models": {ODD_NAME: {"num_speculative_tokens": 3, "lifetime": HALF}}},
    ),
    "names renamed by OpenTelemetry": Case(
        (
            v1_page(
                V1(100, (70, 50, 30), generation=255, extra={"job": "vllm", "otel_scope_name": "x"}), prefix="vllm_"
            ),
        ),
        one({"num_speculative_tokens": 3, "engines": ["0"], "lifetime": HALF}),
    ),
    "Ray's names with an underscore, two replicas": Case(
        (v1_page(*RAY, prefix="ray_vllm_", process_start=None),),
        one(
            {
                "running": 3,
                "kv_usage_max": 0.4,
                "engines": ["0/r1", "0/r2"],
                "lifetime": {"num_drafts": 400, "num_accepted_tokens": 450, "generation_tokens": 865},
            }
        ),
    ),
    "Ray prints a position only from its first accepted token on: no restart, no lost interval": Case(
        (
            v1_page(V1(100, (60, 20), draft_tokens=300, generation=190, **RAY_ALONE), **RAY_PAGE),
            v1_page(V1(200, (130, 50, 10), draft_tokens=600, generation=400, **RAY_ALONE), **RAY_PAGE),
        ),
        one(
            {
                "num_speculative_tokens": 3,
                "interval": {
                    "num_drafts": 100,
                    "num_accepted_tokens": 110,
                    "acceptance_rate_per_position": [0.7, 0.3, 0.1],
                    "partial": False,
                },
            }
        ),
        {"elapsed": [15.0]},
    ),
    "old and new names together: the new one counts, once": Case(
        (v1_page(V1(100, (70, 50, 30), generation=255, kv=0.3, more=OLD_NAMES)),),
        one({"kv_usage_max": 0.3, "lifetime": HALF}),
    ),
    "counters without _total": Case(
        (v1_page(ENGINE, suffix=""),), one({"num_speculative_tokens": 3, "lifetime": HALF})
    ),
    "counters with and without _total count once": Case(
        (v1_page(ENGINE) + v1_page(ENGINE, suffix="", process_start=None),), one({"lifetime": HALF})
    ),
    "a sleeping engine is not idle and not stuck": Case(
        (v1_page(V1(100, (70, 50, 30), generation=255, running=2, more=sleep_state(0.0))),) * 2,
        {"verdict": "ok", "state": "sleeping"},
        {"elapsed": [60.0]},
    ),
    "an awake engine has no state": Case(
        (v1_page(V1(100, (70, 50, 30), generation=255, more=sleep_state(1.0))),), {"verdict": "ok", "state": None}
    ),
    "before the drafts counter: a rate but no length": Case(
        (early(300, 150, 255),),
        one(
            {
                "num_speculative_tokens": None,
                "lifetime": {
                    "num_drafts": None,
                    "num_draft_tokens": 300,
                    "acceptance_rate": 0.5,
                    "acceptance_length": None,
                    "acceptance_rate_per_position": None,
                },
            }
        ),
    ),
    "before the drafts counter, tokens but no drafts: off": Case((early(0, 0, 9000),), {"verdict": "not_spec_decode"}),
    "before the drafts counter, nothing yet": Case((early(0, 0, 0),), {"verdict": "spec_decode_no_drafts_yet"}),
    "acceptance pinned at one": Case(
        (v1_page(V1(5000, (5000, 5000, 5000), generation=20010)),),
        one({"lifetime": {"acceptance_rate": 1.0, "acceptance_length": 4.0}}, flags=["suspicious_perfect_acceptance"]),
    ),
    "MTP with one token and creation times": Case(
        (v1_page(V1(1000, (800,), generation=1810)),),
        one(
            {
                "num_speculative_tokens": 1,
                "lifetime": {
                    "num_drafts": 1000,
                    "acceptance_rate": 0.8,
                    "acceptance_rate_per_position": [0.8],
                    "generation_tokens": 1810,
                },
            }
        ),
    ),
    "5,000 label sets of adapters": Case(
        (v1_page(V1(100, (70, 50, 30), generation=255, more=LORA)),), one({"lifetime": HALF})
    ),
    "from 5 tokens to 2 with start times": Case(
        (
            v1_page(V1(5000, (4000, 3000, 2000, 1000, 500), generation=15600)),
            v1_page(V1(400, (300, 200), generation=905, created=1788620000.0), process_start=1788619900.0),
        ),
        one(
            {
                "num_speculative_tokens": 2,
                "interval": {
                    "num_drafts": 400,
                    "acceptance_length": 2.25,
                    "acceptance_rate_per_position": [0.75, 0.5],
                    "partial": True,
                },
            },
            "reset_detected",
        ),
        {"elapsed": [240.0], "scraped_at": [1788619860.0, 1788620100.0]},
    ),
    "from 5 tokens to 2 without any start time": Case(
        (v1_page(BEFORE, process_start=None), v1_page(AFTER, process_start=None)),
        one(
            {"interval": {"num_drafts": 400, "acceptance_rate_per_position": [0.75, 0.5], "partial": True}},
            "reset_detected",
        ),
        {"elapsed": [240.0]},
    ),
    "one of two engines restarts, by its creation time": Case(
        (
            dp((1000, 700, 500, 300, 2510), (2000, 1400, 1000, 600, 5020), 1788616077.0),
            dp((1100, 770, 550, 330, 2760), (50, 30, 20, 10, 115), 1788620000.0),
        ),
        one(
            {"interval": {"num_drafts": 150, "num_accepted_tokens": 210, "generation_tokens": 365, "partial": True}},
            "reset_detected",
        ),
        {"elapsed": [15.0]},
    ),
    "one of two engines restarts, by its counters alone": Case(
        (
            dp((1000, 700, 500, 300, 2510), (2000, 1400, 1000, 600, 5020)),
            dp((1100, 770, 550, 330, 2760), (50, 30, 20, 10, 115)),
        ),
        one({"interval": {"num_drafts": 150, "generation_tokens": 365, "partial": True}}, "reset_detected"),
        {"elapsed": [15.0]},
    ),
    "one of two engines restarts and is already higher": Case(
        (
            dp((1000, 700, 500, 300, 2510), (200, 140, 100, 60, 502), 1788616077.0),
            dp((1100, 770, 550, 330, 2760), (500, 300, 200, 100, 1115), 1788620000.0),
        ),
        one({"interval": {"num_drafts": 600, "generation_tokens": 1365, "partial": True}}, "reset_detected"),
        {"elapsed": [15.0]},
    ),
    "a schedule that mixes draft lengths confounds positions": Case(
        (
            v1_page(V1(1000, (700, 500, 300, 100), generation=2700)),
            v1_page(V1(2000, (1400, 900, 500, 150), draft_tokens=6400, generation=5100)),
        ),
        one(
            {
                "num_speculative_tokens": 4,
                "interval": {"num_draft_tokens": 2400, "acceptance_rate": 0.5625, "acceptance_length": 2.35},
            },
            flags=["per_position_confounded"],
        ),
        {"elapsed": [30.0]},
    ),
    "engines of one model at different settings confound positions": Case(
        (v1_page(V1(1000, (700, 500, 300), generation=2510), V1(1000, (700, 500), generation=2210, engine="1")),),
        one(
            {
                "num_speculative_tokens": None,
                "lifetime": {
                    "num_drafts": 2000,
                    "acceptance_rate": 0.54,
                    "acceptance_length": 2.35,
                    "acceptance_rate_per_position": [0.7, 0.5, 0.15],
                },
            },
            flags=["per_position_confounded"],
        ),
    ),
    "a restart at another setting between pages confounds positions": Case(
        (
            v1_page(V1(100, (70, 50, 30), generation=255)),
            v1_page(V1(200, (140, 100, 60), generation=505)),
            v1_page(V1(100, (70, 50, 30, 20, 10), generation=285, created=1788620000.0), process_start=1788619990.0),
        ),
        one(
            {"num_speculative_tokens": 5, "interval": {"num_drafts": 200, "acceptance_length": 2.65, "partial": True}},
            "reset_detected",
            flags=["per_position_confounded"],
        ),
        {"elapsed": [15.0, 60.0]},
    ),
    "a counter that is no number is said to be lost": Case(
        (replaced(v1_page(ENGINE), ('spec_decode_num_drafts_total{engine="0",model_name="model-a"} 100.0',
                                    'spec_decode_num_drafts_total{engine="0",model_name="model-a"} NaN')),),
        one(
            {"lifetime": {"num_drafts": None, "acceptance_rate": 0.5, "acceptance_length": None}},
            flags=["bad_sample"],
        ),
    ),
    "the wall clock is set back between two pages": Case(
        (v1_page(ENGINE), v1_page(V1(200, (140, 100, 60), generation=505, prompt=900))),
        one({"interval": {**HALF, "generation_tokens": 250, "generation_tokens_per_second": 250 / 15}}),
        {"elapsed": [15.0], "scraped_at": [1788619000.0, 1788618925.0]},
    ),
    "aborted requests: tokens without finished requests": Case(
        (v1_page(ENGINE), v1_page(V1(2100, (1470, 1050, 630), generation=5255, prompt=900, running=1))),
        one({"interval": {"num_drafts": 2000, "generation_tokens": 5000}}),
        {"elapsed": [30.0]},
    ),
    "draft placeholders counted as drafted: the length stays right": Case(
        (v1_page(V1(1000, (500, 300, 100, 0, 0), generation=1910)),),
        one({"lifetime": {"acceptance_length": 1.9, "acceptance_rate": 0.18}}),
    ),
    "duplicates that contradict each other: no number": Case(
        (v1_page(ENGINE) + b'vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="model-a"} 99.0\n',),
        one(
            {"lifetime": {"num_accepted_tokens": None, "acceptance_rate": None, "acceptance_length": None}},
            flags=["duplicate_series"],
        ),
    ),
    "nothing happens, nobody waits: idle": Case(
        (v1_page(ENGINE),) * 2, {"verdict": "ok", "state": "idle"}, {"elapsed": [15.0]}
    ),
    "a request has just arrived: no state, no probe": Case(
        (v1_page(ENGINE), v1_page(V1(100, (70, 50, 30), generation=255, prompt=900, running=1))),
        {"verdict": "ok", "state": None},
        {"elapsed": [15.0]},
    ),
    "only waiting requests and nothing moves": Case(
        (v1_page(V1(100, (70, 50, 30), generation=255, waiting=4)),) * 2,
        {"verdict": "needs_probe"},
        {"elapsed": [60.0]},
    ),
    "too short a look to call it stuck": Case(
        (v1_page(V1(100, (70, 50, 30), generation=255, running=4)),) * 2, {"verdict": "ok"}, {"elapsed": [2.0]}
    ),
    "one prompt a request, one token each: unused is not suspended": Case(
        (v1_page(V1(100, (70, 50, 30), generation=255)), v1_page(V1(100, (70, 50, 30), generation=455, finished=200))),
        {"verdict": "ok", "state": None},
        {"elapsed": [15.0]},
    ),
    "SGLang's draft worker repeats its target": Case(
        (
            sglang_page(
                calls=1000,
                generation={"true": 3000.0, "false": 100.0},
                requests=10,
                running=3,
                length=2.8,
                more=DRAFT_WORKER,
            ),
        ),
        {
            "verdict": "ok",
            "models": {"model-s": {"running": 3, "kv_usage_max": 0.3, "lifetime": {"acceptance_length": 3.09}}},
        },
    ),
    "SGLang writes zeros when idle": Case(
        (
            sglang_page(calls=1000, generation={"true": 3100.0}, requests=10, length=2.8, rate=0.6),
            sglang_page(calls=1000, generation={"true": 3100.0}, requests=10, length=0.0),
        ),
        one(
            {
                "interval": {
                    "acceptance_length": None,
                    "acceptance_rate": None,
                    "generation_tokens": 0,
                    "generation_tokens_per_second": 0.0,
                }
            },
            state="idle",
        ),
        {"elapsed": [60.0]},
    ),
    "SGLang writes zeros when idle and has no verify counter": Case(
        (
            sglang_page(calls=None, generation={"true": 3100.0}, requests=10, length=2.8),
            sglang_page(calls=None, generation={"true": 3100.0}, requests=10, length=0.0),
        ),
        {"verdict": "ok", "state": "idle"},
        {"elapsed": [60.0]},
    ),
    "SGLang counts when a request ends: busy is not stuck": Case(
        (sglang_page(calls=1000, generation={"true": 3100.0}, requests=10, running=1, length=2.8),) * 2,
        {"verdict": "ok", "state": "busy_counters_deferred"},
        {"elapsed": [60.0]},
    ),
    "SGLang changes its own depth: no rate over the change": Case(
        (
            sglang_page(calls=1000, generation={"true": 3010.0}, requests=10, steps=3, draft_tokens=4),
            sglang_page(calls=1100, generation={"true": 3312.0}, requests=12, steps=5, draft_tokens=6),
        ),
        one(
            {
                "num_speculative_tokens": 5,
                "interval": {"num_drafts": 100, "acceptance_length": 3.0, "acceptance_rate": None},
                "lifetime": {"num_drafts": 1100, "acceptance_length": 3.0, "acceptance_rate": None},
            }
        ),
        {"elapsed": [20.0]},
    ),
    "SGLang drafts a tree: a length but no rate": Case(
        (sglang_page(calls=1000, generation={"true": 3010.0}, requests=10, steps=5, draft_tokens=64),),
        one({"num_speculative_tokens": 5, "lifetime": {"acceptance_length": 3.0, "acceptance_rate": None}}),
    ),
    "SGLang without speculation": Case(
        (sglang_page(calls=None, generation={"true": 3010.0}, requests=10, steps=0, draft_tokens=0),),
        {"verdict": "not_spec_decode"},
    ),
    "llama.cpp prints an infinity": Case(
        (llamacpp_page(predicted=1000, drafts=300, draft_tokens=900, accepted=600, at=(250, 200, 150), busy="inf"),),
        one({"lifetime": {"num_drafts": 300, "acceptance_length": 3.0, "generation_tokens": 1000}}),
    ),
    "llama.cpp prints an infinite gauge that is read": Case(
        (llamacpp_page(predicted=1000, drafts=300, draft_tokens=900, accepted=600, processing="inf"),),
        one({"running": None, "lifetime": {"num_drafts": 300}}, flags=["bad_sample"]),
    ),
    "llama.cpp prints six digits": Case(
        (
            llamacpp_page(
                predicted="1.23457e+06",
                prompt="2.5e+06",
                processing=1,
                drafts=300000,
                draft_tokens=900000,
                accepted=600000,
                at=(250000, 200000, 150000),
            ),
            llamacpp_page(
                predicted="1.23459e+06",
                prompt="2.50001e+06",
                processing=1,
                drafts=300005,
                draft_tokens=900015,
                accepted=600011,
                at=(250005, 200004, 150002),
            ),
        ),
        one({"interval": {"generation_tokens": 20}}, flags=["quantized_counters"]),
        {"elapsed": [15.0]},
    ),
    "llama.cpp rounds what moved away": Case(
        (llamacpp_page(predicted="1.23457e+06", processing=1, drafts=300000, draft_tokens=900000, accepted=600000),)
        * 2,
        {"verdict": "ok", "state": "busy_counters_deferred", "flags": ["quantized_counters"]},
        {"elapsed": [15.0]},
    ),
    "llama.cpp's counters stay at zero for ever: off": Case(
        (llamacpp_page(predicted=50_000, prompt=900), llamacpp_page(predicted=51_000, prompt=1000)),
        one({"interval": {"generation_tokens": 1000, "acceptance_rate": None}}, "not_spec_decode"),
        {"elapsed": [60.0]},
    ),
    "llama.cpp before speculation counters": Case(
        (llamacpp_page(predicted=5000, drafts=None),), {"verdict": "not_spec_decode"}
    ),
    "llama.cpp's positions appear with the first speculative request": Case(
        (
            llamacpp_page(predicted=0),
            llamacpp_page(predicted=400, drafts=100, draft_tokens=300, accepted=199, at=(90, 60, 49)),
        ),
        one({"interval": {"num_drafts": 100, "acceptance_rate_per_position": [0.9, 0.6, 0.49]}}),
        {"elapsed": [15.0]},
    ),
    "llama.cpp restarts: no start time, its counters fell": Case(
        (
            llamacpp_page(predicted=9000, prompt=500, drafts=2500, draft_tokens=7400, accepted=5100),
            llamacpp_page(predicted=400, prompt=30, drafts=100, draft_tokens=300, accepted=199),
        ),
        one({"interval": {"num_drafts": 100, "generation_tokens": 400, "partial": True}}, "reset_detected"),
        {"elapsed": [15.0]},
    ),
    "V0 adds running totals up": Case(
        (
            v0_page(efficiency=0.6, rate=0.65, accepted=1950, drafted=3000, emitted=2400, generation=1100, running=3),
            v0_page(efficiency=0.58, rate=0.63, accepted=5730, drafted=9000, emitted=7040, generation=2200, running=3),
        ),
        one(
            {
                "num_speculative_tokens": 3,
                "lifetime": {"acceptance_length": 2.32, "acceptance_rate": 0.44},
                "interval": {"num_drafts": None, "acceptance_rate": None, "generation_tokens": 1100},
            },
            flags=["v0_counters_unreliable"],
        ),
        {"elapsed": [5.0]},
    ),
    "V0 with a step histogram: the window's own length": Case(
        (
            v0_page(
                efficiency=0.6,
                rate=0.65,
                accepted=1950,
                drafted=3000,
                emitted=2400,
                generation=1100,
                steps=1000,
                running=3,
            ),
            v0_page(
                efficiency=0.58,
                rate=0.63,
                accepted=5730,
                drafted=9000,
                emitted=7040,
                generation=2200,
                steps=2000,
                running=3,
            ),
        ),
        one({"interval": {"num_drafts": 1000, "acceptance_length": 2.24}}),
        {"elapsed": [5.0]},
    ),
    "V0 long after its first report: two pages tell the setting and the window's own length": Case(
        tuple(v0_reports(5, (1000, 2100, 3300), (3.5, 3.3, 3.2))[1:]),
        one(
            {
                "num_speculative_tokens": 5,
                "lifetime": {"acceptance_length": 3.2},
                "interval": {"num_drafts": 1200, "acceptance_length": (3.2 * 3300 - 3.3 * 2100) / 1200},
            },
            flags=["v0_counters_unreliable"],
        ),
        {"elapsed": [5.0]},
    ),
    "V0 restarts and its gauges are NaN again": Case(
        (
            v0_page(efficiency=0.6, rate=0.65, accepted=1950, drafted=3000, emitted=2400, generation=1100, steps=1000),
            v0_page(
                efficiency="NaN",
                rate="NaN",
                accepted=0,
                drafted=0,
                emitted=0,
                generation=10,
                steps=0,
                process_start=1729090000.0,
            ),
        ),
        one({"interval": {"generation_tokens": 10, "acceptance_rate": None, "partial": True}}, "reset_detected"),
        {"elapsed": [60.0]},
    ),
    "OpenMetrics cut off, content type told": Case(
        (v1_page(V1(100, (70, 50, 30), generation=255, created=None), process_start=None, openmetrics=True)[:-6],),
        {"verdict": "scrape_error"},
        content_type=OM,
    ),
    "OpenMetrics cut off, content type not told": Case(
        (v1_page(V1(100, (70, 50, 30), generation=255, created=None), process_start=None, openmetrics=True)[:-6],),
        {"verdict": "scrape_error"},
    ),
    "a router's page": Case(
        (
            b'vllm:current_qps{server="http://a"} 3.0\nvllm:num_requests_running{server="http://a"} 2.0\n'
            b'vllm:healthy_pods_total{server="http://a"} 1.0\n',
        ),
        {"verdict": "no_engine_metrics"},
    ),
    "a proxy's page of two servers of one model": Case(
        (
            v1_page(
                V1(100, (70, 50, 30), generation=255, running=1, extra={"instance": "a:8000"}),
                V1(300, (150, 90, 60), generation=610, running=2, extra={"instance": "b:8000"}),
                process_start=None,
            ),
        ),
        one(
            {
                "engines": ["0/a:8000", "0/b:8000"],
                "running": 3,
                "lifetime": {"num_drafts": 400, "num_accepted_tokens": 450},
            }
        ),
    ),
    "a login page": Case(
        (b"<!DOCTYPE html><html><title>Sign in</title></html>\n",),
        {"verdict": "scrape_error"},
        content_type="text/html; charset=utf-8",
    ),
    "metrics of several processes that cannot be read": Case(
        (b"Internal Server Error",), {"verdict": "scrape_error"}, status=500
    ),
    "SGLang starting": Case((b"",), {"verdict": "starting"}, status=503),
    "a proxy without a server": Case(
        (b"<html><h1>503 Service Temporarily Unavailable</h1></html>",), {"verdict": "scrape_error"}, status=503
    ),
    "a page, then an error: the error is the verdict": Case(
        (v1_page(ENGINE), b"<html></html>"), {"verdict": "scrape_error", "models": {}}, {"elapsed": [15.0]}
    ),
    "an error between two pages changes nothing": Case(
        (v1_page(ENGINE), b"", v1_page(V1(200, (140, 100, 60), generation=505, prompt=900))),
        one({"interval": {**HALF, "generation_tokens": 250, "generation_tokens_per_second": 250 / 30}}),
        {"elapsed": [15.0, 15.0]},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_kind(case: Case) -> None:
    assert list(complaints(case.expected, case.say())) == []


def test_errors_have_reasons_of_their_own() -> None:
    errors = [case for case in CASES.values() if case.expected["verdict"] == "scrape_error"]
    reasons = [case.say()["reason"] for case in errors]
    assert all(reasons)
    assert len(set(reasons)) == len({(case.pages[-1], case.status) for case in errors}) - 1  # two are one cut page


@pytest.mark.parametrize(
    ("pages", "how", "complaint"),
    [
        (0, {}, "no pages"),
        (2, {"elapsed": [15.0, 15.0]}, "2 elapsed times for 2 pages"),
        (2, {"scraped_at": [1.0]}, "1 scrape times for 2 pages"),
        (2, {"elapsed": [0.0]}, "0.0 seconds between two pages"),
        (2, {"elapsed": [-5.0]}, "-5.0 seconds"),
        (2, {"elapsed": [float("nan")]}, "nan seconds"),
        (2, {"scraped_at": [5.0, 5.0]}, "0.0 seconds"),
        (2, {"scraped_at": [5.0, 1e20]}, "expected unix seconds"),
        (2, {"scraped_at": [-5.0, 5.0]}, "expected unix seconds"),
        (2, {"elapsed": [1e300]}, "at most 1e"),
    ],
)
def test_times_that_do_not_fit_are_named(pages: int, how: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_pages([PageInput(v1_page(ENGINE))] * pages, **how)


def test_without_times_there_are_differences_but_no_rates() -> None:
    said = read_pages(
        [PageInput(v1_page(ENGINE)), PageInput(v1_page(V1(200, (140, 100, 60), generation=505, prompt=900)))]
    )
    interval = said["models"][0]["interval"]  # type: ignore[index]
    assert interval["num_drafts"] == 100
    assert interval["generation_tokens_per_second"] is None
