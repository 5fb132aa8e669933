"""What only the embedded store does: files, locks, crashes, readers beside the daemon."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from monitor.errors import StoreError
from monitor.model.record import Evidence, Restart
from monitor.store import Retention, Store, StoreBusy, open_readonly, open_store
from monitor.store.schema import Schema
from monitor.store.sql import SqlStore
from monitor.store.sqlite import SqliteDatabase
from monitor.store.unit import SqlUnit
from tests.integration.store.as_reader import as_reader
from tests.integration.store.values import T0, A, at, head, interval, life
from tests.integration.store.writer import DRAFTS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def path() -> Iterator[Path]:
    """Where no other run of pytest closes the folders above: each that starts takes their readers' rights away."""
    with tempfile.TemporaryDirectory(prefix="acceptd-store-") as folder:
        yield Path(folder) / "data" / "local.db"


@pytest.fixture
def local(path: Path) -> Iterator[SqlStore]:
    """An embedded store with the newest schema."""
    store = open_store(f"sqlite:///{path}")
    store.upgrade()
    yield store
    store.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def pragma(unit: object, name: str) -> object:
    return unit.connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()  # type: ignore[attr-defined]


class TestFiles:
    @pytest.mark.parametrize("umask", [0o000, 0o077])
    def test_owner_writes_and_group_reads_whatever_the_umask(self, path: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            store = open_store(f"sqlite:///{path}")
            store.upgrade()
            with store.write() as unit:
                unit.lives.add(life())
        finally:
            os.umask(before)
        modes = {file.name: mode(file) for file in path.parent.iterdir()}
        assert modes == {"local.db": 0o640, "local.db-wal": 0o640, "local.db-shm": 0o640}
        assert mode(path.parent) == 0o750
        store.close()

    def test_a_folder_and_a_file_that_are_there_keep_their_modes(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700)
        path.touch(mode=0o600)
        store = open_store(f"sqlite:///{path}")
        store.upgrade()
        store.close()
        assert (mode(path.parent), mode(path)) == (0o700, 0o600)

    def test_opening_touches_nothing(self, path: Path) -> None:
        open_store(f"sqlite:///{path}")
        open_readonly(path)
        assert not path.parent.exists()

    @pytest.mark.parametrize("readonly", [True, False])
    def test_a_missing_file_is_not_made_by_looking(self, path: Path, readonly: bool) -> None:
        store = open_readonly(path) if readonly else open_store(f"sqlite:///{path}")
        with pytest.raises(StoreError, match=r"local\.db does not exist"):
            store.check()
        assert not path.exists()

    @pytest.mark.parametrize("readonly", [True, False])
    def test_a_file_that_is_no_database_is_named(self, path: Path, readonly: bool) -> None:
        path.parent.mkdir()
        path.write_text("server,port\n" * 999)
        store = open_readonly(path) if readonly else open_store(f"sqlite:///{path}")
        with pytest.raises(StoreError, match=r"local\.db: the file is no SQLite database"):
            store.check()
        store.close()

    def test_two_that_make_it_at_once_make_one(self, tmp_path: Path) -> None:
        for number in range(12):
            stores = [open_store(f"sqlite:///{tmp_path / str(number) / 'local.db'}") for _ in range(2)]
            with ThreadPoolExecutor(2) as pool:
                applied = list(pool.map(lambda store: store.upgrade(), stores))
            for store in stores:
                store.close()
            assert sorted(applied) == [[], Schema().pending(None)]

    def test_a_folder_that_cannot_be_made_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "data").touch()
        with pytest.raises(StoreError, match="cannot be created"):
            open_store(f"sqlite:///{tmp_path}/data/local.db").upgrade()

    def test_a_full_disk_is_named_and_the_unit_undone(self, local: SqlStore) -> None:
        with pytest.raises(StoreError, match="disk is full"), local.write() as unit:
            unit.lives.add(life())
            pages = pragma(unit, "page_count")
            assert isinstance(pages, int)
            pragma(unit, f"max_page_count = {pages + 2}")
            unit.evidence.add(Evidence("1", A, T0, "log", {"log": "x" * 99999}))
        with local.read() as unit:
            assert unit.lives.get(life().id) is None


