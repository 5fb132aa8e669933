"""Keeps a daemon in step with the fleet's database, in a thread of its own: leases, what is to be brought over, copies.

Local first: while the database is away everything on this host goes on, servers stay with who had them, and what is new
waits in the local store. Nothing of this runs in the path of a page or an alert.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.app.membership import Candidate, Member
from monitor.app.watched import note_watched
from monitor.clock import Clock
from monitor.errors import StoreError
from monitor.model.outcome import RuleOutcome, Truth
from monitor.model.rollout import Lease
from monitor.model.server import Group, Server, ServerName
from monitor.notify.words import duration_words
from monitor.store import Retention
from monitor.store.mirror import Mirror
from monitor.store.shipping import adopt, gone_back, ship
from monitor.store.sql import SqlStore

log = logging.getLogger(__name__)

#: Part of a lease's time after which it is prolonged: two beats may fail before it ends.
_BEATS_A_LEASE = 4.0
#: Small tables are compared so often (seconds).
_MIRROR_SECONDS = 60.0
#: What waits is brought over so often (seconds), at least.
_MOVE_SECONDS = 5.0
#: Batches in one turn: a long absence is caught up with over some turns.
_BATCHES_A_TURN = 10
#: Intervals taken over with a server, so that windows of signals are filled: longer ones fill by themselves.
ADOPTED = timedelta(hours=2)
#: Lease of the work on the whole database (seconds): rolling up a fleet takes minutes.
_UPKEEP_SECONDS = 1800.0
_ALERT = "HostSilent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingState:
    """How it stands with the fleet's database."""

    #: Why it cannot be used; empty while it can.
    trouble: str
    away_seconds: float | None
    waiting: int
    given_up: int


