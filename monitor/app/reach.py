"""How people on one host reach the rest of the fleet: what its page shows of others, and requests to and from them.

Over a connection of its own, so that nobody who looks delays leases or what is brought over.
"""

from __future__ import annotations

from monitor.app.errands import Errands, Taking
from monitor.app.neighbours import Neighbours
from monitor.app.presses import Presses
from monitor.app.sharing import Sharing
from monitor.clock import Clock
from monitor.config.fleet import host_name
from monitor.config.load import secret
from monitor.config.model import Config
from monitor.store import Store, open_store


class Reach:
    """The ways of one daemon; `store` is the fleet's database. Nothing is asked yet."""

    def __init__(self, config: Config, sharing: Sharing, clock: Clock) -> None:
        settings = config.store.shared
        assert settings is not None  # there is no sharing without it
        self._config = config
        self._clock = clock
        #: Why the fleet's database cannot be used now; empty while it can.
        self.trouble = lambda: sharing.state().trouble
        self.store: Store = open_store(settings.url, password=secret(settings, "password"))
        self.neighbours = Neighbours(
            self.store, host_name(config), clock, trouble=self.trouble, present=sharing.present
        )
        self.errands = Errands(self.store, clock, trouble=self.trouble)

    def taking(self, local: Store, presses: Presses) -> Taking:
        """What takes requests of other hosts that are about this one's own things."""
        return Taking(
            self.store, local, self._clock, presses=presses, pages=self._config.web.actions, trouble=self.trouble
        )

    def close(self) -> None:
        """Give the connection back."""
        self.neighbours.close()
        self.store.close()
