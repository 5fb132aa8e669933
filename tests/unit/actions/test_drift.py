"""What somebody changed by hand is left to them for a while, and everybody is told who can end that."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.actions.drift import Drift, drift_of, release
from monitor.errors import ActionError
from monitor.model.life import Life, LifeId, Setting, StartEvidence
from tests.fakes.fake_world import LIMITS, World, tokens


def lived(world: World, number: int | None, *, method: str | None = "ngram", adapts: str | None = None) -> None:
    """The server is seen with a setting from now on."""
    now = world.clock.now()
    with world.store.write() as unit:
        for life in unit.lives.open_of(world.server.name):
            unit.lives.update(replace(life, ended=now))
        unit.lives.add(
            Life(
                id=LifeId(f"l-{now:%d%H%M%S}"), server=world.server.name, model="tiny", engine="0", first_seen=now,
                evidence=StartEvidence.PROCESS_START, counts_from_zero=True, adapts=adapts,
                setting=Setting(method=method, num_speculative_tokens=number),
            )
        )  # fmt: skip


def found(world: World) -> Drift | None:
    with world.store.read() as unit:
        return drift_of(unit, world.server.name, world.limits, world.clock.now())


def changed_by_hand() -> World:
    world = World()
    lived(world, 2)
    world.clock.advance(3600)
    world.server.restart_by_hand(5)
    lived(world, 5)
    world.clock.advance(600)
    return world


class TestHolding:
    def test_a_server_changed_by_hand_is_not_tuned_and_it_is_said_how_long_and_who_ends_it(self) -> None:
        world = changed_by_hand()
        with pytest.raises(ActionError) as caught:
            world.begin(6, current=5)
        assert (caught.value.reason, caught.value.retryable) == ("drift", True)
        for words in ("s1 was changed by hand", "2 tokens -> ngram, 5 tokens", "hold_after_drift", "acceptd resume s1"):
            assert words in str(caught.value)

    def test_it_ends_with_its_time(self) -> None:
        world = changed_by_hand()
        world.clock.advance(86_400 - 601)
        assert found(world) is not None
        world.clock.advance(2)
        assert found(world) is None
        world.begin(6, current=5)

    def test_whoever_may_resume_ends_it_until_the_next_change_by_hand(self) -> None:
        world = changed_by_hand()
        drift = found(world)
        assert drift is not None
        with world.store.write() as unit:
            release(unit, drift, "ann", world.clock.now())
        assert found(world) is None
        (entry,) = world.audit("drift:s1")
        assert (entry.actor, entry.sentence) == ("ann", "s1 is tuned again, from ngram, 5 tokens")
        world.clock.advance(60)
        lived(world, 1)
        assert found(world) is not None

    def test_a_person_who_applies_ends_it_too(self) -> None:
        world = changed_by_hand()
        world.begin(6, current=5, by_operator=True)
        assert world.run()
        assert world.server.tokens == 6
        lived(world, 6)
        assert found(world) is None

    def test_where_no_time_is_wanted_none_is_held(self) -> None:
        world = changed_by_hand()
        world.limits = replace(LIMITS, drift_hold_seconds=0.0)
        assert found(world) is None


class TestNoDrift:
    def test_our_own_changes_are_none_whether_they_were_kept_or_not(self) -> None:
        world = World()
        lived(world, 2)
        world.clock.advance(3600)
        world.begin(3)
        world.run(until=lambda: world.change().ready_at is not None)
        lived(world, 3)
        assert found(world) is None
        assert world.run()
        world.clock.advance(60)
        world.orders.roll_back(world.group.name, "ann", world.clock.now())
        assert world.run()
        lived(world, 2)
        assert found(world) is None

    def test_a_restart_by_hand_with_the_same_setting_is_none(self) -> None:
        world = World()
        lived(world, 2)
        world.clock.advance(60)
        lived(world, 2, method=None)
        assert found(world) is None

    def test_neither_is_a_first_sight_an_unknown_setting_or_an_engine_that_adapts(self) -> None:
        world = World()
        assert found(world) is None
        lived(world, 2)
        assert found(world) is None
        world.clock.advance(60)
        lived(world, None)
        assert found(world) is None
        world.clock.advance(60)
        lived(world, 5, adapts="adaptive steps")
        assert found(world) is None

    def test_another_method_of_the_same_number_is_one(self) -> None:
        world = World()
        lived(world, 2)
        world.clock.advance(60)
        lived(world, 2, method="suffix")
        assert found(world) is not None


def test_a_hand_that_comes_while_a_change_is_under_way_is_respected_afterwards() -> None:
    world = World()
    lived(world, 2)
    world.clock.advance(600)
    world.begin(3)
    world.run(until=lambda: world.change().state == "draining")
    world.server.restart_by_hand(7)
    assert world.run()
    assert world.server.tokens == 7
    lived(world, 7)
    world.clock.advance(timedelta(hours=1).total_seconds())
    with pytest.raises(ActionError, match="changed by hand"):
        world.begin(8, current=7)
    assert world.rollout().proposed == tokens(3)
