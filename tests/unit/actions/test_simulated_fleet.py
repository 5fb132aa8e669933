"""Four simulated replicas under load: real pages, intervals, statistics and machine, on a clock that is told.

What is measured here is measured by the fleet itself, not by the judge: tokens made by all servers, second by second.
"""

from __future__ import annotations

from statistics import mean

from monitor.model.rollout import ChangeState, Outcome, RolloutState
from tests.fakes.memory_store import MemoryStore
from tests.fakes.sim_fleet import SimFleet

#: Seconds over which throughput is taken, and the share of three quarters it may fall short of by chance.
WINDOW, CHANCE = 30, 0.97


def least_throughput(made: list[float]) -> float:
    """Tokens a second in the worst half minute."""
    return min(mean(made[n : n + WINDOW]) for n in range(0, len(made) - WINDOW, 5))


def watched(tokens: int) -> tuple[SimFleet, float]:
    """A fleet that has served for a while, and what it makes of it (tokens a second)."""
    fleet = SimFleet(MemoryStore(), tokens=tokens)
    fleet.watch(420)
    usual = mean(fleet.generated[60:])
    fleet.serving.clear()
    fleet.generated.clear()
    return fleet, usual


def test_a_bad_number_is_caught_on_the_canary_and_three_never_see_it() -> None:
    fleet, usual = watched(3)
    rollout = fleet.run(fleet.begin(12))
    assert rollout.state is RolloutState.ROLLED_BACK, rollout
    assert rollout.outcome in (Outcome.MEASURED_WORSE, Outcome.GUARD_TRIPPED)
    assert rollout.measured is not None and rollout.measured.gain_high is not None
    assert rollout.measured.gain_high < 0
    canary, *others = fleet.replicas
    assert canary.starts == [12, 3]
    assert [replica.starts for replica in others] == [[], [], []]
    assert [replica.setting.num_speculative_tokens for replica in fleet.replicas] == [3, 3, 3, 3]
    states = [change.state for change in fleet.changes(rollout.id)]
    assert states == [ChangeState.ROLLED_BACK, *[ChangeState.ABANDONED] * 3]
    assert min(fleet.serving) >= 3
    assert least_throughput(fleet.generated) >= CHANCE * 0.75 * usual
    assert sum(replica.cut for replica in fleet.replicas) == 0


def test_a_good_number_reaches_all_in_order_with_three_serving_all_the_time() -> None:
    fleet, usual = watched(1)
    rollout = fleet.run(fleet.begin(3))
    assert rollout.state is RolloutState.PROMOTED, rollout
    assert rollout.outcome is Outcome.MEASURED_BETTER
    assert rollout.measured is not None and rollout.measured.gain_low is not None and rollout.measured.gain_low > 0
    assert [replica.starts for replica in fleet.replicas] == [[3]] * 4
    began = [change.started_at for change in fleet.changes(rollout.id)]
    assert began == sorted(began, key=lambda at: at.timestamp() if at else 0.0)
    assert min(fleet.serving) >= 3
    assert least_throughput(fleet.generated) >= CHANCE * 0.75 * usual
    assert sum(replica.cut for replica in fleet.replicas) == 0
    fleet.generated.clear()
    fleet.watch(60)
    assert mean(fleet.generated) > 1.05 * usual
