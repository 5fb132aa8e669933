"""kill -9 at random moments under load: no interval lost, none doubled, checked against the servers' own counters."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.faults.counted import CountedServer, serving
from tests.faults.daemon import FaultyDaemon, check_whole, head_of

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
