"""Makes the parts that act on servers: clients, drivers, probes, launchers. Nothing is started here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from monitor.actions.balancer import Balancer, HookBalancer, NoBalancer, PolledBalancer, Polls
from monitor.actions.fleet import Managed
from monitor.actions.probe import LiveProbe
from monitor.app.inspecting import draft_of, inspection
from monitor.clock import Clock
from monitor.config.fleet import credentials
from monitor.config.model import Config
from monitor.config.servers import DriverKind, ServerConfig
from monitor.dialects import Dialects
from monitor.drivers.around import DriverAround
from monitor.drivers.command import CommandDriver
from monitor.drivers.command_runner import Commands
from monitor.drivers.dry_run import DryRunDriver
from monitor.drivers.gpu_guard import GpuGuard
from monitor.drivers.launcher import CommandLauncher
from monitor.drivers.nvml import open_nvml
from monitor.drivers.process import ProcessDriver, ProcessOptions
from monitor.drivers.procfs import ProcFs
from monitor.drivers.protocol import Driver, Launcher
from monitor.drivers.systemctl import Systemctl
from monitor.drivers.systemd import SystemdDriver
from monitor.drivers.unit_command import UnitOptions, UnitReader
from monitor.drivers.unit_launcher import UnitLauncher
from monitor.errors import ScrapeError
from monitor.model.life import Setting
from monitor.model.reading import Reading, Verdict
from monitor.model.server import Engine, Server, ServerName
from monitor.scrape.client import ACCEPT_PAGE, ServerClient
from monitor.scrape.probe import ServerProbe
from monitor.targets.pairs import target_of
from monitor.watchdog import Watchdog

#: Longest wait for `/health`, `/v1/models` and `/version` (seconds).
_ASK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServerParts:
    """What belongs to one server. Scrapes have a connection of their own, so that a question never delays them."""

    server: Server
    #: For scrapes, for quick questions, for a generated token.
    clients: tuple[ServerClient, ServerClient, ServerClient]
    probe: ServerProbe
    live: LiveProbe

    @property
    def scraping(self) -> ServerClient:
        """The client of the scrape loop."""
        return self.clients[0]

    def asked(self) -> None:
        """Close the connection for quick questions: after the first page hardly one is asked."""
        self.clients[1].close()

    def close(self) -> None:
        """Close every connection."""
        for client in self.clients:
            client.close()


def server_parts(
    config: ServerConfig, server: Server, watchdog: Watchdog, clock: Clock, dialects: Dialects, *, size_limit: int,
    timeout_seconds: float,
) -> ServerParts:
    """Clients and probes of one server."""
    known = credentials(config)
    asking = ServerClient(watchdog, known, size_limit=size_limit)
    probe = ServerProbe(asking, server.base_url, timeout_seconds=_ASK_SECONDS)

    def read_page() -> Reading:
        try:
            answer = asking.get(server.metrics_url, deadline_seconds=timeout_seconds, accept=ACCEPT_PAGE)
        except ScrapeError as error:
            return Reading(
                server=server.name, scraped_at=clock.now(), monotonic=clock.monotonic(), dialect="none",
                verdict=Verdict.SCRAPE_ERROR, reason=f"{error.reason}: {error}",
            )
        return dialects.reader(server.name).read(
            answer.body, scraped_at=clock.now(), monotonic=clock.monotonic(), status=answer.status,
            content_type=answer.content_type or None,
        )

    scraping = ServerClient(watchdog, known, size_limit=size_limit)
    # A token may take a minute: on a connection of its own no other question waits for it.
    patient = ServerClient(watchdog, known, size_limit=size_limit)
    generator = ServerProbe(patient, server.base_url, timeout_seconds=_ASK_SECONDS)
    live = LiveProbe(probe, read_page, generator=generator)
    return ServerParts(server, (scraping, asking, patient), probe, live)


class NotingDriver(DriverAround):
    """A driver that says when it has started its server, so that the next page begins a new life."""

    def __init__(self, driver: Driver, started: Callable[[], None]) -> None:
        super().__init__(driver)
        self._started = started

    def start(self, setting: Setting, token: str) -> None:
        """Start the server."""
        self._driver.start(setting, token)
        if self._driver.acts:
            self._started()


def managed(
    config: Config, one: ServerConfig, parts: ServerParts, clock: Clock, *, version: Callable[[], str | None],
    started: Callable[[ServerName], None], polls: Polls,
) -> Managed | None:
    """The server with its driver; None for one that is only watched."""
    if one.driver is None:
        return None
    name, environ = parts.server.name, environ_for_servers(os.environ)

    def known_version() -> str | None:
        return one.driver.engine_version if one.driver and one.driver.engine_version else version()

    driver = _watching_gpus(make_driver(config, one, clock, version=known_version), clock)
    own = OwnEnviron(environ, driver.launcher)
    return Managed(
        server=parts.server, driver=NotingDriver(driver, lambda: started(name)), probe=parts.live,
        balancer=_balancer(one, name, polls),
        inspector=inspection(one.driver.config_check, driver.launcher, own, clock),
        draft=draft_of(driver.launcher, own, clock),
    )  # fmt: skip


class OwnEnviron(Mapping[str, str]):
    """A server's environment: the daemon's, and over it what the operator gives the server, as it is when asked."""

    def __init__(self, inherited: Mapping[str, str], launcher: Launcher) -> None:
        self._inherited = inherited
        self._launcher = launcher

    def _now(self) -> dict[str, str]:
        return {**self._inherited, **self._launcher.environ}

    def __getitem__(self, name: str) -> str:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


def _watching_gpus(driver: Driver, clock: Clock) -> Driver:
    """The driver, which looks at the GPUs too where there are any."""
    nvml = open_nvml() if driver.acts else None
    return driver if nvml is None else GpuGuard(driver, nvml.holders, ProcFs(), clock)


def make_driver(
    config: Config, one: ServerConfig, clock: Clock, *, version: Callable[[], str | None] = lambda: None
) -> Driver:
    """The driver of a managed server, as configured. Nothing is asked or started here."""
    assert one.driver is not None
    name, driver, launch = ServerName(one.name), one.driver, config.data_dir / "launch"
    engine = one.engine if one.engine is not Engine.UNKNOWN else Engine.VLLM
    if driver.unit is not None:
        systemctl, unit = Systemctl(), UnitOptions(unit=driver.unit, folder=launch.resolve(), port=_port(one))
        of_unit = UnitLauncher(engine, UnitReader(unit, systemctl), version=version, clock=clock, target=target_of)
        if driver.kind is DriverKind.DRY_RUN:
            return DryRunDriver(name, of_unit)
        return SystemdDriver(name, engine, of_unit, unit, clock, systemctl)
    environ = environ_for_servers(os.environ)
    launcher = CommandLauncher(
        engine, driver.command, version=version, environ=driver.env,
        target=lambda command: target_of(command, {**environ, **driver.env}),
    )  # fmt: skip
    if driver.kind is DriverKind.DRY_RUN:
        return DryRunDriver(name, launcher)
    if driver.kind is DriverKind.COMMAND:
        commands = Commands(
            start=driver.start, stop=driver.stop, status=driver.status, kill=driver.kill, log=driver.log,
            state_folder=launch, log_folder=config.data_dir / "logs", environ=environ, cwd=driver.cwd, port=_port(one),
        )  # fmt: skip
        return CommandDriver(name, launcher, commands, clock)
    options = ProcessOptions(
        state_folder=launch, log_folder=config.data_dir / "logs", environ=environ, cwd=driver.cwd, port=_port(one),
        log_size_limit=driver.log_size_limit,
    )  # fmt: skip
    return ProcessDriver(name, launcher, options, clock)


def _balancer(one: ServerConfig, name: ServerName, polls: Polls) -> Balancer:
    if one.drain is None:
        return NoBalancer()
    if one.drain.polled:
        return PolledBalancer(name, polls, one.drain.polls)
    return HookBalancer(name, one.drain.out, one.drain.back, environ_for_servers(os.environ))


def _port(one: ServerConfig) -> int | None:
    parts = urlsplit(one.url)
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def environ_for_servers(environ: Mapping[str, str]) -> dict[str, str]:
    """The daemon's environment without its own settings, which may hold secrets that no server needs."""
    return {name: value for name, value in environ.items() if not name.startswith("ACCEPTD_")}


def stop_all(config: Config, clock: Clock, *, patience_seconds: float = 10.0) -> None:
    """Stop every managed server and wait until all are gone, by force at the end (for the demo, which owns its own)."""
    drivers = [make_driver(config, one, clock) for one in config.servers if one.driver is not None]
    for driver in drivers:
        driver.stop()
    deadline = clock.monotonic() + patience_seconds
    while any(not driver.status().is_gone for driver in drivers):
        if clock.monotonic() > deadline:
            for driver in drivers:
                driver.stop(force=True)
            return
        clock.sleep(0.1)
