"""From the local store to the fleet's database, and back to whoever takes a server over: each count once.

A batch goes in one transaction there, under the leases of its servers: a daemon that was paused and lost them writes
nothing. All that waits of a server goes in the same batch, so that its head there is always that of its last interval
there: who takes it over goes on from it and counts nothing twice. After days without the database that takes minutes,
so the leases are locked at the end of it only, and the intervals are read a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.model.life import Head, Life
from monitor.model.rollout import Lease
from monitor.model.server import ServerName
from monitor.store.api import Store, Unit, Unshipped
from monitor.store.naming import confirm_name
from monitor.store.refusals import StoreBusy

#: Servers that are taken over in one transaction.
ADOPTED_AT_ONCE = 5
#: Rows in one batch, unless one server alone has more: a few hundred milliseconds.
BATCH = 2000
#: How leases of servers begin.
WATCH = "watch:"


def watch_lease(server: ServerName) -> str:
    """Name of the lease of whoever watches a server."""
    return f"{WATCH}{server}"


def watch_leases(unit: Unit, now: datetime) -> dict[ServerName, tuple[Lease, bool]]:
    """The lease of every server that anybody ever watched, and whether it is in force."""
    return {
        ServerName(lease.name.removeprefix(WATCH)): (lease, in_force)
        for lease, in_force in unit.leases.standing(WATCH, now)
    }


@dataclass(frozen=True, slots=True)
class Shipped:
    """What one batch brought: intervals stored, rows given up since their server is another's, whether more wait."""

    intervals: int = 0
    given_up: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class _Batch:
    rows: list[Unshipped]
    lives: list[Life]
    heads: dict[str, Head]
    #: Whether other servers have more.
    more: bool


def ship(
    local: Store, shared: Store, name: Lease, holder: str, leases: Mapping[ServerName, Lease], now: datetime
) -> Shipped:
    """Bring over what waits of some servers; `leases` are those of `holder`, by server, `name` its right to that name.

    Rows of a server that nobody holds now wait on: it may be ours again. Raises StoreError; the queue is then as it
    was, and what reached the database already is passed over the next time.
    """
    with local.read() as own:
        batch = _read(own)
        if not batch.rows:
            return Shipped()
        stored, ours, lost = shared.transact(lambda unit: _write(own, unit, batch, name, holder, leases, now))
    done = [row for row in batch.rows if row.server in ours]
    given_up = [row for row in batch.rows if row.server in lost]
    with local.write(durable=False) as unit:
        unit.unshipped.remove(done)
        unit.unshipped.void(given_up)
    return Shipped(stored, len(given_up), batch.more and bool(done or given_up))


def adopt(shared: Store, local: Store, servers: Iterable[ServerName], since: datetime, now: datetime) -> int:
    """Take over what the fleet's database knows of servers that another daemon watched; the number of intervals.

    Lives go on from their heads there, so that the first page of ours closes the gap without losing a count. What we
    still had to bring over of them is void, here too: the one before us has counted it, or that page will. A few
    servers at a time: two hours of the third of a large fleet are half a gigabyte as objects.
    """
    wanted = list(servers)
    return sum(
        _adopt(shared, local, wanted[begin : begin + ADOPTED_AT_ONCE], since, now)
        for begin in range(0, len(wanted), ADOPTED_AT_ONCE)
    )


def _adopt(shared: Store, local: Store, wanted: list[ServerName], since: datetime, now: datetime) -> int:
    with shared.read() as unit:
        lives = {life.id: life for server in wanted for life in unit.lives.of(server, since, now)}
        lives |= {life.id: life for server in wanted for life in unit.lives.open_of(server)}
        heads = {server: unit.heads.of_server(server) for server in wanted}
        intervals = unit.intervals.between(wanted, since, now)
        lives |= {key: found for key in {i.life for i in intervals} - lives.keys() if (found := unit.lives.get(key))}
    with local.write() as unit:
        unit.unshipped.void(unit.unshipped.of(wanted))
        for server in wanted:
            known = unit.lives.open_of(server)
            # A life that only we knew, or that ended meanwhile, does not go on; neither does our own older head.
            unit.lives.put(_ended(life, now) for life in known if life.id not in lives)
            unit.heads.remove(life.id for life in known)
        unit.lives.put(lives.values())
        unit.heads.put(head for own in heads.values() for head in own.values())
        return unit.intervals.add(intervals, skip_known=True)


