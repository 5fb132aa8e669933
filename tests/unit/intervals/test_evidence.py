"""Evidence of a new start."""

from __future__ import annotations

import pytest

from monitor.intervals.evidence import (
    Starts,
    Turn,
    compare_starts,
    is_confirmed_same,
    is_near,
    is_plausible,
    most_fell,
    moved,
)
from monitor.model.counts import Counts, SpeculationCounts, TrafficCounts
from monitor.model.life import StartEvidence


@pytest.mark.parametrize(
    ("new", "old", "found", "same"),
    [
        (Starts(100, None), Starts(100, None), None, True),
        (Starts(100.5, None), Starts(100, None), None, True),
        (Starts(102, None), Starts(100, None), StartEvidence.PROCESS_START, False),
        (Starts(100, 150), Starts(100, 120), StartEvidence.CREATED, False),
        (Starts(98, None), Starts(100, None), Turn.OTHER_PROCESS, False),
        (Starts(None, 98), Starts(None, 100), Turn.OTHER_PROCESS, False),
        (Starts(None, None), Starts(100, 120), None, False),
        (Starts(100, None), Starts(None, 120), None, False),
        (Starts(None, 120), Starts(100, 120), None, True),
    ],
)
def test_start_times(new: Starts, old: Starts, found: object, same: bool) -> None:
    assert compare_starts(new, old) == found
    assert is_confirmed_same(new, old) is same


def counts(drafts: float, generated: float, prompt: float = 10) -> Counts:
    return Counts(
        SpeculationCounts(drafts, drafts * 3, drafts),
        TrafficCounts(generation_tokens=generated, prompt_tokens=prompt),
    )


@pytest.mark.parametrize(
    ("new", "old", "answer"),
    [
        (counts(5, 10, 1), counts(50, 100), True),
        (counts(60, 99), counts(50, 100), False),
        (counts(50, 100), counts(50, 100), False),
        (counts(0, 0, 0), counts(0, 0, 0), False),
        (Counts(), counts(50, 100), False),
        (counts(40, 120, 20), counts(50, 100), True),
    ],
    ids=["all", "one of five", "none", "nothing counted", "nothing known", "three of five"],
)
def test_most_fell(new: Counts, old: Counts, answer: bool) -> None:
    assert most_fell(new, old) is answer


def test_estimated_counts_do_not_tell_of_a_fall() -> None:
    assert not most_fell(counts(40, 120, 20), counts(50, 100), estimated=True)


def test_near_a_former_head() -> None:
    former, head = counts(1000, 3000, 300), counts(20, 60, 6)
    assert is_near(counts(1010, 3030, 303), former, head)
    assert not is_near(counts(900, 2700, 270), former, head)
    assert not is_near(counts(40, 120, 12), former, head)
    assert not is_near(counts(1010, 3030, 303), former, counts(995, 2985, 298))
    assert not is_near(Counts(), former, head)


def test_plausible_counts() -> None:
    assert is_plausible(counts(1, 1500), 30, (None,))
    assert not is_plausible(counts(1, 40_000), 30, (None, 20.0))
    assert is_plausible(counts(1, 40_000), 30, (500.0, None))
    assert is_plausible(Counts(), 30, ())


def test_moved() -> None:
    assert moved(counts(1, 2), counts(1, 2)) is False
    assert moved(counts(1, 3), counts(1, 2)) is True
    assert moved(Counts(), counts(1, 2)) is None
