"""Days of intervals on PostgreSQL: made ahead, filled without anyone noticing, dropped once they are rolled up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from alembic import command
from sqlalchemy import text

from monitor.errors import StoreError
from monitor.model.life import Life
from monitor.model.record import AuditEntry
from monitor.store import Retention
from monitor.store.fitness import fitness
from monitor.store.opening import open_store
from monitor.store.partitions import make_partitions, partitions
from monitor.store.refusals import StoreBusy
from monitor.store.retention import prune
from monitor.store.schema import Schema
from monitor.store.sql import SqlStore
from tests.integration.postgres import PostgresServer
from tests.integration.store.timescale import as_documented
from tests.integration.store.values import T0, B, interval, life

pytestmark = pytest.mark.postgres

DAY = timedelta(days=1)
TODAY = datetime(2026, 3, 10, 6, tzinfo=UTC)
KEEP = Retention(raw_hours=48)


@pytest.fixture
def store(postgres_server: PostgresServer, upgraded: str) -> Iterator[SqlStore]:
    made = open_store(postgres_server.url(postgres_server.new_database(template=upgraded)))
    yield made
    made.close()


def days(store: SqlStore, table: str = "intervals") -> list[str]:
    with store._database.reading() as connection:
        return [f"{one.begin:%d}" for one in partitions(connection, table)]


def ends_in(store: SqlStore, part: str) -> int:
    with store._database.reading() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {part}")).scalar_one())


def add(store: SqlStore, of: Life, *moments: datetime) -> None:
    with store.write() as unit:
        if unit.lives.get(of.id) is None:
            unit.lives.add(of)
        unit.intervals.add([interval(of, (moment - T0).total_seconds()) for moment in moments])


def test_days_are_made_ahead_and_once(store: SqlStore) -> None:
    with store._database.writing(durable=True) as connection:
        assert len(make_partitions(connection, TODAY)) == 12
        assert make_partitions(connection, TODAY) == []
    assert days(store) == days(store, "interval_details") == ["09", "10", "11", "12", "13", "14"]
    store.prune(TODAY + DAY, KEEP)
    assert days(store)[-1] == "15"


def test_rows_go_to_their_day_and_those_of_no_day_to_the_default(store: SqlStore) -> None:
    with store._database.writing(durable=True) as connection:
        make_partitions(connection, TODAY)
    born = life(first_seen=TODAY - 9 * DAY)
    add(store, born, TODAY - 8 * DAY, TODAY, TODAY + DAY)
    assert [ends_in(store, f"intervals_{part}") for part in ("20260310", "20260311", "default")] == [1, 1, 1]
    assert ends_in(store, "interval_details_20260310") == 1
    sizes = {table.name: table for table in store.sizes().tables}
    assert sizes["intervals"].rows == 3 and (sizes["intervals"].bytes or 0) > 0
    assert "intervals_default" not in sizes


def test_a_day_made_late_takes_its_rows_from_the_default(store: SqlStore) -> None:
    add(store, life(first_seen=TODAY - DAY), TODAY, TODAY + timedelta(hours=1))
    assert ends_in(store, "intervals_default") == 2
    with store._database.writing(durable=True) as connection:
        make_partitions(connection, TODAY)
    assert (ends_in(store, "intervals_default"), ends_in(store, "intervals_20260310")) == (0, 2)
    with store.read() as unit:
        assert len(unit.intervals.between(None, TODAY - DAY, TODAY + DAY)) == 2


def test_days_that_are_over_and_rolled_up_are_dropped_whole(store: SqlStore) -> None:
    with store._database.writing(durable=True) as connection:
        make_partitions(connection, TODAY)
    born = life(first_seen=TODAY - DAY)
    add(store, born, *(TODAY + timedelta(hours=hour) for hour in range(-20, 90, 5)))
    before = store.roll_up(TODAY + 5 * DAY)
    assert before > 0
    deleted = store.prune(TODAY + 4 * DAY, KEEP)  # 48 h: up to 12 March, 6:00
    assert days(store)[0] == "12"
    assert deleted["intervals"] == deleted["interval_details"] > 0
    with store.read() as unit:
        left = unit.intervals.between(None, TODAY - 9 * DAY, TODAY + 9 * DAY)
        assert left[0].end.day == 12
        coarse = unit.intervals.between_coarse(None, TODAY - 9 * DAY, TODAY + 9 * DAY, 3600)
    assert coarse[0].end.day == 9  # what was dropped is in the rollups


def test_a_day_that_is_not_rolled_up_stays_however_old(store: SqlStore) -> None:
    with store._database.writing(durable=True) as connection:
        make_partitions(connection, TODAY)
    add(store, life(first_seen=TODAY - DAY), TODAY)
    add(store, life("b/m/0/1", server=B, first_seen=TODAY - DAY), TODAY)
    store.roll_up(TODAY + 5 * DAY)
    with store._database.writing(durable=True) as connection:
        connection.execute(text("DELETE FROM rollup_progress WHERE server = 'b'"))
    prune(store._database, TODAY + 30 * DAY, KEEP)
    assert days(store)[0] == "10"
    store.prune(TODAY + 30 * DAY, KEEP)
    assert "10" not in days(store)[:1]


@pytest.fixture
def hypertables(store: SqlStore) -> SqlStore:
    """The store once the documented statements have run, which also work with Timescale itself."""
    with store._database.migrating() as connection:
        as_documented(connection)
    return store


def test_hypertables_made_as_documented_are_the_same_tables(hypertables: SqlStore) -> None:
    with pytest.raises(StoreError, match="fk_intervals_server_life_lives"):
        with hypertables.write() as unit:
            unit.intervals.add([interval(life(), 15)])
    config = Schema().config
    with hypertables._database.migrating() as connection:
        command.check(config(connection))
        command.downgrade(config(connection), "0004")
    assert hypertables.upgrade()[0] == "0005"


def test_chunks_go_whole_like_days(hypertables: SqlStore) -> None:
    assert hypertables.make_days(TODAY) == days(hypertables) == []
    add(hypertables, life(first_seen=TODAY - 9 * DAY), *(TODAY - number * DAY for number in range(9)))
    assert days(hypertables) == days(hypertables, "interval_details") == [f"{day:02}" for day in range(2, 11)]
    with hypertables.read() as unit:
        before = unit.intervals.between_coarse(None, TODAY - 10 * DAY, TODAY, 3600)
    assert hypertables.prune(TODAY, KEEP) == {"intervals": 6, "interval_details": 6}
    assert days(hypertables) == days(hypertables, "interval_details") == ["08", "09", "10"]
    with hypertables.read() as unit:
        assert unit.intervals.between_coarse(None, TODAY - 10 * DAY, TODAY, 3600) == before
    hypertables.check()


def test_a_chunk_that_is_not_rolled_up_stays(hypertables: SqlStore) -> None:
    add(hypertables, life(first_seen=TODAY - DAY), TODAY)
    prune(hypertables._database, TODAY + 30 * DAY, KEEP)
    assert days(hypertables) == ["10"]
    hypertables.prune(TODAY + 30 * DAY, KEEP)
    assert days(hypertables) == []


def test_the_size_of_a_hypertable_is_that_of_its_chunks(hypertables: SqlStore) -> None:
    def taken(name: str) -> int:
        return next(table.bytes or 0 for table in hypertables.sizes().tables if table.name == name)

    empty = taken("intervals")
    add(hypertables, life(first_seen=TODAY - 9 * DAY), *(TODAY - timedelta(minutes=number) for number in range(2000)))
    assert taken("intervals") > empty + 2000 * 200
    assert 0 < taken("lives") < 200_000


def test_the_doctor_looks_for_no_days_of_hypertables_but_for_their_owner(
    hypertables: SqlStore, postgres_server: PostgresServer
) -> None:
    add(hypertables, life(first_seen=TODAY - DAY), TODAY)
    found = fitness(hypertables)
    assert (found.unmanaged, found.missing_days, found.astray) == ("", (), {})
    with hypertables._database.migrating() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"CREATE ROLE guest_{name} LOGIN"))
        connection.execute(text(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO guest_{name}"))
    guest = open_store(postgres_server.url(name, user=f"guest_{name}"))
    assert fitness(guest).unmanaged == "it does not own interval_details"
    guest.close()


def test_a_dump_keeps_days_from_being_dropped_and_nothing_else_from_being_pruned(
    store: SqlStore, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.store.postgres._LIMITS", text("SELECT set_config('lock_timeout', '100ms', true)"))
    with store._database.writing(durable=True) as connection:
        make_partitions(connection, TODAY)
    add(store, life(first_seen=TODAY - DAY), TODAY)
    with store.write() as unit:
        unit.audit.add(AuditEntry(TODAY - 900 * DAY, "somebody", "act", "thing", "detail"))
    store.roll_up(TODAY + 5 * DAY)
    name = str(store._database._engine.url.database)  # type: ignore[attr-defined]
    with postgres_server.connect(name) as dump:
        dump.execute(b"BEGIN")
        dump.execute(b"LOCK TABLE intervals, interval_details IN ACCESS SHARE MODE")
        with pytest.raises(StoreBusy, match="dump"):
            store.prune(TODAY + 9 * DAY, KEEP)
        dump.execute(b"ROLLBACK")
    with store.read() as unit:
        assert unit.audit.recent(10) == []
    assert days(store)[0] == "09" and store.is_overdue(TODAY + 9 * DAY, KEEP)
    store.prune(TODAY + 9 * DAY, KEEP)
    assert days(store)[0] == "18" and not store.is_overdue(TODAY + 9 * DAY, KEEP)
