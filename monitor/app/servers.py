"""The servers of one configuration: how each is asked, what drives it, which setting it is known to have.

It owns their connections; when they are scraped and changed is decided elsewhere.
"""

from __future__ import annotations

from datetime import timedelta

from monitor.actions.balancer import Polls
from monitor.actions.fleet import Fleet
from monitor.app.feeds import fed_servers, silent_servers
from monitor.app.parts import managed, server_parts
from monitor.clock import Clock
from monitor.config.fleet import configured_settings, groups, servers
from monitor.config.model import Config
from monitor.cycle.settings import SettingFinder
from monitor.dialects import Dialects
from monitor.drivers.protocol import ServerState
from monitor.errors import MonitorError
from monitor.model.life import Setting
from monitor.model.server import Engine, Group, Server, ServerName
from monitor.scrape.client import ServerClient
from monitor.scrape.probe import ServerProbe
from monitor.store import Store
from monitor.targets.local import server_behind
from monitor.targets.told import Told, ask_server
from monitor.watchdog import Watchdog


class WatchedServers:
    """Every server that is watched, and the fleet of those that are managed."""

    def __init__(self, config: Config, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.all = servers(config)
        self.groups = groups(config)
        self.by_name = {server.name: server for server in self.all}
        configs = {ServerName(one.name): one for one in config.servers}
        #: Those that are started when we start.
        self.wanted = {name for name, one in configs.items() if one.driver is not None and one.driver.starts_now}
        #: Those whose pages come from a store, and those of them that may not be asked themselves.
        self.fed, self.silent = fed_servers(config), silent_servers(config)
        self.dialects = Dialects()
        self.watchdog = Watchdog(clock)
        self._parts = {
            name: server_parts(one, self.by_name[name], self.watchdog, clock, self.dialects,
                               size_limit=config.scrape.size_limit, timeout_seconds=config.scrape.timeout)
            for name, one in configs.items()
        }
        self.settings = SettingFinder(
            ask=self._ask,
            process=lambda server: None if server.name in self.silent else server_behind(server.base_url),
            launched=self._launched,
            configured=configured_settings(config),
        )
        self.polls = Polls()
        made = {
            name: managed(config, one, self._parts[name], clock, started=self.settings.restarted, polls=self.polls,
                          version=lambda name=name: self._version(name))  # type: ignore[misc]
            for name, one in configs.items()
        }
        self.fleet = Fleet(
            groups={group.name: group for group in self.groups},
            managed={name: one for name, one in made.items() if one is not None},
            probes={name: parts.live for name, parts in self._parts.items()},
        )

    def close(self) -> None:
        """Close every connection."""
        self.watchdog.stop()
        for parts in self._parts.values():
            parts.close()

    @property
    def scraping(self) -> dict[ServerName, ServerClient]:
        """What fetches the page of each."""
        return {name: parts.scraping for name, parts in self._parts.items()}

    @property
    def probes(self) -> dict[ServerName, ServerProbe]:
        """What asks each of those that may be asked."""
        return {name: parts.probe for name, parts in self._parts.items() if name not in self.silent}

    def group_of(self, name: ServerName) -> Group | None:
        """The group of a server."""
        return next((group for group in self.groups if name in group.servers), None)

    def places(self, name: ServerName) -> int | None:
        """Requests that a server takes at once, over all its engines, where its command line says."""
        one = self.fleet.managed.get(name)
        if one is None or one.driver.launcher.parsed.max_num_seqs is None:
            return None
        return one.driver.launcher.parsed.max_num_seqs * one.driver.launcher.parsed.data_parallel_size

    def _ask(self, server: Server, engine: Engine) -> Told:
        """What the server tells of itself; nothing where it may not be asked."""
        if server.name in self.silent:
            return Told()
        parts = self._parts[server.name]
        try:
            return ask_server(engine, parts.probe.document)
        finally:
            parts.asked()

    def _version(self, name: ServerName) -> str | None:
        """The engine version: asked now, or as stored with the newest life where the server is down."""
        known = self._parts[name].probe.version() or self.settings.version(name)
        if known is not None:
            return known
        with self._store.read() as unit:
            lives = unit.lives.of(name, self._clock.now() - timedelta(days=400), self._clock.now())
        return next((life.engine_version for life in reversed(lives) if life.engine_version), None)

    def _launched(self, name: ServerName) -> Setting | None:
        """The setting that our driver started the running server with; None where it did not start it."""
        one = self.fleet.managed.get(name)
        if one is None or not one.driver.acts:
            return None
        try:
            status = one.driver.status()
        except MonitorError:
            return None
        return status.setting if status.state is ServerState.RUNNING else None
