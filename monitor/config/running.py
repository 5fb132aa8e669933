"""What a daemon leaves in its data folder for the command line: servers, groups, its address. No secrets."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from monitor.clock import Clock
from monitor.errors import FatalError, MonitorError
from monitor.model.maintenance import Window
from monitor.model.server import ActionLimits, Engine, Group, GroupName, Mode, Server, ServerName

_FILE = "running.json"
_LOCK = "acceptd.lock"
#: The command line holds the lock for an instant when it looks whether a daemon runs.
_LOCK_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The daemon that runs on a data folder, or the last one that did."""

    pid: int
    version: str
    started_at: datetime
    host: str
    listen: str
    simulated: bool
    servers: tuple[Server, ...]
    groups: tuple[Group, ...]
    rules: Mapping[str, str] = field(default_factory=dict)
    #: The section `rules` as it was when the daemon started, paths absolute; and the SLO files.
    rule_settings: Mapping[str, Any] = field(default_factory=dict)
    slo_files: tuple[str, ...] = ()
    report_target: float = 0.6
    config_file: str | None = None
    #: Whether it shares a database with other hosts.
    shared: bool = False


def write_running(folder: Path, running: Running) -> None:
    """Leave `running` in the folder, whole or not at all."""
    data = asdict(running)
    data["started_at"] = running.started_at.isoformat()
    partial = folder / f"{_FILE}.part"
    partial.write_text(json.dumps(data, indent=1))
    partial.replace(folder / _FILE)


def read_running(folder: Path) -> Running:
    """What the daemon of this folder left. Raises MonitorError where none ever ran there."""
    try:
        data: dict[str, Any] = json.loads((folder / _FILE).read_text())
        data["started_at"] = datetime.fromisoformat(data["started_at"])
        data["servers"] = tuple(_server(entry) for entry in data["servers"])
        data["groups"] = tuple(_group(entry) for entry in data["groups"])
        data["slo_files"] = tuple(data.get("slo_files", ()))
        return Running(**{key: value for key, value in data.items() if key in Running.__dataclass_fields__})
    except FileNotFoundError:
        raise MonitorError(f"{folder}: no acceptd has run here (start one with `acceptd run`)") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MonitorError(f"{folder / _FILE}: cannot be read ({error}); `acceptd run` writes it anew") from error


def _server(entry: dict[str, Any]) -> Server:
    entry = {key: value for key, value in entry.items() if key in Server.__dataclass_fields__}
    names = {"name": ServerName(entry["name"]), "group": GroupName(entry["group"])}
    return Server(**{**entry, **names, "engine": Engine(entry["engine"])})


def _group(entry: dict[str, Any]) -> Group:
    limits = {key: value for key, value in entry["limits"].items() if key in ActionLimits.__dataclass_fields__}
    limits["maintenance"] = tuple(Window(**window) for window in limits.get("maintenance", ()))
    limits["never"] = tuple(limits.get("never", ()))
    return Group(
        name=GroupName(entry["name"]),
        servers=tuple(ServerName(name) for name in entry["servers"]),
        mode=Mode(entry["mode"]),
        limits=ActionLimits(**limits),
    )


class FolderLock:
    """The right to be the one daemon of a data folder; the kernel frees it when the process dies, however it dies."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / _LOCK
        self._clock = clock
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises FatalError where another process holds it."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise FatalError(f"data_dir {self._path.parent}: cannot be written ({error.strerror})") from error
        for attempt in range(_LOCK_ATTEMPTS):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if attempt < _LOCK_ATTEMPTS - 1:
                    self._clock.sleep(0.1)
                continue
            self._handle = handle
            return
        os.close(handle)
        raise FatalError(f"another acceptd already runs on {self._path.parent}")

    def release(self) -> None:
        """Give the lock back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_running(folder: Path) -> bool:
    """Whether a daemon holds the folder now."""
    try:
        handle = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
