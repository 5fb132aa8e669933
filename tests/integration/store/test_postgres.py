"""What only the shared store does: several daemons at once, lost connections, the database's clock, PgBouncer."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from monitor.clock import SystemClock
from monitor.errors import StoreError
from monitor.model.record import RuleTimer
from monitor.store import ActiveRolloutExists, Store, StoreAway, StoreBusy, Unit, open_store
from tests.integration.postgres import PostgresServer
from tests.integration.store.values import T0, A, at, interval, life, rollout

pytestmark = pytest.mark.postgres

CLOCK = SystemClock()


@pytest.fixture
def database(postgres_server: PostgresServer, upgraded: str) -> str:
    return postgres_server.new_database(template=upgraded)


@pytest.fixture
def daemon(postgres_server: PostgresServer, database: str) -> Iterator[Callable[[], Store]]:
    """Makes stores of one more daemon each, all on the same database."""
    stores: list[Store] = []

    def daemon() -> Store:
        stores.append(open_store(postgres_server.url(database)))
        return stores[-1]

    yield daemon
    for store in stores:
        store.close()


def end_connections(server: PostgresServer, database: str) -> None:
    """What a restart of the server, or of a proxy, does to connections."""
    with server.connect() as connection:
        ask = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(ask, (database,))


class TestDaemons:
    def test_of_two_rollouts_at_once_one_is_refused_by_the_name_of_the_other(
        self, daemon: Callable[[], Store]
    ) -> None:
        first, second = daemon(), daemon()
        added = threading.Event()

        def late() -> None:
            added.wait(30)
            with second.write() as unit:
                unit.rollouts.add(rollout("late"))

        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(late)
            with first.write() as unit:
                unit.rollouts.add(rollout("early"))
                added.set()
                # The second one now waits for this transaction, whose end decides.
                with pytest.raises(TimeoutError):
                    other.result(0.2)
            with pytest.raises(ActiveRolloutExists) as caught:
                other.result(30)
        assert caught.value.existing == rollout("early")
        with first.read() as unit:
            assert [each.id for each in unit.rollouts.active()] == ["early"]

    def test_of_many_who_want_a_lease_one_has_it(self, daemon: Callable[[], Store]) -> None:
        stores = [daemon() for _ in range(4)]
        start = threading.Barrier(4)

        def want(number: int) -> bool:
            start.wait(30)
            with stores[number].write() as unit:
                return unit.leases.acquire("tuner", f"host-{number}", 60, T0) is not None

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(want, range(4))) == [False, False, False, True]

    def test_leases_run_by_the_clock_of_the_database(self, daemon: Callable[[], Store]) -> None:
        """A host whose clock is a year ahead takes nothing from the others."""
        first, second = daemon(), daemon()
        wrong = CLOCK.now() + timedelta(days=365)
        with first.write() as unit:
            mine = unit.leases.acquire("tuner", "host-a", 60, T0)
        assert mine is not None
        assert abs((mine.expires_at - CLOCK.now()).total_seconds() - 60) < 30
        with second.write() as unit:
            assert unit.leases.acquire("tuner", "host-b", 60, wrong) is None
        with first.write() as unit:
            # Only now may it run out: a slow machine must not let it do so between two steps.
            assert unit.leases.acquire("tuner", "host-a", 0.2, wrong) is not None
        CLOCK.sleep(0.5)
        with second.write() as unit:
            theirs = unit.leases.acquire("tuner", "host-b", 60, T0)
        assert theirs is not None and theirs.fence == 2
        with first.write() as unit:
            assert unit.leases.confirm([mine], T0) == set()

    def test_a_deadlock_is_undone_and_run_again(self, daemon: Callable[[], Store]) -> None:
        stores = [daemon(), daemon()]
        both = threading.Barrier(2)
        with stores[0].write() as unit:
            unit.timers.put(RuleTimer(name, "*", None, None, "before") for name in "xy")

        def work(number: int) -> int:
            runs = 0

            def cross(unit: Unit) -> None:
                nonlocal runs
                runs += 1
                names = ["x", "y"] if number == 0 else ["y", "x"]
                for name in names:
                    unit.timers.put([RuleTimer(name, "*", None, None, str(number))])
                    if name == names[0] and runs == 1:
                        both.wait(30)

            stores[number].transact(cross)
            return runs

        with ThreadPoolExecutor(2) as pool:
            runs = list(pool.map(work, range(2)))
        # The one that gave way may meet the other again, since PostgreSQL does not say who comes first.
        assert sum(runs) >= 3
        with stores[0].read() as unit:
            assert len({timer.last_outcome for timer in unit.timers.all()}) == 1

    def test_edges_of_histograms_are_numbered_once(self, daemon: Callable[[], Store]) -> None:
        stores = [daemon(), daemon()]
        with stores[0].write() as unit:
            for number in range(2):
                unit.lives.add(life(f"l{number}"))
        start = threading.Barrier(2)

        def add(number: int) -> None:
            start.wait(30)
            with stores[number].write() as unit:
                unit.intervals.add([interval(life(f"l{number}"), 15)])

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(add, range(2)))
        third = daemon()
        with third.read() as unit:
            found = unit.intervals.between([A], T0, at(15))
        assert found == [interval(life("l0"), 15), interval(life("l1"), 15)]

    def test_a_view_is_of_one_moment(self, daemon: Callable[[], Store]) -> None:
        reader, writer = daemon(), daemon()
        with reader.read() as view:
            assert view.lives.open_of(A) == []
            with writer.write() as unit:
                unit.lives.add(life())
            assert view.lives.open_of(A) == []

    def test_a_daemon_takes_two_connections_at_most(
        self, daemon: Callable[[], Store], postgres_server: PostgresServer, database: str
    ) -> None:
        store = daemon()

        def use(number: int) -> None:
            with store.read() as unit:
                unit.lives.open_of(A)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(use, range(40)))
        with postgres_server.connect() as connection:
            ask = "SELECT count(*), min(application_name) FROM pg_stat_activity WHERE datname = %s"
            row = connection.execute(ask, (database,)).fetchone()
        assert row is not None and row[0] in (1, 2) and row[1] == "acceptd"


class TestTrouble:
    def test_a_connection_that_broke_between_units_is_replaced(
        self, daemon: Callable[[], Store], postgres_server: PostgresServer, database: str
    ) -> None:
        store = daemon()
        with store.write() as unit:
            unit.lives.add(life())
        end_connections(postgres_server, database)
        with store.read() as unit:
            assert unit.lives.open_of(A) == [life()]
        end_connections(postgres_server, database)
        with store.write() as unit:
            unit.lives.update(life(engine_version="new"))

    def test_a_connection_that_breaks_within_a_unit_undoes_it(
        self, daemon: Callable[[], Store], postgres_server: PostgresServer, database: str
    ) -> None:
        store = daemon()
        with pytest.raises(StoreAway), store.write() as unit:
            unit.lives.add(life())
            end_connections(postgres_server, database)
            unit.lives.get(life().id)
        with store.read() as unit:
            assert unit.lives.get(life().id) is None

    def test_a_server_that_is_down_is_away_and_comes_back(
        self, daemon: Callable[[], Store], postgres_server: PostgresServer
    ) -> None:
        store = daemon()
        store.check()
        postgres_server.stop()
        try:
            for work in (store.check, store.revision, lambda: store.transact(lambda unit: unit.lives.open_of(A))):
                with pytest.raises(StoreAway, match="database postgresql"):
                    work()
        finally:
            postgres_server.start()
        store.check()

    def test_a_standby_is_named(
        self, daemon: Callable[[], Store], postgres_server: PostgresServer, database: str
    ) -> None:
        with postgres_server.connect() as connection:
            connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on".encode())
        with pytest.raises(StoreError, match="read-only"), daemon().write() as unit:
            unit.lives.add(life())

    def test_a_missing_database_is_named(self, postgres_server: PostgresServer) -> None:
        store = open_store(postgres_server.url("nowhere"))
        with pytest.raises(StoreAway, match="does not exist"):
            store.check()
        store.close()

    def test_a_user_without_rights_is_told(
        self, daemon: Callable[[], Store], postgres_server: PostgresServer, database: str
    ) -> None:
        with postgres_server.connect() as connection:
            connection.execute("DROP ROLE IF EXISTS stranger")
            connection.execute("CREATE ROLE stranger LOGIN")
        store = open_store(postgres_server.url(database, user="stranger"))
        with pytest.raises(StoreError, match="lacks a right"):
            store.check()
        store.close()

    def test_a_password_is_repeated_in_no_error(self, postgres_server: PostgresServer) -> None:
        store = open_store("postgresql+psycopg://acceptd:hunter2@127.0.0.1:1/acceptd?sslpassword=hunter2")
        with pytest.raises(StoreAway) as caught:
            store.check()
        assert "hunter2" not in f"{caught.value} {caught.value!r} {store.name}"
        assert "acceptd" in store.name

    def test_a_lock_that_stays_is_named(
        self, daemon: Callable[[], Store], postgres_server: PostgresServer, database: str
    ) -> None:
        with postgres_server.connect(database) as other, other.transaction():
            other.execute("LOCK TABLE lives")
            with pytest.raises(StoreBusy, match="a lock was not to be had"), daemon().write() as unit:
                unit.connection.exec_driver_sql("SET LOCAL lock_timeout = '50ms'")  # type: ignore[attr-defined]
                unit.lives.add(life())

    def test_every_unit_has_limits(self, daemon: Callable[[], Store]) -> None:
        store = daemon()
        for opened in (store.read(), store.write()):
            with opened as unit:
                connection = unit.connection  # type: ignore[attr-defined]
                limits = [connection.exec_driver_sql(f"SHOW {name}_timeout").scalar() for name in ("lock", "statement")]
                assert limits == ["10s", "1min"]


@pytest.fixture
def bouncer(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """PgBouncer in its transaction mode with one server connection; gives the address of a database through it."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed (Debian: apt-get install pgbouncer)")
    folder = postgres_server.folder / "bouncer"
    folder.mkdir()
    (folder / "users").write_text('"acceptd" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host={postgres_server.folder} user=acceptd\n"
        f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\nauth_type = any\nauth_file = {folder}/users\n"
        f"pool_mode = transaction\ndefault_pool_size = 1\nlogfile = {folder}/log\n"
    )
    user = postgres_server.user
    if user is not None:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, user)
    process = subprocess.Popen([program, "-q", str(folder / "ini")], user=user, stderr=subprocess.DEVNULL)
    try:
        yield lambda database: f"postgresql+psycopg://acceptd@/{database}?host={folder}&port=6432"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        shutil.rmtree(folder)


def wait_for(folder: str, database: str) -> None:
    deadline = CLOCK.monotonic() + 30
    while True:
        try:
            psycopg.connect(host=folder, port=6432, dbname=database, user="acceptd").close()
            return
        except psycopg.OperationalError:
            if CLOCK.monotonic() > deadline:
                raise
            CLOCK.sleep(0.05)


def test_two_daemons_share_one_server_connection_behind_pgbouncer(
    bouncer: Callable[[str], str], postgres_server: PostgresServer, database: str
) -> None:
    """Prepared statements or settings of one would be met by the other here."""
    wait_for(str(postgres_server.folder / "bouncer"), database)
    stores = [open_store(bouncer(database)) for _ in range(2)]
    with stores[0].write() as unit:
        unit.lives.add(life())
    for number in range(30):
        with stores[number % 2].write() as unit:
            unit.intervals.add([interval(life(), 15 * (number + 1))])
            assert unit.leases.acquire("tuner", "host-a", 60, T0) is not None
        with stores[(number + 1) % 2].read() as unit:
            assert unit.intervals.totals(life().id).intervals == number + 1
            with pytest.raises(StoreError):
                unit.lives.update(life())
    for store in stores:
        store.close()
