"""From the local store to the fleet's database, and back to whoever takes a server over: each count once.

A batch goes in one transaction there, under the leases of its servers: a daemon that was paused and lost them writes
nothing. A head goes with the last interval that it closes and never before; while more of its server is on its way it
is taken away there, so that nobody who takes over counts twice what is still to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.model.interval import Interval
from monitor.model.life import Head, Life
from monitor.model.rollout import Lease
from monitor.model.server import ServerName
from monitor.store.api import Store, Unit, Unshipped

#: Rows in one batch: a few hundred milliseconds.
BATCH = 2000


@dataclass(frozen=True, slots=True)
class Shipped:
    """What one batch brought: intervals stored, rows given up since their server is another's, whether more wait."""

    intervals: int = 0
    given_up: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class _Batch:
    rows: list[Unshipped]
    intervals: list[Interval]
    lives: list[Life]
    heads: dict[str, Head]
    #: Servers of which more waits behind this batch.
    unfinished: set[ServerName]


def ship(local: Store, shared: Store, leases: Mapping[ServerName, Lease], now: datetime) -> Shipped:
    """Bring the oldest rows of the queue over. `leases` are ours by server.

    Raises StoreError; the queue is then as it was, and what reached the database already is passed over the next time.
    """
    with local.read() as unit:
        batch = _read(unit)
    if not batch.rows:
        return Shipped()
    stored, ours = shared.transact(lambda unit: _write(unit, batch, leases, now))
    with local.write(durable=False) as unit:
        unit.unshipped.remove(batch.rows)
    return Shipped(stored, sum(1 for row in batch.rows if row.server not in ours), len(batch.rows) == BATCH)


def adopt(shared: Store, local: Store, servers: Iterable[ServerName], since: datetime, now: datetime) -> int:
    """Take over what the fleet's database knows of servers that another daemon watched; the number of intervals.

    Lives go on from their heads there, so that the first page of ours closes the gap without losing a count. What we
    still had to bring over of them is void: the one before us has counted it.
    """
    wanted = list(servers)
    if not wanted:
        return 0
    with shared.read() as unit:
        lives = {life.id: life for server in wanted for life in unit.lives.of(server, since, now)}
        lives |= {life.id: life for server in wanted for life in unit.lives.open_of(server)}
        heads = {server: unit.heads.of_server(server) for server in wanted}
        intervals = unit.intervals.between(wanted, since, now)
        lives |= {key: found for key in {i.life for i in intervals} - lives.keys() if (found := unit.lives.get(key))}
    with local.write() as unit:
        unit.unshipped.forget(wanted)
        for server in wanted:
            known = unit.lives.open_of(server)
            # A life that only we knew, or that ended meanwhile, does not go on; neither does our own older head.
            unit.lives.put(_ended(life, now) for life in known if life.id not in lives)
            unit.heads.remove(life.id for life in known)
        unit.lives.put(lives.values())
        for head in (head for own in heads.values() for head in own.values()):
            unit.heads.put(head)
        return unit.intervals.add(intervals, skip_known=True)


def _ended(life: Life, now: datetime) -> Life:
    return replace(life, ended=now)


def _read(unit: Unit) -> _Batch:
    rows = unit.unshipped.oldest(BATCH)
    keys = [(row.server, row.life, row.end) for row in rows if row.end is not None]
    names = {row.life for row in rows}
    return _Batch(
        rows=rows,
        intervals=unit.intervals.of_keys(keys),
        lives=[life for name in sorted(names) if (life := unit.lives.get(name)) is not None],
        heads={name: head for name in names if (head := unit.heads.get(name)) is not None},
        unfinished=unit.unshipped.servers_after(rows[-1].number) if rows else set(),
    )


def _write(
    unit: Unit, batch: _Batch, leases: Mapping[ServerName, Lease], now: datetime
) -> tuple[int, set[ServerName]]:
    held = {server: leases[server] for server in {row.server for row in batch.rows} if server in leases}
    names = unit.leases.confirm(held.values(), now)
    ours = {server for server, lease in held.items() if lease.name in names}
    lives = [life for life in batch.lives if life.server in ours]
    unit.lives.put(lives)
    stored = unit.intervals.add((one for one in batch.intervals if one.server in ours), skip_known=True)
    unit.heads.remove(life.id for life in lives if life.server in batch.unfinished)
    for life in lives:
        head = batch.heads.get(life.id)
        if head is not None and life.server not in batch.unfinished:
            unit.heads.put(head)
    return stored, ours
