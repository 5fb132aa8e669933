"""The right to change a group, where daemons of several hosts share a database: one of them a group, so many a fleet.

Rollouts are carried out from the local store, so that none stands still while the database is away; only beginning one
needs it. The right is long, and prolonged while a rollout goes on: a daemon that died keeps others out for that long.
It is given back at once when its rollout ends, when nothing began under it, and when the daemon stops in order.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Protocol

from monitor.actions.records import lease_name
from monitor.clock import Clock
from monitor.errors import ActionError, StoreError
from monitor.model.rollout import Lease
from monitor.model.server import GroupName
from monitor.store.api import Store, Unit
from monitor.store.naming import NameTaken, confirm_name

log = logging.getLogger(__name__)

#: Age of a right, and how often it is prolonged, or tried again (seconds): a database that is away costs a wait a try.
RIGHT_SECONDS, PROLONGED_SECONDS = 1800.0, 60.0
#: How long a right may be held before its rollout is seen (seconds): what is asked for in between takes its time.
_BEGINS_SECONDS = 120.0


class Rights(Protocol):
    """Who may change which group now, in the fleet."""

    def take(self, group: GroupName, now: datetime) -> None:
        """Take the right to change `group`. Raises ActionError, retryable, where others have it or all are taken."""
        ...

    def keep(self, groups: Collection[GroupName], now: datetime) -> None:
        """Prolong the rights to these groups, whose rollouts go on, and give others back; never raises."""
        ...

    def drop(self, group: GroupName) -> None:
        """Give back a right under which nothing began; never raises."""
        ...

    def end(self, groups: Collection[GroupName]) -> None:
        """The daemon stops: give everything back but the rights to these groups, whose rollouts the next one ends."""
        ...


class OwnRights:
    """One host by itself: everything is its own."""

    def take(self, group: GroupName, now: datetime) -> None:
        """Nothing to ask."""

    def keep(self, groups: Collection[GroupName], now: datetime) -> None:
        """Nothing to keep."""

    def drop(self, group: GroupName) -> None:
        """Nothing to give back."""

    def end(self, groups: Collection[GroupName]) -> None:
        """Nothing to give back."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A group's lease and its slot, since when (monotonic seconds), and whether its rollout was seen."""

    own: Lease
    slot: Lease
    since: float
    begun: bool = False


class FleetRights:
    """Rights as leases of the fleet's database. Safe from the thread that decides and the one that acts."""

    def __init__(
        self, shared: Store, holder: str, clock: Clock, *, name: Callable[[], Lease | None], max_concurrent: int = 1
    ) -> None:
        """`name` gives the right to the name `holder`; None while another daemon has it: then nothing may begin."""
        self._shared = shared
        self._holder = holder
        self._name = name
        self._clock = clock
        self._slots = tuple(f"rollouts:{number + 1}" for number in range(max_concurrent))
        self._held: dict[GroupName, _Held] = {}
        self._kept_at: float | None = None
        self._failed_at: float | None = None
        self._lock = threading.Lock()

    def take(self, group: GroupName, now: datetime) -> None:
        """The lease of the group, and one of as many as rollouts may run at once in the fleet."""
        with self._lock:
            self._take(group, now)

    def keep(self, groups: Collection[GroupName], now: datetime) -> None:
        """Give back at once, prolong now and then; what fails is tried again a minute later."""
        moment = self._clock.monotonic()
        with self._lock:
            self._held |= {g: replace(held, begun=True) for g, held in self._held.items() if g in groups}
            # One that was taken a moment ago has no rollout yet.
            gone = [g for g, held in self._held.items()
                    if g not in groups and (held.begun or moment - held.since >= _BEGINS_SECONDS)]
            if self._failed_at is not None and moment - self._failed_at < PROLONGED_SECONDS:
                return
            due = self._kept_at is None or moment - self._kept_at >= PROLONGED_SECONDS
            try:
                self._give_back(gone)
                if due:
                    self._prolong(groups, now)
                    self._kept_at = moment
                self._failed_at = None
            except StoreError as error:
                self._failed_at = moment
                log.warning("right to change not prolonged or given back: %s", error)

    def _prolong(self, groups: Collection[GroupName], now: datetime) -> None:
        """Each by itself: one that cannot be had must not cost the others theirs."""
        for group in groups:
            try:
                self._take(group, now, begun=True)
            except ActionError as error:
                if isinstance(error.__cause__, StoreError):
                    raise error.__cause__ from error
                log.warning("right to change %s not prolonged: %s", group, error)

    def drop(self, group: GroupName) -> None:
        """Give it back unless a rollout was seen under it."""
        with self._lock:
            if group in self._held and not self._held[group].begun:
                self._give_back_if_there([group])

    def end(self, groups: Collection[GroupName]) -> None:
        """Give back all but these; where the database is away they end by themselves."""
        with self._lock:
            self._give_back_if_there([group for group in self._held if group not in groups])

    def _give_back_if_there(self, groups: Collection[GroupName]) -> None:
        try:
            self._give_back(groups)
        except StoreError as error:
            log.warning("right to change not given back, it ends in %.0f min: %s", RIGHT_SECONDS / 60, error)

    def _give_back(self, groups: Collection[GroupName]) -> None:
        for group in groups:
            self._shared.transact(partial(_release, held=self._held[group]))
            del self._held[group]

    def _take(self, group: GroupName, now: datetime, *, begun: bool = False) -> None:
        try:
            own, slot = self._shared.transact(lambda unit: self._leases(unit, group, now))
        except NameTaken as error:
            raise ActionError(str(error), reason="not_coordinator", retryable=True) from error
        except StoreError as error:
            raise ActionError(
                f"the fleet's database is away, so nobody knows who else changes {group}: {error}",
                reason="fleet_store_away", retryable=True,
            ) from error  # fmt: skip
        before = self._held.get(group)
        begun = begun or (before is not None and before.begun)
        self._held[group] = _Held(own, slot, self._clock.monotonic(), begun)

    def _leases(self, unit: Unit, group: GroupName, now: datetime) -> tuple[Lease, Lease]:
        confirm_name(unit, self._name(), now)
        own = unit.leases.acquire(lease_name(group), self._holder, RIGHT_SECONDS, now)
        if own is None:
            held = unit.leases.get(lease_name(group))
            raise ActionError(
                f"group {group} is being changed by {held.holder if held else 'another daemon'}",
                reason="not_coordinator", retryable=True,
            )  # fmt: skip
        others = {held.slot.name for name, held in self._held.items() if name != group}
        # The one it has comes first, also where a restart forgot which that is: a second one would be kept for long.
        for name in sorted(self._slots, key=lambda one: not self._has(unit, one)):
            slot = unit.leases.acquire(name, self._holder, RIGHT_SECONDS, now) if name not in others else None
            if slot is not None:
                return own, slot
        raise ActionError(
            f"{len(self._slots)} of {len(self._slots)} rollouts at once are under way in the fleet", reason="busy",
            retryable=True,
        )  # fmt: skip

    def _has(self, unit: Unit, name: str) -> bool:
        lease = unit.leases.get(name)
        return lease is not None and lease.holder == self._holder


def _release(unit: Unit, held: _Held) -> None:
    for lease in (held.own, held.slot):
        unit.leases.release(lease)
