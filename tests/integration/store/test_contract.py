"""What every store keeps to: the one in memory, SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from monitor.errors import StoreError
from monitor.intervals.buckets import STEPS
from monitor.model.alert import AlertState
from monitor.model.counts import LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.decision import DecisionState
from monitor.model.life import LifeId, Setting
from monitor.model.notice import DeliveryState, NoticeId
from monitor.model.record import (
    EVERYTHING,
    AuditEntry,
    Baseline,
    Checks,
    Command,
    CommandKind,
    Evidence,
    LastGood,
    Pause,
    Rejection,
    ReportRecord,
    Restart,
    RuleTimer,
)
from monitor.model.rollout import ChangeState, Outcome, RolloutState
from monitor.store import ActiveRolloutExists, Store
from monitor.store.api import Unshipped
from tests.integration.store.values import (
    EAGLE,
    EAST,
    FINE,
    LARGE,
    NGRAM,
    T0,
    WEST,
    A,
    B,
    alert,
    at,
    change,
    decision,
    head,
    interval,
    life,
    notice,
    reading,
    rollout,
    silence,
    watched,
)

HOUR = timedelta(hours=1)


class TestUnits:
    def test_a_unit_that_raises_is_undone_as_a_whole(self, store: Store) -> None:
        with pytest.raises(RuntimeError), store.write() as unit:
            unit.lives.add(life())
            unit.heads.put([head(life())])
            raise RuntimeError("in between")
        with store.read() as unit:
            assert unit.lives.get(life().id) is None
            assert unit.heads.get(life().id) is None

    def test_a_refused_row_undoes_what_the_unit_did_before(self, store: Store) -> None:
        with store.write() as unit:
            unit.lives.add(life())
        with pytest.raises(StoreError), store.write() as unit:
            unit.lives.update(life(engine_version="other"))
            unit.lives.add(life())
        with store.read() as unit:
            assert unit.lives.get(life().id) == life()

    def test_a_unit_for_reading_refuses_to_write(self, store: Store) -> None:
        with pytest.raises(StoreError), store.read() as unit:
            unit.lives.add(life())
        with store.read() as unit:
            assert unit.lives.get(life().id) is None

    def test_units_that_write_do_not_nest(self, store: Store) -> None:
        with store.write() as unit:
            with pytest.raises(StoreError, match="within"), store.write():
                pass
            unit.lives.add(life())
        with store.write() as unit:
            assert unit.lives.get(life().id) is not None

    @pytest.mark.parametrize("durable", [True, False])
    def test_what_a_unit_wrote_the_next_one_reads(self, store: Store, durable: bool) -> None:
        with store.write(durable=durable) as unit:
            unit.lives.add(life())
        assert store.transact(lambda unit: unit.lives.get(life().id)) == life()

    def test_moments_come_back_in_utc_whatever_zone_they_went_in_with(self, store: Store) -> None:
        elsewhere = T0.astimezone(timezone(timedelta(hours=5, minutes=45)))
        with store.write() as unit:
            unit.lives.add(life(first_seen=elsewhere))
        with store.read() as unit:
            found = unit.lives.get(life().id)
        assert found is not None
        assert found.first_seen == T0
        if type(store).__name__ != "MemoryStore":
            assert found.first_seen.tzinfo is UTC

    def test_a_closed_store_opens_again(self, store: Store) -> None:
        with store.write() as unit:
            unit.lives.add(life())
        store.close()
        with store.read() as unit:
            assert unit.lives.get(life().id) == life()


class TestLives:
    def test_a_life_comes_back_as_it_was(self, store: Store) -> None:
        bare = life("bare", engine_version=None, setting=Setting(), sources={}, process_start=None, created=None)
        with store.write() as unit:
            unit.lives.add(life())
            unit.lives.add(bare)
        with store.read() as unit:
            assert unit.lives.get(life().id) == life()
            assert unit.lives.get(bare.id) == bare
            assert unit.lives.get("none") is None  # type: ignore[arg-type]

    def test_a_known_id_is_refused_and_an_unknown_one_cannot_be_updated(self, store: Store) -> None:
        with store.write() as unit:
            unit.lives.add(life())
        with pytest.raises(StoreError), store.write() as unit:
            unit.lives.add(life())
        with pytest.raises(StoreError, match="other"), store.write() as unit:
            unit.lives.update(life("other"))

    def test_open_lives_are_those_that_have_not_ended(self, store: Store) -> None:
        first, second = life("1"), life("2", first_seen=at(60))
        with store.write() as unit:
            unit.lives.add(second)
            unit.lives.add(first)
            unit.lives.add(life("b", server=B))
        with store.write() as unit:
            assert unit.lives.open_of(A) == [first, second]
            unit.lives.update(replace(first, ended=at(60)))
            assert unit.lives.open_of(A) == [second]

    def test_lives_of_a_span_overlap_it(self, store: Store) -> None:
        early, late = life("early", ended=at(100)), life("late", first_seen=at(100))
        other = life("other", server=B, first_seen=at(50))
        with store.write() as unit:
            for each in (early, late, other):
                unit.lives.add(each)
        with store.read() as unit:
            assert unit.lives.of(A, at(0), at(100)) == [early]
            assert unit.lives.of(A, at(99), at(101)) == [early, late]
            assert unit.lives.of(A, at(100), at(200)) == [late]
            assert unit.lives.of(None, at(60), at(90)) == [early, other]


class TestHeads:
    def test_counts_come_back_to_the_last_digit(self, store: Store) -> None:
        with store.write() as unit:
            unit.lives.add(life())
            unit.heads.put([head(life())])
        with store.write() as unit:
            assert unit.heads.get(life().id) == head(life())
            unit.heads.put([head(life(), at(15), 2.0)])
        with store.read() as unit:
            found = unit.heads.get(life().id)
        assert found == head(life(), at(15), 2.0)
        assert found is not None and found.counts.traffic is not None
        assert (found.counts.traffic.generation_tokens, found.counts.traffic.prompt_tokens) == (LARGE, FINE)

    def test_heads_of_a_server_are_those_of_its_open_lives(self, store: Store) -> None:
        over, open_, other = life("over", ended=at(1)), life("open"), life("other", server=B)
        with store.write() as unit:
            for each in (over, open_, other):
                unit.lives.add(each)
                unit.heads.put([head(each)])
            unit.lives.add(life("headless"))
        with store.read() as unit:
            assert unit.heads.of_server(A) == {open_.id: head(open_)}
            assert unit.heads.get(over.id) == head(over)

    def test_a_head_without_its_life_is_refused(self, store: Store) -> None:
        with pytest.raises(StoreError), store.write() as unit:
            unit.heads.put([head(life())])


class TestIntervals:
    def test_every_family_comes_back_to_the_last_digit(self, store: Store) -> None:
        with store.write() as unit:
            unit.lives.add(life())
            assert unit.intervals.add([interval(life(), 15)]) == 1
        with store.read() as unit:
            assert unit.intervals.between([A], T0, at(15)) == [interval(life(), 15)]

    def test_what_is_absent_comes_back_absent_and_not_as_zero(self, store: Store) -> None:
        bare = interval(life(), 15, bare=True)
        hollow = interval(
            life(), 30, bare=True,
            speculation=SpeculationCounts(None, None, None), speculation_seconds=0.0,
            traffic=TrafficCounts(generation_tokens=0.0), traffic_seconds=15.0,
            latency=LatencyCounts(), latency_seconds=0.0,
        )  # fmt: skip
        empty = interval(
            life(), 45, bare=True, speculation=SpeculationCounts(0.0, 0.0, 0.0, (), None), speculation_seconds=15.0
        )
        with store.write() as unit:
            unit.lives.add(life())
            unit.intervals.add([bare, hollow, empty])
        with store.read() as unit:
            assert unit.intervals.between([A], T0, at(45)) == [bare, hollow, empty]

    def test_an_interval_belongs_to_the_span_that_holds_its_end(self, store: Store) -> None:
        with store.write() as unit:
            unit.lives.add(life())
            unit.intervals.add(interval(life(), end) for end in (45, 15, 30))
        with store.read() as unit:
            assert [i.end for i in unit.intervals.between([A], at(15), at(45))] == [at(30), at(45)]
            assert unit.intervals.between([A], at(45), at(99)) == []

    def test_servers_are_chosen_and_none_of_them_gives_nothing(self, store: Store) -> None:
        mine, theirs = life("mine"), life("theirs", server=B)
        with store.write() as unit:
            for each in (mine, theirs):
                unit.lives.add(each)
                unit.intervals.add([interval(each, 15), interval(each, 30)])
        with store.read() as unit:
            assert [i.server for i in unit.intervals.between(None, T0, at(30))] == [A, B, A, B]
            assert [i.server for i in unit.intervals.between([B], T0, at(30))] == [B, B]
            assert unit.intervals.between([], T0, at(30)) == []

    def test_intervals_of_a_life_that_ended_are_found(self, store: Store) -> None:
        """Also where another machine's clock ended the life before its last interval."""
        with store.write() as unit:
            unit.lives.add(life(ended=at(14), first_seen=at(16)))
            unit.intervals.add([interval(life(), 15)])
        with store.read() as unit:
            assert len(unit.intervals.between([A], T0, at(15))) == 1
            assert unit.intervals.last_end(A) == at(15)

    def test_without_details_numbers_stay_and_arrays_go(self, store: Store) -> None:
        whole = interval(life(), 15)
        with store.write() as unit:
            unit.lives.add(life())
            unit.intervals.add([whole])
        with store.read() as unit:
            (found,) = unit.intervals.between([A], T0, at(15), details=False)
        assert found.speculation is not None and whole.speculation is not None
        assert found.speculation.num_drafts == whole.speculation.num_drafts
        assert found.speculation.accepted_per_pos is None
        assert found.traffic is not None and found.traffic.generation_tokens == LARGE
        assert found.traffic.finished == {} and found.traffic.prompt_length is None
        assert found.latency == LatencyCounts()

    def test_a_known_key_is_refused_and_the_head_stays_with_it(self, store: Store) -> None:
        """Given a page counted once, when it is counted again, then neither interval nor head changes."""
        with store.write() as unit:
            unit.lives.add(life())
            unit.heads.put([head(life(), at(15))])
            unit.intervals.add([interval(life(), 15)])
        with pytest.raises(StoreError), store.write() as unit:
            unit.heads.put([head(life(), at(15), 9.0)])
            unit.intervals.add([interval(life(), 15)])
        with store.read() as unit:
            assert unit.heads.get(life().id) == head(life(), at(15))
            assert unit.intervals.totals(life().id).intervals == 1

    def test_copying_passes_over_what_is_known(self, store: Store) -> None:
        with store.write() as unit:
            unit.lives.add(life())
            unit.intervals.add([interval(life(), 15)])
        with store.write() as unit:
            again = [interval(life(), 15, bare=True), interval(life(), 30), interval(life(), 30, bare=True)]
            assert unit.intervals.add(again, skip_known=True) == 1
            assert unit.intervals.add([], skip_known=True) == 0
        with store.read() as unit:
            assert unit.intervals.between([A], T0, at(99)) == [interval(life(), 15), interval(life(), 30)]

    def test_an_interval_of_an_unknown_life_or_of_another_server_is_refused(self, store: Store) -> None:
        with pytest.raises(StoreError), store.write() as unit:
            unit.intervals.add([interval(life(), 15)])
        with store.write() as unit:
            unit.lives.add(life())
        with pytest.raises(StoreError), store.write() as unit:
            unit.intervals.add([replace(interval(life(), 15), server=B)])

    def test_the_last_end_is_that_of_all_lives(self, store: Store) -> None:
        old, new = life("old", ended=at(30)), life("new", first_seen=at(30))
        with store.write() as unit:
            assert unit.intervals.last_end(A) is None
            for each, end in ((old, 30), (new, 45)):
                unit.lives.add(each)
                unit.intervals.add([interval(each, end)])
            unit.lives.add(life("other", server=B))
        with store.read() as unit:
            assert unit.intervals.last_end(A) == at(45)
            assert unit.intervals.last_end(B) is None

    def test_totals_add_what_is_known_and_nothing_else(self, store: Store) -> None:
        rows = [
            interval(life(), 15, bare=True, speculation=SpeculationCounts(10.0, 30.0, 20.0), speculation_seconds=15.0),
            interval(life(), 30, bare=True, speculation=SpeculationCounts(1.0, None, 2.0), speculation_seconds=15.0),
            interval(life(), 45, bare=True, traffic=TrafficCounts(generation_tokens=LARGE), traffic_seconds=15.0),
        ]
        with store.write() as unit:
            unit.lives.add(life())
            unit.intervals.add(rows)
        with store.read() as unit:
            found, none = unit.intervals.totals(life().id), unit.intervals.totals("none")  # type: ignore[arg-type]
        assert (found.intervals, found.first_start, found.last_end) == (3, T0, at(45))
        assert (found.num_drafts, found.num_draft_tokens, found.num_accepted_tokens) == (11.0, 30.0, 22.0)
        assert (found.generation_tokens, found.prompt_tokens) == (LARGE, None)
        assert (none.intervals, none.first_start, none.num_drafts) == (0, None, None)


