"""Tables that the tuner's benchmark was not made on: what is missing in them is passed over, not guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import tuner


def table(folder: Path, name: str, rows: dict[str, object], **more: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"num_speculative_tokens": rows, "method": "eagle3", **more}))


ON = {"acceptance_rate_per_position": [0.7], "step_seconds": 0.011}
OFF = {"step_seconds": 0.008}


def test_lengths_come_from_positions_or_from_the_length(tmp_path: Path) -> None:
    table(tmp_path, "t", {"0": OFF, "1": ON, "3": {"acceptance_length": 2.2, "step_seconds": 0.012}}, batch=4)
    (found,) = tuner.load(tmp_path)
    assert [found.length(tokens) for tokens in found.rows] == [1.0, 1.7, 2.2]
    assert found.goodput(1) == pytest.approx(1.7 / 0.011)
    assert (found.name, found.batch) == ("t", 4.0)


def test_rows_that_say_too_little_are_passed_over(tmp_path: Path) -> None:
    broken = {"acceptance_rate_per_position": [0.7, 0.5], "step_seconds": 0.012}
    few = {"2": {"step_seconds": 0.012}, "3": broken, "4": {"acceptance_length": 2.0}}
    table(tmp_path, "t", {"1": ON, "0": OFF, **few})
    (found,) = tuner.load(tmp_path)
    assert list(found.rows) == [0, 1]


def test_files_that_are_no_tables_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "curves.json").write_text("[]")
    (tmp_path / "notes.json").write_text('{"num_speculative_tokens": 3}')
    table(tmp_path, "alone", {"0": OFF})
    assert tuner.load(tmp_path) == []


@pytest.mark.parametrize("policy", list(tuner.POLICIES))
def test_a_table_without_off_and_with_gaps_is_walked_to_an_end(tmp_path: Path, policy: str) -> None:
    rows = {
        str(k): {"acceptance_length": 1 + sum(0.7**i for i in range(1, k + 1)), "step_seconds": 0.01 * (1 + 0.1 * k)}
        for k in (1, 3, 5, 8)
    }
    table(tmp_path, "gaps", rows)
    result = tuner.bench(tuner.load(tmp_path), policy, 2)
    assert len(result.cells) == 4
    assert all(-1e-9 <= loss < 1.0 for loss, _ in result.cells)
