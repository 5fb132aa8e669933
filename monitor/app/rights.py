"""Who may change which group: this host alone, or one of those that share the fleet's database."""

from __future__ import annotations

from monitor.actions.rights import FleetRights, OwnRights, Rights
from monitor.app.sharing import Sharing
from monitor.clock import Clock
from monitor.config.model import Config


def rights_of(config: Config, holder: str, clock: Clock, sharing: Sharing | None) -> Rights:
    """The rights of this daemon; nothing is asked yet."""
    if sharing is None:
        return OwnRights()
    return FleetRights(
        sharing.store, holder, clock, max_concurrent=config.rollouts.max_concurrent, name=sharing.name
    )  # fmt: skip
