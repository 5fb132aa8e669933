from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.model.record import Rejection
from monitor.model.server import GroupName

THEN = datetime(2026, 3, 2, tzinfo=UTC)
LOST = Rejection(GroupName("g"), 4, "eagle3", THEN, THEN + timedelta(days=7), 2, "it lost", 8.0, 2.5)


@pytest.mark.parametrize(
    ("days", "batch", "length", "holds"),
    [
        (0.0, 8.0, 2.5, True),
        (6.9, 8.0, 2.5, True),
        (7.0, 8.0, 2.5, False),
        # A move of less than 15 % lifts nothing, more of either does, and what is unknown has not moved.
        (1.0, 9.1, 2.5, True),
        (1.0, 9.3, 2.5, False),
        (1.0, 6.7, 2.5, False),
        (1.0, 8.0, 2.0, False),
        (1.0, None, None, True),
    ],
)
def test_a_rejection_holds_until_its_time_is_over_or_the_load_has_moved(
    days: float, batch: float | None, length: float | None, holds: bool
) -> None:
    assert LOST.holds(THEN + timedelta(days=days), batch=batch, acceptance_length=length) is holds


def test_one_without_numbers_waits_for_its_time() -> None:
    bare = Rejection(GroupName("g"), 4, None, THEN, THEN + timedelta(days=1), 1, "it lost")
    assert bare.holds(THEN, batch=100.0, acceptance_length=9.0)
