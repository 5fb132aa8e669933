"""Closed loop of four policies on tuning tables: goodput lost against the best setting, and restarts.

    python -m tests.bench.tuner --tables tests/golden/tuning_tables [--seeds 20] [--synthetic 60] [--verbose]

A table holds what a server shows at each setting. A policy sees only the rows of settings it has been at, with noise:
60 requests (0.6 % of the accepted tokens) and 1.5 % of the step time. `threshold` moves as the 70/50 rule says; the
others measure every change with that noise and go back, with one more restart, where it lost; `leave` never moves.
A cell is a table and a start, averaged over seeds. `--synthetic N` adds N made-up tables, reported on their own.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitor.tuning import Limits, Row, TuneInput, guard, tune
from monitor.tuning.observed import drafting_of
from monitor.tuning.projection import project
from monitor.tuning.threshold import threshold_answer
from tests.bench import synthetic_tables

Policy = Callable[[TuneInput], int | None]
STARTS = (1, 3, 5, 8)
MOST_MOVES = 12


@dataclass(frozen=True)
class Table:
    name: str
    method: str
    batch: float
    rows: Mapping[int, Mapping[str, Any]]

    def length(self, tokens: int) -> float:
        """Tokens per step: from the positions where the table gives them, else the length it gives; 1 when off."""
        row = self.rows[tokens]
        rates = row.get("acceptance_rate_per_position")
        return 1.0 if not tokens else 1.0 + sum(rates) if rates else float(row["acceptance_length"])

    def goodput(self, tokens: int) -> float:
        return self.length(tokens) / float(self.rows[tokens]["step_seconds"])


def load(folder: Path) -> list[Table]:
    """Tables of a folder; other files in it (curves, notes) are passed over, and so are rows that say too little.

    A row needs a step time and, above 0, positions (one a token) or a length. A table needs two such rows, one above 0.
    """
    tables = []
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or not isinstance(found.get("num_speculative_tokens"), dict):
            continue
        rows = {
            int(tokens): row
            for tokens, row in sorted(found["num_speculative_tokens"].items(), key=lambda item: int(item[0]))
            if _is_told(int(tokens), row)
        }
        if len(rows) < 2 or not any(rows):
            print(f"  {path.name}: passed over, {len(rows)} usable rows")
            continue
        tables.append(Table(found.get("name", path.stem), found.get("method", ""), float(found.get("batch", 1)), rows))
    return tables


def _is_told(tokens: int, row: Mapping[str, Any]) -> bool:
    rates = row.get("acceptance_rate_per_position")
    is_long = tokens == 0 or (bool(rates) and len(rates) == tokens) or row.get("acceptance_length") is not None
    return bool(row.get("step_seconds")) and is_long


def observe(table: Table, tokens: int, rng: random.Random) -> Row:
    """What a server at this setting shows over 60 requests."""
    row = table.rows[tokens]
    step_seconds = row["step_seconds"] * math.exp(rng.gauss(0, 0.015))
    relative = math.exp(rng.gauss(0, 0.006))
    if tokens == 0:
        return Row(length=1.0, num_drafts=0, finished_requests=600, step_seconds=step_seconds, batch=table.batch)
    rates = row.get("acceptance_rate_per_position")
    survival = tuple(min(1.0, rate * relative) for rate in rates) if rates and len(rates) == tokens else None
    length = 1.0 + (sum(survival) if survival else (table.length(tokens) - 1.0) * relative)
    return Row(
        survival=survival, length=length, num_drafts=40_000, finished_requests=600, step_seconds=step_seconds,
        batch=table.batch,
    )


def threshold(given: TuneInput) -> int | None:
    return threshold_answer(given.current, given.num_speculative_tokens, given.limits).num_speculative_tokens


def guarded(given: TuneInput) -> int | None:
    answer = guard.guarded(given)
    return answer.num_speculative_tokens if answer.is_allowed else None


def goodput(given: TuneInput) -> int | None:
    return tune(given).num_speculative_tokens


def leave(given: TuneInput) -> int | None:
    return None


POLICIES: Mapping[str, Policy] = {"threshold": threshold, "guarded": guarded, "goodput": goodput, "leave": leave}


def run(table: Table, start: int, seed: int, policy: Policy, *, reverts: bool) -> tuple[float, int, int]:
    """Goodput lost at the end (ratio), restarts, and the last setting."""
    rng = random.Random(zlib.crc32(f"{table.name}{start}{seed}".encode()))
    limits = Limits(
        minimum=min(tokens for tokens in table.rows if tokens), maximum=max(table.rows), allow_off=0 in table.rows
    )
    now, rejected, restarts = start, set[int](), 0
    seen = {now: observe(table, now, rng)}
    for _ in range(MOST_MOVES):
        target = policy(TuneInput(
            method=table.method, num_speculative_tokens=now, observed=seen, limits=limits, rejected=frozenset(rejected),
        ))
        if target is None or target == now or target in rejected:
            break
        if target not in table.rows:
            rejected.add(target)  # nobody measured it, so that nobody can be at it
            continue
        restarts += 1
        before, seen[target] = seen[now], observe(table, target, rng)
        if reverts and _goodput(seen[target]) < _goodput(before):
            rejected.add(target)
            restarts += 1
        else:
            now = target
    best = max(table.goodput(tokens) for tokens in table.rows)
    return 1.0 - table.goodput(now) / best, restarts, now


def _goodput(row: Row) -> float:
    assert row.length is not None and row.step_seconds is not None
    return row.length / row.step_seconds


@dataclass(frozen=True)
class Result:
    """Losses of cells (ratio) with their names, worst first, and mean restarts."""

    cells: Sequence[tuple[float, str]]
    restarts: float

    def __str__(self) -> str:
        losses = [loss for loss, _ in self.cells]
        p95 = sorted(losses)[int(0.95 * (len(losses) - 1))]
        return (
            f"mean {statistics.mean(losses):6.2%}  p95 {p95:6.2%}  worst {max(losses):6.2%} ({self.cells[0][1]})  "
            f"restarts {self.restarts:.2f}"
        )


def bench(tables: Sequence[Table], name: str, seeds: int) -> Result:
    """One policy on every table from every start."""
    policy, cells, moves = POLICIES[name], [], []
    for table in tables:
        for start in STARTS:
            if start not in table.rows:
                continue
            runs = [run(table, start, seed, policy, reverts=name != "threshold") for seed in range(seeds)]
            ends = statistics.mode(end for _, _, end in runs)
            cells.append((statistics.mean(loss for loss, _, _ in runs), f"{table.name} from {start} to {ends}"))
            moves += [restarts for _, restarts, _ in runs]
    return Result(sorted(cells, reverse=True), statistics.mean(moves))


def curves(path: Path) -> list[str]:
    """Error of the projected length by steps up and down, on published curves of length by setting."""
    errors: dict[int, list[float]] = {}
    for curve in json.loads(path.read_text()):
        lengths = {int(tokens): float(length) for tokens, length in curve["acceptance_length"].items()}
        for seen, length in lengths.items():
            # Differences of the curve stand in for the positions, which the source does not give.
            rates = [lengths[i] - (lengths[i - 1] if i > 1 else 1.0) for i in range(1, seen + 1)]
            survival = tuple(max(0.0, min(rates[: i + 1])) for i in range(seen))
            for row in (Row(survival=survival, length=length), Row(length=length)):
                found = project({seen: row}, drafting_of(curve["method"]), max(lengths))
                for tokens, truth in lengths.items():
                    if tokens != seen:
                        kind = 0 if row.survival else 100
                        errors.setdefault(kind + tokens - seen, []).append(found[tokens].value / truth - 1.0)
    lines = []
    for kind, title in ((0, "from positions"), (100, "from the length alone")):
        for step in range(-7, 8):
            found_errors = errors.get(kind + step)
            if found_errors:
                sizes = [abs(error) for error in found_errors]
                lines.append(
                    f"  {title}, {step:+d}: mean |error| {statistics.mean(sizes):.1%}, "
                    f"mean {statistics.mean(found_errors):+.1%}, worst {max(sizes):.1%}"
                )
    return lines


def speed(tables: Sequence[Table]) -> float:
    """Seconds that 1,000 recommendations take."""
    rng = random.Random(1)
    inputs = []
    for index in range(1000):
        table = tables[index % len(tables)]
        now = next(tokens for tokens in (3, 5, 4, 2) if tokens in table.rows)
        rows = {tokens: observe(table, tokens, rng) for tokens in (0, 2, now) if tokens in table.rows}
        load = tuple((2.0**i, 1.0) for i in range(8))
        inputs.append(TuneInput(method=table.method, num_speculative_tokens=now, observed=rows, batches=load))
    began = time.perf_counter()
    for given in inputs:
        tune(given)
    return time.perf_counter() - began


def report(title: str, tables: Sequence[Table], seeds: int, *, verbose: bool) -> dict[str, Result]:
    print(f"{title}: {len(tables)} tables, starts {', '.join(map(str, STARTS))}, {seeds} seeds")
    results = {}
    for name in POLICIES:
        results[name] = bench(tables, name, seeds)
        print(f"  {name:10s} {results[name]}")
        if verbose:
            for loss, cell in results[name].cells[:8]:
                print(f"      {loss:6.2%} {cell}")
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--synthetic", type=int, default=0, help="number of made-up tables to add")
    parser.add_argument("--synthetic-seed", type=int, default=7)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args(arguments)
    tables = load(given.tables)
    report("tables", tables, given.seeds, verbose=given.verbose)
    if given.synthetic:
        with tempfile.TemporaryDirectory() as folder:
            synthetic_tables.write(Path(folder), given.synthetic, given.synthetic_seed)
            made = load(Path(folder))
        report("made-up tables", made, max(1, given.seeds // 4), verbose=given.verbose)
    path = given.tables / "acceptance_length_curves.json"
    if path.exists():
        print("projected length on published curves")
        print("\n".join(curves(path)))
    print(f"1,000 recommendations over 8 batch sizes each: {speed(tables):.2f} s")


if __name__ == "__main__":
    main()