class Sharing:
    """The fleet's database as one daemon uses it. `changed` is called, from its thread, when other servers are ours."""

    def __init__(
        self, local: SqlStore, shared: SqlStore, member: Member, clock: Clock, *, changed: Callable[[], None]
    ) -> None:
        self._local = local
        self.store = shared
        self._member = member
        self._clock = clock
        self._changed = changed
        self._mirror = Mirror(local, shared)
        self._candidates: tuple[Candidate, ...] = ()
        self._pools: tuple[str, ...] = ()
        self._watched: tuple[Server, ...] = ()
        self._groups: tuple[Group, ...] = ()
        self._trouble = ""
        self._away_since: float | None = None
        #: When small tables were last brought over, and of which servers.
        self._mirrored_at: float | None = None
        self._mirrored: list[ServerName] = []
        self._waiting = 0
        self._given_up = 0
        self._owned: frozenset[ServerName] | None = None
        #: Servers whose newest counts there were found to be ours, and since when we lack some of those whose were not.
        self._compared: frozenset[ServerName] = frozenset()
        self._lacking: dict[ServerName, datetime] = {}
        self._stop = threading.Event()
        self._wake = threading.Event()
        #: Held while rows are brought over or taken over; leases are prolonged meanwhile.
        self._moving = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Look at the leases once, then go on in the background."""
        self._guarded(self._beat)
        self._stop.clear()
        for name, run in (("leases", self._keep_leases), ("sharing", self._keep_moving)):
            self._threads.append(threading.Thread(target=run, name=name, daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Bring over what is left, so that whoever takes over goes on from there, and say goodbye."""
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(30.0)
        self._threads = []
        self._guarded(self._beat)
        self._guarded(self._move)
        if not self._trouble:
            try:
                self._member.leave()
            except StoreError as error:
                log.warning("goodbye not said to the fleet: %s", error)
        self.store.close()

    def candidates(self, candidates: Iterable[Candidate], pools: Iterable[str]) -> None:
        """Say which servers could be ours: by file, or by a source that is divided with others of its name."""
        before = self._candidates, self._pools
        self._candidates, self._pools = tuple(candidates), tuple(pools)
        if (self._candidates, self._pools) != before:
            self._wake.set()

    def watching(self, servers: Sequence[Server], groups: Sequence[Group]) -> None:
        """Say which servers are watched now; one of them that is to go elsewhere is given back once it is not."""
        self._watched, self._groups = tuple(servers), tuple(groups)
        self._mirrored_at = None

    def name(self) -> Lease | None:
        """Our right to this host's name in the fleet; None while it is not ours, or the database was never there."""
        return self._member.name

    def owned(self) -> frozenset[ServerName]:
        """Servers that are ours to watch. While the database was never there: those of the file, and the last ones."""
        if not self._member.has_beaten:
            last = self._member.remembered()
            return frozenset(one.server for one in self._candidates if one.source is None or one.server in last)
        standing = self._member.standing
        static = {one.server for one in self._candidates if one.source is None and one.server not in standing.others}
        return frozenset(standing.leases.keys() - standing.leaving) | static

    def must_adopt(self, servers: Collection[ServerName]) -> bool:
        """Whether something of these servers must be taken over before they are watched on, and can be."""
        return not self._trouble and bool(self._member.standing.unknown & set(servers))

    def adopt(self, servers: Collection[ServerName]) -> None:
        """Take over what the database knows of servers that others watched before us. Raises StoreError."""
        wanted = sorted(self._member.standing.unknown & set(servers))
        if not wanted:
            return
        now = self._clock.now()
        since = min([now - ADOPTED, *(self._lacking[server] for server in wanted if server in self._lacking)])
        with self._moving:
            taken = adopt(self.store, self._local, wanted, since, now)
            self._mirror.bring_back(wanted)
            self._member.adopted(wanted)
        self._lacking = {server: at for server, at in self._lacking.items() if server not in wanted}
        log.info("taken over from the fleet servers=%d intervals=%d", len(wanted), taken)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do something with the database; where it is away that is told once, and its end."""
        try:
            work()
        except StoreError as error:
            if not self._trouble:
                self._away_since = self._clock.monotonic()
                log.error("the fleet's database cannot be used, this host goes on alone: %s", error)
            self._trouble = str(error)
            return
        if self._trouble and work == self._beat:
            lasted = self._clock.monotonic() - (self._away_since or 0.0)
            log.info("the fleet's database is there again after=%.0fs", lasted)
            self._trouble, self._away_since = "", None

    def state(self) -> SharingState:
        """How it stands now."""
        since = self._away_since
        away = None if since is None else self._clock.monotonic() - since
        return SharingState(
            trouble=self._trouble, away_seconds=away, waiting=self._waiting, given_up=self._given_up
        )

    def present(self) -> list[str]:
        """Other hosts that give signs of life."""
        return [host.name for host in self._member.standing.hosts if host.silent_since is None]

    def outcomes(self, now: datetime) -> Iterator[RuleOutcome]:
        """Whether other hosts are silent; told by one daemon of the fleet."""
        standing = self._member.standing
        if not standing.is_watchman:
            return
        for host in standing.hosts:
            silent = host.silent_since is not None
            truth = Truth.NO_DATA if self._trouble else Truth.TRUE if silent else Truth.FALSE
            since = duration_words((now - host.silent_since).total_seconds()) if host.silent_since else ""
            yield RuleOutcome(
                rule=_ALERT, scope=f"host:{host.name}", truth=truth,
                labels={"alertname": _ALERT, "severity": "page", "host": host.name},
                # A beat that was late by a little is no silence.
                for_seconds=self._member.lease_seconds / 2,
                annotations={
                    "summary": f"acceptd on {host.name} has been silent for {since}",
                    "description": "Its lease in the fleet's database is over: the daemon, its host or the network "
                    "between is down. Servers that it found are watched by others; those of its own file by nobody.",
                    "runbook": "host-silent",
                },
                reason="the fleet's database is away" if self._trouble else "", keep_firing_for_seconds=60.0,
            )  # fmt: skip

    def role(self, name: str, ttl_seconds: float) -> bool:
        """Whether work of the whole fleet is ours to do now; False too while the database is away."""
        try:
            return not self._trouble and self._member.role(name, ttl_seconds)
        except StoreError as error:
            log.warning("work of the fleet put off role=%s: %s", name, error)
            return False

    def roll_up(self) -> None:
        """Bring the database's rollups up to date and make its days to come, where no other does. Raises StoreError."""
        if self.role("upkeep", _UPKEEP_SECONDS):
            log.debug("rolled up the fleet's database rows=%s", self.store.roll_up(self._clock.now()))
            self.store.make_days(self._clock.now())

    def prune(self, keep: Retention) -> None:
        """Delete what is too old there. Raises StoreError."""
        if self.role("upkeep", _UPKEEP_SECONDS):
            log.info("pruned the fleet's database rows=%s", self.store.prune(self._clock.now(), keep))

    def prune_late(self, keep: Retention) -> None:
        """Delete there what earlier nights left. Raises StoreError."""
        if not self._trouble and self.store.is_overdue(self._clock.now(), keep):
            self.prune(keep)

    def _keep_leases(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._member.lease_seconds / _BEATS_A_LEASE)
            self._wake.clear()
            if self._stop.is_set():
                return
            self._guarded(self._beat)
            owned = self.owned()
            if owned != self._owned or self.must_adopt(owned):
                self._owned = owned
                self._changed()

    def _keep_moving(self) -> None:
        while not self._stop.wait(min(_MOVE_SECONDS, self._member.lease_seconds / _BEATS_A_LEASE)):
            if self._member.has_beaten:
                self._guarded(self._move)

    def _beat(self) -> None:
        if not self._member.has_beaten:
            self.store.check()
        with self._local.read() as unit:
            waiting = unit.unshipped.waiting()
        self._member.beat(self._candidates, self._pools, {*(one.name for one in self._watched), *waiting})
        self._compare()

    def _compare(self) -> None:
        """See, once for each server, whether the local file has all that was brought over from it."""
        standing = self._member.standing
        fresh = standing.leases.keys() - standing.unknown - self._compared
        if not fresh:
            return
        lacking = gone_back(self._local, self.store, sorted(fresh))
        if lacking:
            log.warning("the local file is older than what was brought over from it, which is taken back servers=%d",
                        len(lacking))
            self._lacking |= lacking
            self._member.doubt(lacking)
        self._compared |= fresh

    def _move(self) -> None:
        """Bring over what waits, and every minute what changed in small tables; nothing while our name is another's."""
        now, name = self._clock.now(), self._member.name
        if name is None:
            return
        with self._moving:
            standing = self._member.standing
            leases = {server: lease for server, lease in standing.leases.items()
                      if server in self._compared and server not in standing.unknown}
            for _ in range(_BATCHES_A_TURN):
                shipped = ship(self._local, self.store, name, self._member.holder, leases, now)
                if shipped.given_up:
                    self._given_up += shipped.given_up
                    log.warning("given up, since their servers are watched by others rows=%d", shipped.given_up)
                if not shipped.more:
                    break
            with self._local.read() as unit:
                self._waiting = unit.unshipped.count()
        moment = self._clock.monotonic()
        ours = [server for server in self._watched if server.name in standing.leases]
        known = [server.name for server in ours if server.name in leases]
        is_due = self._mirrored_at is None or moment - self._mirrored_at >= _MIRROR_SECONDS
        if is_due or known != self._mirrored:
            note_watched(self.store, ours, self._groups, self._member.holder, now)
            self._mirror.turn(known, [group.name for group in self._groups], now)
            self._mirrored_at, self._mirrored = moment, known
