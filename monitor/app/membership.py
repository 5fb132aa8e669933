"""One daemon among those that share a database: which servers are its own, which hosts are there, which are silent.

All of it rests on leases in the database's time. A server belongs to whoever holds `watch:SERVER`. Daemons with a
source of one name divide its servers: each goes to the host that a hash prefers among those present, so that hosts that
come and go move few. A server that stands in a daemon's own file stays with it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from monitor.clock import Clock
from monitor.config.instance import own_instance
from monitor.model.rollout import Lease
from monitor.model.server import ServerName
from monitor.store.api import Store, Unit
from monitor.store.naming import NameTaken, Naming, confirm_name
from monitor.store.shipping import WATCH, watch_lease, watch_leases

log = logging.getLogger(__name__)

FILE = "fences.json"
HOST, POOL, ROLE = "host:", "pool:", "role:"
#: Who tells of hosts that have gone silent.
WATCHMAN = f"{ROLE}watchman"
#: A server whose preferred host does not take it is taken by any other after so many leases' time.
_GRACE_LEASES = 2.0
#: A host that has been silent for longer is gone for good: nobody is paged for it any more.
GONE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A server that this daemon could watch, and the source it was found by; None where it stands in the file."""

    server: ServerName
    source: str | None


@dataclass(frozen=True, slots=True)
class Host:
    """A daemon, and since when its lease is over; None while it is in force."""

    name: str
    silent_since: datetime | None


@dataclass(slots=True)
class Standing:
    """What the newest beat found."""

    leases: dict[ServerName, Lease] = field(default_factory=dict)
    #: Ours still, but another host is to have them as soon as nothing of ours is under way.
    leaving: frozenset[ServerName] = frozenset()
    #: Taken anew after another had them, or known better there: what the database knows must be taken over first.
    unknown: frozenset[ServerName] = frozenset()
    #: Candidates that another holds, and who.
    others: dict[ServerName, str] = field(default_factory=dict)
    hosts: tuple[Host, ...] = ()
    is_watchman: bool = False


