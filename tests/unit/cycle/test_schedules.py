"""Advice on schedules by batch size: for whom it is worked out, how often, and what it says where none is proposed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from monitor.actions.fleet import Fleet
from monitor.cycle.history import History
from monitor.cycle.schedules import Schedules
from monitor.drivers.launcher import CommandLauncher
from monitor.model.decision import Decision
from monitor.model.life import Setting
from monitor.model.record import Evidence
from monitor.model.server import Engine, Group
from monitor.report.lookup import explain
from monitor.targets.drafts import DraftFacts
from monitor.tuning import Fact
from tests.fakes.fake_world import World
from tests.fakes.memory_store import MemoryStore
from tests.unit.cycle.questions import UP, firing
from tests.unit.cycle.test_decider import Desk
from tests.unit.signals.windows import NOON, life, run_of
from tests.unit.tuning.test_tuning_schedule import given

FIVE = Setting(method="eagle3", num_speculative_tokens=5)
LINE = ("vllm", "serve", "m", "--max-num-seqs", "256")


def told(
    *, line: tuple[str, ...] = LINE, version: str = "0.24.0", method: str = "eagle3", managed: bool = True,
    setting: Setting = FIVE, experts: bool = False,
) -> Evidence | None:
    """The advice for one server at five tokens that runs this command and release."""
    one, name, group = schedules(*line, version=version, method=method, managed=managed, experts=experts)
    assert name in group.servers
    return one.news(group, replace(setting, method=method), given(method=method), NOON)


def schedules(
    *line: str, version: str = "0.24.0", method: str = "eagle3", managed: bool = True, experts: bool = False,
) -> tuple[Schedules, str, Group]:
    world, history = World(), History(86_400.0)
    (name,) = world.group.servers
    of = life(name, tokens=5, method=method, version=version)
    history.add([of], [one for _, one in run_of(of, 4)], NOON)
    launcher = CommandLauncher(Engine.VLLM, line, version=lambda: None)
    known = replace(world.fleet.managed[name], driver=SimpleNamespace(launcher=launcher),  # type: ignore[arg-type]
                    draft=lambda: DraftFacts(has_experts=experts))
    return Schedules(Fleet(groups={}, managed={name: known} if managed else {}), history), name, world.group


def words(found: Evidence | None) -> str:
    assert found is not None
    (text,) = found.parts.values()
    return text


def test_a_schedule_that_pays_is_told_as_it_is_written() -> None:
    text = words(told())
    assert "is predicted to bring" in text and "acceptd sets none itself" in text
    wanted = json.loads("{" + text.partition("--speculative-config: ")[2].partition(". acceptd")[0] + "}")
    triples = wanted["num_speculative_tokens_per_batch_size"]
    assert (triples[0][0], triples[-1][1]) == (1, 256)
    # The engine cuts every number of a schedule to the one beside it.
    assert wanted["num_speculative_tokens"] == max(tokens for _, _, tokens in triples)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": "0.23.0"}, "This engine version takes no num_speculative_tokens_per_batch_size"),
        ({"method": "medusa"}, "with this method"),
        ({"line": LINE[:3]}, "the command line has no --max-num-seqs"),
        ({"line": (*LINE, "--data-parallel-size", "2")}, "data parallelism"),
        ({"version": "what"}, "cannot be read"),
    ],
)
def test_why_none_is_proposed_is_said(changes: dict[str, object], why: str) -> None:
    text = words(told(**changes))  # type: ignore[arg-type]
    assert text.startswith("None is proposed.") and why in text


def test_nothing_is_said_of_a_server_that_is_only_watched_or_does_not_draft() -> None:
    assert told(managed=False) is None
    assert told(setting=replace(FIVE, num_speculative_tokens=0)) is None
    assert told(setting=Setting()) is None


def test_it_is_worked_out_every_hour_and_the_same_is_kept_once_a_day() -> None:
    one, _, group = schedules(*LINE)

    def at(hours: float, **changes: object) -> Evidence | None:
        return one.news(group, FIVE, given(**changes), NOON + timedelta(hours=hours))

    assert at(0) is not None
    assert at(0.5, batches=()) is None
    assert at(1) is None
    assert "load of the day" in words(at(2, batches=()))
    assert at(3, batches=()) is None
    again = [hours for hours in range(4, 30) if at(hours, batches=()) is not None]
    assert again == [26]


def test_what_only_has_to_be_waited_for_is_looked_at_again_soon() -> None:
    one, _, group = schedules(*LINE)
    stuck = given(facts=frozenset({Fact.STUCK}))
    assert "engine_stuck" in words(one.news(group, FIVE, stuck, NOON))
    assert one.news(group, FIVE, given(), NOON + timedelta(minutes=4)) is None
    assert "is predicted to bring" in words(one.news(group, FIVE, given(), NOON + timedelta(minutes=5)))


def decided(desk: Desk) -> tuple[Decision, str | None]:
    made = desk.run(firing(UP))
    assert made is not None
    with desk.store.read() as unit:
        return made, explain(unit, made)["schedule"]


def test_a_decision_is_explained_with_it() -> None:
    desk = Desk()
    assert isinstance(desk.store, MemoryStore)
    _, said = decided(desk)
    assert said is not None and said.startswith("None is proposed.")
    _, nothing = decided(Desk(managed=False))
    assert nothing is None
