"""What is told of a store that takes no pages, while and after it is tried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monitor.app.alarm import StoreAlarm
from monitor.app.turns import Storing
from monitor.store.api import Unit
from monitor.store.refusals import StoreBusy
from monitor.store.ring import SMALLEST_BYTES, Ring
from monitor.store.spool import Spool
from monitor.telemetry import Telemetry
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.unit.store.test_spool import page


class LockedStore(MemoryStore):
    """Notes what the metrics say while somebody waits for its lock, in vain."""

    def __init__(self, telemetry: Telemetry) -> None:
        super().__init__()
        self.telemetry = telemetry
        self.seen: list[float] = []

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Unit]:
        if self.away is not None:
            self.seen.append(waiting(self.telemetry))
        with super().write(durable=durable) as unit:
            yield unit


def waiting(telemetry: Telemetry) -> float:
    (line,) = (line for line in telemetry.page().decode().splitlines() if line.startswith("acceptd_spool_pages "))
    return float(line.split()[1])


def test_pages_that_wait_are_told_before_the_store_is_tried_and_after_it_took_them(tmp_path: Path) -> None:
    telemetry, clock = Telemetry(), FakeClock()
    store = LockedStore(telemetry)
    spool = Spool(store, Ring(tmp_path / "ring", SMALLEST_BYTES), clock)
    spool.open()
    storing = Storing(spool, None, StoreAlarm([], clock, host="h", simulated=False), telemetry, lambda: "")
    store.away = StoreBusy("it stays locked")
    for number in range(3):
        spool.keep(page(number))
    store.seen.clear()
    storing.turn()
    # The attempt lasts as long as the lock is waited for.
    assert store.seen == [3.0]
    store.away = None
    storing.turn()
    assert waiting(telemetry) == 0.0
    spool.close()
