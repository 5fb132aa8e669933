"""Keeps the SLOs of a running daemon: fed by every page, read back from the store at a start, asked at each evaluation.

While it is read back (in the background) nothing is known: alerts of SLOs stay as they were, and no change begins.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.cycle.folding import fold, unfold
from monitor.cycle.objectives import SloLook
from monitor.cycle.slo_history import feed_book
from monitor.errors import StoreError
from monitor.intervals.buckets import bucket_end
from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId
from monitor.model.reading import Reading, Verdict
from monitor.model.record import CHECKS_SECONDS, Checks
from monitor.model.server import Group, GroupName, ServerName
from monitor.slo.book import SloBook, freezes
from monitor.slo.burn import SloStatus
from monitor.slo.course import Course
from monitor.slo.load import SloPolicy
from monitor.store import Store

log = logging.getLogger(__name__)

#: Least and longest pause after each server whose history was read back (seconds); between them it is as long as that
#: took. Python runs one thread at a time, and the scrapes of a large fleet came late while this one never rested.
_LEAST_REST, _LONGEST_REST = 0.03, 1.0
#: How often it is looked whether reading may begin (seconds), and how often at most: a minute in all.
_LOOK_SECONDS, _LOOKS = 0.25, 240


@dataclass(frozen=True, slots=True)
class _Page:
    """What one scrape brought."""

    server: ServerName
    at: datetime
    answered: bool
    lives: tuple[Life, ...]
    intervals: tuple[Interval, ...]
    is_changing: bool
    is_warming: bool


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A page that waits, its intervals folded: as objects those of a large fleet took 80 MB by their turn."""

    page: _Page
    folded: tuple[tuple[LifeId, bytes], ...]

    @classmethod
    def of(cls, page: _Page) -> _Waiting:
        return cls(replace(page, intervals=()), tuple((one.life, fold(one)) for one in page.intervals))

    def unfolded(self) -> _Page:
        found = tuple(unfold(folded, life, self.page.server) for life, folded in self.folded)
        return replace(self.page, intervals=found)


