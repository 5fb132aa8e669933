"""The status page of one daemon, on what it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import urlsplit

from monitor.app.desk import DaemonDesk, may_write
from monitor.app.fleet_view import FleetView
from monitor.app.heart import Heart
from monitor.app.reach import Reach
from monitor.app.reports import Reports
from monitor.app.servers import WatchedServers
from monitor.app.view import DaemonView
from monitor.clock import Clock
from monitor.config.load import secret
from monitor.config.model import Config
from monitor.cycle.slos import SloKeeper
from monitor.model.record import EVERYTHING, group_scope, server_scope
from monitor.model.server import ServerName
from monitor.report.overview import Known
from monitor.store import Store
from monitor.telemetry import Telemetry
from monitor.web.pages import make_app
from monitor.web.server import WebServer


def make_page(
    config: Config, watched: WatchedServers, *, store: Store, telemetry: Telemetry, clock: Clock, heart: Heart,
    reports: Reports, slos: SloKeeper, tried_all: Callable[[], bool], reach: Reach | None,
    known: Callable[[], Mapping[ServerName, Known] | None],
) -> WebServer:
    """The web server, not yet started. Raises ConfigError where the token's file cannot be read."""
    view = (DaemonView if reach is None else partial(FleetView, reach.neighbours))(
        store, telemetry, watched.groups, watched.all, clock, heart, tried_all=tried_all, report_file=reports.file,
        live_report=reports.live, slos=lambda: slos.statuses, courses=slos.courses, known=known,
        refused=watched.polls.refused,
    )
    scopes = [EVERYTHING, *(group_scope(group.name) for group in watched.groups)]
    scopes += [server_scope(name) for name in watched.by_name]
    errands = reach.errands if reach is not None else None
    desk = DaemonDesk(store, scopes, clock, watched.groups, errands=errands)
    host = urlsplit(f"//{config.web.listen}").hostname or ""
    names = frozenset({"localhost", "127.0.0.1", "[::1]", host})
    app = make_app(
        view, desk, token=secret(config.web, "token"), hosts=names, simulated=config.simulated,
        target=config.report.target_acceptance, actions=config.web.actions,
        permits=lambda uid: may_write(config.data_dir / "local.db", uid),
    )
    return WebServer(app, config.web.listen, or_any_port=config.simulated)
