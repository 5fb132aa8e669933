"""When servers are scraped first: in bunches, spread over the interval, a small fleet at once."""

from __future__ import annotations

from collections import Counter

import pytest

from monitor.model.server import ServerName
from monitor.scrape.loop import BUNCH_SECONDS, first_due

NOW = 1000.13


def test_a_large_fleet_is_spread_over_its_interval_in_bunches() -> None:
    dues = [first_due(ServerName(f"gpu-{number}"), NOW, 15.0, 1000) for number in range(1000)]
    assert min(dues) >= NOW
    assert max(dues) <= NOW + 15.0 + BUNCH_SECONDS
    bunches = Counter(dues)
    assert len(bunches) == 60 or len(bunches) == 61
    assert max(bunches.values()) < 40  # 17 on average
    assert all(due % BUNCH_SECONDS == 0 for due in dues)


def test_a_single_server_is_asked_at_once() -> None:
    assert NOW <= first_due(ServerName("gpu"), NOW, 15.0, 1) <= NOW + 0.05 + BUNCH_SECONDS


@pytest.mark.parametrize("interval", [0.05, 0.4, 3.0])
def test_a_short_interval_is_not_stretched(interval: float) -> None:
    dues = [first_due(ServerName(f"gpu-{number}"), NOW, interval, 100) for number in range(100)]
    assert max(dues) <= NOW + 1.25 * interval + 1e-9
    assert len({round(due - NOW, 6) for due in dues}) >= 4
