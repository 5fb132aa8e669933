"""Asks one source which servers there are, now. It keeps nothing of what was found; `sources.py` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from monitor.clock import Clock
from monitor.config.fleet import credentials
from monitor.config.sources import HttpSd, PrometheusSource, Source
from monitor.scrape.api_pages import UP
from monitor.scrape.client import ServerClient
from monitor.scrape.prometheus_api import PrometheusApi, selector_of
from monitor.targets.local import LocalServer, find_servers
from monitor.targets.service_discovery import REFRESH_HEADER, SIZE_LIMIT, Found, read_answer, read_files
from monitor.watchdog import Watchdog

#: Longest wait for a list (seconds).
DEADLINE_SECONDS = 10.0
#: Largest answer of a store's API (bytes): a day of one server, or half an hour of fifty, several times over.
_API_SIZE_LIMIT = 256 * 1024**2

Local = Callable[[], Iterable[LocalServer]]


class Lookup:
    """Asks the source; a connection is kept from one time to the next."""

    def __init__(self, source: Source, watchdog: Watchdog, clock: Clock, local: Local = find_servers) -> None:
        """`local` finds the servers of this host."""
        self._source = source
        self._watchdog = watchdog
        self._clock = clock
        self._local = local
        self._client: ServerClient | None = None

    def ask(self, known: Iterable[Found] = ()) -> tuple[Found, ...]:
        """The servers that it lists; `known` are the last ones. Raises MonitorError where they cannot be had."""
        source = self._source
        if source.file_sd is not None:
            return read_files(source.file_sd.files)
        if source.http_sd is not None:
            return self._list(source.http_sd)
        if source.prometheus is not None:
            return self._targets(source.prometheus, known)
        return tuple(Found(server.base_url.removeprefix("http://")) for server in self._local())

    def close(self) -> None:
        """Close its connection."""
        if self._client is not None:
            self._client.close()

    def _list(self, settings: HttpSd) -> tuple[Found, ...]:
        if self._client is None:
            headers = {REFRESH_HEADER: f"{self._source.refresh:g}"}
            self._client = ServerClient(self._watchdog, credentials(settings), size_limit=SIZE_LIMIT, headers=headers)
        answer = self._client.get(settings.url, deadline_seconds=DEADLINE_SECONDS, accept="application/json")
        return read_answer(settings.url, answer.status, answer.content_type, answer.body)

    def _targets(self, settings: PrometheusSource, known: Iterable[Found]) -> tuple[Found, ...]:
        """Targets that the store scrapes now, by their `up`."""
        if self._client is None:
            self._client = api_client(settings, self._watchdog)
        api = PrometheusApi(self._client, settings.url, deadline_seconds=DEADLINE_SECONDS)
        found: dict[str, dict[str, str]] = {}
        for one in api.newest(selector_of(UP, settings.selector), self._clock.now()):
            labels = {name: value for name, value in one.labels.items() if name != "__name__"}
            address = labels.pop(settings.instance_label, "")
            if address:
                found.setdefault(address, labels)
        if api.is_partial:
            # Those of a store behind it that did not answer have not gone.
            for last in known:
                found.setdefault(last.address, dict(last.labels))
        return tuple(Found(address, found[address]) for address in sorted(found))


def api_client(settings: PrometheusSource, watchdog: Watchdog) -> ServerClient:
    """A client of a store's API."""
    return ServerClient(watchdog, credentials(settings), size_limit=_API_SIZE_LIMIT, headers=settings.headers)
