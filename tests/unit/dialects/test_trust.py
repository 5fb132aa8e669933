"""Identities that counts keep, and the flags of those that do not."""

from __future__ import annotations

import pytest

from monitor.dialects.trust import contradiction, flags_of
from monitor.model.counts import SpeculationCounts, TrafficCounts
from monitor.model.reading import Flag

GOOD = SpeculationCounts(100, 300, 150, (70, 50, 30))

BROKEN = {
    "more accepted than drafted": (SpeculationCounts(100, 300, 301, None), "301 accepted of 300"),
    "more drafted than positions allow": (SpeculationCounts(100, 301, 150, None), "301 draft tokens in 100 drafts"),
    "drafts without tokens": (SpeculationCounts(100, 90, 50, None), "100 drafts but 90"),
    "positions do not sum": (SpeculationCounts(100, 300, 150, (70, 50, 31)), "sum to 151"),
    "positions rise": (SpeculationCounts(100, 300, 150, (50, 70, 30)), "rise with the position"),
    "a position beyond the drafts": (SpeculationCounts(100, 300, 202, (101, 71, 30)), "position 0 accepted 101"),
    "accepted where nothing was drafted": (
        SpeculationCounts(100, 160, 110, (70, 40), (100, 30)),
        "more often than drafted",
    ),
    "drafted positions do not sum": (SpeculationCounts(100, 160, 110, (70, 40), (100, 61)), "sum to 161"),
}


@pytest.mark.parametrize(("counts", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_contradictions(counts: SpeculationCounts, words: str) -> None:
    found = contradiction(counts, positions=3)
    assert found is not None
    assert words in found


@pytest.mark.parametrize(
    "counts",
    [
        GOOD,
        SpeculationCounts(0, 0, 0, (0, 0, 0)),
        SpeculationCounts(None, 300, 150),
        SpeculationCounts(100, None, None),
        SpeculationCounts(100, 160, 110, (70, 40), (100, 60)),
        SpeculationCounts(100, 120, 60, (50, 10, 0)),
    ],
)
def test_counts_that_agree(counts: SpeculationCounts) -> None:
    assert contradiction(counts, positions=3, traffic=TrafficCounts(300)) is None


def test_every_draft_emits_a_token() -> None:
    many = SpeculationCounts(10_000, 30_000, 15_000)
    assert contradiction(many, positions=3, traffic=TrafficCounts(9_000)) is not None
    assert contradiction(many, positions=3, traffic=TrafficCounts(9_600)) is None
    assert contradiction(SpeculationCounts(60, 180, 0), positions=3, traffic=TrafficCounts(0)) is None


def test_drafts_emit_their_accepted_tokens_unless_requests_end_within_them() -> None:
    many = SpeculationCounts(10_000, 30_000, 15_000)

    def broken(generated: float, finished: float) -> bool:
        traffic = TrafficCounts(generated, finished={"stop": finished})
        return contradiction(many, positions=3, traffic=traffic) is not None

    assert broken(20_000, finished=10)
    assert not broken(24_000, finished=10)
    assert not broken(20_000, finished=1_000)
    assert contradiction(many, positions=None, traffic=TrafficCounts(20_000, finished={"stop": 10})) is None


def test_a_draft_has_an_end_even_where_the_setting_is_not_known() -> None:
    assert contradiction(SpeculationCounts(4, None, 139_496), positions=None) is not None
    assert contradiction(SpeculationCounts(4, 4 * 257, None), positions=None) is not None
    assert contradiction(SpeculationCounts(4, None, 4 * 64), positions=None) is None
    assert contradiction(SpeculationCounts(100, None, 301), positions=3) is not None


def test_slack_forgives_a_torn_page() -> None:
    torn = SpeculationCounts(100, 300, 150, (70, 50, 33))
    assert contradiction(torn, positions=3, slack=3) is None
    assert contradiction(torn, positions=3, slack=2) is not None


@pytest.mark.parametrize(
    ("counts", "flags"),
    [
        (GOOD, set()),
        (SpeculationCounts(100, 300, 300, (100, 100, 100)), {Flag.SUSPICIOUS_PERFECT_ACCEPTANCE}),
        (SpeculationCounts(20, 60, 60), set()),
        (SpeculationCounts(100, 300, 310), {Flag.ACCEPTANCE_OUT_OF_RANGE}),
        (SpeculationCounts(100, 293, 100), {Flag.PER_POSITION_CONFOUNDED}),
        (SpeculationCounts(100, 295, 100), set()),
        (SpeculationCounts(0, 0, 0), set()),
        (SpeculationCounts(None, 300, 100), set()),
    ],
)
def test_flags(counts: SpeculationCounts, flags: set[Flag]) -> None:
    assert flags_of(counts, 3) == flags


def test_without_a_known_setting_positions_are_not_called_confounded() -> None:
    assert flags_of(SpeculationCounts(100, 120, 60), None) == set()
