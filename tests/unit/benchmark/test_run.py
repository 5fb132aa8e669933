"""Running the benchmark by another interpreter: options, progress, secrets, and each way to end without a result."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.benchmark.run import BenchmarkFailed, Target, run_benchmark
from monitor.benchmark.workload import read_workload
from tests.unit.benchmark.stand_in import install

WORKLOAD = read_workload(None, requests=4, concurrency=2, output_tokens=50, rate=None)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    environ = {"PATH": os.environ["PATH"], **install(tmp_path)}
    return Target(base_url="http://127.0.0.1:1", python=sys.executable, model="served", tokenizer="/models/x",
                  environ=environ, api_key="sk-secret")  # fmt: skip


def troubled(target: Target, trouble: str) -> Target:
    return replace(target, environ={**target.environ, "TROUBLE": trouble})


def test_every_run_brings_a_result_and_says_how_far_it_is(target: Target) -> None:
    told: list[tuple[int, int, int]] = []
    results = run_benchmark(target, WORKLOAD, runs=2, progress=lambda *how: told.append(how))
    assert [result["output_throughput"] for result in results] == [400.0, 410.0]
    assert told == [(run, done, 4) for run in (0, 1) for done in (0, 1, 2, 3, 4)]


def test_it_is_told_all_it_needs_and_nothing_that_it_does_not_know(target: Target) -> None:
    (result,) = run_benchmark(target, replace(WORKLOAD, rate=2.5), runs=1)
    args = result["args"]
    assert (args["base_url"], args["model"], args["tokenizer"]) == ("http://127.0.0.1:1", "served", "/models/x")
    assert (args["num_prompts"], args["max_concurrency"], args["request_rate"]) == ("4", "2", "2.5")
    assert args["temperature"] == "0"
    assert result["prompts"].count("\n") == len(WORKLOAD.prompts)


def test_the_key_goes_by_the_environment_and_into_no_message(target: Target) -> None:
    (result,) = run_benchmark(target, WORKLOAD, runs=1)
    assert result["key"] == "sk-secret"
    with pytest.raises(BenchmarkFailed, match="nobody listens with key <secret>"):
        run_benchmark(troubled(target, "break"), WORKLOAD, runs=1)


def test_no_answer_at_all_is_no_result(target: Target) -> None:
    with pytest.raises(BenchmarkFailed, match="no request was answered"):
        run_benchmark(troubled(target, "refuse"), WORKLOAD, runs=1)


def test_one_that_hangs_is_ended(target: Target) -> None:
    with pytest.raises(BenchmarkFailed, match="not over after 1 s"):
        run_benchmark(troubled(target, "hang"), WORKLOAD, runs=1, timeout_seconds=1.0)


def test_an_interpreter_without_the_benchmark_says_so(target: Target) -> None:
    with pytest.raises(BenchmarkFailed, match="has no serving benchmark"):
        run_benchmark(replace(target, environ={"PATH": os.environ["PATH"]}), WORKLOAD, runs=1)
    with pytest.raises(BenchmarkFailed, match="cannot be run"):
        run_benchmark(replace(target, python="/no/python"), WORKLOAD, runs=1)


def test_a_version_that_lacks_what_is_needed_says_what(target: Target, tmp_path: Path) -> None:
    serve = tmp_path / "vllm" / "benchmarks" / "serve.py"
    serve.write_text(serve.read_text().replace('"max-concurrency", ', ""))
    with pytest.raises(BenchmarkFailed, match="no option: --max-concurrency"):
        run_benchmark(target, WORKLOAD, runs=1)
