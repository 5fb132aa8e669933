"""Two daemons on one store ask for a rollout of one group at the same moment: one gets it."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.actions.fleet import Fleet, Managed
from monitor.actions.orders import Orders
from monitor.clock import SystemClock
from monitor.errors import ActionError
from monitor.model.decision import Action, Decision, DecisionId, Precondition, Reason
from monitor.model.life import Setting
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.store import open_store
from tests.fakes.fake_clock import FakeClock
from tests.fakes.fake_server import FakeBalancer, FakeDriver, FakeProbe, FakeServer
from tests.fakes.fake_world import LIMITS
from tests.integration.postgres import PostgresServer

TWO = Setting(method="ngram", num_speculative_tokens=2)
NAME, GROUP = ServerName("s1"), GroupName("g")


def ask_at_once(url: str, daemons: int = 4) -> tuple[list[str], list[str]]:
    """Ids of the rollouts that were begun, and the reasons of those that were not."""
    store = open_store(url)
    store.upgrade()
    store.close()
    now = SystemClock().now()
    gate = threading.Barrier(daemons)
    begun: list[str] = []
    refused: list[str] = []

    def ask(number: int) -> None:
        server = FakeServer(FakeClock())
        server.boot()
        managed = Managed(
            Server(name=NAME, group=GROUP, base_url="http://127.0.0.1:1", metrics_url="http://127.0.0.1:1/metrics"),
            FakeDriver(server), FakeProbe(server), FakeBalancer(server),
        )  # fmt: skip
        fleet = Fleet(groups={GROUP: Group(name=GROUP, servers=(NAME,), limits=LIMITS)}, managed={NAME: managed})
        own = open_store(url)
        orders = Orders(own, fleet, holder=f"host-{number}")
        decision = Decision(
            id=DecisionId(f"d{number}"), group=GROUP, servers=(NAME,), rule="r", action=Action.RAISE,
            reason=Reason.PREDICTED_GAIN, sentence="x", current=TWO, proposed=replace(TWO, num_speculative_tokens=3),
            precondition=Precondition({}, TWO), made_at=now, expires_at=now + timedelta(hours=1),
        )  # fmt: skip
        gate.wait()
        try:
            rollout, _ = orders.begin(decision, "test", now)
            begun.append(rollout.id)
        except ActionError as error:
            refused.append(error.reason)
        finally:
            own.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(daemons)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return begun, refused


def check(url: str) -> None:
    begun, refused = ask_at_once(url)
    assert len(begun) == 1
    assert len(refused) == 3
    assert set(refused) <= {"active_rollout", "not_coordinator", "busy"}
    store = open_store(url)
    with store.read() as unit:
        assert [r.id for r in unit.rollouts.active()] == begun
        assert len(unit.changes.active()) == 1
    store.close()


def test_on_sqlite_one_of_four_gets_it(tmp_path: Path) -> None:
    check(f"sqlite:///{tmp_path}/local.db")


@pytest.mark.postgres
def test_on_postgresql_one_of_four_gets_it(postgres_server: PostgresServer) -> None:
    check(postgres_server.url(postgres_server.new_database()))