class TestReadings:
    def test_only_the_newest_of_each_server_is_kept(self, store: Store) -> None:
        with store.write() as unit:
            unit.readings.put(reading(B))
            unit.readings.put(reading(A))
            unit.readings.put(reading(A, at(15)))
        with store.read() as unit:
            assert unit.readings.get(A) == reading(A, at(15))
            assert unit.readings.all() == [reading(A, at(15)), reading(B)]
            assert unit.readings.get("none") is None  # type: ignore[arg-type]

    def test_a_server_that_never_answered_has_a_reading_without_engines(self, store: Store) -> None:
        silent = replace(reading(), last_ok=None)
        silent = replace(silent, reading=replace(silent.reading, engines=(), state=None, process_start=None))
        with store.write() as unit:
            unit.readings.put(silent)
        with store.read() as unit:
            assert unit.readings.get(A) == silent


class TestDecisions:
    def test_a_decision_comes_back_as_it_was(self, store: Store) -> None:
        plain = decision("2", gain=None, gain_low=None, gain_high=None, threshold=None, evidence={}, note="")
        with store.write() as unit:
            unit.decisions.add(decision("1"))
            unit.decisions.add(plain)
        with store.write() as unit:
            assert unit.decisions.get(decision("1").id) == decision("1")
            assert unit.decisions.get(plain.id) == plain
            done = replace(plain, state=DecisionState.ACTED_ON, note="by anna")
            unit.decisions.update(done)
            assert unit.decisions.get(plain.id) == done

    def test_decisions_are_found_by_group_time_and_state(self, store: Store) -> None:
        east = [decision(f"e{n}", made_at=at(n), state=DecisionState.SUPERSEDED) for n in range(3)]
        west = decision("w", WEST, made_at=at(1), state=DecisionState.AWAITING_APPROVAL)
        with store.write() as unit:
            for each in (east[2], west, east[0], east[1]):
                unit.decisions.add(each)
        with store.read() as unit:
            assert unit.decisions.latest(EAST) == [east[2]]
            assert unit.decisions.latest(EAST, 2) == [east[2], east[1]]
            assert unit.decisions.since(EAST, at(1)) == [east[1], east[2]]
            assert unit.decisions.since(None, at(1)) == [east[1], west, east[2]]
            assert unit.decisions.in_state(DecisionState.AWAITING_APPROVAL) == [west]
            both = unit.decisions.in_state(DecisionState.AWAITING_APPROVAL, DecisionState.SUPERSEDED)
            assert both == [east[0], east[1], west, east[2]]
            assert unit.decisions.in_state() == []