class TestRoom:
    """What pruning frees."""

    @staticmethod
    def fill(local: SqlStore) -> None:
        with local.write() as unit:
            for number in range(100):
                unit.evidence.add(Evidence(str(number), A, at(number), "log", {"log": "x" * 40_000}))

    @staticmethod
    def pruned(local: SqlStore, of_100: int) -> None:
        local.prune(at(of_100) + timedelta(days=35, seconds=-0.5), Retention(raw_hours=48))
        with local.read() as unit:
            assert len([n for n in range(100) if unit.evidence.get(str(n))]) == 100 - of_100

    @staticmethod
    def pages(local: SqlStore) -> tuple[object, object]:
        with local.read() as unit:
            return pragma(unit, "page_count"), pragma(unit, "freelist_count")

    def test_much_of_it_goes_back_to_the_disk(self, local: SqlStore, path: Path) -> None:
        self.fill(local)
        full, _ = self.pages(local)
        self.pruned(local, 90)
        left, free = self.pages(local)
        assert isinstance(left, int) and isinstance(full, int)
        assert free == 0 and left < full - 850  # 90 of 100 texts of ten pages each
        local.close()
        assert path.stat().st_size == left * 4096
        store = open_store(f"sqlite:///{path}")
        assert store.faults() == []
        store.close()

    def test_little_of_it_is_kept_for_the_next_day(self, local: SqlStore) -> None:
        self.fill(local)
        full, _ = self.pages(local)
        self.pruned(local, 10)
        left, free = self.pages(local)
        assert left == full and isinstance(free, int) and free >= 90

    def test_a_file_that_was_made_without_it_keeps_its_size_and_fills_it_again(self, path: Path) -> None:
        path.parent.mkdir()
        with closing(sqlite3.connect(path)) as made:
            made.execute("CREATE TABLE other (x)")
        local = open_store(f"sqlite:///{path}")
        local.upgrade()
        self.fill(local)
        full, _ = self.pages(local)
        self.pruned(local, 90)
        assert self.pages(local)[0] == full
        local.close()


class TestConnections:
    def test_the_writer_is_set_up_for_wal_and_foreign_keys(self, local: SqlStore) -> None:
        with local.write() as unit:
            assert pragma(unit, "journal_mode") == "wal"
            assert pragma(unit, "foreign_keys") == 1
            assert pragma(unit, "journal_size_limit") == 64 * 1024 * 1024

    def test_only_durable_units_wait_for_the_disk(self, local: SqlStore) -> None:
        seen = []
        for durable in (True, False, True, False):
            with local.write(durable=durable) as unit:
                seen.append(pragma(unit, "synchronous"))
        with pytest.raises(RuntimeError), local.write(durable=True):
            raise RuntimeError
        with local.write(durable=False) as unit:
            seen.append(pragma(unit, "synchronous"))
        assert seen == [2, 1, 2, 1, 1]

    def test_a_view_stays_as_it_was_and_holds_no_writer_up(self, local: SqlStore) -> None:
        with local.read() as before:
            assert before.lives.open_of(A) == []
            with local.write() as unit:
                unit.lives.add(life())
            assert before.lives.open_of(A) == []
        with local.read() as after:
            assert after.lives.open_of(A) == [life()]

    def test_threads_take_turns_and_none_is_lost(self, local: SqlStore) -> None:
        def work(thread: int) -> None:
            for number in range(20):
                with local.write(durable=False) as unit:
                    unit.restarts.add(Restart(A, at(thread), str(number), "ready"))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        with local.read() as unit:
            assert len(unit.restarts.since(A, T0)) == 80

    def test_edges_learnt_in_a_unit_that_was_undone_are_not_relied_on(self, local: SqlStore) -> None:
        with local.write() as unit:
            unit.lives.add(life())
        with pytest.raises(RuntimeError), local.write() as unit:
            unit.intervals.add([interval(life(), 15)])
            raise RuntimeError
        with local.write() as unit:
            unit.intervals.add([interval(life(), 15)])
        local.close()
        fresh = open_store(f"sqlite:///{local.name.removeprefix('database file ')}")
        with fresh.read() as unit:
            assert unit.intervals.between([A], T0, at(15)) == [interval(life(), 15)]
        fresh.close()


