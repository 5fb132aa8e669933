"""kill -9 at random moments under load: no interval lost, none doubled, checked against the servers' own counters."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from monitor.store import open_store
from tests.faults.counted import CountedServer, Counts, serving
from tests.faults.daemon import FaultyDaemon, check_whole, head_of
from tests.integration.postgres import PostgresServer

KILLS = 6
#: A start takes about 0.3 s here: so some are killed before they run, some between two pages, some in one (seconds).
SHORTEST, LONGEST = 0.05, 1.2


def kill_at_random(daemon: FaultyDaemon, servers: list[CountedServer], kills: int, dice: random.Random) -> None:
    """Start and kill the daemon so often; servers restart now and then, also while no daemon runs."""
    for number in range(kills):
        daemon.process = daemon.spawn()
        time.sleep(dice.uniform(SHORTEST, LONGEST))
        if dice.random() < 0.4:
            dice.choice(servers).restart()
        if number % 2:
            daemon.kill()
            if dice.random() < 0.5:
                dice.choice(servers).restart()
        else:
            # In the middle of stopping in order.
            daemon.process.terminate()
            time.sleep(dice.uniform(0.0, 0.05))
            daemon.kill()


def all_stored(daemon: FaultyDaemon, servers: list[CountedServer]) -> bool | None:
    """Whether every server was met."""
    with daemon.store() as store:
        return all(head_of(store, server) is not None for server in servers) or None


@pytest.mark.postgres
def test_nothing_is_lost_or_doubled_on_a_shared_database(
    watching: Callable[..., FaultyDaemon], postgres_server: PostgresServer
) -> None:
    url = postgres_server.url(postgres_server.new_database())
    store = open_store(url)
    store.upgrade()
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    servers = [CountedServer(f"s{number}", 500.0 + 97.0 * number) for number in range(4)]
    with serving(*servers):
        daemon = watching(*servers, store={"shared": {"url": url.replace("+psycopg", "")}})

        def agree(truth: dict[str, Counts]) -> bool | None:
            return all(head_of(store, server) == truth[server.name] for server in servers) or None

        daemon.start()
        daemon.wait(lambda: all(head_of(store, server) is not None for server in servers) or None, "all are stored")
        for server in servers:
            server.restart()
        daemon.kill()
        kill_at_random(daemon, servers, KILLS // 2, random.Random(seed))
        daemon.start()
        truth = {server.name: server.freeze() for server in servers}
        daemon.wait(lambda: agree(truth), "the newest heads are what the servers count")
        for server in servers:
            check_whole(store, server, truth[server.name])
        assert "Traceback" not in daemon.said()
        daemon.stop()
    store.close()


def test_nothing_is_lost_or_doubled(watching: Callable[..., FaultyDaemon]) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    servers = [CountedServer(f"s{number}", 500.0 + 97.0 * number) for number in range(6)]
    with serving(*servers):
        daemon = watching(*servers)
        daemon.start()
        daemon.wait(lambda: all_stored(daemon, servers), "a page of every server is stored")
        for server in servers:
            server.restart()
        daemon.kill()
        kill_at_random(daemon, servers, KILLS, random.Random(seed))
        daemon.start()
        truth = {server.name: server.freeze() for server in servers}

        def agree() -> bool | None:
            with daemon.store() as store:
                return all(head_of(store, server) == truth[server.name] for server in servers) or None

        daemon.wait(agree, "the newest heads are what the servers count")
        with daemon.store() as store:
            for server in servers:
                check_whole(store, server, truth[server.name])
        assert "Traceback" not in daemon.said()
