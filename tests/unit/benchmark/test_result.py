"""Results as they are kept, and the difference of two with its error."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from monitor.benchmark.result import COMPARED, BenchResult, compare, from_evidence, numbers_of, to_evidence
from monitor.model.record import Evidence
from monitor.model.server import ServerName
from tests.unit.signals.windows import NOON

A = ServerName("a")


def result(speeds: list[float], **changes: object) -> BenchResult:
    values = {
        "id": "b-1", "server": A, "at": NOON, "lives": ("l1",), "setting": "ngram, 3 tokens",
        "engine_version": "0.32.0", "workload": "w", "digest": "d",
        "runs": tuple({"output_tokens_per_second": speed} for speed in speeds),
    }
    return BenchResult(**{**values, **changes})  # type: ignore[arg-type]


def test_what_vllm_writes_in_our_units() -> None:
    found = numbers_of({
        "output_throughput": 412.5, "mean_tpot_ms": 8.0, "p99_ttft_ms": None, "spec_decode_acceptance_rate": 62.5,
        "completed": 10, "model_id": "x", "duration": float("inf"), "failed": True,
    })  # fmt: skip
    assert found == {
        "output_tokens_per_second": 412.5, "time_per_output_token_seconds_mean": 0.008, "acceptance_rate": 0.625,
        "completed": 10.0,
    }


def test_it_comes_back_from_the_store_as_it_was() -> None:
    one = result([400.0, 410.0])
    other = Evidence("e1", A, NOON, "generation probe failed", {"page": "x"})
    assert from_evidence([other, to_evidence(one)]) == [one]


def test_a_change_comes_with_its_interval() -> None:
    found = {one.name: one for one in compare(result([100.0, 102.0, 98.0]), result([110.0, 112.0, 108.0]))}
    speed = found["output_tokens_per_second"]
    assert speed.change == pytest.approx(0.10)
    assert 0.04 < speed.low < 0.10 < speed.high < 0.16
    assert set(found) == set(COMPARED)


def test_one_run_has_no_interval_and_no_number_no_change() -> None:
    found = {one.name: one for one in compare(result([100.0]), result([110.0]))}
    speed = found["output_tokens_per_second"]
    assert (speed.change, speed.low, speed.high) == (pytest.approx(0.1), None, None)
    assert found["acceptance_length"].change is None


def test_off_has_no_acceptance_to_compare() -> None:
    off = replace(result([100.0]), runs=({"output_tokens_per_second": 100.0},))
    on = replace(result([90.0]), runs=({"output_tokens_per_second": 90.0, "acceptance_length": 2.5},))
    found = {one.name: one for one in compare(off, on)}
    assert (found["acceptance_length"].before, found["acceptance_length"].after) == (None, 2.5)


def test_the_interval_holds_the_truth_in_most_of_many_comparisons() -> None:
    rng, held = random.Random(4), 0
    for _ in range(400):
        before, after = ([level * (1 + rng.gauss(0, 0.02)) for _ in range(4)] for level in (100.0, 105.0))
        speed = compare(result(before), result(after))[0]
        assert speed.low is not None and speed.high is not None
        held += speed.low <= 0.05 <= speed.high
    assert 0.92 <= held / 400 <= 0.985
