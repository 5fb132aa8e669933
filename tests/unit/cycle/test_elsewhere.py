"""Step times of servers like those of a group: who is like it, and that a decision rests on them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.decider import Decider
from monitor.cycle.elsewhere import MOST_SERVERS, Elsewhere
from monitor.cycle.history import History
from monitor.model.decision import Decision
from monitor.model.life import Life, Setting
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.signals.track import Pair
from tests.unit.cycle.questions import UP, firing
from tests.unit.cycle.test_decider import Desk
from tests.unit.signals.windows import NOON, life, run_of

HERE = Group(name=GroupName("g"), servers=(ServerName("a"),))
THREE = Setting(method="eagle3", num_speculative_tokens=3)


def server(name: str, gpu: str | None = "H100", group: str = "other") -> Server:
    return Server(name=ServerName(name), group=GroupName(group), base_url="http://x", metrics_url="http://x/metrics",
                  gpu=gpu)


def serve(history: History, name: str, *, tokens: int = 3, model: str = "m", step: float = 0.01, **of: object) -> None:
    shown = replace(life(name, tokens=tokens, **of), model=model)  # type: ignore[arg-type]
    tell(history, shown, run_of(shown, 10, seconds=60.0, step_seconds=step))


def tell(history: History, of: Life, pairs: list[Pair]) -> None:
    """Each interval as it comes: sums are made of what is over."""
    for _, one in pairs:
        history.add([of], [one], one.end)


def found(history: History, *others: Server, here: str | None = "H100") -> list[int]:
    """Settings that the rows from elsewhere are of."""
    serve(history, "a")
    known = Elsewhere(history, [server("a", here, "g"), *others])
    return [row.num_speculative_tokens for rows in known.costs(HERE, THREE, NOON) for row in rows]


class TestWhoIsLikeIt:
    def test_one_of_the_same_model_release_and_gpu(self) -> None:
        history = History(86_400.0)
        serve(history, "b", tokens=5)
        assert found(history, server("b")) == [5]

    @pytest.mark.parametrize(
        ("gpu", "shows"),
        [("A100", {}), (None, {}), ("H100", {"model": "n"}), ("H100", {"version": "0.12.0"}),
         ("H100", {"method": "mtp"})],
    )
    def test_nobody_else(self, gpu: str | None, shows: dict[str, str]) -> None:
        history = History(86_400.0)
        serve(history, "b", tokens=5, **shows)  # type: ignore[arg-type]
        assert found(history, server("b", gpu)) == []

    def test_nothing_where_the_groups_own_gpu_is_not_named(self) -> None:
        history = History(86_400.0)
        serve(history, "b", tokens=5)
        assert found(history, server("b", None), here=None) == []

    def test_what_it_took_in_another_release_does_not_count(self) -> None:
        history = History(86_400.0)
        old = replace(life("b", tokens=1, version="0.10.0"), ended=NOON - timedelta(hours=1))
        tell(history, old, run_of(old, 40, ends_at=-3600.0))
        serve(history, "b", tokens=5, number=2)
        assert found(history, server("b")) == [5]

    def test_a_few_of_many_are_enough(self) -> None:
        history = History(86_400.0)
        names = [f"b{n}" for n in range(MOST_SERVERS + 3)]
        for name in names:
            serve(history, name, tokens=5)
        assert found(history, *(server(name) for name in names)) == [5] * MOST_SERVERS

    def test_what_was_found_holds_for_a_while(self) -> None:
        history = History(86_400.0)
        serve(history, "a")
        serve(history, "b", tokens=5)
        known = Elsewhere(history, [server("a", group="g"), server("b")])
        ((first,),) = known.costs(HERE, THREE, NOON)
        of = life("b", tokens=5)
        tell(history, of, run_of(of, 10, ends_at=600.0, seconds=60.0, step_seconds=0.02))
        assert known.costs(HERE, THREE, NOON + timedelta(minutes=10)) == ((first,),)
        ((fresh,),) = known.costs(HERE, THREE, NOON + timedelta(minutes=20))
        assert fresh.step_seconds > first.step_seconds


def try_out(history: History, name: str, step: float) -> None:
    """The server was at 8 tokens for an hour, until two hours ago, and its steps took so long."""
    before = replace(life(name, tokens=8, number=0), ended=NOON - timedelta(hours=2))
    tell(history, before, run_of(before, 60, ends_at=-7200.0, seconds=60.0, step_seconds=step))


def decided(
    *, step: float | None = None, gpu: str = "H100", tried: float | None = None, tried_there: float | None = None
) -> Decision:
    """What is decided of a server at 2 tokens and 10 ms, beside one of another group at 8 tokens and `step`.

    `tried`, `tried_there`: what steps took when the one or the other was changed to 8 tokens, and set back to 2.
    """
    desk = Desk()
    (name,) = desk.names
    desk.history = History(86_400.0)
    shown = life(name, tokens=2)
    if tried is not None:
        try_out(desk.history, name, tried)
    if tried_there is not None:
        try_out(desk.history, "b", tried_there)
        serve(desk.history, "b", tokens=2)
    tell(desk.history, shown, run_of(shown, 60, seconds=60.0, per_pos=(900.0, 800.0), finished=50.0))
    if step is not None:
        serve(desk.history, "b", tokens=8, step=step)
    desk.decider = Decider(
        desk.store, desk.history, [desk.group], desk.fleet, begin=desk._begin, receivers=lambda _: [],
        simulated=False, counters=desk.counters,
        elsewhere=Elsewhere(desk.history, [server(name, group="g"), server("b", gpu)]),
    )
    made = desk.run(firing(UP))
    assert made is not None
    return made


def width(decision: Decision) -> float:
    assert decision.gain_low is not None and decision.gain_high is not None
    return decision.gain_high - decision.gain_low


class TestADecision:
    def test_it_rests_on_step_times_from_elsewhere(self) -> None:
        alone, told = decided(step=None), decided(step=0.015)
        assert alone.gain is not None and told.gain is not None
        assert width(told) < width(alone)
        # A dearer token over there makes the same raise worth less here.
        dearer = decided(step=0.017)
        assert dearer.gain is not None and dearer.gain < told.gain

    def test_it_does_not_where_the_gpu_is_another(self) -> None:
        alone, other = decided(step=None), decided(step=0.015, gpu="A100")
        assert (other.gain, width(other)) == (alone.gain, width(alone))

    @pytest.mark.parametrize("where", ["tried", "tried_there"])
    def test_what_a_change_cost_is_learned_from_though_it_was_undone(self, where: str) -> None:
        told, dearer = decided(**{where: 0.015}), decided(**{where: 0.020})
        assert width(told) < width(decided())
        assert told.gain is not None and dearer.gain is not None
        assert dearer.gain < told.gain