class Member:
    """Takes and keeps leases; `beat` is called by one thread, what it found may be read by any."""

    def __init__(self, shared: Store, holder: str, folder: Path, clock: Clock, *, lease_seconds: float) -> None:
        self._shared = shared
        self.holder = holder
        self._file = folder / FILE
        self._clock = clock
        self.lease_seconds = lease_seconds
        self._fences = _read(self._file)
        self._naming = Naming(holder, own_instance(folder), lease_seconds)
        self._free_since: dict[ServerName, float] = {}
        self.standing = Standing()
        self.has_beaten = False

    @property
    def name(self) -> Lease | None:
        """Our right to the host's name; None while we do not have it, and then nothing is to be done in the fleet."""
        return self._naming.lease

    def remembered(self) -> frozenset[ServerName]:
        """Servers that were ours the last time, for a start while the database is away."""
        return frozenset(self._fences)

    def beat(self, candidates: Iterable[Candidate], pools: Collection[str], busy: Collection[ServerName]) -> Standing:
        """Prolong what is ours, take what is free and ours to take, give back what is another's.

        Raises StoreError; NameTaken where another daemon has our host's name: then nothing is ours, and what anybody
        holds is another's. `busy` are servers of which something of ours is under way: they are not given back yet.
        """
        now = self._clock.now()
        wanted = {one.server: one for one in candidates}
        before = self.standing
        try:
            found, name = self._shared.transact(lambda unit: self._beat(unit, wanted, pools, busy, before, now))
        except NameTaken:
            self._naming.claimed(None)
            with self._shared.read() as unit:
                self.standing = Standing(others=_held(unit, wanted, now))
            self.has_beaten = True
            raise
        self._naming.claimed(name)
        for server in found.leases.keys() - before.leases.keys():
            log.info("server is ours now server=%s fence=%d", server, found.leases[server].fence)
        for server in before.leases.keys() - found.leases.keys():
            holder = found.others.get(server)
            log.info("server is not ours any more server=%s holder=%s", server, holder or "nobody")
        for server in found.others.keys() - before.others.keys():
            if wanted[server].source is None:
                log.warning("server is watched by another daemon server=%s host=%s", server, found.others[server])
        self.standing, self.has_beaten = found, True
        self._remember(found)
        return found

    def doubt(self, servers: Collection[ServerName]) -> None:
        """What the database knows of these servers is more than we know: it must be taken over first."""
        self.standing.unknown |= frozenset(servers)

    def adopted(self, servers: Collection[ServerName]) -> None:
        """What the database knew of these servers has been taken over."""
        self.standing.unknown -= frozenset(servers)

    def role(self, name: str, ttl_seconds: float) -> bool:
        """Whether we hold the right to some work of the whole fleet now. Raises StoreError."""
        now = self._clock.now()
        with self._shared.write() as unit:
            confirm_name(unit, self.name, now)
            return unit.leases.acquire(f"{ROLE}{name}", self.holder, ttl_seconds, now) is not None

    def leave(self) -> None:
        """Say goodbye, so that nobody pages for our silence. Servers stay ours until their leases end: we may be back.

        Raises StoreError.
        """
        if self.name is None:
            return
        with self._shared.write() as unit:
            confirm_name(unit, self.name, self._clock.now())
            lease = unit.leases.get(f"{HOST}{self.holder}")
            if lease is not None and lease.holder == self.holder:
                unit.leases.release(lease)
            unit.leases.release(self.name)

    def _beat(
        self, unit: Unit, wanted: Mapping[ServerName, Candidate], pools: Collection[str], busy: Collection[ServerName],
        before: Standing, now: datetime,
    ) -> tuple[Standing, Lease]:
        self._naming.claim(unit, now)
        if self._naming.is_new:
            self._start_anew(unit, now)
        present = [f"{HOST}{self.holder}", *(f"{POOL}{pool}/{self.holder}" for pool in pools), WATCHMAN]
        held = unit.leases.hold(present, self.holder, self.lease_seconds, now)
        members = _members(unit.leases.standing(POOL, now))
        watched = watch_leases(unit, now)
        mine = {server for server, (lease, _) in watched.items() if lease.holder == self.holder}
        leaving = {
            server for server in mine
            if server not in wanted or not self._is_preferred(wanted[server], members)
        }
        take = (mine - leaving) | {server for server in leaving if server in busy}
        take |= {one.server for one in wanted.values() if self._may_take(one, watched.get(one.server), members)}
        found = unit.leases.hold([watch_lease(server) for server in take], self.holder, self.lease_seconds, now)
        for server in leaving - set(busy):
            unit.leases.release(watched[server][0])
        leases = {ServerName(name[len(WATCH) :]): lease for name, lease in found.items()}
        others = {
            server: lease.holder for server, (lease, in_force) in watched.items()
            if server in wanted and lease.holder != self.holder and in_force and server not in leases
        }
        standing = Standing(
            leases=leases, leaving=frozenset(leaving & leases.keys()), others=others,
            unknown=frozenset(before.unknown & leases.keys()) | self._unknown(leases),
            hosts=tuple(one for one in hosts_of(unit, now) if one.name != self.holder), is_watchman=WATCHMAN in held,
        )
        # Prolonged once more at the end, so that it outlives all that rests on it.
        return standing, self._naming.claim(unit, now)

    def _start_anew(self, unit: Unit, now: datetime) -> None:
        """Give back servers under our name whose fence is not the one we know: taken anew, they count as unknown."""
        for server, (lease, _) in watch_leases(unit, now).items():
            if lease.holder == self.holder and self._fences.get(server) != lease.fence:
                unit.leases.release(lease)

    def _may_take(
        self, one: Candidate, standing: tuple[Lease, bool] | None, members: Mapping[str, Collection[str]]
    ) -> bool:
        """Whether a server that is not ours may become it: nobody has it, and it is our turn."""
        if standing is not None and standing[1]:
            self._free_since.pop(one.server, None)
            return False
        if self._is_preferred(one, members):
            return True
        since = self._free_since.setdefault(one.server, self._clock.monotonic())
        return self._clock.monotonic() - since > _GRACE_LEASES * self.lease_seconds

    def _is_preferred(self, one: Candidate, members: Mapping[str, Collection[str]]) -> bool:
        """Whether the hash prefers us among the hosts that divide the server's source."""
        if one.source is None:
            return True
        return preferred({self.holder, *members.get(one.source, ())}, one.server) == self.holder

    def _unknown(self, leases: Mapping[ServerName, Lease]) -> frozenset[ServerName]:
        """Servers that somebody else had since we did: the fence rose by more than our own taking."""
        return frozenset(
            server for server, lease in leases.items()
            if lease.fence not in (self._fences.get(server, 0), self._fences.get(server, 0) + 1)
        )

    def _remember(self, found: Standing) -> None:
        fences = {server: lease.fence for server, lease in found.leases.items()}
        if fences == self._fences:
            return
        self._fences = fences
        partial = self._file.with_suffix(".part")
        try:
            partial.write_text(json.dumps(fences))
            partial.replace(self._file)
        except OSError as error:
            log.warning("fences of servers not written down: %s", error.strerror)


def hosts_of(unit: Unit, now: datetime) -> Iterator[Host]:
    """Every daemon of the fleet that gives signs of life, or did not long ago."""
    for lease, in_force in unit.leases.standing(HOST, now):
        if in_force or lease.expires_at > now - GONE:
            yield Host(lease.name[len(HOST) :], None if in_force else lease.expires_at)


def preferred(hosts: Collection[str], server: ServerName) -> str:
    """The one of some hosts that a server goes to: the highest of their hashes with it (rendezvous hashing).

    A checksum does not do: CRCs of texts of one length differ by the same bits for every server, so that of three hosts
    one got half of all servers, whichever they were.
    """
    return max(hosts, key=lambda host: (hashlib.blake2b(f"{host}/{server}".encode(), digest_size=8).digest(), host))


def _held(unit: Unit, wanted: Collection[ServerName], now: datetime) -> dict[ServerName, str]:
    """Which of these servers anybody watches, and under which name."""
    watched = watch_leases(unit, now)
    return {server: watched[server][0].holder for server in wanted if server in watched and watched[server][1]}


def _members(pools: Iterable[tuple[Lease, bool]]) -> dict[str, set[str]]:
    """Hosts that are there, by the source that they divide."""
    found: dict[str, set[str]] = {}
    for lease, in_force in pools:
        pool, _, host = lease.name[len(POOL) :].rpartition("/")
        if in_force:
            found.setdefault(pool, set()).add(host)
    return found


def _read(file: Path) -> dict[ServerName, int]:
    try:
        return {ServerName(str(server)): int(fence) for server, fence in json.loads(file.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        # Then every server counts as another's since: what the database knows is taken over once more.
        log.warning("fences of servers cannot be read: %s", error)
        return {}
