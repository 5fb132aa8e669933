"""Keeping traffic away from a server and sending it back. It owns no waiting: draining is the machine's business."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from monitor.errors import ActionError
from monitor.model.server import ServerName


class Balancer(Protocol):
    """Takes one server out of the traffic and puts it back; both may be asked for again and again."""

    @property
    def has_control(self) -> bool:
        """Whether taking out keeps new requests away; without it a server can only be waited for."""
        ...

    def take_out(self) -> None:
        """Keep new requests away. Raises ActionError where that failed."""
        ...

    def is_out(self) -> bool:
        """Whether new requests are known to be kept away since `take_out`; True where nobody can know more."""
        ...

    def put_back(self) -> None:
        """Send requests again. Raises ActionError where that failed."""
        ...


class NoBalancer:
    """Nothing stands before the server: its clients talk to it directly."""

    has_control = False

    def take_out(self) -> None:
        """Nothing to tell anyone."""

    def is_out(self) -> bool:
        """True: there is nothing to wait for."""
        return True

    def put_back(self) -> None:
        """Nothing to tell anyone."""


class Polls:
    """How often the readiness endpoint told somebody to send a server nothing. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: Counter[ServerName] = Counter()

    def refused(self, server: ServerName) -> None:
        """The endpoint said 503 for `server`."""
        with self._lock:
            self._refused[server] += 1

    def count(self, server: ServerName) -> int:
        """How often it did since we began."""
        with self._lock:
            return self._refused[server]


class PolledBalancer:
    """A balancer that asks acceptd's own readiness endpoint, which answers from the stored change.

    It has heard of a server that is taken out once it was refused as often as it needs to believe it.
    """

    has_control = True

    def __init__(self, server: ServerName, polls: Polls, needed: int) -> None:
        """`needed`: refusals in a row after which the balancer sends nothing (HAProxy: `fall`)."""
        self._server = server
        self._polls = polls
        self._needed = needed
        self._since: int | None = None

    def take_out(self) -> None:
        """Begin to count: the endpoint says 503 as soon as the change is stored."""
        if self._since is None:
            self._since = self._polls.count(self._server)

    def is_out(self) -> bool:
        """Whether it was refused often enough since it was to be taken out."""
        return self._since is not None and self._polls.count(self._server) - self._since >= self._needed

    def put_back(self) -> None:
        """Nothing to tell: the endpoint says 200 again as soon as that is stored."""
        self._since = None


class HookBalancer:
    """Commands of the operator's; argument lists, never a shell."""

    has_control = True

    def __init__(
        self,
        server: ServerName,
        out: Sequence[str],
        back: Sequence[str],
        environ: Mapping[str, str],
        *,
        timeout_seconds: float = 20.0,
    ) -> None:
        self._server = server
        self._out = tuple(out)
        self._back = tuple(back)
        self._environ = dict(environ)
        self._timeout = timeout_seconds

    def take_out(self) -> None:
        """Run the `out` command; it must exit with 0 in time."""
        self._run(self._out)

    def is_out(self) -> bool:
        """True: its command said so when it ended with 0."""
        return True

    def put_back(self) -> None:
        """Run the `back` command; it must exit with 0 in time."""
        self._run(self._back)

    def _run(self, argv: tuple[str, ...]) -> None:
        try:
            done = subprocess.run(
                argv,
                env={**self._environ, "ACCEPTD_DRAIN_SERVER": self._server},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self._timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ActionError(
                f"{self._server}: {argv[0]} did not end within {self._timeout:g} s", reason="hook", retryable=True
            ) from error
        except OSError as error:
            raise ActionError(f"{self._server}: {argv[0]} cannot be run ({error.strerror})", reason="hook") from error
        if done.returncode != 0:
            said = done.stdout.decode(errors="replace").strip().splitlines()
            raise ActionError(
                f"{self._server}: {argv[0]} ended with {done.returncode}" + (f": {said[-1][:200]}" if said else ""),
                reason="hook",
                retryable=True,
            )
