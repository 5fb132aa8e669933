"""Everything the daemon stores and does fails once, or for good, in every kind of rollout; the server must serve.

As in the matrix of deaths each scenario is run once to count its moments, then once for each of them with a fault
there: the store refuses, an act is refused or done and reported as failed, again and again where it lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from monitor.actions.events import EventKind
from monitor.errors import ActionError, StoreError
from monitor.model.rollout import Outcome, RolloutState
from tests.fakes.fake_world import LIMITS, World
from tests.unit.actions.test_death_matrix import SCENARIOS, Scenario

ACTS = ("start", "stop", "take out", "put back")
#: How long a fault lasts that does not pass at once (moments of that kind): beyond every number of tries.
FOR_GOOD = 10_000


class Faults:
    """Counts moments; from the chosen one on so many of its kind fail."""

    def __init__(self, moment: int | None = None, *, lasts: int = 1, retryable: bool = True) -> None:
        self.passed: list[str] = []
        self._moment = moment
        self._left = lasts
        self._kind = ""
        self._retryable = retryable

    def __call__(self, moment: str) -> None:
        number = len(self.passed)
        self.passed.append(moment)
        if number == self._moment:
            self._kind = moment
        if moment != self._kind or self._left <= 0:
            return
        self._left -= 1
        if "commit" in moment:
            raise StoreError(f"{moment}: the disk is full")
        raise ActionError(f"{moment}: it says no", reason="test", retryable=self._retryable)


def play(scenario: Scenario, faults: Callable[[str], None]) -> World:
    """Run the scenario to its end; a daemon whose store refuses tries again at its next turn."""
    limits = replace(LIMITS, **scenario.limits)  # type: ignore[arg-type]
    world = World(scenario.servers, limits=limits, has_control=scenario.has_control)
    scenario.prepare(world)
    scenario.begin(world)
    world.reap = faults
    for turn in range(10_000):
        try:
            world.tick()
        except StoreError:
            pass
        if world.is_quiet():
            return world
        # What waits for hours is waited for in strides.
        world.clock.advance(3 if turn < 250 else 60)
    raise AssertionError(f"{scenario.name}: no end; {world.changes()}")


def assert_served(world: World, where: str) -> None:
    """Serving with the old or the new setting, in traffic, nothing cut, within the budget, with a trail; else paged."""
    rollout = world.rollout()
    changes = world.changes()
    pages = [sentence for kind, sentence in world.sunk() if kind.is_page]
    given_up = {c.server for c in changes if c.outcome in (Outcome.UNDO_FAILED, Outcome.STOP_FAILED)}
    assert rollout.state is not RolloutState.ACTIVE and rollout.finished_at is not None, where
    for server in world.servers:
        assert server.cut_requests == 0, where
        assert len(server.starts) <= world.limits.restarts_per_day, where
        if not server.serves:
            assert server.name in given_up and pages, (where, rollout.sentence)
        else:
            assert server.tokens in (2, 3), where
        if not server.traffic_allowed:
            assert pages, (where, "nobody knows that traffic is held away")
    for change in changes:
        assert change.state.is_final, where
        told = [entry.sentence for entry in world.audit(change.id)]
        assert not change.attempts or told[-1] == change.sentence, where
    kinds = [kind for kind, _ in world.sunk()]
    assert kinds.count(EventKind.STARTED) == kinds.count(EventKind.FINISHED) == 1, where
    # A page is for a person: not one at each try.
    assert len(pages) <= 3, (where, pages)


def moments(scenario: Scenario) -> list[str]:
    counted = Faults()
    play(scenario, counted)
    return counted.passed


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_a_fault_that_passes_changes_nothing_for_the_server(scenario: Scenario) -> None:
    for number, name in enumerate(moments(scenario)):
        assert_served(play(scenario, Faults(number)), f"moment {number}: {name}")


#: Scenarios that between them have every act in every state; a fault for good ends each of them differently.
LASTING = [
    scenario
    for scenario in SCENARIOS
    if scenario.name in ("a better setting", "a worse setting", "a setting that does not start", "a restart")
]


@pytest.mark.parametrize("retryable", [True, False], ids=["refused again and again", "refused for good"])
@pytest.mark.parametrize("scenario", LASTING, ids=lambda s: s.name)
def test_an_act_that_never_works_again_leaves_a_server_serving_or_someone_told(
    scenario: Scenario, retryable: bool
) -> None:
    passed = moments(scenario)
    for name in sorted({name for name in passed if name.endswith(ACTS)}):
        # From the first act of its kind on, and at the last alone: in between nothing else is decided by it.
        for number in {passed.index(name), len(passed) - 1 - passed[::-1].index(name)}:
            world = play(scenario, Faults(number, lasts=FOR_GOOD, retryable=retryable))
            assert_served(world, f"from moment {number} on: {name}")


@pytest.mark.parametrize("scenario", LASTING, ids=lambda s: s.name)
def test_a_store_that_is_away_for_a_while_is_waited_for(scenario: Scenario) -> None:
    """Given a full disk at any step for some turns, nothing is done meanwhile and it goes on afterwards."""
    for number, name in enumerate(moments(scenario)):
        if name == "before commit":
            assert_served(play(scenario, Faults(number, lasts=4)), f"moment {number}: {name}")
