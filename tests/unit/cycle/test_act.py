"""One turn of acting: requests answered once, rollouts advanced, a stuck server restarted once an incident."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.cycle.act import Actor
from monitor.cycle.history import History
from monitor.cycle.planning import Planner
from monitor.errors import StoreError
from monitor.model.alert import Alert, AlertState, fingerprint
from monitor.model.decision import Action, DecisionState, Precondition
from monitor.model.record import Command, CommandKind
from monitor.model.rollout import Outcome, RolloutState
from monitor.model.server import GroupName, ServerName
from tests.fakes.fake_world import LIMITS, WORSE, World, tokens
from tests.fakes.memory_store import MemoryStore


class Counters:
    def __init__(self) -> None:
        self.ended: list[tuple[str, str]] = []

    def change_ended(self, group: str, outcome: str) -> None:
        self.ended.append((group, outcome))


class Desk:
    def __init__(self, **limits: object) -> None:
        self.world = World(limits=replace(LIMITS, **limits))  # type: ignore[arg-type]
        self.counters = Counters()
        self.report: Callable[[str], str] = lambda author: f"report for {author}"
        self.number = 0
        self.actor = Actor(
            self.world.store, self.world.executor, self.world.orders, self.world.fleet.groups,
            list(self.world.fleet.managed),
            planner=Planner(self.world.store, History(3600.0), self.world.fleet),
            make_report=lambda author: self.report(author), counters=self.counters,
        )

    def turn(self) -> int:
        return self.actor.run(self.world.clock.now())

    def decide(self, to: int, **more: object) -> str:
        decision = replace(self.world.decision(to), **{"state": DecisionState.RECOMMENDED, **more})  # type: ignore[arg-type]
        with self.world.store.write() as unit:
            unit.decisions.add(decision)
        return decision.id

    def plan(self, decision: str) -> str:
        """The id of the plan for a decision, as somebody sees it who looks now."""
        return self.ask(CommandKind.PLAN, decision).split()[1]

    def apply(self, decision: str) -> str:
        """Somebody looks at the plan and applies it."""
        return self.ask(CommandKind.APPLY, self.plan(decision))

    def ask(self, kind: CommandKind, subject: str = "") -> str:
        """What the daemon answers to a request of Ann's."""
        self.number += 1
        command = Command(f"q{self.number}", kind, subject, "ann", self.world.clock.now())
        with self.world.store.write() as unit:
            unit.commands.add(command)
        self.turn()
        with self.world.store.read() as unit:
            answered = unit.commands.get(command.id)
            assert unit.commands.pending() == []
        assert answered is not None and answered.done_at is not None
        return answered.outcome

    def until_quiet(self) -> None:
        for _ in range(4000):
            self.turn()
            if self.world.is_quiet():
                return
            self.world.clock.advance(1.0)
        raise AssertionError("still under way")


def test_whoever_wants_to_know_is_told_of_every_answer() -> None:
    desk = Desk()
    told: list[tuple[str, str | None, str, bool]] = []
    desk.actor._on_answer = lambda unit, command, decision, outcome, taken: told.append(
        (command.kind.value, decision.id if decision else None, outcome[:15], taken)
    )
    desk.ask(CommandKind.APPROVE, "d-0")
    first = desk.decide(3)
    desk.ask(CommandKind.APPROVE, first)
    # Refused, with the name of the rollout that is under way: it is about its own decision all the same.
    second = desk.decide(4)
    assert "r-" in desk.apply(second)
    told = [one for one in told if one[0] != "plan"]
    assert told == [
        ("approve", None, "refused (unknow", False), ("approve", first, "started rollout", True),
        ("apply", second, "refused (active", False),
    ]  # fmt: skip


