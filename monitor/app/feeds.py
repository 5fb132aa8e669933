"""Makes the feeds of a configuration: one for each Prometheus-compatible store whose targets it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from monitor.app.lookup import api_client
from monitor.clock import Clock
from monitor.config.model import Config
from monitor.cycle.feed import Feed, Pages
from monitor.dialects.wanted import name_pattern
from monitor.model.server import ServerName
from monitor.scrape.prometheus_api import PrometheusApi
from monitor.watchdog import Watchdog

#: Longest wait for one query (seconds): a day of history of one server takes a store a second or two.
_QUERY_SECONDS = 20.0


def fed_servers(config: Config) -> frozenset[ServerName]:
    """Servers whose pages come from a store."""
    return frozenset(ServerName(server.name) for server in config.servers if server.through is not None)


def silent_servers(config: Config) -> frozenset[ServerName]:
    """Servers that are not asked themselves, since only their store can reach them."""
    asked = {source.name for source in config.sources if source.prometheus and source.prometheus.ask_servers}
    return frozenset(ServerName(server.name) for server in config.servers if server.through not in (None, *asked))


def make_feeds(
    config: Config, pages: Pages, watchdog: Watchdog, clock: Clock, goes_on: Callable[[], bool]
) -> Iterator[tuple[str, Feed]]:
    """Each feed with the name of its source."""
    for source in config.sources:
        settings = source.prometheus
        instances = {
            server.instance or urlsplit(server.url).netloc: ServerName(server.name)
            for server in config.servers
            if server.through == source.name
        }
        if settings is None or not instances:
            continue
        api = PrometheusApi(api_client(settings, watchdog), settings.url, deadline_seconds=_QUERY_SECONDS)
        yield source.name, Feed(
            api, pages, instances, clock, name=source.name, pattern=name_pattern(), selector=settings.selector,
            instance_label=settings.instance_label, interval_seconds=config.scrape.interval,
            delay_seconds=settings.delay, backfill_seconds=settings.backfill, step_seconds=settings.backfill_step,
            goes_on=goes_on,
        )
