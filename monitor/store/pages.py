"""What one scrape leaves behind, stored whole or not at all, and its form while it waits on disk."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

from monitor.model.interval import Interval
from monitor.model.life import Head, LastReading, Life
from monitor.store.api import Unit, Unshipped
from monitor.store.codec import dumps, loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Lives that are new or changed, heads that moved, the intervals they close, and the reading itself.

    `known` are lives that came with an earlier page: while pages wait, that one may be lost.
    """

    lives: tuple[Life, ...] = ()
    known: tuple[Life, ...] = ()
    heads: tuple[Head, ...] = ()
    intervals: tuple[Interval, ...] = ()
    last: LastReading


def store_page(unit: Unit, page: Page, *, ship: bool = False) -> None:
    """Store a page that was never stored before; a known interval is refused.

    With `ship` it is queued for the fleet's database.
    """
    unit.lives.put(page.lives)
    unit.heads.put(page.heads)
    unit.intervals.add(page.intervals)
    unit.readings.put(page.last)
    if ship:
        unit.unshipped.add(_to_ship(page))


def store_page_again(unit: Unit, page: Page, *, ship: bool = False) -> None:
    """Store a page that may have been stored already, and newer ones after it: then nothing changes.

    Going back to an older head would count twice what came after it, and an ended life must stay ended.
    """
    page = replace(page, lives=(*page.lives, *_lost(unit, page)))
    for life in page.lives:
        stored = unit.lives.get(life.id)
        if stored is None:
            unit.lives.add(life)
        elif stored.ended is None:
            unit.lives.update(life)
    unit.intervals.add(page.intervals, skip_known=True)
    known = {head.life: unit.heads.get(head.life) for head in page.heads}
    unit.heads.put(head for head in page.heads if (old := known[head.life]) is None or old.at < head.at)
    last = unit.readings.get(page.last.reading.server)
    if last is None or last.reading.scraped_at < page.last.reading.scraped_at:
        unit.readings.put(page.last)
    if ship:
        # Perhaps once more than needed: the fleet's database passes over what it has.
        unit.unshipped.add(_to_ship(page))


def _lost(unit: Unit, page: Page) -> list[Life]:
    """Lives that the page goes on with and whose first page never came; those before them, ended by that."""
    found: list[Life] = []
    for life in page.known:
        if unit.lives.get(life.id) is None:
            before = [one for one in unit.lives.open_of(life.server) if one.first_seen < life.first_seen]
            same = [one for one in before if (one.model, one.engine) == (life.model, life.engine)]
            found += [life, *(replace(one, ended=life.first_seen) for one in same)]
    return found


def _to_ship(page: Page) -> list[Unshipped]:
    """Each interval; and each life or head that comes without one."""
    server = page.last.reading.server
    rows = [Unshipped(0, interval.server, interval.life, interval.end) for interval in page.intervals]
    alone = {life.id for life in page.lives} | {head.life for head in page.heads}
    alone -= {interval.life for interval in page.intervals}
    return rows + [Unshipped(0, server, life, None) for life in sorted(alone)]


def packed(page: Page) -> bytes:
    """The page as bytes, about 3 kB for one engine with histograms."""
    return zlib.compress(dumps(Page, page).encode(), level=1)


def unpacked(record: bytes) -> Page:
    """The page that `packed` wrote. Raises ValueError, TypeError or KeyError on anything else."""
    try:
        text = zlib.decompress(record).decode()
    except zlib.error as error:
        raise ValueError(f"no compressed page: {error}") from error
    page: Page = loads(Page, text)
    return page
