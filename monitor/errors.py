"""The error tree of acceptd. It owns what can go wrong, not how to react to it.

    MonitorError                 everything acceptd raises on purpose
    ├── ConfigError              configuration or rule file is wrong (carries every problem found)
    ├── ExpositionError          a page is not an exposition, or not whole
    ├── ScrapeError              a page could not be had
    │   ├── Unreachable          no connection, or it broke
    │   ├── ScrapeTimeout        no whole answer before the deadline
    │   ├── BadStatus            an answer, but not 200
    │   ├── TooLarge             more bytes than allowed
    │   └── NotAsked             the daemon itself lacks what it needs to ask: says nothing about the server
    ├── LaunchError              an engine version cannot do what was asked
    ├── StoreError               the database refused or is away
    ├── ActionError              a step on a server failed (says whether trying again can help)
    ├── NotifyError              a receiver refused or did not answer
    └── FatalError               the daemon cannot go on
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class MonitorError(Exception):
    """Base of every error that acceptd raises on purpose; its text is a sentence for a person."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a file: where it is, what was found there and what was expected."""

    path: str
    found: str
    expected: str
    file: str = ""

    def __str__(self) -> str:
        where = f"{self.file}: {self.path}" if self.file else self.path
        found = f"found {self.found}, " if self.found else ""
        return f"{where}: {found}expected {self.expected}"


class ConfigError(MonitorError):
    """Configuration or rules are wrong; `problems` lists every mistake that was found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ExpositionError(MonitorError):
    """The bytes are not a whole metrics page; `reason` is a word for a label, the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(text)


class ScrapeError(MonitorError):
    """A metrics page could not be had; `reason` is a low-cardinality word for metrics and logs."""

    reason = "scrape_error"


class Unreachable(ScrapeError):
    """No connection to the server, or it broke before the page was whole."""

    reason = "unreachable"


class ScrapeTimeout(ScrapeError):
    """No whole answer before the deadline of the scrape."""

    reason = "timeout"


class TooLarge(ScrapeError):
    """The page has more bytes than the configured limit."""

    reason = "too_large"


class NotAsked(ScrapeError):
    """This process is out of files or memory, so that nobody was asked: no fault of the server's."""

    reason = "not_asked"


class BadStatus(ScrapeError):
    """The server answered with a status other than 200."""

    reason = "bad_status"

    def __init__(self, text: str, status: int, *, body: bytes = b"", content_type: str = "") -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        super().__init__(text)


class LaunchError(MonitorError):
    """An engine of this version cannot be started the way that was asked for."""


class StoreError(MonitorError):
    """The database refused a request or cannot be reached."""


class ActionError(MonitorError):
    """A step on a server failed; `retryable` is False where the same step must fail again."""

    def __init__(self, text: str, *, reason: str = "failed", retryable: bool = False) -> None:
        self.reason = reason
        self.retryable = retryable
        super().__init__(text)


class NotifyError(MonitorError):
    """A receiver did not take a message; permanent ones (`retryable` False) are never sent again.

    `external_id` names a message that did arrive, where only something that belongs to it (a file) did not.
    """

    def __init__(
        self, text: str, *, reason: str, retryable: bool, retry_after_seconds: float | None = None,
        external_id: str | None = None,
    ) -> None:  # fmt: skip
        self.reason = reason
        self.retryable = retryable
        self.retry_after_seconds = retry_after_seconds
        self.external_id = external_id
        super().__init__(text)


class FatalError(MonitorError):
    """The daemon cannot go on; the only error that ends its loop."""
