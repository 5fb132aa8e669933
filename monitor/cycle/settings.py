"""What a server's setting is besides its page: its process's command line, our own launch, `/server_info`, the config.

Asked once a life, in the background of the first page that shows it; a page never waits for it twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from monitor.model.life import Setting, SettingSource
from monitor.model.reading import Reading
from monitor.model.server import Server, ServerName
from monitor.targets.local import LocalServer

log = logging.getLogger(__name__)

#: Pages of one life on which a server that has not told its version is asked for it.
_ASKED = 3


@dataclass(frozen=True, slots=True)
class KnownSetting:
    """What is known of a server beside its page, each part with where it is from."""

    setting: Setting
    sources: Mapping[str, SettingSource]
    engine_version: str | None = None
    #: True until the first page after our own restart was stored.
    restarted: bool = False


@dataclass(slots=True)
class _Entry:
    key: tuple[object, ...] = ()
    known: KnownSetting | None = None
    version: str | None = None
    restarted: bool = False
    asked: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class SettingFinder:
    """Finds the setting of each life once. Safe from different threads for different servers."""

    def __init__(
        self,
        *,
        version: Callable[[ServerName], str | None],
        process: Callable[[Server], LocalServer | None],
        launched: Callable[[ServerName], Setting | None],
        configured: Mapping[ServerName, Setting],
    ) -> None:
        """`version` asks the server; `process` looks at this host; `launched` is what our driver started it with."""
        self._version = version
        self._process = process
        self._launched = launched
        self._configured = configured
        self._lock = threading.Lock()
        self._entries: dict[ServerName, _Entry] = {}

    def version(self, server: ServerName) -> str | None:
        """The engine version as last asked; None before."""
        return self._entry(server).version

    def restarted(self, server: ServerName) -> None:
        """We restarted the server: everything is asked anew, and its next page begins a new life."""
        entry = self._entry(server)
        with entry.lock:
            entry.key, entry.known, entry.restarted = (), None, True

    def restart_seen(self, server: ServerName) -> None:
        """The first page after our restart was stored."""
        entry = self._entry(server)
        with entry.lock:
            entry.restarted = False
            if entry.known is not None:
                entry.known = KnownSetting(entry.known.setting, entry.known.sources, entry.known.engine_version)

    def of(self, server: Server, reading: Reading) -> KnownSetting | None:
        """What is known of the life that `reading` shows; None where the page has no engine."""
        if not reading.engines:
            return None
        key = (reading.process_start, *sorted((e.model, e.engine, e.created or 0.0) for e in reading.engines))
        entry = self._entry(server.name)
        with entry.lock:
            if entry.known is None or entry.key != key:
                entry.asked = 0
            if entry.asked == 0 or (entry.known is not None and entry.known.engine_version is None):
                if entry.asked < _ASKED:
                    entry.known, entry.key, entry.asked = self._find(server, entry), key, entry.asked + 1
            return entry.known

    def _entry(self, server: ServerName) -> _Entry:
        with self._lock:
            return self._entries.setdefault(server, _Entry())

    def _find(self, server: Server, entry: _Entry) -> KnownSetting:
        entry.version = self._version(server.name) or entry.version
        parts: list[tuple[SettingSource, Setting]] = []
        try:
            local = self._process(server)
        except OSError as error:
            log.debug("processes cannot be looked at server=%s: %s", server.name, error)
            local = None
        if local is not None:
            parts.append((SettingSource.COMMAND_LINE, local.setting))
        launched = self._launched(server.name)
        if launched is not None:
            parts.append((SettingSource.LAUNCH_FILE, launched))
        configured = self._configured.get(server.name)
        if configured is not None:
            parts.append((SettingSource.CONFIG, configured))
        setting, sources = merge(parts)
        return KnownSetting(setting, sources, entry.version, entry.restarted)


def merge(parts: list[tuple[SettingSource, Setting]]) -> tuple[Setting, dict[str, SettingSource]]:
    """One setting from several sources, the first that knows a part giving it, and where each part is from."""
    found: dict[str, object] = {}
    sources: dict[str, SettingSource] = {}
    for source, setting in parts:
        for name in ("method", "num_speculative_tokens", "draft_model", "schedule"):
            value = getattr(setting, name)
            if value not in (None, ()) and name not in found:
                found[name] = value
                sources[name] = source
    return Setting(**found), sources  # type: ignore[arg-type]
