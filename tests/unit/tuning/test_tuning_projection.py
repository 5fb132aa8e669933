"""Lengths at other settings: the two bounds downwards, the decay upwards, lengths alone, several rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.tuning.observed import Drafting, Row, drafting_of
from monitor.tuning.projection import extend, from_lengths, higher, lower, prefix, project, run_split, sample_error

TABLES = Path(__file__).parents[2] / "golden" / "tuning_tables"


def rows_of(name: str) -> dict[int, dict]:
    found = json.loads((TABLES / f"{name}.json").read_text())["num_speculative_tokens"]
    return {int(tokens): row for tokens, row in found.items()}


@pytest.mark.parametrize(
    ("method", "kind"),
    [("eagle3", Drafting.HEAD), ("mtp", Drafting.LAYER), ("deepseek_mtp", Drafting.LAYER), ("ngram", Drafting.LOOKUP),
     ("[ngram]", Drafting.LOOKUP), ("suffix", Drafting.LOOKUP), ("draft_model", Drafting.MODEL),
     ("dflash", Drafting.BLOCK), ("draft-simple", Drafting.MODEL), ("EAGLE", Drafting.HEAD), (None, Drafting.HEAD)],
)
def test_kind_of_drafter(method, kind):
    assert drafting_of(method) is kind


def test_the_two_bounds_by_hand():
    survival = (0.5, 0.4, 0.3, 0.2)  # length 2.4
    assert prefix(survival, 2) == pytest.approx(1.9)
    # A run longer than 2 needs another draft: R3 says how often.
    assert run_split(survival, 2) == pytest.approx(2.4 / 1.3)
    assert run_split(survival, 1) == pytest.approx(2.4 / (1 + 0.4 + 0.2))


@pytest.mark.parametrize("name", ["gsm8k-eagle3-b1", "sharegpt-eagle3-b1", "vllm32628-humaneval-c1", "gsm8k-ngram-b1",
                                  "sharegpt-ngram-b1"])
def test_the_bounds_hold_on_replayed_and_measured_drafts(name):
    """Larger bound never more than 0.3 % above the truth, at worst 4 % below (7 % for n-gram)."""
    rows = rows_of(name)
    errors = [
        max(prefix(r, k), run_split(r, k)) / rows[k]["acceptance_length"] - 1
        for n in rows if n and (r := rows[n]["acceptance_rate_per_position"])
        for k in rows if 0 < k < n
    ]
    assert max(errors) < 0.003
    assert min(errors) > (-0.07 if "ngram" in name else -0.04)


@pytest.mark.parametrize("name", ["gsm8k-eagle3-b1", "sharegpt-eagle3-b1", "vllm32628-humaneval-c1", "gsm8k-ngram-b1",
                                  "sharegpt-ngram-b1"])
def test_projections_up_by_two_are_within_their_error(name):
    rows = rows_of(name)
    drafting = drafting_of("ngram" if "ngram" in name else "eagle3")
    for n in sorted(rows):
        if n and n + 2 in rows:
            survival = tuple(rows[n]["acceptance_rate_per_position"])
            found = project({n: Row(survival=survival, length=1 + sum(survival))}, drafting, n + 2)[n + 2]
            assert found.value == pytest.approx(rows[n + 2]["acceptance_length"], rel=2.5 * found.error)


def test_a_head_goes_on_with_a_decaying_rate():
    g = 0.512 ** (1 / 3)  # conditional 0.8 throughout
    assert extend((0.8, 0.64, 0.512), 5) == pytest.approx(
        (0.8, 0.64, 0.512, 0.512 * g * 0.93, 0.512 * g * 0.93 * g * 0.93**2)
    )


def test_a_collapsing_layer_goes_on_collapsing():
    # Conditional 0.8, then 0.6: the next is 0.6 x 0.75, not 0.69 x 0.88.
    assert extend((0.8, 0.48), 3, Drafting.LAYER)[2] == pytest.approx(0.48 * 0.6 * 0.75)


def test_lookup_goes_on_with_its_last_rate_capped():
    assert extend((0.3, 0.27), 3, Drafting.LOOKUP)[2] == pytest.approx(0.27 * 0.9)
    assert extend((0.3, 0.3), 3, Drafting.LOOKUP)[2] == pytest.approx(0.3 * 0.97)


def test_nothing_accepted_stays_nothing():
    assert extend((0.0,), 4) == (0.0, 0.0, 0.0, 0.0)
    assert higher((0.0, 0.0), 3) == 1.0


def test_a_length_is_never_projected_above_what_is_possible():
    assert lower((1.0,) * 8, 2) == 3.0
    assert higher((1.0,), 3) <= 4.0


def test_off_is_exactly_one_and_alone_without_rows():
    found = project({}, Drafting.HEAD, 5)
    assert list(found) == [0]
    assert (found[0].value, found[0].error) == (1.0, 0.0)


def test_errors_grow_with_the_distance():
    found = project({3: Row(survival=(0.7, 0.5, 0.35), length=2.55, num_drafts=40_000)}, Drafting.HEAD, 6)
    assert found[3].is_observed
    assert found[3].error < found[2].error < found[1].error
    assert found[3].error < found[4].error < found[5].error < found[6].error


def test_between_two_settings_both_rows_speak():
    rows = rows_of("gsm8k-eagle3-b1")
    seen = {
        k: Row(survival=tuple(rows[k]["acceptance_rate_per_position"]), length=rows[k]["acceptance_length"])
        for k in (2, 6)
    }
    both = project(seen, Drafting.HEAD, 6)[4]
    alone = project({6: seen[6]}, Drafting.HEAD, 6)[4]
    assert both.error < alone.error
    assert both.value == pytest.approx(rows[4]["acceptance_length"], rel=0.02)


def test_from_a_length_alone_the_way_down_and_up_is_found_with_a_wide_error():
    truth = {1: 1.83, 2: 2.43, 3: 2.88, 4: 3.24, 5: 3.46, 6: 3.62}  # a published EAGLE-3 curve
    found = from_lengths({3: truth[3]}, 6, Drafting.HEAD)
    for tokens, (value, error) in found.items():
        assert value == pytest.approx(truth[tokens], rel=max(0.005, 2.5 * error))
    assert found[3] == (pytest.approx(2.88), 0.0)
    assert found[6][1] > found[4][1] > 0.01


def test_several_lengths_pin_the_shape_down():
    one = from_lengths({3: 2.88}, 6, Drafting.HEAD)[6][1]
    two = from_lengths({3: 2.88, 5: 3.46}, 6, Drafting.HEAD)[6][1]
    assert two < one / 2


def test_steps_without_a_draft_emit_one_token():
    row = Row(survival=(0.8, 0.7), length=2.5, coverage=0.4)
    assert project({2: row}, Drafting.LOOKUP, 2)[2].value == pytest.approx(1 + 1.5 * 0.4)


def test_the_error_of_a_sample_falls_with_its_drafts_and_is_taken_as_given():
    assert sample_error(Row(length=2.5, num_drafts=400.0)) > 5 * sample_error(Row(length=2.5, num_drafts=40_000.0))
    assert sample_error(Row(length=2.5, num_drafts=400.0, length_error=0.01)) == 0.01
    assert sample_error(Row(length=2.5)) == pytest.approx(0.006)
