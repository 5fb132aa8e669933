"""The two nights in which clocks are set: pages, counts and the weekly report of half past two go on as ever."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.model.alert import Severity
from monitor.model.notice import NoticeKind
from tests.acceptance.daemon import environ
from tests.faults.counted import CountedServer, serving
from tests.faults.shifted import ShiftedDaemon

ZONE = "Europe/Berlin"
#: 3:00 becomes 2:00 at 1:00 UTC, so half past two is twice; the report is due the first time.
AUTUMN, AUTUMN_REPORT = datetime(2026, 10, 25, 1, 0, tzinfo=UTC), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
#: 2:00 becomes 3:00 at 1:00 UTC, so half past two is skipped; the report is due where it would have been, at 1:30 UTC.
SPRING = datetime(2027, 3, 28, 1, 0, tzinfo=UTC)
#: Reports that a daemon was not there for are made at such a minute of each hour.
CAUGHT_UP = datetime(2027, 3, 28, 2, 23, tzinfo=UTC)
#: So long before a moment the daemon is started (seconds): pages must come before it, so a slow machine gets more.
BEFORE = (6, 15, 40, 90)


class Night(ShiftedDaemon):
    """A daemon whose host keeps Berlin's time."""

    def environ(self) -> dict[str, str]:
        """Berlin's time for all that asks the system."""
        return {**environ(self.folder), "TZ": ZONE}

    def reports(self) -> list[str]:
        """Files of the weekly reports that were made."""
        with self.store() as store, store.read() as unit:
            return sorted(record.key for record in unit.reports.all())

    def start_before(self, moment: datetime, *, anew: bool = False) -> None:
        """Start it, with a page of every server stored before `moment`; `anew` on an empty folder."""
        for seconds in BEFORE:
            if anew:
                shutil.rmtree(self.data_dir, ignore_errors=True)
            self.shift_to(moment - timedelta(seconds=seconds))
            self.start()
            self.wait(lambda: self.metric("acceptd_intervals_stored_total") >= 2 or None, "pages are stored")
            if self.time() < moment - timedelta(seconds=1):
                return
            self.stop()
        raise AssertionError(f"not started within {BEFORE[-1]} s")

    def pass_by(self, moment: datetime) -> None:
        """Run from before a moment until after it, with pages on both sides."""
        self.wait(lambda: self.time() >= moment + timedelta(seconds=1) or None, f"it is {moment:%H:%M} UTC")
        self.cycles(1)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Night]:
    """A daemon before the first half past two of the autumn night."""
    servers = [CountedServer(f"s{number}") for number in range(2)]
    with serving(*servers):
        made = Night(
            tmp_path, *servers, report={"day": "sun", "at": "02:30", "timezone": ZONE},
            rules={"interval": "500ms"}, scrape={"interval": "500ms", "timeout": "500ms"},
        )  # fmt: skip
        try:
            made.start_before(AUTUMN_REPORT, anew=True)
            for server in servers:
                server.restart()
            yield made
        finally:
            made.tear_down()


def check(daemon: Night) -> None:
    """Every count is there once, and nobody was woken."""
    # Its clock is set back now and then: what its stamps cover says nothing.
    daemon.comes_out_whole(clocks_apart=3600.0)
    with daemon.store() as store, store.read() as unit:
        told = [notice for notice, _ in unit.outbox.recent(100)]
    assert {notice.kind for notice in told} >= {NoticeKind.REPORT}
    # A busy machine may be late with a page or a round, which is a ticket.
    assert [notice.title for notice in told if notice.severity is Severity.PAGE] == []
    assert "Traceback" not in daemon.said()


def test_a_daemon_runs_through_both_changes(daemon: Night) -> None:
    daemon.pass_by(AUTUMN_REPORT)
    daemon.wait(lambda: daemon.reports() or None, "the report is made at the first half past two")
    for change in (AUTUMN, SPRING):
        daemon.shift_to(change - timedelta(seconds=2))
        daemon.pass_by(change)
    assert len(daemon.reports()) == 1
    check(daemon)
    daemon.stop()


@pytest.mark.skipif("ACCEPTD_TEST_LONG" not in os.environ, reason="takes a minute: make soak")
def test_a_daemon_that_is_started_in_those_nights_makes_each_report_once(daemon: Night) -> None:
    daemon.pass_by(AUTUMN_REPORT)
    (first,) = daemon.wait(lambda: daemon.reports() or None, "the report is made at the first half past two")
    daemon.stop()
    daemon.start_before(AUTUMN + timedelta(minutes=30))
    daemon.pass_by(AUTUMN + timedelta(minutes=30))
    assert daemon.reports() == [first], "the second half past two made a second report"
    daemon.shift_to(SPRING - timedelta(seconds=2))
    daemon.pass_by(SPRING)
    daemon.stop()
    daemon.start_before(CAUGHT_UP)
    assert daemon.reports() == [first]
    daemon.pass_by(CAUGHT_UP)
    daemon.wait(lambda: len(daemon.reports()) == 2 or None, "the report of the spring night is made")
    check(daemon)
    daemon.stop()
