"""The way of pages into the store: straight while it takes them, by a bounded queue on disk while it does not.

A store that is locked, full or away stops no scrape: the first page that it does not take, and every one after it,
waits in the ring and goes in once and in order when the store is back. The heads in it lag behind the collector's for
so long, which is why a daemon drains the ring before it reads them. Without a ring, or where that cannot be written
either, the page is refused and the next one's interval covers it.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.errors import StoreError
from monitor.store.api import Store
from monitor.store.pages import Page, packed, store_page, store_page_again, unpacked
from monitor.store.refusals import StoreAway, StoreBusy
from monitor.store.ring import Ring

log = logging.getLogger(__name__)

#: Refusals that pass: the same page is taken later. Any other is about the page itself.
PASSING = (StoreBusy, StoreAway)
#: Pages that go in together: tens of milliseconds, between which scrapes and evaluations have their turn.
_BATCH = 50
#: Lost pages are told for so long (seconds) after the last one.
_TOLD_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolState:
    """How the way into the store stands."""

    #: Why pages wait; empty while the store takes them.
    trouble: str
    #: Since when they wait (seconds); None while they do not.
    away_seconds: float | None
    waiting: int
    fill_ratio: float
    #: Pages lost within the last hour, and since the queue was made.
    lost_lately: int
    lost: int


class Spool:
    """Keeps pages. Safe from several threads."""

    def __init__(self, store: Store, ring: Ring | None, clock: Clock, *, ship: bool = False) -> None:
        """With `ship` pages are queued for the fleet's database too."""
        self._ship = ship
        self._store = store
        self._ring = ring
        self._clock = clock
        #: Held while a page goes straight in, so that no page overtakes one that waits.
        self._turn = threading.Lock()
        self._draining = threading.Lock()
        self._away_since: float | None = None
        self._trouble = ""
        #: Pages that came back from the queue and could not be stored at all.
        self._left_out = 0
        self._lost = self._lost_lately = 0
        self._last_lost: float | None = None

    def open(self) -> None:
        """Open the queue, and go on with what waits in it. Raises StoreError where that is impossible."""
        if self._ring is not None:
            self._ring.open()
            self._lost = self._ring.dropped
            if self._ring.waiting:
                self._away_since = self._clock.monotonic()
                self._trouble = "pages of an earlier run wait"

    def close(self) -> None:
        """Close the queue; what waits in it stays there."""
        if self._ring is not None:
            self._ring.close()

    def keep(self, page: Page) -> None:
        """Store a page, or let it wait on disk. Raises StoreError where neither works: it is not kept then."""
        with self._turn:
            if self._away_since is None:
                try:
                    with self._store.write(durable=False) as unit:
                        store_page(unit, page, ship=self._ship)
                    return
                except PASSING as error:
                    if self._ring is None:
                        raise
                    self._wait(page, str(error))
                    self._went_away(str(error))
                    return
            self._wait(page, self._trouble)

    def drain(self) -> int:
        """Bring what waits into the store, oldest first; the number of pages that went in. Call it every few seconds.

        Raises StoreError where the store does not take them yet.
        """
        if self._ring is None or self._away_since is None:
            return 0
        done = 0
        with self._draining:
            while True:
                records = self._ring.oldest(_BATCH)
                self._note_losses()
                if not records:
                    with self._turn:
                        if not self._ring.waiting:
                            self._came_back(done)
                            return done
                    continue
                try:
                    done += self._store_records(records)
                except StoreError as error:
                    self._trouble = str(error)
                    raise
                self._ring.remove(records)
                self._note_losses()

    def state(self) -> SpoolState:
        """How it stands now."""
        now, since, ring = self._clock.monotonic(), self._away_since, self._ring
        told = self._last_lost is not None and now - self._last_lost < _TOLD_SECONDS
        return SpoolState(
            trouble=self._trouble, away_seconds=None if since is None else now - since,
            waiting=ring.waiting if ring is not None else 0, fill_ratio=ring.fill_ratio if ring is not None else 0.0,
            lost_lately=self._lost_lately if told else 0, lost=self._lost,
        )

    def _wait(self, page: Page, why: str) -> None:
        assert self._ring is not None
        try:
            self._ring.append(packed(page))
        except OSError as error:
            raise StoreAway(f"{why}; and the page cannot wait on disk ({error})") from error
        self._note_losses()

    def _note_losses(self) -> None:
        """Count pages that made room for newer ones, that were damaged, or that the store refused after all."""
        assert self._ring is not None
        lost = self._ring.dropped + self._left_out
        if lost == self._lost:
            return
        now = self._clock.monotonic()
        if self._last_lost is None or now - self._last_lost >= _TOLD_SECONDS:
            self._lost_lately = 0
            log.error("pages that waited on disk are lost: the queue is full (the oldest go first) or damaged")
        self._lost_lately += lost - self._lost
        self._lost, self._last_lost = lost, now

    def _store_records(self, records: list[bytes]) -> int:
        """Store waiting pages together, or one by one where one of them is refused for good; how many went in."""
        pages = [page for record in records if (page := _read(record)) is not None]
        try:
            self._store_again(pages)
            stored = len(pages)
        except PASSING:
            raise
        except StoreError:
            stored = sum(self._store_alone(page) for page in pages)
        self._left_out += len(records) - stored
        return stored

    def _store_alone(self, page: Page) -> bool:
        try:
            self._store_again([page])
        except PASSING:
            raise
        except StoreError as error:
            log.error("page refused after waiting, left out server=%s: %s", page.last.reading.server, error)
            return False
        return True

    def _store_again(self, pages: list[Page]) -> None:
        # Durable: the queue forgets them next.
        with self._store.write() as unit:
            for page in pages:
                store_page_again(unit, page, ship=self._ship)

    def _went_away(self, why: str) -> None:
        self._away_since = self._clock.monotonic()
        self._trouble = why
        log.error("store takes no pages, they wait on disk: %s", why)

    def _came_back(self, pages: int) -> None:
        if self._away_since is None:
            return
        lasted = self._clock.monotonic() - self._away_since
        self._away_since, self._trouble = None, ""
        log.info("store takes pages again pages=%d after=%.0fs", pages, lasted)


def _read(record: bytes) -> Page | None:
    try:
        return unpacked(record)
    except (ValueError, TypeError, KeyError) as error:
        log.error("a waiting page cannot be read, left out: %s", error)
        return None