class SloKeeper:
    """The book of a daemon, its checks that are not stored yet, and its newest statuses. Safe from any thread."""

    def __init__(
        self, store: Store, policies: Iterable[SloPolicy], groups: Sequence[Group], *,
        answers: Callable[[ServerName], bool | None] = lambda server: None,
        monotonic: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`answers` is what a probe found beside the page: False for a stuck engine, True for one that is well.

        `monotonic`: seconds by which is told what reading back took.
        """
        self._store = store
        self._policies = tuple(policies)
        self._groups = tuple(groups)
        self._answers = answers
        self._monotonic = monotonic
        self._warmups = {s: timedelta(seconds=g.limits.warmup_seconds) for g in groups for s in g.servers}
        self._lock = threading.Lock()
        self._book = self._new_book()
        #: Pages that came while history was being read back; None once it has been.
        self._waiting: list[_Waiting] | None = []
        self._checks: dict[tuple[ServerName, datetime], tuple[int, int]] = {}
        self._changing: frozenset[ServerName] = frozenset()
        self._warm_until: dict[ServerName, datetime] = {}
        self._starting: dict[ServerName, datetime] = {}
        self._statuses: tuple[SloStatus, ...] = ()
        #: Totals of each objective when they were last told as metrics; None until history has been read back.
        self._told: list[tuple[float, float]] | None = None
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Read no further back; what is being read of one server ends."""
        self._stopping.set()

    def read_back(self, now: datetime, may_begin: Callable[[], bool] = lambda: True) -> None:
        """Read what is stored up to `now`; pages that come meanwhile are counted afterwards.

        It waits for `may_begin`, a minute at most: nothing of a large fleet should come before its first pages.
        Where the store fails, what could be read is kept: a daemon with half a memory is better than one with none.
        """
        for _ in range(_LOOKS):
            if may_begin() or self._stopping.wait(_LOOK_SECONDS):
                break
        book = self._new_book()
        try:
            feed_book(book, self._store, self._groups, now, goes_on=self._rests())
        except StoreError as error:
            log.error("history of the SLOs not read back whole: %s", error)
        # What was read back was told by those who counted it.
        told = [(good, valid) for _, _, good, valid in book.totals()]
        # Scrapes need the lock: what came until now is counted without it, what comes meanwhile is little.
        with self._lock:
            early, self._waiting = self._waiting or [], []
        for one in early:
            self._count_events(book, one.unfolded())
        with self._lock:
            late, self._waiting = self._waiting, None
            for one in late:
                self._count_events(book, one.unfolded())
            for one in (*early, *late):
                self._count_check(one.page)
            self._book, self._told = book, told
            self._statuses = book.statuses(now)

    def _rests(self) -> Callable[[ServerName], bool]:
        """Rests before each server for as long as the one before took; False where we are to stop."""
        begun = self._monotonic()

        def goes_on(server: ServerName) -> bool:
            nonlocal begun
            rest = min(max(_LEAST_REST, self._monotonic() - begun), _LONGEST_REST)
            is_stopping = self._stopping.wait(rest)
            begun = self._monotonic()
            return not is_stopping

        return goes_on

    def noted(self, reading: Reading, lives: Iterable[Life], intervals: Iterable[Interval]) -> None:
        """Count a scrape, stored before, that brought these lives and intervals."""
        server, at, lives = reading.server, reading.scraped_at, tuple(lives)
        opinion = self._answers(server)
        answered = opinion is not False if is_answer(reading) else opinion is True
        with self._lock:
            for life in lives:
                if life.counts_from_zero and life.ended is None:
                    warm = life.first_seen + self._warmups.get(server, timedelta())
                    self._warm_until[server] = max(self._warm_until.get(server, warm), warm)
            if answered or at > self._starting.get(server, at):
                self._starting.pop(server, None)
            page = _Page(
                server, at, answered, lives, tuple(intervals),
                is_changing=server in self._changing or server in self._starting,
                is_warming=at <= self._warm_until.get(server, at - timedelta(seconds=1)),
            )  # fmt: skip
            if self._waiting is not None:
                self._waiting.append(_Waiting.of(page))
                return
            self._count_events(self._book, page)
            self._count_check(page)

    def changing(self, servers: Collection[ServerName]) -> None:
        """Say which servers a change of ours has down or warming now."""
        with self._lock:
            self._changing = frozenset(servers)

    def starting(self, server: ServerName, until: datetime) -> None:
        """Say that we start a server that was down: until it answers, at most until then, it misses nothing."""
        with self._lock:
            self._starting[server] = until

    def look(self, now: datetime) -> SloLook:
        """Every SLO at `now`."""
        with self._lock:
            self._statuses = self._book.statuses(now)
            return SloLook(self._statuses, self._book.outcomes(self._statuses), self._waiting is None)

    def new_events(self) -> list[tuple[str, Mapping[str, str], float, float]]:
        """Events of each objective (SLO, scope, good, valid) since the last call; none while history is read back."""
        with self._lock:
            if self._told is None:
                return []
            totals = self._book.totals()
            found = [
                (slo, scope, good - old_good, valid - old_valid)
                for (slo, scope, good, valid), (old_good, old_valid) in zip(totals, self._told, strict=True)
            ]
            self._told = [(good, valid) for _, _, good, valid in totals]
            return found

    @property
    def statuses(self) -> tuple[SloStatus, ...] | None:
        """Every SLO as of the newest look; None while history is being read back."""
        with self._lock:
            return self._statuses if self._waiting is None else None

    def courses(self, now: datetime, group: str | None, most: int) -> tuple[Course, ...] | None:
        """How SLOs with events (of one group) have fared over their periods until `now`, least budget left first.

        None while history is being read back.
        """
        with self._lock:
            if self._waiting is not None:
                return None
            wanted = [one for one in self._statuses if group is None or group in one.groups]
            return self._book.courses([one for one in wanted if one.attainment.valid > 0][:most], now)

    def refusal(self, group: GroupName) -> str:
        """Why no change of `group` may begin, going by the newest look; empty where it may."""
        with self._lock:
            if self._waiting is not None and self._policies:
                return "the history of its SLOs is still being read"
            return freezes(self._statuses, group)

    def checks(self) -> tuple[Checks, ...]:
        """Checks counted since the last `stored`, for the store."""
        with self._lock:
            return tuple(Checks(server, end, *counts) for (server, end), counts in sorted(self._checks.items()))

    def stored(self, checks: Iterable[Checks]) -> None:
        """These have been stored."""
        with self._lock:
            for one in checks:
                answered, missed = self._checks[one.server, one.end]
                left = (answered - one.answered, missed - one.missed)
                if any(left):
                    self._checks[one.server, one.end] = left
                else:
                    del self._checks[one.server, one.end]

    def store_checks(self) -> None:
        """Store what is left, at a stop. Raises StoreError."""
        checks = self.checks()
        if checks:
            with self._store.write() as unit:
                unit.checks.add(checks)
            self.stored(checks)

    @staticmethod
    def _count_events(book: SloBook, page: _Page) -> None:
        book.learn(page.lives)
        for interval in page.intervals:
            book.add_interval(interval, planned=page.is_changing or page.is_warming)
        book.add_check(page.server, page.at, page.answered, planned=page.is_changing)

    def _count_check(self, page: _Page) -> None:
        """For the store."""
        if page.answered or not page.is_changing:
            key = (page.server, bucket_end(page.at, CHECKS_SECONDS))
            answered, missed = self._checks.get(key, (0, 0))
            self._checks[key] = (answered + page.answered, missed + (not page.answered))

    def _new_book(self) -> SloBook:
        return SloBook(self._policies, {group.name: group.servers for group in self._groups})


def is_answer(reading: Reading) -> bool:
    """Whether a page says that its server is there: also one that we may not see, or that holds nothing of use."""
    if reading.verdict is Verdict.STARTING:
        return False
    return reading.verdict is not Verdict.SCRAPE_ERROR or reading.reason.startswith(("HTTP 401", "HTTP 403"))
