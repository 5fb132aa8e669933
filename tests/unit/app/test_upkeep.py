"""Pruning at night, and what is made up for later."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from monitor.app.upkeep import Upkeep
from monitor.config.model import Config
from monitor.store import Retention
from monitor.store.refusals import StoreBusy
from tests.fakes.fake_clock import FakeClock


@dataclass
class Store:
    """A store of which days are pruned; `dump` keeps it from that."""

    oldest: datetime
    dump: bool = False
    pruned: list[datetime] = field(default_factory=list)

    def is_overdue(self, now: datetime, keep: Retention) -> bool:
        return self.oldest < now - timedelta(hours=keep.raw_hours, days=2)

    def prune(self, now: datetime, keep: Retention) -> dict[str, int]:
        if self.dump:
            raise StoreBusy("a dump is running")
        self.oldest = now - timedelta(hours=keep.raw_hours)
        self.pruned.append(now)
        return {}


def test_a_night_without_pruning_is_made_up_for_and_others_are_not() -> None:
    clock = FakeClock()
    store = Store(clock.now() - timedelta(days=35), dump=True)
    upkeep = Upkeep(Config.model_validate({}), store, None, clock)  # type: ignore[arg-type]
    for _ in range(3):
        with pytest.raises(StoreBusy):
            upkeep.prune()
        clock.advance(86_400.0)
    with pytest.raises(StoreBusy):
        upkeep.prune_late()
    store.dump = False
    for _ in range(5):
        upkeep.prune_late()
        clock.advance(3600.0)
    assert len(store.pruned) == 1
