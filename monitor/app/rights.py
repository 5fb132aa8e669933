"""Who may change which group: this host alone, or one of those that share the fleet's database."""

from __future__ import annotations

from collections.abc import Callable

from monitor.actions.rights import FleetRights, OwnRights, Rights
from monitor.clock import Clock
from monitor.config.load import secret
from monitor.config.model import Config
from monitor.store import open_store


def rights_of(config: Config, holder: str, clock: Clock) -> tuple[Rights, Callable[[], None]]:
    """The rights of this daemon and what gives their connection back; nothing is asked yet."""
    shared = config.store.shared
    if shared is None:
        return OwnRights(), lambda: None
    store = open_store(shared.url, password=secret(shared, "password"))
    rights = FleetRights(store, holder, clock, max_concurrent=config.rollouts.max_concurrent)
    return rights, store.close