class TestRollouts:
    def test_a_rollout_comes_back_as_it_was(self, store: Store) -> None:
        done = rollout("1", state=RolloutState.PROMOTED, finished_at=at(9), outcome=Outcome.MEASURED_BETTER)
        with store.write() as unit:
            unit.rollouts.add(rollout("1"))
            assert unit.rollouts.get(rollout("1").id) == rollout("1")
            unit.rollouts.update(done)
        with store.read() as unit:
            assert unit.rollouts.get(done.id) == done

    def test_a_group_has_one_active_rollout_and_the_second_is_told_which(self, store: Store) -> None:
        with store.write() as unit:
            unit.rollouts.add(rollout("1"))
            unit.rollouts.add(rollout("w", WEST))
        with pytest.raises(ActiveRolloutExists, match="rollout 1") as caught, store.write() as unit:
            unit.rollouts.add(rollout("2"))
        assert caught.value.existing == rollout("1")
        with store.write() as unit:
            unit.rollouts.update(rollout("1", state=RolloutState.ROLLED_BACK))
            unit.rollouts.add(rollout("2", created_at=at(5)))
        with store.read() as unit:
            assert [each.id for each in unit.rollouts.active()] == ["w", "2"]
            assert [each.id for each in unit.rollouts.active(EAST)] == ["2"]
            assert [each.id for each in unit.rollouts.since(EAST, T0)] == ["1", "2"]
            assert [each.id for each in unit.rollouts.since(None, at(1))] == ["2"]

    def test_a_known_id_is_refused_by_that_name(self, store: Store) -> None:
        over = rollout("1", state=RolloutState.PROMOTED)
        with store.write() as unit:
            unit.rollouts.add(over)
        with pytest.raises(StoreError) as caught, store.write() as unit:
            unit.rollouts.add(over)
        assert not isinstance(caught.value, ActiveRolloutExists)

    def test_a_finished_rollout_cannot_come_back_beside_an_active_one(self, store: Store) -> None:
        with store.write() as unit:
            unit.rollouts.add(rollout("1", state=RolloutState.PROMOTED))
            unit.rollouts.add(rollout("2"))
        with pytest.raises(StoreError), store.write() as unit:
            unit.rollouts.update(rollout("1"))


