"""A daemon's writing path as a process of its own, to be killed: writes pages one after the other and says so.

usage: python -m tests.integration.store.writer FILE PAUSE_AFTER

After page PAUSE_AFTER it stops between head and interval of the next one, says "between" and waits for ever.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

from monitor.model.counts import Counts, SpeculationCounts
from monitor.store import open_store
from tests.integration.store.values import at, head, interval, life

DRAFTS = 10.0


def main(path: str, pause_after: int) -> None:
    store = open_store(f"sqlite:///{path}")
    with store.read() as unit:
        last = unit.heads.get(life().id)
    done = 0.0
    if last is not None and last.counts.speculation is not None:
        done = last.counts.speculation.num_drafts or 0.0
    page = int(done / DRAFTS)
    while True:
        page += 1
        counts = SpeculationCounts(DRAFTS * page, 3 * DRAFTS * page, 2 * DRAFTS * page)
        grown = SpeculationCounts(DRAFTS, 3 * DRAFTS, 2 * DRAFTS)
        with store.write(durable=False) as unit:
            unit.heads.put([replace(head(life(), at(15 * page)), counts=Counts(speculation=counts))])
            if page > pause_after:
                say("between")
                threading.Event().wait()
            unit.intervals.add([interval(life(), 15 * page, bare=True, speculation=grown, speculation_seconds=15.0)])
        say(str(page))


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
