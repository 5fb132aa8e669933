"""Whose a host's name is. Two daemons of one name would each take the other's leases for its own.

Beside the leases of a host stands one whose holder is the data folder and the process (`FOLDER#PROCESS`). Who does not
have it does nothing in the fleet. A process takes it from an earlier one of its own folder at once, since a folder has
one daemon; from another folder only when that has given it back or its lease is over, in the database's time.
"""

from __future__ import annotations

import secrets
from datetime import datetime

from monitor.errors import StoreError
from monitor.model.rollout import Lease
from monitor.store.api import Unit

NAMED = "name:"


class NameTaken(StoreError):
    """Another daemon has this host's name: this one must do nothing in the fleet."""


def name_lease(host: str) -> str:
    """Name of the lease of a host's name."""
    return f"{NAMED}{host}"


def folder_of(lease: Lease) -> str:
    """The data folder of whoever holds a host's name."""
    return lease.holder.rpartition("#")[0]


class Naming:
    """One process's claim to the name of its host; `lease` is what it had at the newest beat."""

    def __init__(self, host: str, folder: str, ttl_seconds: float) -> None:
        """`folder` names the data folder (`config/instance.py`)."""
        self._host = host
        self._folder = folder
        self._holder = f"{folder}#{secrets.token_hex(4)}"
        self._ttl = ttl_seconds
        self.lease: Lease | None = None
        #: Whether the name was ever ours: then a process of our own folder that has it now is none before us.
        self._was_ours = False

    @property
    def is_new(self) -> bool:
        """Whether it was never ours yet."""
        return not self._was_ours

    def claim(self, unit: Unit, now: datetime) -> Lease:
        """Take or prolong it; nobody else can before this unit ends. Raises NameTaken where another has it."""
        taken = unit.leases.acquire(name_lease(self._host), self._holder, self._ttl, now)
        if taken is not None:
            return taken
        held = unit.leases.get(name_lease(self._host))
        if held is not None and folder_of(held) == self._folder and not self._was_ours:
            unit.leases.release(held)
            taken = unit.leases.acquire(name_lease(self._host), self._holder, self._ttl, now)
        if taken is None:
            raise NameTaken(self._refusal(held))
        return taken

    def claimed(self, lease: Lease | None) -> None:
        """What a claim brought has been stored (None: the name is another's)."""
        self.lease = lease
        self._was_ours = self._was_ours or lease is not None

    def _refusal(self, held: Lease | None) -> str:
        if held is None:
            return f"host {self._host}: another acceptd takes this name just now"
        if folder_of(held) == self._folder:
            return (
                f"host {self._host}: another acceptd runs on a copy of this data folder: give one of the two another"
                " `host`, and delete the file `instance` in its folder"
            )
        return (
            f"host {self._host}: another acceptd has this name in the fleet ({folder_of(held)}), so this one does"
            " nothing there: give it another `host` and restart it, or stop the other"
        )


def confirm_name(unit: Unit, lease: Lease | None, now: datetime) -> None:
    """Go on only while the name is ours; it stays so until the unit ends. Raises NameTaken."""
    if lease is None or not unit.leases.confirm([lease], now):
        raise NameTaken("this host's name in the fleet is not this daemon's now: nothing is done under it")
