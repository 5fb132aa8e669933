"""A deadline for whole HTTP exchanges: shuts the socket of a request that is over time.

The timeouts of `requests` are per read, so a server that drips a byte a second never times out. One thread watches
all exchanges under way; it sleeps until the first of their deadlines, which nearly all are gone by then. `within` is
for those who ask seldom: it takes a thread for each exchange.
"""

from __future__ import annotations

import contextlib
import errno
import math
import socket
import threading
from collections.abc import Iterator
from typing import Any

import urllib3
from requests.adapters import HTTPAdapter

from monitor.clock import Clock

_current = threading.local()


class Exchange:
    """One request under way; `expired` tells the caller why its socket broke."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.expired = False
        self._socket: socket.socket | None = None

    def carry(self, sock: socket.socket | None) -> None:
        """Note the socket that carries the exchange (a redirect or a retry may bring another)."""
        self._socket = sock
        if self.expired:
            self.cut()

    def cut(self) -> None:
        """Shut the socket, so that whoever reads from it wakes up."""
        self.expired = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class Watchdog:
    """Watches exchanges and cuts those that are over their deadline."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._exchanges: set[Exchange] = set()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        #: When the thread looks again (monotonic); None while it waits to be woken.
        self._looks_at: float | None = None

    def start(self) -> None:
        """Start the watching thread."""
        self._stopping = False
        self._looks_at = None
        thread = threading.Thread(target=self._run, name="http-watchdog", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Cut what is under way and end the thread."""
        with self._wake:
            self._stopping = True
            for exchange in self._exchanges:
                exchange.cut()
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)
            self._thread = None

    @contextlib.contextmanager
    def limit(self, seconds: float) -> Iterator[Exchange]:
        """Run one exchange of this thread under a deadline of so many seconds."""
        exchange = Exchange(self._clock.monotonic() + seconds)
        _current.exchange = exchange
        with self._wake:
            self._exchanges.add(exchange)
            if self._looks_at is None or exchange.deadline < self._looks_at:
                self._looks_at = exchange.deadline
                self._wake.notify()
        try:
            yield exchange
        finally:
            _current.exchange = None
            with self._wake:
                self._exchanges.discard(exchange)

    def _run(self) -> None:
        with self._wake:
            while not self._stopping:
                now = self._clock.monotonic()
                for exchange in self._exchanges:
                    if now >= exchange.deadline:
                        exchange.cut()
                ahead = [exchange.deadline for exchange in self._exchanges if not exchange.expired]
                self._looks_at = min(ahead, default=None)
                self._wake.wait(None if self._looks_at is None else self._looks_at - now)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[Exchange]:
    """Run one exchange of this thread under a deadline of so many seconds, without a watchdog that was started.

    Raises OSError where the host has no thread left.
    """
    exchange = Exchange(math.inf)  # its timer alone cuts it
    timer = threading.Timer(seconds, exchange.cut)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, "no thread for the deadline of a request") from error
    _current.exchange = exchange
    try:
        yield exchange
    finally:
        _current.exchange = None
        timer.cancel()


def carry(sock: socket.socket | None) -> None:
    """Note the socket of this thread's exchange, if it runs one."""
    exchange: Exchange | None = getattr(_current, "exchange", None)
    if exchange is not None:
        exchange.carry(sock)


class _WatchedConnection(urllib3.connection.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        carry(self.sock)

    def getresponse(self) -> Any:
        carry(self.sock)
        return super().getresponse()


class _WatchedTlsConnection(urllib3.connection.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        carry(self.sock)

    def getresponse(self) -> Any:
        carry(self.sock)
        return super().getresponse()


class _WatchedPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _WatchedConnection


class _WatchedTlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _WatchedTlsConnection


_POOLS: dict[str, type[urllib3.HTTPConnectionPool]] = {"http": _WatchedPool, "https": _WatchedTlsPool}


class WatchedAdapter(HTTPAdapter):
    """A requests adapter whose connections tell the current exchange which socket they use."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pool manager with connections that can be cut."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        """The same through a proxy over HTTP; one over SOCKS has connections of its own kind."""
        manager = super().proxy_manager_for(proxy, **kwargs)
        if proxy.lower().startswith("http"):
            manager.pool_classes_by_scheme = _POOLS
        return manager
