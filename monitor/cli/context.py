"""Where a command finds its configuration, its data folder and its store; nothing is opened before it is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.config.running import Running, is_running, read_running
from monitor.errors import ConfigError, MonitorError, Problem
from monitor.exposition.body import MAX_BODY_BYTES

if TYPE_CHECKING:
    from monitor.config.model import Config
    from monitor.store import Store
    from monitor.store.sql import SqlStore

#: Looked for in this order where no --config is given.
CONFIG_PLACES = (Path("acceptd.yaml"), Path("/etc/acceptd/acceptd.yaml"))
LOCAL_DB = "local.db"


class Absent(MonitorError):
    """What a command needs is not there (no daemon ever ran, no such server): exit code 3."""


def state_folder() -> Path:
    """Data folder of a daemon without a configuration file: `$XDG_STATE_HOME/acceptd`, `~/.local/state/acceptd`."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local/state") / "acceptd"


def demo_folder() -> Path:
    """Data folder of the demo; made anew at each start."""
    return state_folder() / "demo"


def find_config(given: Path | None) -> Path | None:
    """The configuration file to use: the one given (or in ACCEPTD_CONFIG), else the first of the usual places."""
    named = given or (Path(os.environ["ACCEPTD_CONFIG"]) if os.environ.get("ACCEPTD_CONFIG") else None)
    if named is not None:
        return named
    return next((path for path in CONFIG_PLACES if path.is_file()), None)


def file_bytes(path: Path) -> bytes:
    """What a file given to a command holds, cut one byte past the limit. Raises ConfigError naming it."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BODY_BYTES + 1)  # also of a device that never ends
    except OSError as error:
        raise ConfigError([Problem(str(path), error.strerror or "unreadable", "a readable file")]) from error


def file_text(path: Path) -> str:
    """The text that a file given to a command holds. Raises ConfigError naming it."""
    try:
        return file_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise ConfigError([Problem(str(path), f"bytes that are no text ({error.reason})", "a file in UTF-8")]) from None


@dataclass(slots=True)
class Context:
    """The options before the command's name."""

    config_path: Path | None = None
    data_dir: Path | None = None

    def config(self) -> Config:
        """The configuration, checked; defaults where there is no file."""
        # Here and below: imported by the commands that need it, since every command makes a context.
        from monitor.config.load import load

        return load(find_config(self.config_path))

    def folder(self) -> Path:
        """The data folder: the one given, the configuration's, that of a demo that runs now, or the state folder."""
        if self.data_dir is not None:
            return self.data_dir
        if find_config(self.config_path) is not None:
            return self.config().data_dir
        return demo_folder() if is_running(demo_folder()) else state_folder()

    def running(self) -> Running:
        """The daemon of the data folder, or the last one that ran there. Raises Absent."""
        folder = self.folder()
        try:
            return read_running(folder)
        except MonitorError as error:
            raise Absent(str(error)) from error

    @contextmanager
    def reading(self) -> Iterator[SqlStore]:
        """The store for reading only, daemon up or down. Raises Absent where there is none."""
        from monitor.store import open_readonly

        store = open_readonly(self._database())
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def writing(self) -> Iterator[Store]:
        """The store for a small request to the daemon. Raises Absent where there is none."""
        from monitor.store import open_store

        store = open_store(f"sqlite:///{self._database()}")
        try:
            yield store
        finally:
            store.close()

    def _database(self) -> Path:
        path = self.folder() / LOCAL_DB
        if not path.is_file():
            raise Absent(f"{path}: no history yet (start the daemon with `acceptd run`)")
        return path