class TestRequests:
    def test_apply_begins_what_was_decided_and_is_carried_out(self) -> None:
        desk = Desk()
        answer = desk.apply(desk.decide(3))
        assert answer.startswith("started rollout r-") and "2 tokens -> ngram, 3 tokens" in answer
        desk.until_quiet()
        assert desk.world.rollout().state is RolloutState.PROMOTED
        assert desk.world.rollout().requested_by == "ann"
        assert desk.counters.ended == [("g", "promoted")]

    def test_a_plan_is_made_now_and_kept_for_whoever_asked(self) -> None:
        desk = Desk()
        decided = desk.decide(3)
        answer = desk.ask(CommandKind.PLAN, "g")
        assert answer.startswith("plan p-") and answer.endswith(f"of {decided}: can be applied now")
        with desk.world.store.read() as unit:
            kept = unit.evidence.get("plan:q1")
        assert kept is not None and kept.parts["plan"] == answer.split()[1]
        assert '+ --speculative-config {"method": "ngram", "num_speculative_tokens": 3}' in "".join(kept.parts.values())

    def test_only_a_plan_that_was_seen_is_applied(self) -> None:
        desk = Desk()
        decided = desk.decide(3)
        assert desk.ask(CommandKind.APPLY, decided).startswith("refused (plan_needed)")
        assert desk.ask(CommandKind.APPLY, "p-00000000").startswith("refused (stale_plan)")
        assert desk.world.is_quiet()

    def test_a_plan_is_stale_once_the_server_was_restarted_or_something_newer_was_decided(self) -> None:
        desk = Desk()
        seen = desk.plan(desk.decide(3))
        desk.world.server.restart_by_hand(2)
        assert desk.ask(CommandKind.APPLY, seen).startswith("refused (stale_plan): plan p-")
        seen = desk.plan(desk.decide(4))
        for number in range(3):
            desk.world.clock.advance(1)
            desk.decide(5 + number)
        assert desk.ask(CommandKind.APPLY, seen).startswith("refused (stale_plan)")
        assert desk.world.is_quiet()

    def test_nothing_to_do_has_no_plan(self) -> None:
        desk = Desk()
        assert desk.ask(CommandKind.PLAN, "g").startswith("refused (unknown)")
        desk.decide(2, action=Action.KEEP)
        assert desk.ask(CommandKind.PLAN, "g").startswith("refused (nothing_to_do)")

    def test_approving_is_applying(self) -> None:
        desk = Desk()
        assert desk.ask(CommandKind.APPROVE, desk.decide(3)).startswith("started rollout")

    def test_each_ending_is_counted(self) -> None:
        desk = Desk()
        desk.world.judge.default = WORSE
        desk.apply(desk.decide(3))
        desk.until_quiet()
        assert desk.counters.ended == [("g", "rolled_back")]

    @pytest.mark.parametrize("state", [DecisionState.SUPERSEDED, DecisionState.EXPIRED])
    def test_what_was_overtaken_is_not_done(self, state: DecisionState) -> None:
        desk = Desk()
        answer = desk.ask(CommandKind.PLAN, desk.decide(3, state=state))
        assert answer.startswith("refused (stale)") and state.value in answer
        assert desk.world.is_quiet()

    def test_what_is_refused_says_why(self) -> None:
        desk = Desk()
        assert desk.ask(CommandKind.APPROVE, "d-nope") == "refused (unknown): there is no decision 'd-nope'"
        assert desk.apply(desk.decide(9)).startswith("refused (limits)")
        assert "groups: g" in desk.ask(CommandKind.ROLLBACK, "nope")

    def test_declining_holds_for_a_day_from_now(self) -> None:
        desk = Desk()
        decided = desk.decide(3)
        desk.world.clock.advance(50 * 60)
        now = desk.world.clock.now()
        assert desk.ask(CommandKind.REJECT, decided) == f"declined: {decided} is not asked for again for a day"
        with desk.world.store.read() as unit:
            stored = unit.decisions.get(decided)  # type: ignore[arg-type]
        assert stored is not None
        assert (stored.state, stored.note) == (DecisionState.REJECTED, "declined by ann")
        assert stored.expires_at == now + timedelta(days=1)

    def test_what_is_being_carried_out_is_rolled_back_and_not_declined(self) -> None:
        desk = Desk()
        decided = desk.decide(3)
        desk.apply(decided)
        assert desk.ask(CommandKind.REJECT, decided).startswith("refused (too_late)")
        answer = desk.ask(CommandKind.ROLLBACK, "g")
        assert answer == f"going back: rollout {desk.world.rollout().id} to ngram, 2 tokens"
        desk.until_quiet()
        assert desk.world.server.tokens == 2

    def test_a_group_is_found_by_one_of_its_rollouts(self) -> None:
        desk = Desk()
        desk.apply(desk.decide(3))
        desk.until_quiet()
        answer = desk.ask(CommandKind.ROLLBACK, desk.world.rollout().id)
        assert answer == f"going back: rollout {desk.world.rollout().id} to ngram, 2 tokens"
        desk.until_quiet()
        assert desk.world.server.tokens == 2

    def test_a_restart_with_the_same_setting_is_told_as_one(self) -> None:
        desk = Desk()
        answer = desk.ask(CommandKind.APPROVE, desk.decide(2, action=Action.RESTART))
        assert answer == f"started rollout {desk.world.rollout().id}: restart with ngram, 2 tokens"

    def test_one_rollout_is_gone_back_from_and_never_another_in_its_stead(self) -> None:
        """Given a page of a rollout that was overtaken, or undone by itself, its button does not undo a good one."""
        desk = Desk()
        desk.apply(desk.decide(3))
        desk.until_quiet()
        first = desk.world.rollout().id
        desk.apply(desk.decide(4, current=tokens(3), precondition=Precondition({}, tokens(3))))
        desk.until_quiet()
        second = desk.world.rollout().id
        assert second != first and desk.world.server.tokens == 4
        answer = desk.ask(CommandKind.ROLLBACK, first)
        assert answer == (
            f"refused (nothing_to_do): {first} is not to go back from now: `acceptd rollback g` goes back from {second}"
        )
        desk.until_quiet()
        assert desk.world.server.tokens == 4
        assert desk.ask(CommandKind.ROLLBACK, second).startswith("going back")
        desk.until_quiet()
        assert desk.world.server.tokens == 3

    def test_a_report_is_made_for_whoever_asks(self) -> None:
        assert Desk().ask(CommandKind.REPORT) == "report for ann"

    def test_everything_asked_is_in_the_audit_trail(self) -> None:
        desk = Desk()
        desk.ask(CommandKind.APPROVE, "d-nope")
        (entry,) = desk.world.audit("d-nope")
        assert (entry.actor, entry.what) == ("ann", "command.approve")
        assert entry.sentence.startswith("refused (unknown)")

    def test_one_that_breaks_is_answered_and_holds_up_nothing(self) -> None:
        desk = Desk()
        desk.apply(desk.decide(3))

        def broken(author: str) -> str:
            raise ZeroDivisionError("a bug")

        desk.report = broken
        assert desk.ask(CommandKind.REPORT) == "failed: a bug"
        desk.until_quiet()
        assert desk.world.rollout().state is RolloutState.PROMOTED

    def test_a_store_that_is_away_keeps_requests_for_later(self) -> None:
        desk = Desk()
        store = desk.world.store
        assert isinstance(store, MemoryStore)
        with store.write() as unit:
            unit.commands.add(Command("q", CommandKind.REPORT, "", "ann", desk.world.clock.now()))
        store.away = StoreError("disk full")
        with pytest.raises(StoreError):
            desk.turn()
        store.away = None
        desk.turn()
        with store.read() as unit:
            answered = unit.commands.get("q")
        assert answered is not None and answered.outcome == "report for ann"


