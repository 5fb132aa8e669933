"""The weekly report: once a local week however often it is asked for, after downtime too, never of nothing."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from monitor.app.membership import Member
from monitor.app.reports import Reports
from monitor.app.sharing import SharingState
from monitor.config.model import Report
from monitor.model.record import Checks
from monitor.model.server import Group, GroupName, ServerName
from monitor.report.assemble import last_due, week_key
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.integration.store.values import watched
from tests.unit.signals.windows import NOON, interval, life

#: Monday, 9:00 in Berlin: the report of the week before is due.
MONDAY = datetime(2026, 3, 9, 8, 0, tzinfo=UTC)


class Desk:
    def __init__(self, folder: Path, *, now: datetime = MONDAY, serves: bool = True) -> None:
        self.clock = FakeClock(now)
        self.store = MemoryStore()
        self.folder = folder
        self.woken = 0
        one = life("a")
        if serves:
            with self.store.write() as unit:
                unit.lives.add(one)
                unit.intervals.add([interval(one, 3600.0 * n, seconds=3600.0) for n in range(24)])
        self.new_daemon()

    def new_daemon(self) -> None:
        settings = Report.model_validate({"day": "mon", "at": "09:00", "timezone": "Europe/Berlin"})
        self.reports = Reports(
            self.store, [Group(name=GroupName("g"), servers=(ServerName("a"),))], settings, self.folder, host="h",
            simulated=False, receivers=lambda _: ["slack"], clock=self.clock, told=self._wake, policies=(),
        )

    def _wake(self) -> None:
        self.woken += 1

    def keys(self) -> list[str]:
        with self.store.read() as unit:
            return [report.key for report in unit.reports.all()]

    def told(self) -> int:
        with self.store.read() as unit:
            return len(unit.outbox.recent(10))


class TestScheduled:
    def test_it_is_made_and_told_once_a_week(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path)
        for _ in range(3):
            desk.reports.scheduled()
            desk.clock.advance(3600)
            desk.new_daemon()
        assert desk.keys() == ["2026-W10"]
        assert (desk.told(), desk.woken) == (1, 1)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "acceptd-2026-W10.html", "acceptd-2026-W10.json", "acceptd-2026-W10.md", "acceptd-2026-W10.png",
        ]  # fmt: skip
        assert desk.reports.file(None) == desk.reports.file("2026-W10") == tmp_path / "acceptd-2026-W10.html"

    @pytest.mark.parametrize(("days", "keys"), [(0.0, 1), (5.9, 1), (6.1, 0)])
    def test_one_that_fell_due_while_the_daemon_was_down_is_made_up_for_six_days(
        self, tmp_path: Path, days: float, keys: int
    ) -> None:
        desk = Desk(tmp_path, now=MONDAY + timedelta(days=days))
        desk.reports.scheduled()
        assert len(desk.keys()) == keys

    def test_it_is_about_the_week_that_was_due_and_not_about_now(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, now=MONDAY + timedelta(days=3))
        desk.reports.scheduled()
        with desk.store.read() as unit:
            (report,) = unit.reports.all()
        assert (report.period_start, report.period_end) == (MONDAY - timedelta(days=7), MONDAY)

    def test_a_week_of_which_nothing_is_known_has_none(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, serves=False)
        desk.reports.scheduled()
        assert desk.keys() == [] and desk.told() == 0

    def test_a_week_in_which_no_server_answered_has_one_that_says_so(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, serves=False)
        with desk.store.write() as unit:
            unit.checks.add([Checks(ServerName("a"), MONDAY - timedelta(days=2), 0, 20)])
        desk.reports.scheduled()
        with desk.store.read() as unit:
            (record,) = unit.reports.all()
            ((notice, _),) = unit.outbox.recent(10)
        assert "no data of any of them" in record.headline and record.headline in notice.text
        assert "No data in this period." in record.body

    def test_one_that_could_not_be_written_is_made_later(self, tmp_path: Path) -> None:
        (tmp_path / "reports").write_text("a file where the folder should be")
        desk = Desk(tmp_path / "reports")
        with pytest.raises(OSError, match="exists"):
            desk.reports.scheduled()
        assert desk.keys() == [] and desk.told() == 0
        (tmp_path / "reports").unlink()
        desk.reports.scheduled()
        assert desk.keys() == ["2026-W10"]


class TestAsked:
    def test_one_asked_for_stands_beside_the_weekly_ones(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, now=NOON + timedelta(days=1))
        said = desk.reports.now("ann")
        (key,) = desk.keys()
        assert said == f"report {key}: {tmp_path}/acceptd-{key}.html"
        assert Path(said.partition(": ")[2]).is_file()

    def test_the_live_one_is_stored_nowhere(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path, now=NOON + timedelta(days=1))
        assert "<html" in desk.reports.live()
        assert desk.keys() == [] and list(tmp_path.iterdir()) == []

    def test_a_file_that_is_gone_is_none(self, tmp_path: Path) -> None:
        desk = Desk(tmp_path)
        assert desk.reports.file(None) is None and desk.reports.file("2026-W10") is None
        desk.reports.scheduled()
        (tmp_path / "acceptd-2026-W10.html").unlink()
        assert desk.reports.file("2026-W10") is None


class TestWhichWeek:
    @pytest.mark.parametrize(
        ("end", "zone", "key"),
        [
            (datetime(2026, 3, 9, 8, 0, tzinfo=UTC), "UTC", "2026-W10"),
            # The turn of the year belongs to the week that most of its days are in.
            (datetime(2027, 1, 4, 8, 0, tzinfo=UTC), "UTC", "2026-W53"),
            (datetime(2026, 1, 5, 8, 0, tzinfo=UTC), "UTC", "2026-W01"),
            # A report on Sunday evening is about the week that ends.
            (datetime(2026, 3, 8, 20, 0, tzinfo=UTC), "UTC", "2026-W10"),
            (datetime(2026, 3, 8, 20, 0, tzinfo=UTC), "Asia/Tokyo", "2026-W10"),
        ],
    )
    def test_it_is_the_one_that_most_of_its_days_belong_to(self, end: datetime, zone: str, key: str) -> None:
        assert week_key(end, zone) == key

    @pytest.mark.parametrize(
        ("now", "due"),
        [
            (MONDAY, MONDAY),
            (MONDAY - timedelta(seconds=1), MONDAY - timedelta(days=7)),
            (MONDAY + timedelta(days=6, hours=23), MONDAY),
        ],
    )
    def test_it_was_due_at_the_newest_such_moment(self, now: datetime, due: datetime) -> None:
        assert last_due(now, "mon", time(9, 0), "Europe/Berlin") == due

    def test_clocks_that_change_move_it_with_them(self) -> None:
        # 29 March 2026: clocks go from 2:00 to 3:00 in Berlin.
        summer = last_due(datetime(2026, 4, 1, tzinfo=UTC), "mon", time(9, 0), "Europe/Berlin")
        assert summer == datetime(2026, 3, 30, 7, 0, tzinfo=UTC)
        # A time that is skipped counts as the moment after the gap, and is due once.
        skipped = last_due(datetime(2026, 3, 29, 12, 0, tzinfo=UTC), "sun", time(2, 30), "Europe/Berlin")
        assert skipped == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
        # One that comes twice is due the first time.
        twice = last_due(datetime(2026, 10, 25, 12, 0, tzinfo=UTC), "sun", time(2, 30), "Europe/Berlin")
        assert twice == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


class Sharing:
    """A daemon's way to the fleet's database, as far as reports go."""

    def __init__(self, shared: MemoryStore, host: str, folder: Path, clock: FakeClock) -> None:
        self.store = shared
        self.trouble = ""
        self._member = Member(shared, host, folder, clock, lease_seconds=60.0)

    def role(self, name: str, ttl_seconds: float) -> bool:
        if self.trouble:
            return False
        self._member.beat([], [], [])
        return self._member.role(name, ttl_seconds)

    def state(self) -> SharingState:
        return SharingState(trouble=self.trouble, away_seconds=None, waiting=0, given_up=0)


class TestOfAFleet:
    def daemon(self, shared: MemoryStore, host: str, folder: Path, clock: FakeClock) -> tuple[Desk, Sharing]:
        home = folder / host
        home.mkdir()
        desk = Desk(home, serves=False)
        desk.clock = clock
        sharing = Sharing(shared, host, home, clock)
        settings = Report.model_validate({"day": "mon", "at": "09:00", "timezone": "Europe/Berlin"})
        desk.reports = Reports(
            desk.store, [], settings, home, host=host, simulated=False, receivers=lambda _: ["slack"], clock=clock,
            told=lambda: None, policies=(), sharing=sharing,  # type: ignore[arg-type]
        )
        return desk, sharing

    def fleet(self) -> MemoryStore:
        shared = MemoryStore()
        one = life("a")
        with shared.write() as unit:
            unit.lives.add(one)
            unit.intervals.add([interval(one, 3600.0 * n, seconds=3600.0) for n in range(24)])
            unit.servers.put([watched("a", group=GroupName("g"), since=NOON - timedelta(days=1))])
        return shared

    def test_one_daemon_makes_it_on_all_servers(self, tmp_path: Path) -> None:
        shared, clock = self.fleet(), FakeClock(MONDAY)
        desks = [self.daemon(shared, host, tmp_path, clock)[0] for host in ("h1", "h2")]
        for _ in range(3):
            for desk in desks:
                desk.reports.scheduled()
            clock.advance(3600)
        assert [desk.told() for desk in desks] == [1, 0]
        with shared.read() as unit:
            (record,) = unit.reports.all()
        assert record.files[0].startswith(str(tmp_path / "h1"))
        assert "| a |" in record.body or " a " in record.body

    def test_while_the_database_is_away_none_is_made_and_then_by_whoever_is_there(self, tmp_path: Path) -> None:
        shared, clock = self.fleet(), FakeClock(MONDAY)
        desk, sharing = self.daemon(shared, "h2", tmp_path, clock)
        sharing.trouble = "away"
        desk.reports.scheduled()
        assert desk.keys() == []
        sharing.trouble = ""
        desk.reports.scheduled()
        assert desk.told() == 1
