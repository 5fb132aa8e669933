"""What a server's setting is besides its page: its process's command line, our own launch, its own answers, the config.

Everybody is asked once a life, at its first page; who gave no answer is asked again later, ever more rarely.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from monitor.dialects import llamacpp, sglang, vllm_v0, vllm_v1
from monitor.model.life import Said, Setting, SettingSource
from monitor.model.reading import Reading
from monitor.model.server import Engine, Server, ServerName
from monitor.targets.local import LocalServer
from monitor.targets.told import Told

log = logging.getLogger(__name__)

#: Seconds until a server that gave no answer is asked again, doubled each time up to the second number.
ASK_AGAIN_SECONDS, ASK_AGAIN_MOST = 15.0, 3600.0

_ENGINES = {
    vllm_v0.DIALECT: Engine.VLLM,
    vllm_v1.DIALECT: Engine.VLLM,
    sglang.DIALECT: Engine.SGLANG,
    llamacpp.DIALECT: Engine.LLAMACPP,
}


@dataclass(frozen=True, slots=True)
class KnownSetting:
    """What is known of a server beside its page: what each source says, most trusted first."""

    said: tuple[Said, ...] = ()
    engine_version: str | None = None
    #: True until the first page after our own restart was stored.
    restarted: bool = False


@dataclass(slots=True)
class _Entry:
    #: Start times and engines of the life that `known` is about; None where it must be asked for.
    key: tuple[object, ...] | None = None
    known: KnownSetting = KnownSetting()
    #: The newest version that the server ever told.
    version: str | None = None
    restarted: bool = False
    #: When to ask again (monotonic), and how long to wait after that; None where all have answered.
    ask_at: float | None = None
    wait_seconds: float = ASK_AGAIN_SECONDS
    lock: threading.Lock = field(default_factory=threading.Lock)


class SettingFinder:
    """Finds the setting of each life once. Safe from different threads for different servers."""

    def __init__(
        self,
        *,
        ask: Callable[[Server, Engine], Told],
        process: Callable[[Server], LocalServer | None],
        launched: Callable[[ServerName], Setting | None],
        configured: Mapping[ServerName, Setting],
    ) -> None:
        """`ask` asks the server; `process` looks at this host; `launched` is what our driver started it with."""
        self._ask = ask
        self._process = process
        self._launched = launched
        self._configured = configured
        self._lock = threading.Lock()
        self._entries: dict[ServerName, _Entry] = {}

    def version(self, server: ServerName) -> str | None:
        """The engine version as last told; None before."""
        return self._entry(server).version

    def restarted(self, server: ServerName) -> None:
        """We restarted the server: everything is asked anew, and its next page begins a new life."""
        entry = self._entry(server)
        with entry.lock:
            entry.key, entry.restarted = None, True

    def restart_seen(self, server: ServerName) -> None:
        """The first page after our restart was stored."""
        entry = self._entry(server)
        with entry.lock:
            entry.restarted = False
            entry.known = replace(entry.known, restarted=False)

    def forget(self, server: ServerName) -> None:
        """Another process answers, though no start time tells: everything is asked anew."""
        entry = self._entry(server)
        with entry.lock:
            entry.key = None

    def of(self, server: Server, reading: Reading) -> KnownSetting | None:
        """What is known of the life that `reading` shows; None where the page has no engine."""
        if not reading.engines:
            return None
        engines = sorted((engine.model, engine.engine, engine.created or 0.0) for engine in reading.engines)
        key = (reading.process_start, reading.start_mark, *engines)
        entry = self._entry(server.name)
        with entry.lock:
            is_new = entry.key != key
            if is_new:
                entry.known, entry.wait_seconds = KnownSetting(), ASK_AGAIN_SECONDS
            if is_new or (entry.ask_at is not None and reading.monotonic >= entry.ask_at):
                entry.known, entry.key = self._find(server, reading, entry), key
            return entry.known

    def _entry(self, server: ServerName) -> _Entry:
        with self._lock:
            return self._entries.setdefault(server, _Entry())

    def _find(self, server: Server, reading: Reading, entry: _Entry) -> KnownSetting:
        told = self._ask(server, _ENGINES.get(reading.dialect, server.engine))
        entry.version = told.version or entry.version
        entry.ask_at = None if told.is_whole else reading.monotonic + entry.wait_seconds
        entry.wait_seconds = min(2 * entry.wait_seconds, ASK_AGAIN_MOST)
        said: list[Said] = []
        local = self._look(server)
        if local is not None:
            said.append(local.said)
        launched = self._launched(server.name)
        if launched is not None:
            said.append(Said(source=SettingSource.LAUNCH_FILE, setting=launched))
        if told.said is not None:
            said.append(told.said)
        configured = self._configured.get(server.name)
        if configured is not None:
            said.append(Said(source=SettingSource.CONFIG, setting=configured))
        return KnownSetting(tuple(said), told.version or entry.known.engine_version, entry.restarted)

    def _look(self, server: Server) -> LocalServer | None:
        try:
            return self._process(server)
        except OSError as error:
            log.debug("processes cannot be looked at server=%s: %s", server.name, error)
            return None
