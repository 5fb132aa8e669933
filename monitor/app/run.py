"""The process: one daemon on one data folder until a signal ends it; SIGHUP swaps its configuration whole, or not."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from monitor import __version__
from monitor.app.daemon import Daemon
from monitor.app.limits import collect_seldom, raise_file_limit, share_one_heap, share_the_interpreter
from monitor.app.membership import Candidate, Member
from monitor.app.sharing import Sharing
from monitor.app.sources import Sources
from monitor.app.supervisor import Supervisor
from monitor.clock import Clock
from monitor.config.fleet import groups, host_name, servers, tuning_sets
from monitor.config.found import with_found
from monitor.config.load import secret
from monitor.config.model import Config
from monitor.config.rules import LoadedRules, load_configured_rules, rule_settings, slo_paths
from monitor.config.running import FolderLock, Running, write_running
from monitor.errors import FatalError, MonitorError, StoreError
from monitor.model.server import ServerName
from monitor.schedule import out_of_memory
from monitor.store import Store, open_store
from monitor.store.ring import Ring
from monitor.store.spool import Spool
from monitor.store.sql import SqlStore
from monitor.telemetry import Telemetry

log = logging.getLogger(__name__)

LOCAL_DB = "local.db"
SPOOL = "spool.ring"
#: Least time between two changes of the servers by their sources (seconds): each starts the daemon's parts anew.
_SETTLE_SECONDS = 5.0

#: Kept for the end (bytes): never touched, so that it takes addresses and no memory.
_RESERVE_BYTES = 8 * 1024**2

#: Beginnings of the names of threads without which the daemon would only seem to run.
_VITAL = ("scrape", "http-watchdog", "evaluate", "act", "web")


class Process:
    """Owns what lives longer than a configuration: lock, store, metrics, signals."""

    def __init__(
        self, config: Config, clock: Clock, *, reload: Callable[[], Config], config_file: Path | None,
        on_started: Callable[[Daemon], None] = lambda daemon: None,
    ) -> None:
        """`reload` reads the configuration again; raises ConfigError. `on_started` is told of each started daemon."""
        self._config = config
        self._clock = clock
        self._reload = reload
        self._config_file = config_file
        self._on_started = on_started
        self._supervisor = Supervisor()
        self._telemetry = Telemetry()
        self._wake = threading.Event()
        self._stop = False
        self._hang_up = False
        self._others_found = False
        self._settled = 0.0
        self._sharing: Sharing | None = None
        self._fatal: FatalError | None = None
        #: Given back when the daemon ends for want of memory, so that it can still end in order.
        self._reserve = bytes(_RESERVE_BYTES)
        #: What the command line is to know of us and could not be written yet.
        self._unwritten: Running | None = None

    def run(self) -> None:
        """Run until SIGTERM, SIGINT or a fatal error. Raises FatalError, StoreError or ConfigError."""
        folder = self._config.data_dir
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        except OSError as error:
            raise FatalError(f"data_dir {folder}: cannot be made ({error.strerror})") from error
        self._rules = load_configured_rules(self._config)
        lock = FolderLock(folder, self._clock)
        lock.acquire()
        share_one_heap()
        handlers = {
            number: signal.signal(number, self._signalled) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        }
        hook, threading.excepthook = threading.excepthook, self._thread_died
        try:
            store = open_store(f"sqlite:///{folder / LOCAL_DB}")
            try:
                for step in store.upgrade():
                    log.info("store upgraded revision=%s", step)
                self._serve(store, self._spool(store), self._share(store))
            finally:
                store.close()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            threading.excepthook = hook
            lock.release()
        if self._fatal is not None:
            raise self._fatal

    def _share(self, store: SqlStore) -> Sharing | None:
        """The way to the fleet's database, where there is one."""
        settings = self._config.store.shared
        if settings is None:
            return None
        shared = open_store(settings.url, password=secret(settings, "password"))
        member = Member(
            shared, host_name(self._config), self._config.data_dir, self._clock, lease_seconds=settings.lease
        )
        return Sharing(store, shared, member, self._clock, changed=self._found_others)

    def _spool(self, store: Store) -> Spool:
        """The way into the store; without a queue where the disk has no room for one."""
        ring = Ring(self._config.data_dir / SPOOL, self._config.store.spool_size)
        ship = self._config.store.shared is not None
        spool = Spool(store, ring, self._clock, ship=ship)
        try:
            spool.open()
        except StoreError as error:
            log.error("no page can wait on disk while the store is away: %s", error)
            return Spool(store, None, self._clock, ship=ship)
        return spool

    def _serve(self, store: Store, spool: Spool, sharing: Sharing | None) -> None:
        self._sharing = sharing
        self._sources = self._look_for_servers(self._config)
        try:
            if sharing is not None:
                self._join(self._config, self._sources)
                sharing.start()
            self._serve_until_stopped(store, spool)
        finally:
            self._sources.stop()
            if sharing is not None:
                sharing.stop()
            spool.close()

    def _join(self, given: Config, sources: Sources) -> tuple[Config, tuple[str, ...]]:
        """The configuration with found servers, those of them that are ours where the fleet divides them."""
        joined = with_found(given, sources.found())
        if self._sharing is None:
            return joined.config, joined.left_out
        known = [Candidate(ServerName(one.name), joined.source_of.get(one.name)) for one in joined.config.servers]
        # What is found on this host itself is nobody else's.
        local = {source.name for source in given.sources if source.local}
        known = [Candidate(one.server, None if one.source in local else one.source) for one in known]
        self._sharing.candidates(known, {one.source for one in known if one.source is not None})
        return joined.only(self._sharing.owned()), joined.left_out

    def _look_for_servers(self, config: Config) -> Sources:
        sources = Sources(config.sources, config.data_dir, self._clock, self._found_others)
        sources.start()
        return sources

    def _found_others(self) -> None:
        self._others_found = True
        self._wake.set()

    def _serve_until_stopped(self, store: Store, spool: Spool) -> None:
        daemon = self._start(store, spool, self._config, self._rules, self._sources)
        try:
            while not self._stop and self._fatal is None:
                self._wake.wait(2.0)
                self._wake.clear()
                self._leave_running(self._unwritten)
                if self._hang_up and not self._stop:
                    self._hang_up = False
                    daemon = self._swap(daemon, store, spool)
                elif self._others_found and not self._stop and self._is_settled():
                    daemon = self._with_others(daemon, store, spool)
        finally:
            self._supervisor.stopping()
            log.info("stopping")
            daemon.stop()
            log.info("stopped; managed servers go on")

    def _is_settled(self) -> bool:
        return self._clock.monotonic() - self._settled >= _SETTLE_SECONDS

    def _start(self, store: Store, spool: Spool, given: Config, rules: LoadedRules, sources: Sources) -> Daemon:
        self._others_found = False
        self._settled = self._clock.monotonic()
        config, left_out = self._join(given, sources)
        for sentence in left_out:
            log.warning("found server left out: %s", sentence)
        # The heads that tracks go on from must not lag behind pages that wait: their counts would come twice.
        spool.drain()
        if self._sharing is not None:
            self._take_over(self._sharing, config)
        daemon = Daemon(
            config, rules, store, spool, self._telemetry, self._clock, self._supervisor, fatal=self._died,
            boot_id=boot_id(), sharing=self._sharing,
        )
        raise_file_limit(len(daemon.servers))
        collect_seldom()
        share_the_interpreter()
        try:
            daemon.start()
        except RuntimeError as error:
            if "start new thread" not in str(error):
                raise
            raise FatalError(
                f"the daemon does not start: {error}; raise its limits of tasks and memory (TasksMax, MemoryMax)"
            ) from error
        self._telemetry.watching({one.name for one in daemon.servers}, {group.name for group in daemon.groups})
        self._leave_running(self._running(config, daemon))
        self._supervisor.ready(f"{len(daemon.servers)} servers", turn_seconds=config.rules.interval)
        log.info("started version=%s servers=%d groups=%d data_dir=%s", __version__, len(daemon.servers),
                 len(daemon.groups), config.data_dir)
        self._on_started(daemon)
        return daemon

    def _take_over(self, sharing: Sharing, config: Config) -> None:
        """Bring here what others knew of servers that are ours now, before their heads are read."""
        watched = servers(config)
        try:
            sharing.adopt([server.name for server in watched])
        except StoreError as error:
            log.error("servers taken over begin anew, what the fleet knows of them cannot be had: %s", error)
        sharing.watching(watched, groups(config))

    def _swap(self, old: Daemon, store: Store, spool: Spool) -> Daemon:
        """The daemon of the new configuration, or the old one where that is wrong or does not start."""
        self._supervisor.reloading()
        sources: Sources | None = None
        try:
            config = self._reload()
            rules = load_configured_rules(config)
            if config.data_dir != self._config.data_dir:
                raise FatalError(f"data_dir cannot change while running ({self._config.data_dir} -> {config.data_dir})")
            if config.store.shared != self._config.store.shared:
                raise FatalError("store.shared cannot change while running: restart the daemon")
            if self._sharing is not None and host_name(config) != host_name(self._config):
                raise FatalError("host cannot change while running in a fleet, by its leases: restart the daemon")
            if spool.state().away_seconds is not None:
                raise StoreError(f"the store takes no pages now ({spool.state().trouble}): reload when it works again")
            sources = self._look_for_servers(config)
        except MonitorError as error:
            log.error("configuration not reloaded, the old one stays: %s", error)
            self._supervisor.ready("configuration NOT reloaded: it has mistakes")
            return old
        old.stop()
        try:
            new = self._start(store, spool, config, rules, sources)
        except MonitorError as error:
            log.error("new configuration does not start, going back to the old one: %s", error)
            sources.stop()
            return self._start(store, spool, self._config, self._rules, self._sources)
        self._sources.stop()
        self._config, self._rules, self._sources = config, rules, sources
        log.info("configuration reloaded")
        return new

    def _with_others(self, old: Daemon, store: Store, spool: Spool) -> Daemon:
        """The daemon of the same configuration with the servers that its sources find now.

        While the store takes no pages the old servers stay: heads are read anew, and those stored lag behind.
        """
        config, _ = self._join(self._config, self._sources)
        before = {server.name: server for server in old.servers}
        after = {server.name: server for server in servers(config)}
        unknown = self._sharing is not None and self._sharing.must_adopt(after)
        if (before == after and not unknown) or spool.state().away_seconds is not None:
            self._others_found = before != after
            return old
        log.info("sources find other servers new=%d gone=%d", len(after.keys() - before), len(before.keys() - after))
        old.stop()
        new = self._start(store, spool, self._config, self._rules, self._sources)
        return new

    def _running(self, config: Config, daemon: Daemon) -> Running:
        listen = daemon.web.url.removeprefix("http://") if daemon.web is not None else config.web.listen
        return Running(
            pid=os.getpid(), version=__version__, started_at=self._clock.now(), host=host_name(config), listen=listen,
            simulated=config.simulated, servers=tuple(daemon.servers), groups=tuple(daemon.groups),
            rules={str(group): name for group, name in tuning_sets(config).items()},
            rule_settings=rule_settings(config),
            slo_files=tuple(str(path.resolve()) for path in slo_paths(config)),
            report_target=config.report.target_acceptance,
            config_file=str(self._config_file.resolve()) if self._config_file else None,
            shared=config.store.shared is not None,
        )

    def _leave_running(self, running: Running | None) -> None:
        """Leave it for the command line; a full disk is no reason not to watch, so it is tried again later."""
        if running is None:
            return
        try:
            write_running(self._config.data_dir, running)
        except OSError as error:
            if self._unwritten is None:
                log.error("the command line does not see this daemon: running.json in %s cannot be written (%s)",
                          self._config.data_dir, error.strerror)
            self._unwritten = running
        else:
            self._unwritten = None

    def _thread_died(self, death: threading.ExceptHookArgs) -> None:
        """A thread ended by an error that nobody expected: with a vital one missing it is better to start again."""
        name = death.thread.name if death.thread is not None else "?"
        cause = death.exc_value
        if isinstance(cause, MemoryError):
            self._died(out_of_memory(f"thread {name}", cause))
            return
        log.error("thread died thread=%s", name, exc_info=cause)
        self._telemetry.unexpected_error("thread")
        if name.startswith(_VITAL):
            why = f"{type(cause).__name__}: {cause}"
            self._died(FatalError(f"thread {name} died ({why}): the daemon ends, to be started anew"))

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._hang_up = True
        else:
            self._stop = True
        self._wake.set()

    def _died(self, error: FatalError) -> None:
        self._reserve = b""
        self._fatal = self._fatal or error
        self._wake.set()


def boot_id(path: Path = Path("/proc/sys/kernel/random/boot_id")) -> str:
    """Names this boot of the machine, whose monotonic clock is only comparable to itself; empty where unknown."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