class TestChanges:
    def test_changes_come_back_by_position(self, store: Store) -> None:
        second = change("2", rollout("r"), 1, server=B)
        first = change("1", rollout("r"), 0)
        plain = change(
            "3", rollout("r"), 2, deadline=None, outcome=None, measured=None, models=(), history=(), retry_at=None
        )
        with store.write() as unit:
            unit.rollouts.add(rollout("r"))
            unit.changes.add([second, first, plain])
        with store.read() as unit:
            assert unit.changes.of_rollout(rollout("r").id) == [first, second, plain]
            assert unit.changes.get(second.id) == second

    def test_active_ones_are_those_that_are_not_final(self, store: Store) -> None:
        states = list(ChangeState)
        with store.write() as unit:
            unit.rollouts.add(rollout("r"))
            unit.changes.add(change(f"c{n}", rollout("r"), n, state=state) for n, state in enumerate(states))
        with store.write() as unit:
            active = unit.changes.active()
            assert [each.state for each in active] == [state for state in states if not state.is_final]
            for each in active:
                unit.changes.update(replace(each, state=ChangeState.ABANDONED))
            assert unit.changes.active() == []

    def test_those_of_a_server_are_found_by_time(self, store: Store) -> None:
        with store.write() as unit:
            unit.rollouts.add(rollout("r"))
            unit.changes.add(
                [
                    change("new", rollout("r"), 0, entered_at=at(20)),
                    change("old", rollout("r"), 1, entered_at=at(10)),
                    change("b", rollout("r"), 2, server=B, entered_at=at(20)),
                ]
            )
        with store.read() as unit:
            assert [each.id for each in unit.changes.of_server(A, at(10))] == ["old", "new"]
            assert [each.id for each in unit.changes.of_server(A, at(11))] == ["new"]
            assert [each.id for each in unit.changes.of_servers([A, B], at(10))] == ["old", "b", "new"]
            assert unit.changes.of_servers([], at(10)) == []

    def test_a_change_without_its_rollout_is_refused(self, store: Store) -> None:
        with pytest.raises(StoreError), store.write() as unit:
            unit.changes.add([change("1", rollout("r"))])


class TestLeases:
    def test_only_one_holder_has_it_until_it_expires(self, store: Store) -> None:
        with store.write() as unit:
            mine = unit.leases.acquire("tuner", "host-a", 30, T0)
            assert mine is not None
            assert (mine.holder, mine.fence, mine.expires_at) == ("host-a", 1, at(30))
            assert unit.leases.acquire("tuner", "host-b", 30, at(29)) is None
            theirs = unit.leases.acquire("tuner", "host-b", 30, at(30))
            assert theirs is not None and theirs.fence == 2
            assert unit.leases.confirm([mine], at(31)) == set()
            assert unit.leases.get("tuner") == theirs
        with store.read() as unit:
            assert unit.leases.get("tuner") == theirs
            assert unit.leases.get("other") is None

    def test_many_are_taken_at_once_and_those_of_others_left(self, store: Store) -> None:
        with store.write() as unit:
            theirs = unit.leases.acquire("watch:b", "host-b", 30, T0)
            mine = unit.leases.hold(["watch:c", "watch:a", "watch:b"], "host-a", 60, T0)
            assert {name: (lease.holder, lease.fence) for name, lease in mine.items()} == {
                "watch:a": ("host-a", 1), "watch:c": ("host-a", 1),
            }  # fmt: skip
            again = unit.leases.hold(["watch:a", "watch:b"], "host-a", 60, at(30))
            assert {name: (lease.fence, lease.expires_at) for name, lease in again.items()} == {
                "watch:a": (1, at(90)), "watch:b": (2, at(90)),
            }  # fmt: skip
            assert unit.leases.hold([], "host-a", 60, T0) == {}
            unit.leases.acquire("watch_x", "host-c", 30, T0)
            unit.leases.release(again["watch:b"])
        with store.read() as unit:
            found = unit.leases.standing("watch:", at(70))
            assert [(lease.name, in_force) for lease, in_force in found] == [("watch:a", True), ("watch:c", False)]
            assert theirs is not None

    def test_what_is_confirmed_is_ours_until_the_unit_ends(self, store: Store) -> None:
        with store.write() as unit:
            old = unit.leases.hold(["a", "b", "c"], "me", 30, T0)
            unit.leases.hold(["b"], "other", 30, at(31))
            unit.leases.hold(["c"], "me", 30, at(31))
        with store.write() as unit:
            assert unit.leases.confirm(old.values(), at(10)) == {"a"}
            assert unit.leases.confirm(old.values(), at(30)) == set()
            assert unit.leases.confirm([], T0) == set()

    def test_its_holder_prolongs_it_with_the_same_fence(self, store: Store) -> None:
        with store.write() as unit:
            first = unit.leases.acquire("tuner", "host-a", 30, T0)
            assert first is not None
            renewed = unit.leases.acquire("tuner", "host-a", 30, at(20))
            assert renewed is not None and (renewed.fence, renewed.expires_at) == (1, at(50))
            again = unit.leases.acquire("tuner", "host-a", 60, at(49))
            assert again is not None and (again.fence, again.expires_at) == (1, at(109))

    def test_once_expired_it_is_lost_also_for_its_holder(self, store: Store) -> None:
        with store.write() as unit:
            first = unit.leases.acquire("tuner", "host-a", 30, T0)
            assert first is not None
            assert unit.leases.confirm([first], at(30)) == set()
            again = unit.leases.acquire("tuner", "host-a", 30, at(30))
            assert again is not None and again.fence == 2

    def test_a_released_one_is_free_and_its_fence_goes_on(self, store: Store) -> None:
        with store.write() as unit:
            first = unit.leases.acquire("tuner", "host-a", 30, T0)
            assert first is not None
            unit.leases.release(first)
            assert unit.leases.get("tuner") is None
            assert unit.leases.confirm([first], at(1)) == set()
            second = unit.leases.acquire("tuner", "host-b", 30, at(1))
            assert second is not None and second.fence == 2
            unit.leases.release(first)
            assert unit.leases.get("tuner") == second

    @pytest.mark.parametrize(("holder", "ttl"), [("", 30.0), ("host-a", 0.0), ("host-a", -1.0)])
    def test_nobody_cannot_hold_it_and_nothing_is_no_time(self, store: Store, holder: str, ttl: float) -> None:
        with pytest.raises(StoreError), store.write() as unit:
            unit.leases.acquire("tuner", holder, ttl, T0)