class TestStuck:
    def alert(self, desk: Desk, server: str = "s1", *, name: str = "EngineStuck", **more: object) -> Alert:
        labels = {"alertname": name, "severity": "page", "server": server, "group": "g"}
        now = desk.world.clock.now()
        return replace(
            Alert(fingerprint=fingerprint(labels), labels=labels, annotations={"summary": f"{server} is stuck"},
                  state=AlertState.FIRING, active_since=now, fired_at=now),
            **more,  # type: ignore[arg-type]
        )

    def starts(self, desk: Desk) -> int:
        desk.until_quiet()
        return len(desk.world.server.starts)

    def test_it_is_restarted_once_an_incident(self) -> None:
        desk = Desk(restart_stuck=True)
        before = self.starts(desk)
        alert = self.alert(desk)
        for _ in range(3):
            desk.actor.restart_stuck([alert], desk.world.clock.now())
            assert self.starts(desk) == before + 1
        rollout = desk.world.rollout()
        assert (rollout.state, rollout.outcome) == (RolloutState.PROMOTED, Outcome.RESTARTED)
        assert rollout.current == rollout.proposed
        assert rollout.requested_by == "alert EngineStuck"

    def test_one_that_comes_back_soon_is_the_same_incident(self) -> None:
        desk = Desk(restart_stuck=True)
        desk.actor.restart_stuck([self.alert(desk)], desk.world.clock.now())
        after = self.starts(desk)
        desk.world.clock.advance(600)
        desk.actor.restart_stuck([self.alert(desk, refired=1)], desk.world.clock.now())
        assert self.starts(desk) == after

    def test_a_new_incident_may_be_restarted_again(self) -> None:
        desk = Desk(restart_stuck=True)
        desk.actor.restart_stuck([self.alert(desk)], desk.world.clock.now())
        after = self.starts(desk)
        desk.world.clock.advance(7200)
        desk.actor.restart_stuck([self.alert(desk)], desk.world.clock.now())
        assert self.starts(desk) == after + 1

    def test_only_where_the_group_allows_it(self) -> None:
        desk = Desk(restart_stuck=False)
        before = self.starts(desk)
        desk.actor.restart_stuck([self.alert(desk)], desk.world.clock.now())
        assert self.starts(desk) == before

    def test_only_a_firing_alert_of_that_name_on_a_managed_server(self) -> None:
        desk = Desk(restart_stuck=True)
        before = self.starts(desk)
        others = [
            self.alert(desk, name="AcceptanceCliff"), self.alert(desk, state=AlertState.PENDING),
            self.alert(desk, state=AlertState.RESOLVED), self.alert(desk, "not-ours"),
        ]  # fmt: skip
        desk.actor.restart_stuck(others, desk.world.clock.now())
        assert self.starts(desk) == before

    def test_what_may_not_be_is_no_error(self) -> None:
        desk = Desk(restart_stuck=True)
        desk.world.pause()
        desk.actor.restart_stuck([self.alert(desk)], desk.world.clock.now())
        assert desk.world.is_quiet() or desk.world.server.stops == []


def test_names_of_groups_and_servers_are_those_of_the_configuration() -> None:
    desk = Desk()
    assert list(desk.world.fleet.groups) == [GroupName("g")]
    assert list(desk.world.fleet.managed) == [ServerName("s1")]
