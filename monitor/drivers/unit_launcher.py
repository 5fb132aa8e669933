"""Renders settings for a server that is a systemd unit: the same command, and the words that its launch file holds.

It writes nothing. The unit is read again after a few seconds, so that an operator's edit is seen at the next look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.drivers.launcher import CommandLauncher
from monitor.drivers.protocol import Command
from monitor.drivers.unit_command import UnitCommand
from monitor.errors import ActionError, LaunchError
from monitor.launch import ParsedCommand, Target, parse_command
from monitor.model.life import Setting
from monitor.model.server import Engine

#: How long what was read of a unit counts (seconds).
_FRESH_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class _Known:
    """The unit's command as last read, and its renderer."""

    command: UnitCommand
    launcher: CommandLauncher
    at: float


class UnitLauncher:
    """Renders one unit's command for its engine's version. `read` asks systemd for the command; raises ActionError."""

    def __init__(
        self, engine: Engine, read: Callable[[], UnitCommand], *, version: Callable[[], str | None], clock: Clock,
        target: Callable[[ParsedCommand, Mapping[str, str]], Target] | None = None,
    ) -> None:
        """`target` looks at the models of a command with the unit's variables."""
        self._look = target
        self._engine = engine
        self._read = read
        self._version = version
        self._clock = clock
        self._known: _Known | None = None

    @property
    def base_hash(self) -> str:
        """Hash of the operator's command and of the unit's variables. Raises ActionError where it was never read."""
        return self._now().launcher.base_hash

    @property
    def base_setting(self) -> Setting:
        """The speculation setting that the operator wrote; off where the command asks for none."""
        return self._now().launcher.base_setting

    @property
    def parsed(self) -> ParsedCommand:
        """What the operator's command says."""
        return self._now().launcher.parsed

    @property
    def environ(self) -> Mapping[str, str]:
        """The unit's variables, as far as they can be read."""
        return self._now().launcher.environ

    @property
    def command(self) -> UnitCommand:
        """The unit's command as it stands now."""
        return self._now().command

    def version(self) -> str | None:
        """The engine's version as configured, else as the server says."""
        return self._version()

    def render(self, setting: Setting) -> Command:
        """The command for `setting`. Raises LaunchError where version or unit cannot do it."""
        known = self._now()
        rendered = known.launcher.render(setting)
        if rendered.argv != known.command.argv and known.command.problems:
            raise LaunchError("; ".join(known.command.problems))
        lost = {name: value for name, value in rendered.env.items() if known.command.environ.get(name) != value}
        if lost:
            given = " ".join(f"{name}={value}" for name, value in lost.items())
            raise LaunchError(f"this setting needs {given} in the unit's environment: add it there (Environment=)")
        return rendered

    def words(self, setting: Setting) -> tuple[str, ...] | None:
        """What the launch file must hold for `setting`; None where the operator's own words are what is wanted.

        Raises LaunchError where version or unit cannot do it.
        """
        command = self.command
        rendered = self.render(setting).argv
        if rendered == command.argv:
            return None
        # What the operator gives the variable beside speculation stays: it is no business of ours.
        kept = parse_command(self._engine, command.own).base_argv if command.own else ()
        base = parse_command(self._engine, command.argv).base_argv
        if base != (*command.before, *kept, *command.after) or rendered[: len(base)] != base:
            raise LaunchError(
                "speculation flags stand outside of $ACCEPTD_SPECULATION on the command line: move them into it"
            )
        return (*kept, *rendered[len(base) :])

    def diff(self, old: Setting, new: Setting) -> tuple[str, ...]:
        """Lines of the command that change from `old` to `new`, secrets hidden."""
        return self._now().launcher.diff(old, new)

    def redact(self, text: str) -> str:
        """`text` without secrets. Raises ActionError where the command was never read."""
        return self._now().launcher.redact(text)

    def refresh(self) -> None:
        """Read the unit at the next question, however recently it was read."""
        if self._known is not None:
            self._known = _Known(self._known.command, self._known.launcher, self._clock.monotonic() - _FRESH_SECONDS)

    def _now(self) -> _Known:
        known, moment = self._known, self._clock.monotonic()
        if known is not None and moment - known.at < _FRESH_SECONDS:
            return known
        try:
            command = self._read()
        except ActionError:
            # A manager that is busy: what was read last still says what the operator wrote.
            if known is None:
                raise
            return known
        if known is None or command != known.command:
            launcher = CommandLauncher(
                self._engine, command.argv, version=self._version, environ=command.environ,
                target=self._looking(command.environ),
            )  # fmt: skip
        else:
            launcher = known.launcher
        self._known = _Known(command, launcher, moment)
        return self._known

    def _looking(self, environ: Mapping[str, str]) -> Callable[[ParsedCommand], Target] | None:
        look = self._look
        return None if look is None else lambda command: look(command, environ)