class TestAlerts:
    def test_an_alert_comes_back_as_it_was(self, store: Store) -> None:
        plain = alert("Y", fired_at=None, last_true=None, acknowledged_by=None, notified_at=None, evidence={})
        with store.write() as unit:
            unit.alerts.put([alert("X"), plain])
        with store.read() as unit:
            assert unit.alerts.get(alert("X").fingerprint) == alert("X")
            assert unit.alerts.get(plain.fingerprint) == plain
            assert unit.alerts.get("none") is None  # type: ignore[arg-type]

    def test_an_incident_moves_on_in_place_and_the_next_one_is_another(self, store: Store) -> None:
        over = alert("X", state=AlertState.RESOLVED, resolved_at=at(60))
        again = alert("X", since=at(600))
        with store.write() as unit:
            unit.alerts.put([alert("X")])
            unit.alerts.put([over])
            assert unit.alerts.all() == [over]
            unit.alerts.put([again])
        with store.read() as unit:
            assert unit.alerts.get(over.fingerprint) == again
            assert unit.alerts.all() == [again]
            assert unit.alerts.since(at(60)) == [over, again]
            assert unit.alerts.since(at(61)) == [again]

    def test_resolved_ones_are_shown_as_long_as_one_asks_for(self, store: Store) -> None:
        firing = alert("X")
        over = alert("Y", since=at(1), state=AlertState.RESOLVED, resolved_at=at(60))
        pending = alert("Z", since=at(2), state=AlertState.PENDING, fired_at=None)
        with store.write() as unit:
            unit.alerts.put([pending, over, firing])
        with store.read() as unit:
            assert unit.alerts.all() == [firing, over, pending]
            assert unit.alerts.all(resolved_since=at(60)) == [firing, over, pending]
            assert unit.alerts.all(resolved_since=at(61)) == [firing, pending]

    def test_what_never_fired_is_forgotten(self, store: Store) -> None:
        pending = alert("X", state=AlertState.PENDING, fired_at=None)
        with store.write() as unit:
            unit.alerts.put([pending])
            unit.alerts.put([replace(pending, state=AlertState.INACTIVE)])
            assert unit.alerts.get(pending.fingerprint) is None
            fired = alert("Y", state=AlertState.INACTIVE)
            unit.alerts.put([fired])
            assert unit.alerts.get(fired.fingerprint) == fired
            assert unit.alerts.all() == []


class TestSilences:
    def test_a_silence_is_active_from_beginning_to_end(self, store: Store) -> None:
        with store.write() as unit:
            unit.silences.add(silence("1", 0, 60))
            unit.silences.add(silence("2", 60, 120))
        with store.read() as unit:
            assert unit.silences.active(at(-1)) == []
            assert unit.silences.active(at(59)) == [silence("1", 0, 60)]
            assert unit.silences.active(at(60)) == [silence("2", 60, 120)]
            assert unit.silences.all() == [silence("1", 0, 60), silence("2", 60, 120)]

    def test_it_can_be_ended_once(self, store: Store) -> None:
        with store.write() as unit:
            unit.silences.add(silence("1", 0, 60))
            assert unit.silences.expire(silence("1").id, at(30))
            assert not unit.silences.expire(silence("1").id, at(40))
            assert not unit.silences.expire(silence("none").id, at(40))
            assert unit.silences.active(at(30)) == []
            assert unit.silences.all() == [silence("1", 0, 30)]


