"""What the doctor says of the fleet's database, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.config.instance import own_instance
from monitor.config.model import Config
from monitor.doctor.finding import State
from monitor.doctor.shared import check_shared
from monitor.store.naming import Naming
from monitor.store.opening import open_store
from monitor.store.sql import SqlStore
from tests.integration.postgres import PostgresServer

pytestmark = pytest.mark.postgres
CLOCK = SystemClock()


class Fleet:
    def __init__(self, server: PostgresServer, folder: Path, database: str) -> None:
        self.server, self.folder, self.database = server, folder, database
        self.store: SqlStore = open_store(server.url(self.database))
        self.user = "acceptd"

    def sql(self, *statements: str) -> None:
        with self.server.connect(self.database) as connection:
            for one in statements:
                connection.execute(one.encode())

    def said(self, *, is_running: bool = True) -> dict[State, list[str]]:
        """Findings by their state; each problem has something to do."""
        url = f"postgresql://{self.user}@/{self.database}?host={self.server.folder}"
        config = Config.model_validate({"host": "h1", "store": {"shared": {"url": url}}})
        found: dict[State, list[str]] = {state: [] for state in State}
        for one in check_shared(config, self.folder, CLOCK, is_running=is_running):
            assert one.todo or one.state is State.OK
            found[one.state].append(one.sentence)
        return found

    def name(self, folder: str) -> None:
        with self.store.write() as unit:
            Naming("h1", folder, 60.0).claim(unit, CLOCK.now())
            # A longer name that begins alike is somebody else's.
            Naming("h11", "other", 60.0).claim(unit, CLOCK.now())


@pytest.fixture(scope="module")
def upgraded(postgres_server: PostgresServer) -> str:
    """A database with all tables, to be copied."""
    name = postgres_server.new_database()
    store = open_store(postgres_server.url(name))
    store.upgrade()
    store.close()
    return name


@pytest.fixture
def fleet(postgres_server: PostgresServer, upgraded: str, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(postgres_server, tmp_path, postgres_server.new_database(upgraded))
    yield made
    made.store.close()


def test_a_database_that_does_not_fit_is_said_with_what_to_do(fleet: Fleet) -> None:
    mine, fleet.database = fleet.database, fleet.server.new_database()
    assert any("run `acceptd db upgrade`" in one for one in fleet.said()[State.PROBLEM])
    fleet.database = mine
    # Days are made by `acceptd db upgrade` and every night; nobody did yet.
    (problem,) = (one for one in fleet.said()[State.PROBLEM] if "partition" in one)
    assert "intervals: " in problem and "interval_details: " in problem
    fleet.store.make_days(CLOCK.now())
    fleet.name(own_instance(fleet.folder))
    found = fleet.said()
    assert found[State.PROBLEM] == found[State.NOTE] == []
    assert "the name of host h1 is this daemon's" in found[State.OK]
    fleet.database = "never_made"
    (problem,) = fleet.said()[State.PROBLEM]
    assert "cannot be reached" in problem or "does not exist" in problem


def test_a_name_that_is_another_s_and_a_daemon_that_gives_no_sign(fleet: Fleet) -> None:
    fleet.store.make_days(CLOCK.now())
    assert fleet.said()[State.PROBLEM] == ["the daemon of host h1 gives no sign of life there"]
    assert fleet.said(is_running=False)[State.NOTE] == ["nobody has the name of host h1 there now"]
    fleet.name("77aa@gpu-9:/var/lib/acceptd")
    (problem,) = fleet.said()[State.PROBLEM]
    assert problem.startswith("the name of host h1 is another daemon's (77aa@gpu-9:/var/lib/acceptd)")


def test_a_user_who_may_not_work_there(fleet: Fleet) -> None:
    fleet.store.make_days(CLOCK.now())
    fleet.name(own_instance(fleet.folder))
    fleet.user = f"reader_{fleet.database}"
    fleet.sql(f"CREATE ROLE {fleet.user} LOGIN", f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {fleet.user}")
    (problem,) = fleet.said()[State.PROBLEM]
    assert problem.startswith("the user lacks rights: ") and "audit: INSERT, UPDATE, DELETE" in problem
    fleet.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {fleet.user}")
    (problem,) = fleet.said()[State.PROBLEM]
    assert problem.startswith("days of intervals are made and dropped by nobody: it does not own ")
    fleet.sql(f"ALTER ROLE {fleet.user} SET default_transaction_read_only = on")
    assert "is read-only" in fleet.said()[State.PROBLEM]
