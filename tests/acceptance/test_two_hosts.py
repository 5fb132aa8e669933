"""Two daemons on two hosts, one PostgreSQL, one group: while the first changes it, the second does not begin.

The page of either shows both, what is asked on one is done by the other, and one of them listens for Slack's buttons.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import requests

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
        daemon.settings |= {"host": host, "store": {"shared": {"url": url, "lease": "6s"}}}
        daemon.with_buttons("U0ANN")
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
    listening = [host for host, daemon in daemons.items() if "acceptd_slack_socket_connected 1.0" in _metrics(daemon)]
    assert len(listening) == 1

    def fleet() -> dict[str, str] | None:
        """Whose each server is, as the second's page has it once it has read of the other."""
        (group,) = json.loads(daemons[second].page("/api/v1/status") or "{}")["groups"]
        found = {one["name"]: one["host"] for one in group["servers"]}
        return found if len(found) == 2 else None

    assert daemons[second].wait(fleet, "the page of one shows the other") == {"chat-h1": "h1", "chat-h2": "h2"}
    shown = json.loads(daemons[second].command("status", "--fleet", "--json").stdout)
    assert {one["name"]: one["host"] for one in shown["groups"][0]["servers"]} == {"chat-h1": "h1", "chat-h2": "h2"}
    assert (shown["fleet"]["hosts"], shown["fleet"]["away"], shown["fleet"]["trouble"]) == (["h1", "h2"], [], "")
    (alone,) = json.loads(daemons[second].command("servers", "--json").stdout)
    assert alone["name"] == f"chat-{second}"
    said = daemons[second].command("status", "--fleet").stdout
    assert f"2 hosts (h1, h2), this is {second}." in said and "Group chat on h1, h2" in said and "chat-h1" in said
    assert "--fleet" in daemons[second].command("status").stdout
    change = daemons[first].change_in(servers[first], "observing")
    assert change is not None
    address = f"http://{daemons[second].running()['listen']}/api/v1/rollouts/{change.rollout}/rollback"
    asked = requests.post(address, json={}, timeout=30).json()
    taken = daemons[second].wait(lambda: _answered(daemons[second], asked["id"]), "the first host answers")
    assert taken["taken"] and "going back" in taken["outcome"]
    # The database goes away under it: what has begun is undone all the same.
    postgres_server.stop()
    try:
        daemons[first].wait(lambda: daemons[first].change_in(servers[first], "rolled_back"), "the change is undone")
        assert servers[first].tokens() == 1 and servers[first].generates()
        left = daemons[second].command("status", "--fleet")
        assert left.returncode == 0 and f"chat-{second}" in left.stdout, left
        assert "The servers of other hosts cannot be read: " in left.stdout
    finally:
        postgres_server.start()


def _metrics(daemon: Daemon) -> str:
    return daemon.page("/metrics") or ""


def _answered(daemon: Daemon, request: str) -> dict[str, object] | None:
    found = json.loads(daemon.page(f"/api/v1/requests/{request}") or "{}")
    return found if found.get("done_at") else None
