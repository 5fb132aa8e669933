"""What every driver can do, and what it says of its server. It owns no process.

No call waits: `start` and `stop` ask for something and return, `status` tells how far it is. Deadlines belong to the
caller, which writes them down before it asks, so that they survive its death.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from monitor.errors import ActionError
from monitor.launch import ParsedCommand
from monitor.model.life import Setting


class ServerState(StrEnum):
    """What is there of a managed server."""

    #: Its main process runs.
    RUNNING = "running"
    #: Nothing of it is there and none is expected: never started by us, or stopped on request.
    STOPPED = "stopped"
    #: It was started and went away without being asked to.
    EXITED = "exited"
    #: Its main process is gone, but processes that belong to it are left (an orphaned engine holds GPU memory).
    LEFTOVERS = "leftovers"
    #: Nothing of ours runs, but a process that we did not start holds its port.
    FOREIGN = "foreign"


class PortOwner(StrEnum):
    """Who listens on the server's port."""

    OURS = "ours"
    OTHER = "other"
    NOBODY = "nobody"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatus:
    """A managed server as its driver sees it now.

    `process` names the main process so that no other can be mistaken for it (pid and kernel start time); empty where
    there is none. `token` is what `start` was last called with. `exit_code` is negative for a signal, None where it
    cannot be known (the server outlived the daemon that was its parent). `note` adds what only this driver knows.
    """

    state: ServerState
    process: str = ""
    pid: int | None = None
    started_at: datetime | None = None
    setting: Setting | None = None
    token: str = ""
    command_hash: str = ""
    exit_code: int | None = None
    stop_asked: bool = False
    leftovers: tuple[str, ...] = ()
    port_owner: PortOwner = PortOwner.UNKNOWN
    note: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the server is left, so that it may be started."""
        return self.state in (ServerState.STOPPED, ServerState.EXITED)

    def require_gone(self, name: str) -> None:
        """Raises ActionError, which may be retried, where something of the server `name` is in the way of a start."""
        if self.state is ServerState.RUNNING:
            raise ActionError(f"{name}: already {self.describe()}", reason="running", retryable=True)
        if not self.is_gone:
            raise ActionError(f"{name}: not started, {self.describe()}", reason="in_the_way", retryable=True)

    def describe(self) -> str:
        """The state in words for people."""
        return f"{self._state()} ({self.note})" if self.note else self._state()

    def _state(self) -> str:
        if self.state is ServerState.RUNNING:
            return f"runs as {self.process}"
        if self.state is ServerState.LEFTOVERS:
            return "left processes behind: " + ", ".join(self.leftovers)
        if self.state is ServerState.FOREIGN:
            return "its port is held by a process that acceptd did not start"
        if self.state is ServerState.EXITED:
            return f"exited ({describe_exit(self.exit_code)})"
        return "is stopped"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at before anything is touched: fine, not fine, or (None) impossible to tell.

    `is_awaited` marks one whose answer takes its time: ask again.
    """

    name: str
    ok: bool | None
    sentence: str
    is_awaited: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command line as it would be started; `env` holds only what is added for the engine."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Launcher(Protocol):
    """Turns a setting into the command line of one server: the operator's base command with speculation replaced."""

    @property
    def base_hash(self) -> str:
        """Hash of the operator's base command; another one means that the operator edited it."""
        ...

    @property
    def base_setting(self) -> Setting:
        """The speculation setting that the operator wrote."""
        ...

    @property
    def parsed(self) -> ParsedCommand:
        """What the operator's command says."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """What the operator adds to the server's environment."""
        ...

    def version(self) -> str | None:
        """The engine's version; None where nobody knows it. The server may be asked."""
        ...

    def render(self, setting: Setting) -> Command:
        """The command for `setting`. Raises LaunchError where the engine's version cannot do it."""
        ...

    def diff(self, old: Setting, new: Setting) -> tuple[str, ...]:
        """What changes on the command line, one line an argument, secrets redacted."""
        ...

    def redact(self, text: str) -> str:
        """`text` without the secrets that are in the command line or its environment."""
        ...


class Driver(Protocol):
    """Starts, stops and looks at one managed server."""

    @property
    def kind(self) -> str:
        """Its name in config and records: `process`, `systemd`, `command`, `dry_run`."""
        ...

    @property
    def acts(self) -> bool:
        """Whether it touches anything; False for the dry run."""
        ...

    @property
    def launcher(self) -> Launcher:
        """What renders the server's command line."""
        ...

    def status(self) -> DriverStatus:
        """What is there of the server now. Raises ActionError where that cannot be told."""
        ...

    def start(self, setting: Setting, token: str) -> None:
        """Start the server with `setting`; `token` marks this start, so that it is known again after our death.

        Refused (ActionError, retryable) while anything of the old server is left; ActionError that is not retryable,
        or LaunchError, where the same start must fail again.
        """
        ...

    def stop(self, *, force: bool = False) -> None:
        """Ask the server to end (SIGTERM, once a process), or end it and all that belongs to it now (`force`)."""
        ...

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log, secrets redacted; empty where there is none."""
        ...

    def checks(self) -> tuple[Check, ...]:
        """What must be in place so that `start` can work (files writable, program or unit there); touches nothing."""
        ...


def describe_exit(code: int | None) -> str:
    """An exit code in words: `exit code 1`, `signal 9`, `exit code unknown`."""
    if code is None:
        return "exit code unknown"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
