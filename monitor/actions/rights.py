"""The right to change a group, where daemons of several hosts share a database: one of them a group, so many a fleet.

Rollouts are carried out from the local store, so that none stands still while the database is away; only beginning one
needs it. The right is long, and prolonged while a rollout goes on: a daemon that died keeps others out for that long.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol

from monitor.actions.records import lease_name
from monitor.clock import Clock
from monitor.errors import ActionError, StoreError
from monitor.model.rollout import Lease
from monitor.model.server import GroupName
from monitor.store.api import Store, Unit

log = logging.getLogger(__name__)

#: Age of a right, and how often it is prolonged (seconds): a database that is away costs a wait at each try.
RIGHT_SECONDS, PROLONGED_SECONDS = 1800.0, 60.0
#: How long a right may be held before its rollout is stored (seconds): what is asked for in between takes its time.
_BEGINS_SECONDS = 120.0


class Rights(Protocol):
    """Who may change which group now, in the fleet."""

    def take(self, group: GroupName, now: datetime) -> None:
        """Take the right to change `group`. Raises ActionError, retryable, where others have it or all are taken."""
        ...

    def keep(self, groups: Collection[GroupName], now: datetime) -> None:
        """Prolong the rights to these groups and give all others back; never raises."""
        ...


class OwnRights:
    """One host by itself: everything is its own."""

    def take(self, group: GroupName, now: datetime) -> None:
        """Nothing to ask."""

    def keep(self, groups: Collection[GroupName], now: datetime) -> None:
        """Nothing to keep."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A group's lease and its slot, since when (monotonic seconds)."""

    own: Lease
    slot: Lease
    since: float


class FleetRights:
    """Rights as leases of the fleet's database. Safe from the thread that decides and the one that acts."""

    def __init__(self, shared: Store, holder: str, clock: Clock, *, max_concurrent: int = 1) -> None:
        self._shared = shared
        self._holder = holder
        self._clock = clock
        self._slots = tuple(f"rollouts:{number + 1}" for number in range(max_concurrent))
        self._held: dict[GroupName, _Held] = {}
        self._kept_at: float | None = None
        self._lock = threading.Lock()

    def take(self, group: GroupName, now: datetime) -> None:
        """The lease of the group, and one of as many as rollouts may run at once in the fleet."""
        with self._lock:
            self._take(group, now)

    def keep(self, groups: Collection[GroupName], now: datetime) -> None:
        """Prolong now and then; what fails is tried again, and ends by itself where it is no longer wanted."""
        moment = self._clock.monotonic()
        with self._lock:
            # One that was taken a moment ago has no rollout yet.
            gone = [g for g, held in self._held.items() if g not in groups and moment - held.since >= _BEGINS_SECONDS]
            due = self._kept_at is None or moment - self._kept_at >= PROLONGED_SECONDS
            if not (groups or gone) or not due:
                return
            self._kept_at = moment
            try:
                for group in gone:
                    held = self._held.pop(group)
                    self._shared.transact(partial(_release, held=held))
                for group in groups:
                    self._take(group, now)
            except (ActionError, StoreError) as error:
                log.warning("right to change not prolonged: %s", error)

    def _take(self, group: GroupName, now: datetime) -> None:
        try:
            own, slot = self._shared.transact(lambda unit: self._leases(unit, group, now))
        except StoreError as error:
            raise ActionError(
                f"the fleet's database is away, so nobody knows who else changes {group}: {error}",
                reason="fleet_store_away", retryable=True,
            ) from error  # fmt: skip
        self._held[group] = _Held(own, slot, self._clock.monotonic())

    def _leases(self, unit: Unit, group: GroupName, now: datetime) -> tuple[Lease, Lease]:
        own = unit.leases.acquire(lease_name(group), self._holder, RIGHT_SECONDS, now)
        if own is None:
            held = unit.leases.get(lease_name(group))
            raise ActionError(
                f"group {group} is being changed by {held.holder if held else 'another daemon'}",
                reason="not_coordinator", retryable=True,
            )  # fmt: skip
        others = {held.slot.name for name, held in self._held.items() if name != group}
        for name in self._slots:
            slot = unit.leases.acquire(name, self._holder, RIGHT_SECONDS, now) if name not in others else None
            if slot is not None:
                return own, slot
        raise ActionError(
            f"{len(self._slots)} of {len(self._slots)} rollouts at once are under way in the fleet", reason="busy",
            retryable=True,
        )  # fmt: skip


def _release(unit: Unit, held: _Held) -> None:
    for lease in (held.own, held.slot):
        unit.leases.release(lease)
