"""Looks for servers in the background, and says when there are others than before.

What was found last is kept in the data folder: while a source is away, also across our restart, its servers stay.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from monitor.clock import Clock
from monitor.config.fleet import credentials
from monitor.config.sources import PrometheusSource, Source
from monitor.errors import MonitorError
from monitor.scrape.api_pages import UP
from monitor.scrape.client import ServerClient
from monitor.scrape.prometheus_api import PrometheusApi, selector_of
from monitor.scrape.watchdog import Watchdog
from monitor.targets.local import LocalServer, find_servers
from monitor.targets.service_discovery import (
    REFRESH_HEADER,
    SIZE_LIMIT,
    Found,
    changed_at,
    parse_groups,
    read_answer,
    read_files,
)

log = logging.getLogger(__name__)

FILE = "sources.json"
#: Longest wait for a list (seconds).
_DEADLINE_SECONDS = 10.0
#: Largest answer of a store's API (bytes): a day of one server, or half an hour of fifty, several times over.
_API_SIZE_LIMIT = 256 * 1024**2
#: How often files are looked at (seconds).
_GLANCE_SECONDS = 2.0

FoundServers = Mapping[str, tuple[Found, ...]]


@dataclass(slots=True)
class _State:
    """One source between two looks."""

    source: Source
    found: tuple[Found, ...] | None = None
    due: float = 0.0
    marks: object = None
    trouble: str = ""
    client: ServerClient | None = field(default=None, repr=False)


class Sources:
    """The sources of one configuration. `changed` is called, from its thread, when servers came or went."""

    def __init__(
        self, sources: Sequence[Source], folder: Path, clock: Clock, changed: Callable[[], None], *,
        glance_seconds: float = _GLANCE_SECONDS, local: Callable[[], Iterable[LocalServer]] = find_servers,
    ) -> None:
        """`glance_seconds`: time between two looks at files; `local` finds the servers of this host."""
        self._glance = glance_seconds
        self._local = local
        self._states = [_State(source) for source in sources]
        self._file = folder / FILE
        self._clock = clock
        self._changed = changed
        self._watchdog = Watchdog(clock)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look once, for a few seconds at most each, then go on in the background."""
        if not self._states:
            return
        self._watchdog.start()
        known = _read(self._file)
        for state in self._states:
            self._look(state)
            if state.found is None:
                state.found = known.get(state.source.name)
        self._keep()
        self._thread = threading.Thread(target=self._run, name="sources", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_DEADLINE_SECONDS + 5.0)
            self._thread = None
            self._watchdog.stop()
        for state in self._states:
            if state.client is not None:
                state.client.close()

    def found(self) -> FoundServers:
        """The servers of each source, by its name; as last seen where it is away."""
        with self._lock:
            return {state.source.name: state.found or () for state in self._states}

    def troubles(self) -> dict[str, str]:
        """Why sources could not be asked the last time, by name."""
        return {state.source.name: state.trouble for state in self._states if state.trouble}

    def _run(self) -> None:
        while not self._stop.wait(self._glance):
            before = self.found()
            for state in self._states:
                if self._is_due(state) and not self._stop.is_set():
                    self._look(state)
            if self.found() != before:
                self._keep()
                self._changed()

    def _is_due(self, state: _State) -> bool:
        if self._clock.monotonic() >= state.due:
            return True
        files = state.source.file_sd
        return files is not None and changed_at(files.files) != state.marks

    def _look(self, state: _State) -> None:
        source = state.source
        state.due = self._clock.monotonic() + source.refresh
        if source.file_sd is not None:
            state.marks = changed_at(source.file_sd.files)
        try:
            found = self._ask(state)
        except MonitorError as error:
            if str(error) != state.trouble:
                log.error("servers of a source cannot be found, the last ones stay source=%s: %s", source.name, error)
            state.trouble = str(error)
            return
        if state.trouble:
            log.info("source answers again source=%s", source.name)
        state.trouble = ""
        with self._lock:
            state.found = found

    def _ask(self, state: _State) -> tuple[Found, ...]:
        source = state.source
        if source.file_sd is not None:
            return read_files(source.file_sd.files)
        if source.http_sd is not None:
            if state.client is None:
                known = credentials(source.http_sd)
                headers = {REFRESH_HEADER: f"{source.refresh:g}"}
                state.client = ServerClient(self._watchdog, known, size_limit=SIZE_LIMIT, headers=headers)
            url = source.http_sd.url
            answer = state.client.get(url, deadline_seconds=_DEADLINE_SECONDS, accept="application/json")
            return read_answer(url, answer.status, answer.content_type, answer.body)
        if source.prometheus is not None:
            return self._targets(state, source.prometheus)
        return tuple(Found(server.base_url.removeprefix("http://")) for server in self._local())

    def _targets(self, state: _State, settings: PrometheusSource) -> tuple[Found, ...]:
        """Targets that the store scrapes now, by their `up`."""
        if state.client is None:
            state.client = api_client(settings, self._watchdog)
        api = PrometheusApi(state.client, settings.url, deadline_seconds=_DEADLINE_SECONDS)
        found: dict[str, dict[str, str]] = {}
        for one in api.newest(selector_of(UP, settings.selector), self._clock.now()):
            labels = {name: value for name, value in one.labels.items() if name != "__name__"}
            address = labels.pop(settings.instance_label, "")
            if address:
                found.setdefault(address, labels)
        if api.is_partial:
            # Those of a store behind it that did not answer have not gone.
            for known in state.found or ():
                found.setdefault(known.address, dict(known.labels))
        return tuple(Found(address, found[address]) for address in sorted(found))

    def _keep(self) -> None:
        """Write down what was found, for a start without the source."""
        tree = {
            name: [{"targets": [one.address], "labels": dict(one.labels)} for one in found]
            for name, found in self.found().items()
        }
        partial = self._file.with_suffix(".part")
        try:
            partial.write_text(json.dumps(tree))
            partial.replace(self._file)
        except OSError as error:
            log.warning("found servers not written down: %s", error.strerror)


def api_client(settings: PrometheusSource, watchdog: Watchdog) -> ServerClient:
    """A client of a store's API."""
    return ServerClient(watchdog, credentials(settings), size_limit=_API_SIZE_LIMIT, headers=settings.headers)


def _read(file: Path) -> dict[str, tuple[Found, ...]]:
    try:
        tree = json.loads(file.read_text())
        return {str(name): tuple(parse_groups(groups, str(file))) for name, groups in tree.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, MonitorError) as error:
        log.warning("servers found earlier cannot be read: %s", error)
        return {}
