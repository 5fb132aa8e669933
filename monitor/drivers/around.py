"""A driver around another, which passes everything on; what wraps a driver changes only what it is there for."""

from __future__ import annotations

from monitor.drivers.protocol import Check, Driver, DriverStatus, Launcher
from monitor.model.life import Setting


class DriverAround:
    """Passes every call to the inner driver. See `Driver`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    @property
    def kind(self) -> str:
        """The inner driver's kind."""
        return self._driver.kind

    @property
    def acts(self) -> bool:
        """Whether it touches anything."""
        return self._driver.acts

    @property
    def launcher(self) -> Launcher:
        """What renders the command line."""
        return self._driver.launcher

    def status(self) -> DriverStatus:
        """What is there of the server now. Raises ActionError where it cannot tell."""
        return self._driver.status()

    def start(self, setting: Setting, token: str) -> None:
        """Start the server. Raises ActionError."""
        self._driver.start(setting, token)

    def stop(self, *, force: bool = False) -> None:
        """Stop the server, or kill it. Raises ActionError."""
        self._driver.stop(force=force)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log."""
        return self._driver.log_tail(lines)

    def checks(self) -> tuple[Check, ...]:
        """What must be in place for a start."""
        return self._driver.checks()