class TestPlans:
    """A window of minutes must not read the history of weeks: each life is one range of the key, by its end."""

    @pytest.mark.parametrize("servers", [None, [A], [A, A + "2"]])
    @pytest.mark.parametrize("details", [True, False])
    def test_windows_are_read_by_the_whole_key(self, local: SqlStore, servers: list[str] | None, details: bool) -> None:
        with local.read() as unit:
            plans = self.plans(
                unit,
                lambda: unit.intervals.between(servers, T0, at(300), details=details),  # type: ignore[arg-type]
                lambda: unit.intervals.between_coarse(servers, T0, at(300), 300),  # type: ignore[arg-type]
            )
        assert "SEARCH intervals USING PRIMARY KEY (server=? AND life=? AND end_at>? AND end_at<?)" in plans
        assert "SEARCH rollups USING PRIMARY KEY (step=? AND server=? AND life=? AND bucket>? AND bucket<?)" in plans
        assert not [line for line in plans if line.startswith(("SCAN intervals", "SCAN rollups", "SCAN interval_d"))]

    def test_the_newest_end_is_one_step_into_the_key(self, local: SqlStore) -> None:
        with local.read() as unit:
            plans = self.plans(unit, lambda: unit.intervals.last_end(A), lambda: unit.intervals.totals(life().id))
        assert plans.count("SEARCH intervals USING PRIMARY KEY (server=? AND life=?)") == 2
        assert not [line for line in plans if line.startswith("SCAN")]

    def plans(self, unit: SqlUnit, *questions: Callable[[], object]) -> list[str]:
        asked: list[tuple[str, object]] = []

        def note(connection: object, cursor: object, statement: str, parameters: object, *rest: object) -> None:
            asked.append((statement, parameters))

        event.listen(unit.connection, "before_cursor_execute", note)
        for question in questions:
            question()
        event.remove(unit.connection, "before_cursor_execute", note)
        explain = unit.connection.exec_driver_sql
        return [
            row[-1]
            for statement, parameters in asked
            for row in explain(f"EXPLAIN QUERY PLAN {statement}", parameters)  # type: ignore[arg-type]
        ]


class TestLocks:
    @contextmanager
    def locked(self, path: Path) -> Iterator[sqlite3.Connection]:
        """Another process's transaction."""
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield other

    def test_a_lock_that_stays_is_named(self, local: SqlStore, path: Path) -> None:
        store = SqlStore(SqliteDatabase(path, busy_seconds=0.01), Schema())
        with self.locked(path), pytest.raises(StoreBusy, match="stays locked"), store.write():
            pytest.fail("began beside another transaction")
        with store.write() as unit:
            unit.lives.add(life())
        store.close()

    def test_a_lock_that_goes_is_waited_for(self, local: SqlStore, path: Path) -> None:
        begun = threading.Event()

        def write() -> None:
            begun.set()
            with local.write() as unit:
                unit.lives.add(life())

        with self.locked(path) as other, ThreadPoolExecutor(1) as pool:
            done = pool.submit(write)
            begun.wait()
            with pytest.raises(TimeoutError):
                done.result(0.05)
            other.execute("COMMIT")
            done.result(30)

    def test_work_is_run_again_as_a_whole_where_it_gave_way(self, local: SqlStore) -> None:
        runs = []

        def work(unit: object) -> str:
            runs.append(unit)
            unit.lives.add(life())  # type: ignore[attr-defined]
            if len(runs) < 3:
                raise StoreBusy("gave way")
            return "done"

        assert local.transact(work) == "done"
        assert len(runs) == 3
        with local.read() as unit:
            assert unit.lives.open_of(A) == [life()]

    def test_work_that_always_gives_way_is_given_up(self, local: SqlStore) -> None:
        runs = []

        def work(unit: object) -> None:
            runs.append(unit)
            raise StoreBusy("gave way")

        with pytest.raises(StoreBusy):
            local.transact(work)
        assert len(runs) == 3


