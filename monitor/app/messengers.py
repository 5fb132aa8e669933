"""All that carries word out of one daemon: delivering threads, Alertmanagers, Slack's socket, the dead man's switch.

What is said, and to whom, is decided elsewhere; what waits to be said lies in the store.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import datetime

from monitor.app.outbox import StoreOutbox
from monitor.app.presses import SocketRight
from monitor.app.reach import Reach
from monitor.app.receivers import make_alertmanagers, make_presses, make_receivers, make_router, make_socket
from monitor.clock import Clock
from monitor.config.fleet import host_name
from monitor.config.load import secret
from monitor.config.model import Config
from monitor.cycle.facts import WAITING_SECONDS
from monitor.errors import MonitorError
from monitor.model.alert import Alert, Fingerprint
from monitor.notify.deadman import DeadMansSwitch
from monitor.notify.outbox import OutboxWorker
from monitor.store import Store
from monitor.telemetry import Telemetry

log = logging.getLogger(__name__)


class Messengers:
    """The ways out. `router` says which receivers a notice goes to, `presses` carries out what comes back by button."""

    def __init__(
        self, config: Config, store: Store, telemetry: Telemetry, clock: Clock, *, reach: Reach | None = None
    ) -> None:
        """With `reach` the one connection for buttons is leased in the fleet's database."""
        self._store = store
        self._telemetry = telemetry
        self.router = make_router(config)
        self._receivers = make_receivers(config, self.router, clock)
        self._alertmanagers = make_alertmanagers(config, self.router, clock, telemetry)
        self._outbox = StoreOutbox(store, clock, self.wake, fallback=config.notify.fallback)
        self._workers = [
            OutboxWorker(receiver, self._outbox, clock=clock, counters=telemetry) for receiver in self._receivers
        ]
        self.presses = make_presses(
            config, store, clock, self.router, self._receivers, wake=self.wake,
            errands=reach.errands if reach is not None else None,
        )
        right = SocketRight(store, clock, host_name(config))
        if reach is not None:
            right = SocketRight(reach.store, clock, host_name(config), trouble=reach.trouble)
        self._socket = make_socket(config, clock, self.presses, right=right, connected=telemetry.slack_socket)
        switch = secret(config.notify, "dead_mans_switch_url")
        self._switch = DeadMansSwitch(switch, clock) if switch else None

    def start(self) -> None:
        """Start the threads; what waits for a receiver that is gone is taken over first. Raises StoreError."""
        self._outbox.take_over([receiver.name for receiver in self._receivers])
        for worker in self._workers:
            worker.start()
        if self._alertmanagers is not None:
            self._alertmanagers.start()
        if self._socket is not None:
            self._socket.start()

    def stop(self) -> None:
        """Listen no more, tell what is queued, and end the threads."""
        if self._socket is not None:
            self._socket.stop()
        for worker in self._workers:
            worker.stop()
        if self._alertmanagers is not None:
            self._alertmanagers.stop()

    def wake(self) -> None:
        """Something was queued: deliver it now."""
        for worker in self._workers:
            worker.wake()
        try:
            with self._store.read() as unit:
                self._telemetry.outbox_pending(unit.outbox.pending_count())
        except MonitorError as error:
            log.warning("outbox cannot be counted: %s", error)

    def show(self, alerts: Sequence[Alert], muted: Collection[Fingerprint], now: datetime) -> None:
        """Show the state of all alerts to those who want state and not notices."""
        if self._alertmanagers is not None:
            self._alertmanagers.show(alerts, muted, now)

    def alive(self) -> None:
        """An evaluation went well: keep the dead man's switch from firing."""
        if self._switch is not None:
            self._switch.alive()

    def undelivered(self, now: datetime) -> int:
        """What fails to be told beside the outbox: 1 while no Alertmanager takes what it is shown."""
        failing = self._alertmanagers.failing_seconds(now) if self._alertmanagers is not None else 0.0
        return int(failing > WAITING_SECONDS)
