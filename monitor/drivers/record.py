"""The state file of one server: what was started, written so that it survives our death and the machine's.

It owns the file, not what follows from it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from monitor.errors import ActionError
from monitor.model.life import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """One start. `pid` is None between the intention and the birth of the process (a death in between leaves it so).

    Where others hold the process (systemd, an operator's commands), `instance` names the run that this start became,
    `before` the run that was there when it was asked for, and `restarts` how often it was started again since. A run
    that someone else began has no token, and no setting where nobody knows it.
    """

    token: str
    setting: Setting | None
    command_hash: str
    boot_id: str
    asked_at: datetime
    pid: int | None = None
    start_ticks: int | None = None
    stop_asked: bool = False
    exit_code: int | None = None
    instance: str = ""
    before: str = ""
    restarts: int = 0


class StateFile:
    """Reads and writes the record of one server; `folder` is made when first needed."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.json"
        self._lock = folder / f"{name}.lock"

    def read(self) -> StartRecord | None:
        """The last start; None where there was none.

        Raises ActionError where the file cannot be read as one: better to stand still than to start a second server.
        """
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ActionError(f"{self._path}: cannot be read ({error.strerror})", reason="state_file") from error
        try:
            return _from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ActionError(
                f"{self._path}: found {text[:60]!r}, expected the record of a start; remove the file once no server "
                "process is left",
                reason="state_file",
            ) from error

    def write(self, record: StartRecord) -> None:
        """Replace the record durably: whole before or after, never half. Raises ActionError where the disk refuses."""
        try:
            write_durably(self._path, json.dumps(_to_json(record), indent=1).encode())
        except OSError as error:
            raise ActionError(
                f"{self._path}: cannot be written ({error.strerror})", reason="state_file", retryable=True
            ) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the server's lock, so that no two processes start or stop it at once; freed by the kernel if we die.

        Raises ActionError (retryable) where another process holds it.
        """
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ActionError(
                    f"{self._lock}: another acceptd process is acting on this server", reason="locked", retryable=True
                ) from error
            yield
        finally:
            os.close(handle)


def write_durably(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write `data` to `path` so that after a crash the old or the new content is there, whole. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            # Whatever the umask: readers of the file are what the mode says.
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _to_json(record: StartRecord) -> dict[str, Any]:
    return asdict(record) | {"asked_at": record.asked_at.isoformat()}


def _from_json(data: dict[str, Any]) -> StartRecord:
    return StartRecord(
        **{**data, "setting": _setting(data["setting"]), "asked_at": datetime.fromisoformat(data["asked_at"])}
    )


def _setting(data: dict[str, Any] | None) -> Setting | None:
    if data is None:
        return None
    return Setting(**{**data, "schedule": tuple((a, b, c) for a, b, c in data.get("schedule", ()))})
