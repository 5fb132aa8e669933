"""Driver `dry_run`: says what it would do and touches nothing. It owns no process."""

from __future__ import annotations

import logging

from monitor.drivers.protocol import Check, DriverStatus, Launcher, ServerState
from monitor.model.life import Setting
from monitor.model.server import ServerName

logger = logging.getLogger(__name__)


class DryRunDriver:
    """Takes the server as running with the operator's own setting, whoever runs it; records every request."""

    kind = "dry_run"
    acts = False

    def __init__(self, name: ServerName, launcher: Launcher) -> None:
        self._name = name
        self._launcher = launcher
        self._said: list[str] = []

    @property
    def launcher(self) -> Launcher:
        """What renders the server's command line."""
        return self._launcher

    @property
    def said(self) -> tuple[str, ...]:
        """What was asked of it so far, in words."""
        return tuple(self._said)

    def status(self) -> DriverStatus:
        """As if the server ran with the operator's command."""
        return DriverStatus(
            state=ServerState.RUNNING,
            process="not looked at (dry run)",
            setting=self._launcher.base_setting,
            command_hash=self._launcher.base_hash,
        )

    def start(self, setting: Setting, token: str) -> None:
        """Say what would be started. Raises LaunchError where the command line cannot be rendered."""
        self._launcher.render(setting)
        changes = "; ".join(self._launcher.diff(self._launcher.base_setting, setting)) or "no difference"
        self._say(f"would start {self._name} with {setting.describe()} ({changes})")

    def stop(self, *, force: bool = False) -> None:
        """Say that the server would be stopped."""
        self._say(f"would {'kill' if force else 'stop'} {self._name}")

    def log_tail(self, lines: int = 40) -> str:
        """Empty: no log is kept."""
        return ""

    def checks(self) -> tuple[Check, ...]:
        """None: it starts nothing."""
        return ()

    def _say(self, sentence: str) -> None:
        self._said.append(sentence)
        logger.info("dry run: %s server=%s", sentence, self._name)
