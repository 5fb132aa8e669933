"""The daemon dies before and after everything it stores and does, in every kind of rollout; the server must serve.

Each scenario is first run alive to count its moments, then once for each of them with a death there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from monitor.actions.events import EventKind
from monitor.errors import ActionError
from monitor.model.decision import Reason
from monitor.model.rollout import ChangeState, RolloutState
from tests.fakes.fake_world import LIMITS, WORSE, World
from tests.fakes.mortal import Died, Reaper


@dataclass(frozen=True)
class Scenario:
    """A rollout and how it must end, whether or not the daemon dies on the way."""

    name: str
    ends: frozenset[RolloutState]
    tokens: tuple[frozenset[int], ...]
    prepare: Callable[[World], None] = lambda world: None
    begin: Callable[[World], object] = lambda world: world.begin(3)
    servers: int = 1
    most_starts: int = 2
    most_pages: int = 0
    limits: dict[str, object] = field(default_factory=dict)
    has_control: bool = True


def worse(world: World) -> None:
    world.judge.default = WORSE


def crash_at_three(world: World) -> None:
    world.servers[-1].behaviour.crashes_at = frozenset({3})


def transient(world: World) -> None:
    world.server.behaviour.failing_starts = 1
    world.server.behaviour.crash_log = "Connection reset by peer"


def stubborn(world: World) -> None:
    world.server.behaviour.ignores_term = world.server.behaviour.orphans = True


def never_idle(world: World) -> None:
    world.server.behaviour.drain_seconds = 1e9


def dies_warm(world: World) -> None:
    world.server.behaviour.dies_at = {3: 20.0}


def hesitant(world: World) -> None:
    world.balancers[0].fails_back = 2


def down(world: World) -> None:
    world.server.crash()


def undo_struggles(world: World) -> None:
    crash_at_three(world)
    world.server.behaviour.failing_starts = 2
    world.server.behaviour.crash_log = "CUDA out of memory"


def gaps(world: World) -> None:
    """Nothing keeps traffic away; for five of ten seconds the server is idle."""
    world.server.quiet = lambda now: now % 10 < 5


def gaps_and_worse(world: World) -> None:
    gaps(world)
    worse(world)


def restart(world: World) -> None:
    world.orders.restart(
        world.server.name, "x", world.clock.now(), requested_by="ann", reason=Reason.REQUESTED_BY_OPERATOR
    )


KEPT, BACK, LEFT = RolloutState.PROMOTED, RolloutState.ROLLED_BACK, RolloutState.ABANDONED
TWO, THREE = frozenset({2}), frozenset({3})
SCENARIOS = [
    Scenario("a better setting", frozenset({KEPT}), (THREE,), most_starts=1),
    Scenario("a worse setting", frozenset({BACK}), (TWO,), worse),
    Scenario("a setting that does not start", frozenset({BACK}), (TWO,), crash_at_three, most_pages=1),
    Scenario("a start that fails once", frozenset({KEPT}), (THREE,), transient),
    Scenario("a server that must be killed", frozenset({KEPT}), (THREE,), stubborn, most_starts=1),
    Scenario("a server that is never idle", frozenset({LEFT}), (TWO,), never_idle, most_starts=0),
    Scenario("a server that dies while warming", frozenset({BACK}), (TWO,), dies_warm, most_pages=1),
    Scenario("a balancer that hesitates", frozenset({KEPT}), (THREE,), hesitant, most_starts=1),
    Scenario("a way back that struggles", frozenset({BACK}), (TWO,), undo_struggles, most_starts=4, most_pages=1),
    Scenario("a restart", frozenset({KEPT}), (TWO,), begin=restart, most_starts=1),
    Scenario("a server that is down", frozenset({KEPT}), (TWO,), down, begin=restart, most_starts=1),
    Scenario("a lone server with gaps", frozenset({KEPT}), (THREE,), gaps, most_starts=1, has_control=False),
    Scenario("a lone server with gaps, worse", frozenset({BACK}), (TWO,), gaps_and_worse, has_control=False),
    Scenario(
        "a second server that cannot follow", frozenset({BACK}), (TWO, TWO), crash_at_three, servers=2, most_pages=1
    ),
]  # fmt: skip


def play(scenario: Scenario, reaper: Reaper) -> World:
    """Run the scenario to its end; a daemon that dies is followed by another."""
    limits = replace(LIMITS, **scenario.limits)  # type: ignore[arg-type]
    world = World(scenario.servers, limits=limits, has_control=scenario.has_control)
    scenario.prepare(world)
    scenario.begin(world)
    world.reap = reaper
    for _ in range(4000):
        try:
            world.tick()
        except Died:
            world.new_daemon()
        if world.is_quiet():
            return world
        world.clock.advance(2)
    raise AssertionError(f"{scenario.name}: no end; {world.changes()}")


def assert_all_is_well(scenario: Scenario, world: World) -> None:
    rollout = world.rollout()
    assert rollout.state in scenario.ends, rollout.sentence
    assert rollout.finished_at is not None
    for server, tokens in zip(world.servers, scenario.tokens, strict=True):
        assert server.serves
        assert server.tokens in tokens
        assert server.traffic_allowed
        assert server.cut_requests == 0
        assert len(server.starts) <= scenario.most_starts
        with world.store.read() as unit:
            begun = unit.restarts.since(server.name, rollout.created_at)
        # What is written is never less than what was done, and starts have names of their own.
        assert len(server.starts) <= len(begun) <= world.limits.restarts_per_day
        assert len({token for _, _, token in server.starts}) == len(server.starts)
    for change in world.changes():
        assert change.state.is_final
        assert not change.traffic_held
        told = [entry.sentence for entry in world.audit(change.id)]
        touched = change.state is not ChangeState.ABANDONED or change.attempts
        assert not touched or told[-1] == change.sentence
    kinds = [kind for kind, _ in world.sunk()]
    assert sum(kind.is_page for kind in kinds) <= scenario.most_pages
    assert kinds.count(EventKind.FINISHED) == kinds.count(EventKind.STARTED) == 1
    with world.store.read() as unit:
        assert unit.changes.active() == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_a_death_at_any_moment_changes_nothing_of_the_end(scenario: Scenario) -> None:
    alive = Reaper()
    assert_all_is_well(scenario, play(scenario, alive))
    assert "before commit" in alive.passed
    for moment in range(len(alive.passed)):
        reaper = Reaper(moment)
        world = play(scenario, reaper)
        try:
            assert_all_is_well(scenario, world)
        except AssertionError as error:
            raise AssertionError(f"died at moment {moment} ({reaper.passed[moment]}): {error}") from error


def test_the_moments_include_every_act() -> None:
    passed = set()
    for scenario in SCENARIOS:
        reaper = Reaper()
        play(scenario, reaper)
        passed |= set(reaper.passed)
    assert passed == {
        f"{when} {what}" for when in ("before", "after") for what in ("commit", "start", "stop", "take out", "put back")
    }  # fmt: skip


@pytest.mark.parametrize("has_control", [True, False])
def test_called_off_while_we_were_dead_no_request_is_cut_and_the_old_setting_serves(has_control: bool) -> None:
    moment, moments = 0, 1
    while moment < moments:
        world = World(has_control=has_control)
        world.server.quiet = lambda now: now % 30 < 12
        world.begin(3)
        reaper = world.reap = Reaper(moment)
        for _ in range(4000):
            try:
                world.tick()
            except Died:
                with suppress(ActionError):
                    world.orders.roll_back(world.group.name, "ann", world.clock.now())
                # Who found it idle before we died may find it busy now.
                world.clock.advance(13)
                world.new_daemon()
            if world.is_quiet():
                break
            world.clock.advance(2)
        server, at = world.server, f"moment {moment} of {len(reaper.passed)}"
        assert (server.cut_requests, server.serves, server.traffic_allowed) == (0, True, True), at
        assert world.rollout().finished_at is not None
        moments = max(moments, len(reaper.passed))
        moment += 1
    assert moments > 20
