"""The fleet's database under faults: not upgraded, restarted, away for long; a host asleep, and two of one name.

What the servers counted reaches the database once, whatever happened between; paging never waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from monitor.store import Store, open_store
from tests.acceptance.daemon import CLOCK
from tests.faults.counted import CountedServer, Counts, serving
from tests.faults.daemon import FaultyDaemon, check_whole, head_of
from tests.integration.postgres import PostgresServer

pytestmark = pytest.mark.postgres

#: A lease of two seconds makes an absence of five what one of minutes is with the default of one minute.
LEASE, LEASE_SECONDS = "2s", 2.0
QUICK = {"interval": "500ms", "parameters": {"ServerDown.for": "1s"}}


class Fleet:
    """Servers, their database, and daemons of host `h1`."""

    def __init__(self, server: PostgresServer, watching: Callable[..., FaultyDaemon]) -> None:
        self.postgres = server
        url = server.url(server.new_database())
        self.store: Store = open_store(url)
        self.servers = [CountedServer(f"s{number}", 500.0 + 97.0 * number) for number in range(3)]
        self._url = url.replace("+psycopg", "")
        self._watching = watching

    def make(self, lease: str = LEASE) -> FaultyDaemon:
        """One more daemon of host `h1`, on a folder of its own."""
        shared = {"url": self._url, "lease": lease}
        return self._watching(*self.servers, host="h1", store={"shared": shared}, rules=QUICK)

    def is_there(self) -> bool | None:
        """Whether the database has a page of every server's newest life."""
        return all(head_of(self.store, one) is not None for one in self.servers) or None

    def check(self, daemon: FaultyDaemon) -> dict[str, Counts]:
        """Let the servers rest until the database has all they counted, once; what that is."""
        truth = {one.name: one.freeze() for one in self.servers}
        daemon.wait(
            lambda: all(head_of(self.store, one) == truth[one.name] for one in self.servers) or None, "all is there"
        )
        for one in self.servers:
            check_whole(self.store, one, truth[one.name])
        return truth

    def owners(self) -> set[str]:
        """Hosts that hold servers now."""
        with self.store.read() as unit:
            return {lease.holder for lease, in_force in unit.leases.standing("watch:", CLOCK.now()) if in_force}


@pytest.fixture
def fleet(postgres_server: PostgresServer, watching: Callable[..., FaultyDaemon]) -> Iterator[Fleet]:
    made = Fleet(postgres_server, watching)
    with serving(*made.servers):
        yield made
    made.store.close()


def told_of(daemon: FaultyDaemon, server: CountedServer) -> bool | None:
    """Whether somebody was told that the server is down."""
    with daemon.store() as store, store.read() as unit:
        return any(server.name in notice.title for notice, _ in unit.outbox.recent(100)) or None


def test_nothing_is_lost_or_doubled_and_paging_goes_on(fleet: Fleet) -> None:
    daemon = fleet.make()
    daemon.start()
    # Not upgraded: said once, with what to do, and the host goes on alone.
    daemon.wait(lambda: "run `acceptd db upgrade`" in daemon.said() or None, "it says what to do")
    fleet.store.upgrade()
    daemon.wait(fleet.is_there, "all are in the database")
    for server in fleet.servers:
        server.restart()
    # Asleep for longer than its leases, and then the database restarts under it.
    daemon.suspend(1.5 * LEASE_SECONDS)
    fleet.postgres.stop()
    fleet.postgres.start()
    daemon.cycles()
    # Away for some leases: a server that goes down is told of, one restarts, and the daemon is killed meanwhile.
    fleet.postgres.stop()
    try:
        daemon.wait(lambda: daemon.metric("acceptd_fleet_store_away_seconds") > LEASE_SECONDS or None, "it is away")
        down, again = fleet.servers[0], fleet.servers[1]
        down.is_down = True
        daemon.wait(lambda: told_of(daemon, down), "somebody is told while it is away")
        down.is_down = False
        again.restart()
        daemon.kill()
        daemon.start()
        daemon.cycles()
        assert daemon.metric("acceptd_unshipped_intervals") > 0 or "goes on alone" in daemon.said()
    finally:
        fleet.postgres.start()
    fleet.check(daemon)
    assert "Traceback" not in daemon.said()
    daemon.stop()


def test_the_second_of_one_name_does_nothing_in_the_fleet_until_the_first_is_gone(fleet: Fleet) -> None:
    fleet.store.upgrade()
    # Long enough for a busy machine to start the first again before its name is free.
    first, second = (fleet.make(lease="15s") for _ in range(2))
    first.start()
    first.wait(fleet.is_there, "all are in the database")
    for server in fleet.servers:
        server.restart()
    second.start()
    second.wait(lambda: "another acceptd has this name in the fleet (" in second.said() or None, "it says so")
    assert str(first.data_dir) in second.said()
    doctor = second.command("doctor", "--quiet")
    assert doctor.returncode == 1 and "the name of host h1 is another daemon's" in doctor.stdout
    # Another name is taken by a restart, not by a reload.
    second.settings["host"] = "h2"
    second.write()
    second.hang_up()
    second.wait(lambda: "host cannot change while running in a fleet" in second.said() or None, "it is refused")
    second.settings["host"] = "h1"
    second.write()
    # It watches nothing that the first does.
    assert second.metric("acceptd_server_up") == 0 and "ours now" not in second.said()
    # A restart of the first, however it ended, is not kept waiting and loses nothing to the second.
    first.kill()
    first.start()
    first.cycles()
    assert "another acceptd" not in first.said()
    first.kill()
    second.wait(lambda: "server is ours now" in second.said() or None, "it takes the name when the first is gone")
    second.cycles()
    fleet.check(second)
    assert fleet.owners() == {"h1"}
    assert "Traceback" not in first.said() + second.said()
    second.stop()




@pytest.mark.parametrize("there", [True, False], ids=["while the database is there", "while it is away"])
def test_a_local_file_that_went_back_counts_nothing_twice(fleet: Fleet, there: bool) -> None:
    """A backup is put back; a loss of power does the same to the newest pages, which are not flushed one by one."""
    fleet.store.upgrade()
    daemon = fleet.make(lease="15s")
    daemon.start()
    daemon.wait(fleet.is_there, "all are in the database")
    for server in fleet.servers:
        server.restart()
    asked = [len(one.asked) for one in fleet.servers]
    daemon.wait(lambda: len(fleet.servers[0].asked) > asked[0] + 5 or None, "the new lives are read")
    before = daemon.folder / "before.db"
    assert daemon.command("db", "export", str(before)).returncode == 0
    # Brought over in turns of some seconds: wait for two.
    for _ in range(2):
        heads = {one.name: head_of(fleet.store, one) for one in fleet.servers}
        daemon.wait(
            lambda: all(head_of(fleet.store, one) != heads[one.name] for one in fleet.servers) or None,  # noqa: B023
            "more is in the database",
        )
    daemon.kill()
    for name in ("local.db-wal", "local.db-shm"):
        (daemon.data_dir / name).unlink(missing_ok=True)
    before.replace(daemon.data_dir / "local.db")
    if not there:
        fleet.postgres.stop()
    try:
        daemon.start()
        daemon.cycles()
    finally:
        if not there:
            fleet.postgres.start()
    daemon.wait(lambda: "the local file is older than what was brought over" in daemon.said() or None, "it is said")
    truth = fleet.check(daemon)
    if there:
        # Before anything new was stored: then the local file is whole again, too.
        with daemon.store() as store:
            for server in fleet.servers:
                check_whole(store, server, truth[server.name])
    assert "Traceback" not in daemon.said()
    daemon.stop()
