"""Looks for servers in the background, and says when there are others than before.

What was found last is kept in the data folder: while a source is away, also across our restart, its servers stay.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from monitor.app.lookup import DEADLINE_SECONDS, Local, Lookup
from monitor.clock import Clock
from monitor.config.sources import Source
from monitor.errors import MonitorError
from monitor.model.document import shown
from monitor.targets.local import find_servers
from monitor.targets.service_discovery import Found, changed_at
from monitor.watchdog import Watchdog

log = logging.getLogger(__name__)

FILE = "sources.json"
#: A store that answers again knows no target until it has scraped it: what it lacks stays for so long (seconds).
_SCRAPING_SECONDS = 120.0
#: How often files are looked at (seconds).
_GLANCE_SECONDS = 2.0

#: Entries of the file that are no servers and are named; the rest is counted.
_NAMED = 5

FoundServers = Mapping[str, tuple[Found, ...]]


@dataclass(slots=True)
class _State:
    """One source between two looks."""

    source: Source
    lookup: Lookup
    found: tuple[Found, ...] | None = None
    due: float = 0.0
    marks: object = None
    trouble: str = ""
    answers_since: float | None = None


class Sources:
    """The sources of one configuration. `changed` is called, from its thread, when servers came or went."""

    def __init__(
        self, sources: Sequence[Source], folder: Path, clock: Clock, changed: Callable[[], None], *,
        glance_seconds: float = _GLANCE_SECONDS, local: Local = find_servers,
    ) -> None:
        """`glance_seconds`: time between two looks at files; `local` finds the servers of this host."""
        self._glance = glance_seconds
        self._file = folder / FILE
        self._clock = clock
        self._changed = changed
        self._watchdog = Watchdog(clock)
        self._states = [_State(source, Lookup(source, self._watchdog, clock, local)) for source in sources]
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
            self._thread.join(DEADLINE_SECONDS + 5.0)
            self._thread = None
            self._watchdog.stop()
        for state in self._states:
            state.lookup.close()

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
            found = state.lookup.ask(state.found or ())
        except MonitorError as error:
            if str(error) != state.trouble:
                log.error("servers of a source cannot be found, the last ones stay source=%s: %s", source.name, error)
            state.trouble = str(error)
            return
        if state.trouble:
            log.info("source answers again source=%s", source.name)
            state.answers_since = self._clock.monotonic()
        state.trouble = ""
        if source.prometheus is not None and self._has_just_come_back(state):
            there = {one.address for one in found}
            found += tuple(one for one in state.found or () if one.address not in there)
        with self._lock:
            state.found = found

    def _has_just_come_back(self, state: _State) -> bool:
        since = state.answers_since
        return since is not None and self._clock.monotonic() - since < _SCRAPING_SECONDS

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


def _read(file: Path) -> dict[str, tuple[Found, ...]]:
    try:
        tree = json.loads(file.read_text())
        return {name: _kept(name, entries) for name, entries in tree.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        log.warning("servers found earlier cannot be read: %s", error)
        return {}


def _kept(source: str, entries: object) -> tuple[Found, ...]:
    """The servers of one source as `_keep` wrote them; what is none is left out, named and counted.

    Addresses are not judged: a store's label may hold `gpu-1/vllm-0`, and what serves as a server while its source
    answers serves after a restart too. The configuration names those that do not (`with_found`).
    """
    found, bad = [], []
    for one in entries if isinstance(entries, list) else [entries]:
        match one:
            case {"targets": [str(address)], "labels": dict(labels)} if all(map(_is_text, labels.values())):
                found.append(Found(address, labels))
            case _:
                bad.append(shown(json.dumps(one)))
    if bad:
        log.warning("servers found earlier are left out source=%s count=%d of=%d: %s", source, len(bad),
                    len(bad) + len(found), "; ".join(bad[:_NAMED]))
    return tuple(found)


def _is_text(value: object) -> bool:
    return isinstance(value, str)
