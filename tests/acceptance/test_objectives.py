"""Objectives in a running daemon: they page, they freeze, they are shown, and a death of the daemon forgets nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.acceptance.daemon import PATIENCE, Daemon, Simulated

BUSY = "closed:clients=16,prompt=160,output=120,hits=0.3"
#: No first token comes within a millisecond, so every request is bad; and a budget that some seconds spend.
STRICT = """
slos:
  - {name: instant, indicator: time_to_first_token, threshold: 1ms, objective: 0.999999, minimum_events: 1}
  - {name: up, indicator: uptime, objective: 0.5, windows: [ticket_slow]}
"""
LENIENT = STRICT.replace("threshold: 1ms", "threshold: 60s")


def slos(daemon: Daemon) -> dict[str, dict[str, Any]] | None:
    """Objectives by name as the daemon's own endpoint shows them; None while their history is being read."""
    page = daemon.page("/api/v1/status")
    found = json.loads(page)["slos"] if page is not None else None
    return {one["name"]: one for one in found} if found else None


def counted(daemon: Daemon, name: str, least: float) -> dict[str, Any] | None:
    found = slos(daemon)
    return found[name] if found is not None and found[name]["valid"] >= least else None


def test_a_burning_objective_pages_once_freezes_its_group_and_outlives_the_daemon(
    make_daemon: Callable[..., Daemon],
) -> None:
    server = Simulated("chat", tokens=1, method="mtp", load=BUSY)
    daemon = make_daemon(server)
    path = daemon.folder / "slo.yaml"
    path.write_text(STRICT)
    daemon.settings["slo"] = {"files": [str(path)]}
    daemon.with_buttons("U0ANN")
    daemon.start()
    (paged,) = daemon.wait(lambda: daemon.told("chat: instant fails") or None, "the page about the budget")
    slack = daemon.slack
    assert slack is not None
    slack.socket.wait_connected(seconds=PATIENCE)
    slack.press(paged, "acceptd_acknowledge", user="U0ANN", name="ann")
    (known,) = daemon.wait(lambda: daemon.told("Acknowledged by ann") or None, "the word that somebody is on it")
    assert known.thread_ts == paged.ts
    planned = daemon.wait(lambda: daemon.change_in(server, "planned"), "a raise is asked for")
    shown = daemon.wait(lambda: counted(daemon, "instant", 20), "the objective on the page")
    assert shown["reached"] < 0.05 and shown["burning"] and shown["exhausted_in_seconds"] == 0.0
    page = daemon.page("/")
    assert page is not None and "instant" in page and "is spent" in page

    before = counted(daemon, "up", 5)
    daemon.kill()
    daemon.start()
    after = daemon.wait(lambda: counted(daemon, "instant", shown["valid"]), "what was counted is counted again")
    assert after["burning"]
    up = daemon.wait(lambda: counted(daemon, "up", 5), "checks are counted on")
    # Killed, it had not stored the checks of its last turn; the others are there.
    assert before is not None and up["valid"] >= before["valid"] - 5
    assert [message.ts for message in daemon.told("chat: instant fails")] == [paged.ts, known.ts]
    shown_alerts = json.loads(daemon.command("alerts", "--json").stdout)
    by = {alert["severity"]: alert["acknowledged_by"] for alert in shown_alerts if "instant" in alert["summary"]}
    # The ticket about the same budget was inhibited: nobody was told of it.
    assert by == {"page": "slack:U0ANN (ann)", "ticket": None}
    change = daemon.change_in(server, "planned")
    assert change is not None and change.id == planned.id and server.tokens() == 1

    said = daemon.command("slo", "--json")
    assert said.returncode == 0, said.stderr
    assert {one["name"] for one in json.loads(said.stdout)["slos"]} == {"instant", "up"}
    shown_rules = daemon.command("rules", "show", "--json")
    assert [one["where"] for one in json.loads(shown_rules.stdout)["slos"]] == [f"{path}:3", f"{path}:4"]

    path.write_text(LENIENT)
    daemon.hang_up()
    daemon.wait(lambda: server.tokens() == 2, "the change goes on once nothing burns")
    daemon.stop()
    down = daemon.command("slo", "--json")
    assert down.returncode == 0
    found = {one["name"]: one for one in json.loads(down.stdout)["slos"]}
    assert found["instant"]["reached"] == 1.0
    assert found["up"]["valid"] >= up["valid"]