class TestOutbox:
    def test_a_key_is_queued_once(self, store: Store) -> None:
        with store.write() as unit:
            assert unit.outbox.queue(notice("1", key="k"), ["slack", "console", "slack"], at(1))
            assert not unit.outbox.queue(notice("2", key="k"), ["slack"], at(2))
        with store.read() as unit:
            due = unit.outbox.due(at(1), 10)
            assert [(n, d.receiver) for n, d in due] == [(notice("1", key="k"), r) for r in ("slack", "console")] or (
                {(n.id, d.receiver) for n, d in due} == {("1", "slack"), ("1", "console")}
            )
            assert unit.outbox.pending_count() == 2

    def test_a_notice_comes_back_as_it_was(self, store: Store) -> None:
        plain = notice("2", fields=(), labels={}, annotations={}, attachments=(), edits_root=False, simulated=False)
        with store.write() as unit:
            unit.outbox.queue(notice("1"), ["slack"], T0)
            unit.outbox.queue(plain, [], T0)
        with store.read() as unit:
            assert [n for n, _ in unit.outbox.recent(5)] == [plain, notice("1")]

    def test_due_are_pending_ones_whose_time_has_come_longest_waiting_first(self, store: Store) -> None:
        with store.write() as unit:
            for name, moment in (("late", 20), ("early", 10), ("sent", 5), ("failed", 5)):
                unit.outbox.queue(notice(name), ["slack"], at(moment))
            for name, state in (("sent", DeliveryState.SENT), ("failed", DeliveryState.FAILED)):
                (delivery,) = [d for n, d in unit.outbox.due(at(30), 9) if n.id == name]
                unit.outbox.update(replace(delivery, state=state, sent_at=at(6), external_id="C1:1", reason="r"))
        with store.read() as unit:
            assert [n.id for n, _ in unit.outbox.due(at(30), 9)] == ["early", "late"]
            assert [n.id for n, _ in unit.outbox.due(at(30), 1)] == ["early"]
            assert [n.id for n, _ in unit.outbox.due(at(19), 9)] == ["early"]
            assert unit.outbox.pending_count() == 2

    def test_a_receiver_sees_its_own_in_the_order_they_were_queued(self, store: Store) -> None:
        with store.write() as unit:
            unit.outbox.queue(notice("1"), ["slack"], at(50))
            unit.outbox.queue(notice("2"), ["slack", "console"], at(10))
            unit.outbox.queue(notice("3"), ["console"], at(10))
        with store.read() as unit:
            assert [n.id for n, _ in unit.outbox.waiting("slack", 9)] == ["1", "2"]
            assert [n.id for n, _ in unit.outbox.waiting("slack", 1)] == ["1"]
            assert [n.id for n, _ in unit.outbox.waiting("console", 9)] == ["2", "3"]
            assert unit.outbox.pending_receivers() == ["console", "slack"]

    def test_a_notice_can_be_handed_to_another_receiver_once(self, store: Store) -> None:
        with store.write() as unit:
            unit.outbox.queue(notice("1"), ["slack"], T0)
            assert unit.outbox.forward(NoticeId("1"), "console", at(5))
            assert not unit.outbox.forward(NoticeId("1"), "console", at(6))
            assert [d.next_attempt_at for _, d in unit.outbox.waiting("console", 9)] == [at(5)]
        with pytest.raises(StoreError), store.write() as unit:
            unit.outbox.forward(NoticeId("none"), "console", at(5))

    def test_what_was_sent_in_a_thread_comes_in_that_order_if_it_has_a_name(self, store: Store) -> None:
        with store.write() as unit:
            for name, thread in (("1", "t"), ("2", "t"), ("3", "t"), ("4", "other"), ("5", "t")):
                unit.outbox.queue(notice(name, thread=thread), ["slack", "console"], T0)
            assert unit.outbox.sent_in("t", "slack") == [] and unit.outbox.newest("slack") is None
            waiting = {n.id: d for n, d in unit.outbox.waiting("slack", 9)}
            sent = {
                name: replace(waiting[NoticeId(name)], state=DeliveryState.SENT, sent_at=at(when), external_id=name)
                for name, when in (("2", 20), ("3", 10), ("4", 1))
            }
            sent["5"] = replace(waiting[NoticeId("5")], state=DeliveryState.SENT, sent_at=at(5))
            for delivery in sent.values():
                unit.outbox.update(delivery)
        with store.read() as unit:
            assert [delivery for _, delivery in unit.outbox.sent_in("t", "slack")] == [sent["3"], sent["2"]]
            assert [said.id for said, _ in unit.outbox.sent_in("t", "slack")] == ["3", "2"]
            assert unit.outbox.sent_in("t", "console") == []
            assert unit.outbox.newest("slack") == sent["2"]
            assert unit.outbox.newest("console") is None

    def test_the_newest_come_with_all_their_deliveries(self, store: Store) -> None:
        with store.write() as unit:
            for name in ("1", "2", "3"):
                unit.outbox.queue(notice(name), ["slack", "console"], T0)
        with store.read() as unit:
            found = [(n.id, [d.receiver for d in deliveries]) for n, deliveries in unit.outbox.recent(2)]
        assert found == [("3", ["console", "slack"]), ("2", ["console", "slack"])]

    def test_an_unknown_delivery_cannot_be_updated(self, store: Store) -> None:
        with store.write() as unit:
            unit.outbox.queue(notice("1"), ["slack"], T0)
        with pytest.raises(StoreError, match="console"), store.write() as unit:
            ((_, delivery),) = unit.outbox.due(T0, 1)
            unit.outbox.update(replace(delivery, receiver="console"))


class TestUnshipped:
    def test_it_is_a_queue_of_each_server_in_the_order_of_their_oldest_rows(self, store: Store) -> None:
        one, other = LifeId("a/m/0/1"), LifeId("b/m/0/1")
        rows = [Unshipped(0, B, other, None), Unshipped(0, A, one, at(15)), Unshipped(0, B, other, at(30))]
        with store.write() as unit:
            unit.unshipped.add(rows)
        with store.write() as unit:
            assert list(unit.unshipped.waiting().items()) == [(B, 2), (A, 1)]
            first, second = unit.unshipped.of([B])
            assert (first.server, first.life, first.end) == (B, other, None)
            assert (second.end, second.number > first.number) == (at(30), True)
            unit.unshipped.remove([first])
            assert list(unit.unshipped.waiting().items()) == [(A, 1), (B, 1)]
        with store.write() as unit:
            unit.unshipped.remove([second])
            unit.unshipped.add([Unshipped(0, B, other, at(45))])
            (third,) = unit.unshipped.of([B])
            assert third.number > second.number  # a number never comes back
            assert unit.unshipped.count() == 2
            unit.unshipped.void(unit.unshipped.of([A]))
            assert unit.unshipped.waiting() == {B: 1}

    def test_what_is_void_goes_with_its_intervals_and_out_of_the_sums(self, store: Store) -> None:
        born = life("a/m/0/1")
        with store.write() as unit:
            unit.lives.add(born)
            unit.intervals.add(interval(born, 15.0 * number) for number in range(1, 600))
            unit.unshipped.add(Unshipped(0, A, born.id, at(15.0 * number)) for number in range(30, 500))
        store.roll_up(at(2e5))
        with store.write() as unit:
            unit.unshipped.void(unit.unshipped.of([A]))
            assert unit.unshipped.count() == 0
        for _ in range(2):
            with store.read() as unit:
                assert len(unit.intervals.between([A], at(-1), at(1e6))) == 129
                for step in STEPS:
                    found = unit.intervals.between_coarse([A], at(-1), at(1e6), step)
                    assert sum(one.elapsed_seconds for one in found) == 129 * 15.0
            store.roll_up(at(2e5))