class TestCrashes:
    @contextmanager
    def writer(self, path: Path, pause_after: int) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "tests.integration.store.writer", str(path), str(pause_after)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def read_until(self, process: subprocess.Popen[str], word: str) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == word:
                return
        pytest.fail(f"the writer ended before it said {word!r}")

    def assert_nothing_doubled_or_lost(self, store: Store, at_least: float) -> None:
        with store.read() as unit:
            last, totals = unit.heads.get(life().id), unit.intervals.totals(life().id)
        assert last is not None and last.counts.speculation is not None
        assert totals.num_drafts == last.counts.speculation.num_drafts
        assert totals.last_end == last.at
        assert totals.num_drafts is not None and totals.num_drafts >= at_least

    def test_killed_between_head_and_interval_it_has_neither(self, local: SqlStore, path: Path) -> None:
        with local.write() as unit:
            unit.lives.add(life())
        local.close()
        with self.writer(path, pause_after=3) as process:
            self.read_until(process, "between")
        with local.read() as unit:
            assert unit.intervals.totals(life().id).last_end == at(45)
        self.assert_nothing_doubled_or_lost(local, 3 * DRAFTS)

    def test_killed_at_any_moment_it_goes_on_from_its_last_page(self, local: SqlStore, path: Path) -> None:
        with local.write() as unit:
            unit.lives.add(life())
        local.close()
        for pages in (5, 12, 14):
            with self.writer(path, pause_after=10**9) as process:
                assert process.stdout is not None
                # It goes on writing while we read: which page it dies on is chance.
                said = [process.stdout.readline().strip() for _ in range(pages)]
            self.assert_nothing_doubled_or_lost(local, int(said[-1]) * DRAFTS)


class TestReaders:
    """People in the group of the files, with the daemon up, down, or killed."""

    def heads_seen(self, path: Path) -> int:
        reader = open_readonly(path)
        reader.check()
        with reader.read() as unit:
            return len(unit.heads.of_server(A))

    def test_beside_a_running_daemon(self, local: SqlStore, path: Path) -> None:
        with local.write() as unit:
            unit.lives.add(life())
            unit.heads.put([head(life())])
        assert self.heads_seen(path) == 1
        assert as_reader(path.parent, lambda: self.heads_seen(path)) == 1

    def test_after_the_daemon_has_stopped(self, local: SqlStore, path: Path) -> None:
        with local.write() as unit:
            unit.lives.add(life())
            unit.heads.put([head(life())])
        local.close()
        assert [file.name for file in path.parent.iterdir()] == ["local.db"]
        assert as_reader(path.parent, lambda: self.heads_seen(path)) == 1
        assert [file.name for file in path.parent.iterdir()] == ["local.db"]

    def test_after_the_daemon_was_killed(self, local: SqlStore, path: Path) -> None:
        with local.write() as unit:
            unit.lives.add(life())
        local.close()
        with TestCrashes().writer(path, pause_after=3) as process:
            TestCrashes().read_until(process, "between")
        assert path.with_name("local.db-wal").stat().st_size > 0
        assert as_reader(path.parent, lambda: self.heads_seen(path)) == 1

    def test_a_reader_opened_before_the_daemon_starts_sees_what_it_writes(self, local: SqlStore, path: Path) -> None:
        local.close()
        reader = open_readonly(path)
        with reader.read() as unit:
            assert unit.lives.open_of(A) == []
        with local.write() as unit:
            unit.lives.add(life())
        with reader.read() as unit:
            assert unit.lives.open_of(A) == [life()]

    def test_readers_write_nothing(self, local: SqlStore, path: Path) -> None:
        reader = open_readonly(path)
        with pytest.raises(StoreError, match="reading only"), reader.write() as unit:
            unit.lives.add(life())
        with pytest.raises(StoreError, match="reading only"):
            reader.upgrade()
        assert reader.sizes().total_bytes > 0
