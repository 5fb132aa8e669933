"""What benchmarks brought, kept beside the life of the server that they ran on, and two of them compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import fmean, variance
from typing import Any, Final

from monitor.model.record import BENCHMARK, Evidence
from monitor.model.server import ServerName
from monitor.signals.uncertainty import student_t95

#: Numbers kept of each run: as vLLM's result calls them, and the factor to our units.
_NUMBERS: Final[Mapping[str, tuple[str, float]]] = {
    "output_tokens_per_second": ("output_throughput", 1.0),
    "requests_per_second": ("request_throughput", 1.0),
    "completed": ("completed", 1.0),
    "failed": ("failed", 1.0),
    "seconds": ("duration", 1.0),
    "output_tokens": ("total_output_tokens", 1.0),
    "time_to_first_token_seconds_mean": ("mean_ttft_ms", 1e-3),
    "time_to_first_token_seconds_p99": ("p99_ttft_ms", 1e-3),
    "time_per_output_token_seconds_mean": ("mean_tpot_ms", 1e-3),
    "time_per_output_token_seconds_p99": ("p99_tpot_ms", 1e-3),
    "e2e_request_latency_seconds_mean": ("mean_e2el_ms", 1e-3),
    "acceptance_rate": ("spec_decode_acceptance_rate", 1e-2),
    "acceptance_length": ("spec_decode_acceptance_length", 1.0),
}
#: Those that two results are compared by, most telling first.
COMPARED: Final = (
    "output_tokens_per_second", "time_per_output_token_seconds_mean", "time_per_output_token_seconds_p99",
    "time_to_first_token_seconds_mean", "time_to_first_token_seconds_p99", "acceptance_length", "acceptance_rate",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """Runs of one workload on one life of a server. A number that a run does not tell is absent from it."""

    id: str
    server: ServerName
    at: datetime
    lives: tuple[str, ...]
    setting: str
    engine_version: str | None
    workload: str
    digest: str
    runs: tuple[Mapping[str, float], ...]

    def values(self, name: str) -> list[float]:
        """A number of every run that tells it."""
        return [run[name] for run in self.runs if name in run]

    def mean(self, name: str) -> float | None:
        """Its mean over the runs; None where none tells it."""
        values = self.values(name)
        return sum(values) / len(values) if values else None

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "at": self.at.isoformat(), "mean": {name: self.mean(name) for name in _NUMBERS}}


def numbers_of(raw: Mapping[str, Any]) -> dict[str, float]:
    """What is kept of one result of vLLM's."""
    found = {}
    for name, (key, factor) in _NUMBERS.items():
        value = raw.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[name] = float(value) * factor
    return found


def to_evidence(result: BenchResult) -> Evidence:
    """As it is stored."""
    parts = {
        "lives": json.dumps(result.lives), "setting": result.setting, "engine version": result.engine_version or "",
        "workload": result.workload, "digest": result.digest, "runs": json.dumps([dict(run) for run in result.runs]),
    }  # fmt: skip
    return Evidence(result.id, result.server, result.at, BENCHMARK, parts)


def from_evidence(evidence: Iterable[Evidence]) -> list[BenchResult]:
    """The benchmarks among evidence, oldest first."""
    return [
        BenchResult(
            id=one.id, server=one.server, at=one.at, lives=tuple(json.loads(one.parts["lives"])),
            setting=one.parts["setting"], engine_version=one.parts["engine version"] or None,
            workload=one.parts["workload"], digest=one.parts["digest"], runs=tuple(json.loads(one.parts["runs"])),
        )
        for one in evidence
        if one.what == BENCHMARK
    ]


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of two results; `change` is the second over the first less 1, with its 95 % interval if runs allow."""

    name: str
    before: float | None
    after: float | None
    change: float | None
    low: float | None
    high: float | None


def compare(before: BenchResult, after: BenchResult) -> list[Compared]:
    """Every number that both may tell."""
    return [_compared(name, before, after) for name in COMPARED]


def _compared(name: str, before: BenchResult, after: BenchResult) -> Compared:
    first, second = before.values(name), after.values(name)
    one, other = before.mean(name), after.mean(name)
    if not one or other is None or min(first) <= 0 or not second or min(second) <= 0:
        return Compared(name, one, other, None, None, None)
    change = other / one - 1.0
    if len(first) < 2 or len(second) < 2:
        return Compared(name, one, other, change, None, None)
    logs = [[math.log(value) for value in values] for values in (first, second)]
    errors = [variance(values) / len(values) for values in logs]
    middle = fmean(logs[1]) - fmean(logs[0])
    half = student_t95(_degrees(errors, logs)) * math.sqrt(sum(errors))
    return Compared(name, one, other, change, math.expm1(middle - half), math.expm1(middle + half))


def _degrees(errors: Sequence[float], samples: Sequence[Sequence[float]]) -> float:
    """Degrees of freedom of a difference of means with unequal variances (Welch)."""
    spread = sum(error**2 / (len(sample) - 1) for error, sample in zip(errors, samples, strict=True))
    return sum(errors) ** 2 / spread if spread > 0 else float(sum(map(len, samples)) - 2)
