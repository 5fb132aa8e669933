from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.simulator.tables import Row, Table, find_family, geometric_survival, load_table, shipped_families


def table(rows: dict[int, Row]) -> Table:
    return Table("t", "eagle3", 1, "here", rows)


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("name", shipped_families())
def test_every_shipped_family_loads_names_its_source_and_never_rises(name: str) -> None:
    family = find_family(name)
    assert family.source.startswith("https://") and family.method
    for k in range(1, 13):
        for batch in (1, 3, 24, 300):
            row = family.row(k, batch)
            assert len(row.survival) == k
            assert list(row.survival) == sorted(row.survival, reverse=True)
            assert all(0 <= rate <= 1 for rate in row.survival) and row.step_seconds > 0


def test_a_row_of_the_table_is_given_as_it_is() -> None:
    row = find_family("gsm8k-eagle3").row(3, 16)
    assert row.survival == (0.6749, 0.4366, 0.2793)
    assert row.step_seconds == 0.010796
    assert row.acceptance_length == pytest.approx(2.3908)


def test_between_two_batches_figures_are_interpolated_and_outside_clamped() -> None:
    family = find_family("gsm8k-eagle3")
    low, high = family.row(2, 16).step_seconds, family.row(2, 64).step_seconds
    assert family.row(2, 40).step_seconds == pytest.approx((low + high) / 2)
    assert family.row(2, 0.5) == family.row(2, 1)
    assert family.row(2, 1000) == family.row(2, 256)


def test_above_the_longest_row_its_figures_hold_and_no_further_token_is_accepted() -> None:
    one = table({0: Row((), 1.0), 2: Row((0.6, 0.4), 2.0)})
    assert one.row(4) == Row((0.6, 0.4, 0.0, 0.0), 2.0)


def test_below_the_shortest_row_survival_is_its_prefix_and_step_time_on_the_line() -> None:
    one = table({0: Row((), 1.0), 2: Row((0.6, 0.4), 2.0)})
    assert one.row(1) == Row((0.6,), 1.5)


def test_speculation_off_is_on_the_line_through_the_shortest_rows_where_nobody_measured_it() -> None:
    one = table({2: Row((0.6, 0.4), 2.0), 3: Row((0.6, 0.4, 0.2), 2.5)})
    assert one.row(0) == Row((), 1.0)
    assert table({2: Row((0.6, 0.4), 2.0)}).row(0) == Row((), 2.0)


def test_between_two_settings_shared_positions_are_mixed_and_new_ones_taken_from_the_longer() -> None:
    one = table({1: Row((0.8,), 1.0), 3: Row((0.6, 0.5, 0.3), 3.0)})
    assert one.row(2).survival == pytest.approx((0.7, 0.5)) and one.row(2).step_seconds == 2.0


def test_a_length_alone_becomes_a_geometric_survival_of_that_length() -> None:
    survival = geometric_survival(2.5, 3)
    assert 1 + sum(survival) == pytest.approx(2.5)
    assert survival[1] == pytest.approx(survival[0] ** 2)
    assert geometric_survival(1.0, 2) == (0.0, 0.0)
    assert 1 + sum(find_family("vllm20780-eagle3").row(4, 1).survival) == pytest.approx(3.08)


def test_a_table_file_and_a_family_can_lie_anywhere(tmp_path: Path) -> None:
    row = {"step_seconds": 0.01}
    for batch in (1, 8):
        rows = {"0": row, "1": {"acceptance_length": 1.5, "step_seconds": 0.01 * batch}}
        write(tmp_path / f"mine-b{batch}.json", {"batch": batch, "num_speculative_tokens": rows})
    assert find_family(str(tmp_path / "mine")).row(1, 8).step_seconds == 0.08
    assert find_family(str(tmp_path / "mine-b1.json")).row(1, 8).step_seconds == 0.01
    assert find_family(str(tmp_path / "mine-b8")).row(1, 8).step_seconds == 0.08


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ([], "num_speculative_tokens"),
        ({"num_speculative_tokens": {}}, "num_speculative_tokens"),
        ({"num_speculative_tokens": {"x": {}}}, "'x'"),
        ({"num_speculative_tokens": {"0": {"step_seconds": 1}}}, "at least one row above 0"),
        ({"num_speculative_tokens": {"1": {"acceptance_length": 1.5}}}, "step_seconds"),
        ({"num_speculative_tokens": {"1": {"acceptance_length": 2.5, "step_seconds": 1}}}, "from 1 to 2"),
        (
            {"num_speculative_tokens": {"2": {"acceptance_rate_per_position": [0.5], "step_seconds": 1}}},
            "expected 2 numbers",
        ),
        (
            {"num_speculative_tokens": {"2": {"acceptance_rate_per_position": [0.5, 0.6], "step_seconds": 1}}},
            "never rise",
        ),
        ({"batch": 0, "num_speculative_tokens": {"1": {"acceptance_length": 1, "step_seconds": 1}}}, "batch"),
    ],
)
def test_a_broken_table_is_named_with_its_place(tmp_path: Path, value: object, named: str) -> None:
    path = write(tmp_path / "broken.json", value)
    with pytest.raises(ConfigError, match=r"broken\.json") as caught:
        load_table(path)
    assert named in str(caught.value)


def test_a_missing_or_unreadable_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_table(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(ConfigError, match="expected JSON"):
        load_table(tmp_path / "text.json")


def test_an_unknown_family_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="gsm8k-eagle3"):
        find_family("nothing-here")
