"""What was measured: lives, heads, intervals, checks, newest readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from monitor.intervals.loads import Loads
from monitor.model.interval import Interval
from monitor.model.life import Head, LastReading, Life, LifeId
from monitor.model.record import Checks, Watched
from monitor.model.server import ServerName
from monitor.store.contract.values import LifeTotals, Unshipped


class Lives(Protocol):
    """Process lives of engines."""

    def add(self, life: Life) -> None:
        """Store a new life; one with a known id is refused."""

    def update(self, life: Life) -> None:
        """Replace the life of that id; an unknown id is refused."""

    def put(self, lives: Iterable[Life]) -> None:
        """Store lives, each in place of the one with its id."""

    def get(self, life: LifeId) -> Life | None:
        """The life of that id; None where there is none."""

    def open_of(self, server: ServerName) -> list[Life]:
        """Lives of `server` that have not ended, by first sight."""

    def of(self, server: ServerName | None, since: datetime, until: datetime) -> list[Life]:
        """Lives that overlap [since, until), of one server or (None) of all, by first sight."""


class Heads(Protocol):
    """Last cumulative counts of lives."""

    def get(self, life: LifeId) -> Head | None:
        """The head of that life; None where it has none yet."""

    def put(self, heads: Iterable[Head]) -> None:
        """Store each life's newest head in place of its last; the lives must be stored."""

    def remove(self, lives: Iterable[LifeId]) -> None:
        """Forget the heads of these lives: whoever goes on with them counts from its own first page."""

    def of_server(self, server: ServerName) -> dict[LifeId, Head]:
        """Heads of the server's lives that have not ended."""


class Intervals(Protocol):
    """Differences between heads; the key is (life, end)."""

    def add(self, intervals: Iterable[Interval], *, skip_known: bool = False) -> int:
        """Store intervals and give the number stored; their lives must be stored.

        A known (life, end) is refused, since its counts would be lost with the head that moves on; with `skip_known` it
        is passed over, for copying from another store.
        """

    def between(
        self,
        servers: Sequence[ServerName] | None,
        since: datetime,
        until: datetime,
        *,
        details: bool = True,
        limit: int | None = None,
    ) -> list[Interval]:
        """Intervals whose end lies in (since, until], by end, the first `limit`; of all servers where that is None.

        Without `details` arrays, maps and histograms are left out (None or empty), which is several times faster.
        """

    def of_keys(self, keys: Sequence[tuple[ServerName, LifeId, datetime]]) -> list[Interval]:
        """The intervals with these keys, those that are there, by end."""

    def between_coarse(
        self,
        servers: Sequence[ServerName] | None,
        since: datetime,
        until: datetime,
        step_seconds: int,
        *,
        details: bool = True,
    ) -> list[Interval]:
        """As `between`, but added up by life over buckets of 300, 3600 or 86,400 s: for reports and charts.

        Buckets end at whole multiples in UTC; an interval lies in the bucket of its end. Intervals with flags and
        partial ones are not mixed with the others, so a bucket may give several. What is newer than the rollups is
        added up from finer ones and the intervals while reading: call `Store.roll_up` now and then. Rollups outlive the
        intervals.
        """

    def in_parts(
        self, servers: Sequence[ServerName], since: datetime, until: datetime, origin: datetime, length: timedelta
    ) -> list[Interval]:
        """Hours (as of `between_coarse`) of (since, until] added up over parts of that length, counted from `origin`.

        An hour that is a gap stays one, however long the part.
        Made for curves of many servers. Arrays, maps and histograms are left out but for the inter-token one, which has
        one bucket: its sum and count tell the time of a step.
        """

    def by_load(
        self, servers: Sequence[ServerName], since: datetime, until: datetime, edges: Sequence[float]
    ) -> dict[ServerName, Loads]:
        """Tokens and seconds of the hours of (since, until] by load, as `monitor.intervals.loads.by_load` has them."""

    def last_end(self, server: ServerName) -> datetime | None:
        """End of the newest interval of `server`; None without any."""

    def totals(self, life: LifeId) -> LifeTotals:
        """Sums over the stored intervals of one life."""


class UnshippedRows(Protocol):
    """What a local store has and the fleet's database has not: a queue, filled with the intervals it is about."""

    def add(self, rows: Iterable[Unshipped]) -> None:
        """Put rows at the end; their numbers are given now."""

    def waiting(self) -> dict[ServerName, int]:
        """Rows of each server, in the order of their oldest ones."""

    def of(self, servers: Iterable[ServerName]) -> list[Unshipped]:
        """All rows of these servers, in order."""

    def remove(self, rows: Iterable[Unshipped]) -> None:
        """Take rows away."""

    def void(self, rows: Iterable[Unshipped]) -> None:
        """Take rows away, and the intervals that they name: another has counted what is in them."""

    def count(self) -> int:
        """Rows in the queue."""


class ChecksRows(Protocol):
    """Checks of servers, answered or not, counted in buckets of `CHECKS_SECONDS`."""

    def add(self, checks: Iterable[Checks]) -> None:
        """Add counts to what their buckets hold."""

    def between(self, servers: Sequence[ServerName] | None, since: datetime, until: datetime) -> list[Checks]:
        """Buckets whose end lies in (since, until], by end and server; of all servers where that is None."""

    def sums(self, servers: Sequence[ServerName], since: datetime, until: datetime) -> list[Checks]:
        """All buckets of (since, until] of each server as one that ends with the newest, by server."""


class WatchedServers(Protocol):
    """Servers that are watched or were."""

    def put(self, servers: Iterable[Watched]) -> None:
        """Store each in place of what was known of it."""

    def all(self, retired_since: datetime) -> list[Watched]:
        """Those that are watched, and those that were until then or later, by name."""


class Readings(Protocol):
    """The newest reading of each server."""

    def put(self, reading: LastReading) -> None:
        """Store it in place of the server's last."""

    def get(self, server: ServerName) -> LastReading | None:
        """The newest reading of `server`; None where it was never read."""

    def all(self) -> list[LastReading]:
        """The newest reading of each server, by name."""