class TestManyAtOnce:
    def test_lives_are_stored_or_replaced_and_heads_forgotten(self, store: Store) -> None:
        one, other = life("a/m/0/1"), life("b/m/0/1", server=B)
        with store.write() as unit:
            unit.lives.put([one, other])
            unit.lives.put([replace(one, ended=at(5))])
            unit.heads.put([head(one)])
            unit.heads.put([head(other)])
            unit.heads.remove([one.id, LifeId("nobody")])
        with store.read() as unit:
            assert (unit.lives.get(one.id), unit.lives.get(other.id)) == (replace(one, ended=at(5)), other)
            assert (unit.heads.get(one.id), unit.heads.get(other.id)) == (None, head(other))

    def test_intervals_are_found_by_their_keys(self, store: Store) -> None:
        one, other = life("a/m/0/1"), life("b/m/0/1", server=B)
        with store.write() as unit:
            unit.lives.put([one, other])
            unit.intervals.add([interval(each, end) for each in (one, other) for end in (15, 30, 45)])
        with store.read() as unit:
            keys = [(A, one.id, at(45)), (B, other.id, at(15)), (A, other.id, at(15)), (A, one.id, at(99))]
            assert unit.intervals.of_keys(keys) == [interval(other, 15), interval(one, 45)]
            assert unit.intervals.of_keys([]) == []


class TestServers:
    def test_those_that_have_gone_are_kept_and_shown_to_who_asks_far_enough_back(self, store: Store) -> None:
        here = watched("a", labels={"zone": "é"})
        gone = watched("b", since=at(-100), retired_at=at(50))
        with store.write() as unit:
            unit.servers.put([gone, here])
        with store.read() as unit:
            assert unit.servers.all(at(50)) == [here, gone]
            assert unit.servers.all(at(51)) == [here]
        with store.write() as unit:
            unit.servers.put([replace(gone, retired_at=None, since=at(60))])
        with store.read() as unit:
            assert [one.server for one in unit.servers.all(at(99))] == [A, B]


class TestPauses:
    def test_a_scope_is_paused_until_it_is_lifted_or_over(self, store: Store) -> None:
        whole = Pause(EVERYTHING, "anna", "fire", T0)
        brief = Pause("group:east", "ben", "work", T0, at(60))
        with store.write() as unit:
            unit.pauses.set(brief)
            unit.pauses.set(whole)
        with store.write() as unit:
            assert unit.pauses.active(at(59)) == [whole, brief]
            assert unit.pauses.active(at(60)) == [whole]
            unit.pauses.set(replace(brief, until=at(90)))
            assert unit.pauses.active(at(60)) == [whole, replace(brief, until=at(90))]
            assert unit.pauses.clear(EVERYTHING)
            assert not unit.pauses.clear(EVERYTHING)
            assert unit.pauses.active(at(99)) == []


class TestCommands:
    def test_a_request_is_pending_until_it_has_an_outcome(self, store: Store) -> None:
        second = Command("2", CommandKind.APPROVE, "d1", "anna", at(2))
        first = Command("1", CommandKind.REPORT, "", "ben", at(1))
        with store.write() as unit:
            unit.commands.add(second)
            unit.commands.add(first)
        with store.write() as unit:
            assert unit.commands.pending() == [first, second]
            unit.commands.finish("1", at(5), "made")
            assert unit.commands.pending() == [second]
            assert unit.commands.get("1") == replace(first, done_at=at(5), outcome="made")
            assert unit.commands.get("none") is None
        with pytest.raises(StoreError, match="none"), store.write() as unit:
            unit.commands.finish("none", at(5), "made")


