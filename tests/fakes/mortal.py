"""A daemon that dies at a chosen moment: before or after any write to the store and any act on a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from monitor.drivers.protocol import Check, DriverStatus
from monitor.model.life import Setting
from monitor.store.api import Store, Unit
from tests.fakes.fake_launcher import FakeLauncher
from tests.fakes.fake_server import FakeBalancer, FakeDriver


class Died(BaseException):
    """The daemon is gone; not an Exception, since nothing in it may catch its own death."""


class Reaper:
    """Counts the moments a daemon passes and ends it at the chosen ones (numbers from 0)."""

    def __init__(self, *fatal: int) -> None:
        self.fatal = set(fatal)
        self.passed: list[str] = []

    def __call__(self, moment: str) -> None:
        number = len(self.passed)
        self.passed.append(moment)
        if number in self.fatal:
            raise Died(moment)


class MortalStore:
    """A store whose user may die before a commit (nothing is stored) or after it."""

    def __init__(self, inner: Store, reap: Callable[[str], None]) -> None:
        self._inner = inner
        self._reap = reap

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Unit]:
        with self._inner.write(durable=durable) as unit:
            yield unit
            self._reap("before commit")
        self._reap("after commit")

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class MortalDriver:
    """A driver whose user may die before or after it acted."""

    kind = "mortal"
    acts = True

    def __init__(self, inner: FakeDriver, reap: Callable[[str], None]) -> None:
        self.inner = inner
        self._reap = reap

    @property
    def launcher(self) -> FakeLauncher:
        return self.inner.launcher

    def status(self) -> DriverStatus:
        return self.inner.status()

    def start(self, setting: Setting, token: str) -> None:
        self._reap("before start")
        self.inner.start(setting, token)
        self._reap("after start")

    def stop(self, *, force: bool = False) -> None:
        self._reap("before stop")
        self.inner.stop(force=force)
        self._reap("after stop")

    def log_tail(self, lines: int = 40) -> str:
        return self.inner.log_tail(lines)

    def checks(self) -> tuple[Check, ...]:
        return self.inner.checks()


class MortalBalancer:
    """A balancer whose user may die before or after it was told."""

    def __init__(self, inner: FakeBalancer, reap: Callable[[str], None]) -> None:
        self.inner = inner
        self._reap = reap

    @property
    def has_control(self) -> bool:
        return self.inner.has_control

    def take_out(self) -> None:
        self._reap("before take out")
        self.inner.take_out()
        self._reap("after take out")

    def is_out(self) -> bool:
        return self.inner.is_out()

    def put_back(self) -> None:
        self._reap("before put back")
        self.inner.put_back()
        self._reap("after put back")
