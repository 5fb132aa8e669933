"""What the daemon's loops do at each turn: evaluate, and bring in pages that wait on disk. Each is one thread's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from monitor.actions.keeper import Keeper
from monitor.app.alarm import StoreAlarm
from monitor.app.heart import Heart
from monitor.app.messengers import Messengers
from monitor.app.recording import record
from monitor.app.sharing import Sharing
from monitor.app.supervisor import Supervisor
from monitor.clock import Clock
from monitor.cycle.act import Actor
from monitor.cycle.decider import Decider
from monitor.cycle.evaluate import Evaluated, Evaluator
from monitor.cycle.history import History
from monitor.cycle.slos import SloKeeper
from monitor.errors import MonitorError, StoreError
from monitor.model.server import Server, ServerName
from monitor.report.overview import Known
from monitor.store import Store
from monitor.store.spool import Spool
from monitor.telemetry import Telemetry

log = logging.getLogger(__name__)


class Evaluation:
    """Signals, alerts, decisions and what follows from them; its end is what the supervisor hears."""

    def __init__(
        self, evaluator: Evaluator, decider: Decider, actor: Actor, keeper: Keeper, *, store: Store, history: History,
        servers: Mapping[ServerName, Server], slos: SloKeeper, messengers: Messengers, telemetry: Telemetry,
        clock: Clock, heart: Heart, supervisor: Supervisor,
    ) -> None:
        self._evaluator = evaluator
        self._decider = decider
        self._actor = actor
        self._keeper = keeper
        self._store = store
        self._history = history
        self._servers = servers
        self._slos = slos
        self._messengers = messengers
        self._telemetry = telemetry
        self._clock = clock
        self._heart = heart
        self._supervisor = supervisor
        #: Signals of the newest evaluation, for the page; None before the first.
        self.known: Mapping[ServerName, Known] | None = None
        #: Why the newest evaluation could not use the store; empty where it could.
        self.trouble = ""

    def turn(self) -> None:
        """Evaluate everything once; what fails is logged, and the next turn begins anew."""
        began = self._clock.monotonic()
        try:
            seen = self._evaluator.run(self._clock.now())
            self._messengers.show(seen.alerts, seen.muted, seen.now)
            self._decider.run(seen)
            self._actor.restart_stuck(seen.alerts, seen.now)
            self._keeper.tick(seen.now)
            self._telemetry.paused(self._paused(seen.now))
        except MonitorError as error:
            self._failed(error, began)
            return
        self.trouble = ""
        self.known = self._known(seen)
        pages = record(seen, self._servers, self._slos, self._telemetry)
        self._messengers.wake()
        self._telemetry.cycle("ok", self._clock.monotonic() - began)
        self._heart.beat()
        self._messengers.alive()
        self._supervisor.alive(f"{len(self._servers)} servers, {pages} pages firing")

    def _failed(self, error: MonitorError, began: float) -> None:
        self._telemetry.cycle("failed", self._clock.monotonic() - began)
        log.error("evaluation failed: %s", error)
        self.trouble = str(error) if isinstance(error, StoreError) else ""
        if self.trouble:
            # The loop turns, and says what keeps it from its work: to begin anew would not help, and could fail.
            self._supervisor.alive(f"the store does not take anything: {error}"[:200])

    def _known(self, seen: Evaluated) -> dict[ServerName, Known]:
        lives = {name: self._history.newest_lives(name) for name in seen.servers}
        return {
            name: Known.to_keep(found, lives[name][-1] if lives[name] else None) for name, found in seen.servers.items()
        }

    def _paused(self, now: datetime) -> set[str]:
        with self._store.read() as unit:
            return {pause.scope for pause in unit.pauses.active(now)}


class Storing:
    """Brings in what waits on disk, and tells of a store that does not work."""

    def __init__(
        self, spool: Spool, sharing: Sharing | None, alarm: StoreAlarm, telemetry: Telemetry,
        trouble: Callable[[], str],
    ) -> None:
        """`trouble`: why the newest evaluation could not use the store."""
        self._spool = spool
        self._sharing = sharing
        self._alarm = alarm
        self._telemetry = telemetry
        self._trouble = trouble
        self._lost = spool.state().lost

    def turn(self) -> None:
        """Bring in what there is room for, and count and tell what there is not."""
        # First: a store that is locked holds up the attempt for most of a minute, and that is when it matters.
        self._look()
        try:
            if self._spool.drain():
                self._look()
        except StoreError as error:
            log.debug("pages still wait on disk: %s", error)

    def _look(self) -> None:
        state = self._spool.state()
        self._telemetry.spool(state.away_seconds, state.waiting, state.fill_ratio, state.lost - self._lost)
        self._lost = state.lost
        if self._sharing is not None:
            there = self._sharing.state()
            self._telemetry.sharing(there.away_seconds, there.waiting, there.given_up)
        self._alarm.look(state.trouble or self._trouble(), waiting=state.waiting, lost=state.lost_lately)