class TestSmallRecords:
    def test_rejections_of_a_group_come_oldest_first(self, store: Store) -> None:
        late = Rejection(EAST, 5, "ngram", at(9), at(99), 2, "slower", FINE, 2.5, 3)
        early = Rejection(EAST, 4, None, at(1), at(99), 1, "slower")
        with store.write() as unit:
            for each in (late, early, Rejection(WEST, 4, None, at(1), at(99), 1, "x")):
                unit.rejections.add(each)
        with store.read() as unit:
            assert unit.rejections.of(EAST) == [early, late]

    def test_timers_are_replaced_by_rule_and_scope(self, store: Store) -> None:
        first, second = RuleTimer("r1", "group:e", T0, at(1), "true"), RuleTimer("r1", "group:w", None, None, "no data")
        with store.write() as unit:
            unit.timers.put([second, first])
            unit.timers.put([replace(first, held_since=None)])
            unit.timers.put([])
        with store.read() as unit:
            assert unit.timers.all() == [replace(first, held_since=None), second]

    def test_checks_add_up_by_server_and_bucket(self, store: Store) -> None:
        with store.write() as unit:
            unit.checks.add([Checks(B, at(300), 4, 0), Checks(A, at(300), 3, 1), Checks(A, at(600), 0, 20)])
        with store.write() as unit:
            unit.checks.add([Checks(A, at(300), 10, 2)])
            unit.checks.add([])
        with store.read() as unit:
            first, second = Checks(A, at(300), 13, 3), Checks(A, at(600), 0, 20)
            assert unit.checks.between([A], T0, at(600)) == [first, second]
            assert unit.checks.between([A], at(300), at(600)) == [second]
            assert unit.checks.between(None, T0, at(599)) == [first, Checks(B, at(300), 4, 0)]
            assert unit.checks.between([], T0, at(600)) == []
            together = Checks(A, at(600), first.answered + second.answered, first.missed + second.missed)
            assert unit.checks.sums([A, B], T0, at(600)) == [together, Checks(B, at(300), 4, 0)]
            assert unit.checks.sums([A], at(300), at(600)) == [second]
            assert unit.checks.sums([], T0, at(600)) == []

    def test_baselines_are_kept_by_server_and_setting(self, store: Store) -> None:
        one = Baseline(A, "ngram/3/0.10", 2.5, 0.5, None, 1e6, T0, 12)
        two = Baseline(A, "ngram/4/0.10", 2.8, 0.45, FINE, 1e6, T0, 3)
        with store.write() as unit:
            unit.baselines.put(one)
            unit.baselines.put(two)
            unit.baselines.put(replace(one, windows=13))
        with store.read() as unit:
            assert unit.baselines.of_servers([A, B]) == [replace(one, windows=13), two]
            assert unit.baselines.of_servers([B]) == []

    def test_restarts_count_also_where_they_are_alike(self, store: Store) -> None:
        one = Restart(A, T0, "change", "ready")
        with store.write() as unit:
            for each in (one, one, replace(one, server=B), replace(one, at=at(-1))):
                unit.restarts.add(each)
        with store.read() as unit:
            assert unit.restarts.since(A, T0) == [one, one]
            assert unit.restarts.of_servers([A], T0) == [one, one]
            assert unit.restarts.of_servers([A, B], T0) == [one, one, replace(one, server=B)]
            assert unit.restarts.of_servers([], T0) == []

    def test_the_last_good_setting_is_replaced(self, store: Store) -> None:
        with store.write() as unit:
            assert unit.last_good.get(A) is None
            unit.last_good.put(LastGood(A, NGRAM, "h1", T0))
            unit.last_good.put(LastGood(A, EAGLE, "h2", at(1)))
            assert unit.last_good.get(A) == LastGood(A, EAGLE, "h2", at(1))

    def test_the_audit_trail_keeps_its_order(self, store: Store) -> None:
        lines = [AuditEntry(T0, "anna", f"step {n}", "rollout:r", "she did") for n in range(3)]
        other = AuditEntry(at(1), "ben", "pause", "group:w", "he did")
        with store.write() as unit:
            for line in (*lines, other):
                unit.audit.add(line)
        with store.read() as unit:
            assert unit.audit.of("rollout:r") == lines
            assert unit.audit.recent(2) == [other, lines[2]]

    def test_a_week_is_reported_once(self, store: Store) -> None:
        week = ReportRecord("2026-W09", at(9), T0, at(9), "raise a", "<p>", ("/r/1.html", "/r/1.json"))
        older = replace(week, key="2026-W08", made_at=at(1), files=())
        with store.write() as unit:
            assert unit.reports.latest() is None
            assert unit.reports.put(week)
            assert not unit.reports.put(replace(week, headline="other"))
            assert unit.reports.put(older)
        with store.read() as unit:
            assert unit.reports.get(week.key) == week
            assert unit.reports.latest() == week
            assert unit.reports.all() == [older, week]
            assert unit.reports.get("none") is None

    def test_evidence_keeps_its_parts(self, store: Store) -> None:
        seen = Evidence("1", A, T0, "cliff", {"page": "# HELP\nx 1\n", "log": "a zero \x00"})
        late = Evidence("2", A, at(5), "cliff")
        with store.write() as unit:
            unit.evidence.add(late)
            unit.evidence.add(seen)
        with store.read() as unit:
            assert unit.evidence.get("1") == seen
            assert unit.evidence.of(A, T0) == [seen, late]
            assert unit.evidence.of(A, at(1)) == [late]
            assert unit.evidence.of(B, T0) == []


def test_an_empty_store_answers_every_question(store: Store) -> None:
    with store.read() as unit:
        assert unit.lives.open_of(A) == [] == unit.lives.of(None, T0, at(1))
        assert unit.heads.of_server(A) == {}
        assert unit.intervals.between(None, T0, at(1)) == []
        assert unit.readings.all() == [] == unit.decisions.latest(EAST)
        assert unit.rollouts.active() == [] == unit.changes.active()
        assert unit.alerts.all() == [] == unit.alerts.since(T0)
        assert unit.outbox.recent(3) == [] == unit.outbox.due(T0, 1)
        assert unit.pauses.active(T0) == [] == unit.commands.pending()
        assert unit.audit.recent(1) == [] == unit.reports.all()


def test_sizes_name_every_table(store: Store) -> None:
    with store.write() as unit:
        unit.lives.add(life())
    sizes = store.sizes()
    rows = {table.name: table.rows for table in sizes.tables}
    assert rows["lives"] == 1
    assert rows["intervals"] == 0
    if type(store).__name__ != "MemoryStore":
        assert sizes.total_bytes > 0
        # Of every table, or of none: not every SQLite tells.
        known = [table.bytes for table in sizes.tables if table.bytes is not None]
        assert len(known) in (0, len(sizes.tables))
        assert all(type(one) is int and one > 0 for one in known)
        assert sum(known) <= sizes.total_bytes


def test_a_naive_moment_is_refused(store: Store) -> None:
    if type(store).__name__ == "MemoryStore":
        pytest.skip("the fake encodes nothing")
    with pytest.raises(StoreError, match="time zone"), store.write() as unit:
        unit.lives.add(life(first_seen=datetime(2026, 3, 1)))  # noqa: DTZ001
