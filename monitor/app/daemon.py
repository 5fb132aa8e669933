"""One running configuration: builds every part, starts them in order, stops them in the reverse one.

Order of starting: store, then memory from it, then servers that should run, then scraping, deciding, acting, telling,
showing. Stopping goes backwards: first nothing new is begun, then what is under way ends, then the store closes.
Managed servers are never stopped: they outlive the daemon.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from monitor.actions.executor import Executor
from monitor.actions.keeper import Keeper
from monitor.actions.orders import Orders
from monitor.actions.step import Timing
from monitor.app.alarm import StoreAlarm
from monitor.app.errands import LOOK_SECONDS
from monitor.app.evidence import gather
from monitor.app.feeds import make_feeds
from monitor.app.heart import Heart
from monitor.app.messengers import Messengers
from monitor.app.page import make_page
from monitor.app.reach import Reach
from monitor.app.receivers import make_receivers
from monitor.app.reports import Reports
from monitor.app.rights import rights_of
from monitor.app.servers import WatchedServers
from monitor.app.sharing import Sharing
from monitor.app.starting import patience_seconds, start_servers, still_starting
from monitor.app.supervisor import Supervisor
from monitor.app.turns import Evaluation, Storing
from monitor.app.upkeep import Upkeep
from monitor.app.watched import note_watched
from monitor.clock import Clock
from monitor.config.fleet import host_name, tuning_sets
from monitor.config.model import Config
from monitor.config.rules import LoadedRules
from monitor.cycle.act import Actor
from monitor.cycle.collect import Collector
from monitor.cycle.decider import Decider
from monitor.cycle.elsewhere import Elsewhere
from monitor.cycle.evaluate import Evaluator
from monitor.cycle.feed import Feed
from monitor.cycle.gate import FleetGate
from monitor.cycle.history import History
from monitor.cycle.judge import StoredJudge
from monitor.cycle.planning import Planner
from monitor.cycle.prober import Prober
from monitor.cycle.recall import remember, scraped_seconds
from monitor.cycle.rolling import rolling
from monitor.cycle.slos import SloKeeper
from monitor.cycle.survivors import Survivors
from monitor.cycle.tell import answer_sink, event_sink
from monitor.errors import FatalError, MonitorError
from monitor.model.record import Evidence
from monitor.model.server import ServerName
from monitor.notify.compose_alerts import RUNBOOKS
from monitor.policy.telling import TellingPolicy
from monitor.schedule import Calendar, Ticker
from monitor.scrape.loop import ScrapeLoop
from monitor.store import Store
from monitor.store.spool import Spool
from monitor.telemetry import Telemetry
from monitor.web.server import WebServer

log = logging.getLogger(__name__)

#: How often rollouts are advanced (seconds): the steps of a restart are seconds apart.
ACT_SECONDS = 1.0
#: How often pages that wait on disk are brought into the store (seconds).
SPOOL_SECONDS = 2.0
#: The loop counts as standing still after so many turns, and at least so long (seconds).
_STILL_TURNS, _STILL_LEAST = 5.0, 120.0
#: Longest wait for the history of one server to be read to its end, at a stop (seconds).
_READ_BACK_ENDS = 20.0


class Daemon:
    """Everything that runs for one configuration on one store."""

    def __init__(
        self, config: Config, rules: LoadedRules, store: Store, spool: Spool, telemetry: Telemetry, clock: Clock,
        supervisor: Supervisor, *, fatal: Callable[[FatalError], None], boot_id: str,
        sharing: Sharing | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self._spool = spool
        self._sharing = sharing
        self._clock = clock
        self._telemetry = telemetry
        self._supervisor = supervisor
        self._watched = WatchedServers(config, store, clock)
        self._fleet = self._watched.fleet
        self.servers, self.groups = self._watched.all, self._watched.groups
        self._feeds: list[Feed] = []
        self._reach = None if sharing is None else Reach(config, sharing, clock)
        self._messengers = Messengers(config, store, telemetry, clock, reach=self._reach)
        self._router = self._messengers.router
        self.reports = Reports(
            store, self.groups, config.report, config.data_dir / "reports", host=host_name(config),
            simulated=config.simulated, receivers=self._router, clock=clock, told=self._messengers.wake,
            policies=rules.slos, sharing=sharing,
        )
        windows = [seconds for one in (rules.alerts, *rules.tuning.values()) for _, seconds in one.windows]
        self._history = History(scraped_seconds(len(self.servers), config.scrape.interval, max(windows, default=0.0)))
        self._heart = Heart(clock, max(_STILL_LEAST, _STILL_TURNS * config.rules.interval))
        self._collector: Collector | None = None
        self._boot_id = boot_id
        self._rules = rules
        self._prober = Prober(
            self._watched.probes, clock=clock, keep=self._keep_evidence, gather=self._gather,
            suspect_seconds=max(2.0 * config.scrape.interval, 5.0),
        )
        holder = host_name(config)
        sink = event_sink(self._router, simulated=config.simulated)
        timing = Timing(judge_seconds=min(15.0, max(1.0, config.scrape.interval)))
        judge = StoredJudge(store, self._watched.group_of, scrape_seconds=config.scrape.interval)
        self._slos = SloKeeper(
            store, rules.slos, self.groups, answers=self._answers, monotonic=clock.monotonic
        )
        self._reading_back: threading.Thread | None = None
        gate = FleetGate(self._slos.refusal, self._history, Survivors(store, self._watched.places).carrying)
        rights = rights_of(config, holder, clock, sharing)
        self._executor = Executor(
            store, clock, self._fleet, judge, holder=holder, gate=gate, timing=timing, on_event=sink, rights=rights,
        )  # fmt: skip
        self._orders = Orders(
            store, self._fleet, holder=holder, timing=timing, max_concurrent=config.rollouts.max_concurrent,
            on_event=sink, rights=rights,
        )
        self._keeper = Keeper(store, self._fleet, self._orders, timing=timing)
        self._stopping = False
        self._fatal = fatal
        self._scraping: ScrapeLoop | None = None
        self._tickers: list[Ticker] = []
        self._calendar: Calendar | None = None
        self.web: WebServer | None = None

    def start(self) -> None:
        """Start everything. Raises MonitorError; what was started by then is stopped again."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything, in order; managed servers go on."""
        self._stopping = True
        for ticker in self._tickers:
            ticker.stop()
        self._tickers = []
        for feed in self._feeds:
            feed.close()
        self._feeds = []
        if self._calendar is not None:
            self._calendar.stop()
            self._calendar = None
        if self._scraping is not None:
            self._scraping.stop()
            self._scraping = None
        self._stop_slos()
        # What the last turns queued is told before the threads end.
        self._messengers.stop()
        if self.web is not None:
            self.web.stop()
            self.web = None
        if self._reach is not None:
            self._reach.close()
        self._end_acting()
        self._watched.close()

    def _end_acting(self) -> None:
        """Nothing acts any more: other hosts need not wait for what ended."""
        try:
            self._executor.end()
        except MonitorError as error:
            log.warning("rights to change not looked through: %s", error)

    def _stop_slos(self) -> None:
        """End reading back, and store the checks of the last turn."""
        self._slos.stop()
        if self._reading_back is not None:
            self._reading_back.join(_READ_BACK_ENDS)
            self._reading_back = None
        try:
            self._slos.store_checks()
        except MonitorError as error:
            log.warning("newest checks not stored: %s", error)

    def _start(self) -> None:
        now = self._clock.now()
        note_watched(self._store, self.servers, self.groups, host_name(self._config), now)
        tracks, last_ok = remember(self._store, self._history, list(self._watched.by_name), now)
        self._watched.watchdog.start()
        for name in start_servers(self._store, self._fleet, self._watched.wanted, self._watched.group_of, now):
            self._slos.starting(name, now + timedelta(seconds=patience_seconds(self._watched.group_of(name))))
        self._collector = Collector(
            self._watched.by_name, self._watched.scraping, self._spool.keep, self._history,
            readers=self._watched.dialects.reader, tracks=tracks, last_ok=last_ok, settings=self._watched.settings,
            interval_seconds=self._config.scrape.interval, timeout_seconds=self._config.scrape.timeout,
            boot_id=self._boot_id, clock=self._clock, counters=self._telemetry, listener=self._slos,
        )
        self._scraping = ScrapeLoop(
            self._collector.scrape, interval=self._config.scrape.interval, workers=self._workers_for_scrapes(),
            clock=self._clock, counters=self._telemetry,
        )
        self._scraping.set_servers(name for name in self._watched.by_name if name not in self._watched.fed)
        evaluator, decider, actor = self._make_cycle(now)
        evaluation = Evaluation(
            evaluator, decider, actor, self._keeper, store=self._store, history=self._history,
            servers=self._watched.by_name, slos=self._slos, messengers=self._messengers, telemetry=self._telemetry,
            clock=self._clock, heart=self._heart, supervisor=self._supervisor,
        )
        alarm = StoreAlarm(
            make_receivers(self._config, self._router, self._clock), self._clock, host=host_name(self._config),
            simulated=self._config.simulated,
        )
        storing = Storing(self._spool, self._sharing, alarm, self._telemetry, lambda: evaluation.trouble)
        self._messengers.start()
        self._scraping.start()
        self._reading_back = threading.Thread(
            target=self._slos.read_back, args=(now, self._collector.tried_all), name="slo-history", daemon=True
        )
        self._reading_back.start()
        self._tickers = [
            self._ticker("evaluate", evaluation.turn, self._config.rules.interval),
            self._ticker("act", lambda: self._act(actor), ACT_SECONDS),
            self._ticker("spool", storing.turn, SPOOL_SECONDS),
            *self._feed_tickers(self._collector),
        ]
        if self._reach is not None:
            taking = self._reach.taking(self._store, self._messengers.presses)
            self._tickers.append(self._ticker("errands", taking.turn, LOOK_SECONDS))
        for ticker in self._tickers:
            ticker.start()
        self._calendar = Calendar(self._telemetry)
        report = self._config.report
        self._calendar.weekly("report", self.reports.scheduled, report.day, report.at, report.timezone)
        # One that fell due while we were down, or that could not be written, is made within the hour.
        self._calendar.hourly("report that was missed", self.reports.scheduled, 23)
        Upkeep(self._config, self._store, self._sharing, self._clock).put_into(self._calendar)
        self._calendar.start()
        self.web = make_page(
            self._config, self._watched, store=self._store, telemetry=self._telemetry, clock=self._clock,
            heart=self._heart, reports=self.reports, slos=self._slos, tried_all=self._collector.tried_all,
            reach=self._reach, known=lambda: evaluation.known,
        )
        self.web.start()

    def _feed_tickers(self, collector: Collector) -> Iterator[Ticker]:
        """A thread for each store that has pages of ours."""
        watchdog = self._watched.watchdog
        made = make_feeds(self._config, collector, watchdog, self._clock, goes_on=lambda: not self._stopping)
        for name, feed in made:
            self._feeds.append(feed)
            yield self._ticker(f"feed-{name}", feed.poll, self._config.scrape.interval)

    def _ticker(self, name: str, run: Callable[[], None], interval: float) -> Ticker:
        return Ticker(name, run, interval, clock=self._clock, counters=self._telemetry, fatal=self._fatal)

    def _make_cycle(self, now: datetime) -> tuple[Evaluator, Decider, Actor]:
        config = self._config
        sets = tuning_sets(config)
        evaluator = Evaluator(
            self._store, self._history, self._prober, servers=self.servers, groups=self.groups,
            alert_rules=self._rules.alerts, tuning_rules={g: self._rules.tuning[name] for g, name in sets.items()},
            host=host_name(config), receivers=self._router, watched_since=now, simulated=config.simulated,
            telling=TellingPolicy(
                by=config.notify.group_by, wait_seconds=config.notify.group_wait,
                interval_seconds=config.notify.group_interval, digest_above=config.notify.digest_above,
                repeat_seconds=config.notify.repeat,
                page_repeat_seconds=min(config.notify.repeat, config.notify.page_repeat), place=self._router.place,
            ),
            undelivered=self._messengers.undelivered, runbooks=config.notify.runbook_url or RUNBOOKS,
            credit_seconds=2.5 * config.rules.interval, baseline_seconds=config.rules.baseline_window,
            slos=self._slos, daemon=self._daemon_facts,
            peers=self._sharing.outcomes if self._sharing is not None else None,
            starting=lambda now: still_starting(self._fleet, self._watched.group_of, self._last_ok, now),
        )
        decider = Decider(
            self._store, self._history, self.groups, self._fleet, receivers=self._router, simulated=config.simulated,
            begin=self._orders.begin, counters=self._telemetry, planner=self._planner(),
            elsewhere=Elsewhere(self._history, self.servers),
        )
        # A planner for each thread: what they remember of peaks is not shared.
        actor = Actor(
            self._store, self._executor, self._orders, self._fleet.groups, list(self._fleet.managed),
            planner=self._planner(),
            make_report=self.reports.now, counters=self._telemetry,
            on_answer=answer_sink(self._router, self._clock, simulated=config.simulated),
        )
        return evaluator, decider, actor

    def _act(self, actor: Actor) -> None:
        try:
            happened = actor.run(self._clock.now())
            with self._store.read() as unit:
                self._slos.changing(rolling(unit, self._clock.now()))
        except MonitorError as error:
            log.error("acting failed: %s", error)
            return
        if happened:
            self._messengers.wake()

    def _daemon_facts(self) -> dict[str, float | None]:
        return {
            "pages_lost": float(self._spool.state().lost_lately),
            "feeds_away": float(sum(1 for feed in self._feeds if feed.trouble)),
            "fleet_store_away_seconds": None if self._sharing is None else self._sharing.state().away_seconds or 0.0,
        }

    def _planner(self) -> Planner:
        return Planner(
            self._store, self._history, self._fleet, max_concurrent=self._config.rollouts.max_concurrent,
            survivors=Survivors(self._store, self._watched.places).carrying,
        )

    def _last_ok(self, name: ServerName) -> datetime | None:
        return self._collector.last_ok(name) if self._collector is not None else None

    def _gather(self, name: ServerName) -> Mapping[str, str]:
        page = self._collector.last_page(name) if self._collector is not None else b""
        return gather(self._watched.by_name[name], page, self._fleet.managed.get(name))

    def _keep_evidence(self, evidence: Evidence) -> None:
        with self._store.write() as unit:
            unit.evidence.add(evidence)

    def _answers(self, name: ServerName) -> bool | None:
        """What a probe found of a server beside its page: that it is stuck, or well; None where none was asked."""
        result = self._prober.result(name)
        return False if result is not None and result.failed else self._prober.health(name)

    def _workers_for_scrapes(self) -> int:
        return max(1, min(self._config.scrape.workers, len(self.servers)))
