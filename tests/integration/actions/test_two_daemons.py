"""Two daemons on one store and one server: one carries a rollout out, the other takes over when it is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.actions.steps import token_of
from monitor.drivers.protocol import ServerState
from monitor.errors import ActionError
from monitor.model.decision import Action, Decision, DecisionId, Precondition, Reason
from monitor.model.rollout import Change, Rollout, RolloutState
from tests.integration.actions.daemon import CLOCK, GROUP, NAME, Setup
from tests.integration.actions.test_killed_daemon import ROOT, TWO
from tests.integration.postgres import PostgresServer
from tests.rigs.processes import free_port

#: Age of a lease (seconds): how long the other daemon waits for one that was killed.
LEASE = 2.0


class Pair:
    """One server and two daemons, `host-0` and `host-1`, on one store."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store, self.port = folder, store, free_port()
        self.setup = Setup(folder, self.port, (), store, "asker", LEASE).open()
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.setup.driver.start(TWO, "boot")
        self.wait(lambda: bool(self.setup.page().engines))

    def start(self, holder: str) -> None:
        environ = {**os.environ, "TEST_HOLDER": holder, "TEST_STORE": self.store, "TEST_LEASE": str(LEASE)}
        self.daemons[holder] = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.actions.daemon", str(self.folder), str(self.port)], cwd=ROOT,
            stdout=subprocess.DEVNULL, start_new_session=True, env=environ,
        )  # fmt: skip

    def kill(self, holder: str) -> None:
        daemon = self.daemons.pop(holder)
        daemon.kill()
        daemon.wait()

    def begin(self, tokens: int) -> Rollout:
        """One of the two asks, as a daemon or its command line does."""
        asker = Setup(self.folder, self.port, (), self.store, "host-0", LEASE)
        now = CLOCK.now()
        try:
            rollout, _ = asker.orders.begin(
                Decision(
                    id=DecisionId(f"d{random.getrandbits(40)}"), group=GROUP, servers=(NAME,), rule="test",
                    action=Action.RAISE, reason=Reason.PREDICTED_GAIN, sentence="try it", current=TWO,
                    proposed=replace(TWO, num_speculative_tokens=tokens), precondition=Precondition({}, TWO),
                    made_at=now, expires_at=now + timedelta(hours=1),
                ),
                "test", now,
            )  # fmt: skip
        finally:
            asker.close()
        return rollout

    def change(self, rollout: Rollout) -> Change:
        with self.setup.store.read() as unit:
            return unit.changes.of_rollout(rollout.id)[0]

    def holder(self) -> str:
        """Who carries the server now."""
        with self.setup.store.read() as unit:
            lease = unit.leases.get(f"server:{NAME}")
        return lease.holder if lease is not None else ""

    def wait(self, until: object, seconds: float = 90.0) -> None:
        deadline = CLOCK.monotonic() + seconds
        while not until():  # type: ignore[operator]
            assert CLOCK.monotonic() < deadline, (self.setup.driver.status(), self.setup.driver.log_tail())
            CLOCK.sleep(0.04)

    def close(self) -> None:
        for holder in list(self.daemons):
            self.kill(holder)
        self.setup.driver.stop(force=True)
        self.wait(lambda: self.setup.driver.status().is_gone)
        self.setup.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    store = ""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        store = server.url(server.new_database())
    made = Pair(tmp_path, store)
    yield made
    made.close()


def test_one_carries_it_out_and_the_other_finishes_what_a_killed_one_began(pair: Pair) -> None:
    """Given a daemon killed while its server starts, the other waits for its lease to end and goes on from there."""
    rollout = pair.begin(4)
    with pytest.raises(ActionError) as caught:
        pair.begin(5)
    assert caught.value.reason in ("active_rollout", "busy")
    for holder in ("host-0", "host-1"):
        pair.start(holder)
    pair.wait(lambda: pair.change(rollout).started_at is not None)
    # Stored before it is done: the kill must not hit the act of starting, after which the old setting is the safe end.
    pair.wait(lambda: pair.setup.driver.status().token == token_of(pair.change(rollout)))
    first = pair.holder()
    assert first in pair.daemons
    pair.kill(first)

    def is_over() -> bool:
        with pair.setup.store.read() as unit:
            active = unit.rollouts.active(GROUP)
        assert len(active) <= 1
        return not active

    pair.wait(is_over)
    with pair.setup.store.read() as unit:
        ended = unit.rollouts.get(rollout.id)
        starts = unit.restarts.since(NAME, rollout.created_at)
    assert ended is not None and ended.state is RolloutState.PROMOTED, pair.change(rollout).history
    assert len(starts) == 1
    status = pair.setup.driver.status()
    assert status.state is ServerState.RUNNING
    assert {engine.num_speculative_tokens for engine in pair.setup.page().engines} == {4}
