"""Two daemons on two hosts, one PostgreSQL, one group: while the first changes it, the second does not begin."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.daemon import Daemon, Simulated
from tests.integration.postgres import PostgresServer

pytestmark = pytest.mark.postgres

BUSY = "closed:clients=16,prompt=64,output=200"


def test_a_group_on_two_hosts_is_changed_by_one_of_them_at_a_time(
    postgres_server: PostgresServer, make_daemon: Callable[..., Daemon]
) -> None:
    url = f"postgresql://acceptd@/{postgres_server.new_database()}?host={postgres_server.folder}"
    servers = {host: Simulated(f"chat-{host}", tokens=1, load=BUSY) for host in ("h1", "h2")}
    # Observed for so long that the first is not over when the second asks.
    daemons = {host: make_daemon(server, limits={"observe": "1h"}) for host, server in servers.items()}
    for host, daemon in daemons.items():
        daemon.settings["servers"][0]["group"] = daemon.settings["groups"][0]["name"] = "chat"
        daemon.settings |= {"host": host, "store": {"shared": {"url": url}}}
        daemon.write()
    done = daemons["h1"].command("db", "upgrade", "--shared")
    assert done.returncode == 0, done.stderr
    for daemon in daemons.values():
        daemon.start()

    def begun() -> list[str]:
        """Who has stored a change of the setting; a start of a server that was down is none."""
        return [
            host for host, daemon in daemons.items()
            if any(change.proposed != change.current for change in daemon.changes(servers[host]))
        ]

    first = daemons["h1"].wait(lambda: begun() or None, "one of them begins")[0]
    second = "h2" if first == "h1" else "h1"
    daemons[second].wait(lambda: f"group chat is being changed by {first}" in daemons[second].said(), "the other waits")
    daemons[first].wait(lambda: daemons[first].change_in(servers[first], "observing"), "the first has changed")
    # It has wanted the same ever since, and has been told no at each turn.
    with daemons[second].store() as store, store.read() as unit:
        (newest,) = unit.decisions.latest("chat", 1)  # type: ignore[arg-type]
        assert (newest.action.value, newest.proposed.num_speculative_tokens) == ("raise", 2)
    assert begun() == [first]
    assert servers[first].tokens() == 2 and servers[second].tokens() == 1
