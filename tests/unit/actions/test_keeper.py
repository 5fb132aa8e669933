"""Servers that went away by themselves are started again, with rests, where the group says so."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import pairwise

import pytest

from monitor.actions.keeper import Keeper
from monitor.errors import ActionError
from tests.fakes.fake_world import LIMITS, World, tokens


class Kept:
    """A world with a keeper that ticks beside the executor."""

    def __init__(self, servers: int = 1, *, keep: bool = True) -> None:
        self.world = World(servers, limits=replace(LIMITS, keep_running=keep))
        self.keeper = Keeper(self.world.store, self.world.fleet, self.world.orders)

    def run(self, seconds: float, step: float = 2.0) -> None:
        end = self.world.clock.monotonic() + seconds
        while self.world.clock.monotonic() < end:
            self.world.events += self.keeper.tick(self.world.clock.now())
            self.world.tick()
            self.world.clock.advance(step)


def test_a_server_that_crashed_is_started_with_the_setting_it_had() -> None:
    kept = Kept()
    kept.world.begin(3)
    kept.run(600)
    assert kept.world.server.tokens == 3
    kept.world.server.crash()
    kept.run(300)
    assert kept.world.server.serves
    assert kept.world.server.tokens == 3
    assert kept.world.server.traffic_allowed
    assert "keep_running" in kept.world.rollout().requested_by


def test_orphans_of_a_crash_are_cleared_away_first() -> None:
    kept = Kept()
    kept.world.server.behaviour.orphans = True
    kept.world.server.crash()
    kept.run(300)
    assert kept.world.server.serves
    assert len(kept.world.server.kills) == 1


def test_a_healthy_server_is_left_alone_and_so_is_one_of_a_group_that_does_not_ask() -> None:
    kept = Kept()
    kept.run(100)
    assert kept.world.server.starts == []
    kept = Kept(keep=False)
    kept.world.server.crash()
    kept.run(300)
    assert kept.world.server.starts == []


def test_a_server_that_was_stopped_on_request_stays_stopped() -> None:
    kept = Kept()
    kept.world.drivers[0].stop()
    kept.run(300)
    assert kept.world.server.process is None


def test_a_crash_loop_is_broken_by_rests_and_by_the_days_budget(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    kept.world.server.behaviour.dies_at = {2: 70.0}
    kept.world.server.crash()
    with caplog.at_level(logging.WARNING):
        kept.run(6 * 3600, step=5)
    starts = [at for at, _, _ in kept.world.server.starts]
    assert len(starts) == LIMITS.restarts_per_day
    gaps = [b - a for a, b in pairwise(starts)]
    assert gaps[-1] > gaps[0]
    assert sum("is not started" in record.message for record in caplog.records) == 1
    kept.world.server.behaviour.dies_at = {}
    kept.run(86400, step=60)
    assert kept.world.server.serves


def test_nothing_is_started_while_paused() -> None:
    kept = Kept()
    kept.world.server.crash()
    kept.world.pause("server:s1")
    kept.run(300)
    assert kept.world.server.starts == []
    kept.world.lift("server:s1")
    kept.run(300)
    assert kept.world.server.serves


def test_a_driver_that_cannot_look_is_no_reason_to_start() -> None:
    kept = Kept()
    kept.world.server.crash()
    kept.world.drivers[0].failures["status"] = [ActionError("junk", reason="state_file")] * 5
    kept.run(6)
    assert kept.world.server.starts == []
    kept.run(300)
    assert kept.world.server.tokens == tokens(2).num_speculative_tokens