def gone_back(local: Store, shared: Store, servers: Iterable[ServerName]) -> dict[ServerName, datetime]:
    """Servers of which the fleet's database has an interval of ours that we do not have; since when we may lack some.

    The local file is older than what was brought over from it: a loss of power took its newest pages, a backup was put
    back, or the file was damaged. Its heads lie before those there, and what follows from them would be counted twice.
    """
    wanted = list(servers)
    with shared.read() as unit:
        heads = {server: unit.heads.of_server(server) for server in wanted}
        keys = [(server, life, head.at) for server, own in heads.items() for life, head in own.items()]
        there = [(one.server, one.life, one.end) for one in unit.intervals.of_keys(keys)]
    found: dict[ServerName, datetime] = {}
    with local.read() as unit:
        here = {(one.server, one.life, one.end) for one in unit.intervals.of_keys(there)}
        for server, name, end in there:
            if (server, name, end) in here:
                continue
            life, head = unit.lives.get(name), unit.heads.get(name)
            # One that has ended here was seen to its end; a head that stands there too has only lost its intervals.
            if (life is None or life.ended is None) and (head is None or head.at != end):
                since = end if head is None else min(head.at, end)
                found[server] = min(since, found.get(server, since))
    return found


def _ended(life: Life, now: datetime) -> Life:
    return replace(life, ended=now)


def _read(unit: Unit) -> _Batch:
    waiting = unit.unshipped.waiting()
    servers: list[ServerName] = []
    for server, rows in waiting.items():
        if servers and sum(waiting[one] for one in servers) + rows > BATCH:
            break
        servers.append(server)
    found = unit.unshipped.of(servers)
    names = sorted({row.life for row in found})
    return _Batch(
        rows=found,
        lives=[life for name in names if (life := unit.lives.get(name)) is not None],
        heads={name: head for name in names if (head := unit.heads.get(name)) is not None},
        more=len(servers) < len(waiting),
    )


def _write(
    own: Unit, unit: Unit, batch: _Batch, name: Lease, holder: str, leases: Mapping[ServerName, Lease], now: datetime
) -> tuple[int, set[ServerName], set[ServerName]]:
    """Intervals stored; servers that are ours, and those that another has taken meanwhile.

    Raises StoreBusy where leases ended while the rows went over: it is to be run again.
    """
    servers = {row.server for row in batch.rows}
    held = watch_leases(unit, now)
    ours = {server for server in servers & leases.keys() & held.keys() if _is(leases[server], *held[server])}
    lost = {server for server in servers & held.keys() - ours if held[server][0].holder != holder}
    lives = [life for life in batch.lives if life.server in ours]
    unit.lives.put(lives)
    keys = [(row.server, row.life, row.end) for row in batch.rows if row.end is not None and row.server in ours]
    stored = 0
    for begin in range(0, len(keys), BATCH):
        stored += unit.intervals.add(own.intervals.of_keys(keys[begin : begin + BATCH]), skip_known=True)
    unit.heads.put(batch.heads[life.id] for life in lives if life.id in batch.heads)
    # Locked from here to the end: what prolongs them meanwhile would wait for us.
    confirm_name(unit, name, now)
    if len(unit.leases.confirm((leases[server] for server in ours), now)) < len(ours):
        raise StoreBusy("leases of servers ended while rows of theirs were brought over")
    return stored, ours, lost


def _is(known: Lease, lease: Lease, in_force: bool) -> bool:
    return in_force and (lease.holder, lease.fence) == (known.holder, known.fence)
