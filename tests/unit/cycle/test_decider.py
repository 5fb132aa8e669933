"""Keeping decisions: told once, tried again where only put off, refused or declined for a day, never on unmanaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from monitor.actions.fleet import Fleet
from monitor.cycle.decider import Decider
from monitor.cycle.evaluate import Evaluated
from monitor.cycle.experience import basis
from monitor.cycle.history import History
from monitor.cycle.planning import RESTART_SECONDS, restart_seconds
from monitor.errors import ActionError
from monitor.model.alert import Alert, AlertState, fingerprint
from monitor.model.decision import Action, Decision, DecisionState, Reason
from monitor.model.life import Setting
from monitor.model.notice import Notice
from monitor.model.outcome import ChangeKind, RuleOutcome, Truth, TuneChange, TuneFiring
from monitor.model.reading import Flag
from monitor.model.record import Rejection, Restart
from monitor.model.rollout import Change, ChangeId, ChangeState, Rollout, RolloutId
from monitor.model.server import Group, GroupName, Mode, ServerName
from monitor.model.signal import Signal, SignalSet
from monitor.targets.drafts import DraftFacts
from tests.fakes.fake_world import World
from tests.fakes.memory_store import MemoryStore
from tests.unit.cycle.questions import DOWN, UP, firing, outcome
from tests.unit.signals.windows import NOON, life, run_of

GROUP = GroupName("g")


class Counters:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def decision(self, group: str, action: str, reason: str) -> None:
        self.seen.append((group, action, reason))


class Desk:
    """A decider over a store in memory and servers `s1` …, whose history a test writes."""

    def __init__(self, mode: Mode = Mode.RECOMMEND, *, servers: int = 1, managed: bool = True) -> None:
        self.world = World(servers)
        self.store = MemoryStore()
        self.names = [server.name for server in self.world.servers]
        self.group = Group(name=GROUP, servers=tuple(self.names), mode=mode)
        self.history = History(86_400.0)
        self.refusal: ActionError | None = None
        self.began: list[Decision] = []
        self.counters = Counters()
        self.fleet = self.world.fleet if managed else Fleet(groups={GROUP: self.group}, managed={})
        self.lives = {name: life(name, tokens=2, method="ngram") for name in self.names}
        for name in self.names:
            self.serve(name)
        self.new_decider()

    def new_decider(self) -> None:
        self.decider = Decider(
            self.store, self.history, [self.group], self.fleet, begin=self._begin, receivers=lambda _: ["slack"],
            simulated=False, counters=self.counters,
        )

    def _begin(self, decision: Decision, requested_by: str, now: datetime) -> None:
        if self.refusal is not None:
            raise self.refusal
        assert requested_by == f"rule {decision.rule}"
        self.began.append(decision)
        with self.store.write() as unit:
            unit.decisions.update(replace(decision, state=DecisionState.ACTED_ON))

    def serve(
        self, name: ServerName, *, per_pos: Sequence[float] = (900.0, 800.0), flags: frozenset[Flag] = frozenset()
    ) -> None:
        """Two hours of equal history up to noon."""
        pairs = run_of(self.lives[name], 120, seconds=60.0, per_pos=per_pos, finished=50.0, flags=flags)
        self.history.add([self.lives[name]], [interval for _, interval in pairs], NOON)

    def seen(
        self, *firings: TuneFiring, at: float = 0.0, outcomes: tuple[RuleOutcome, ...] = (),
        alerts: tuple[Alert, ...] = (), probe_failed: float | None = None,
    ) -> Evaluated:
        now = NOON + timedelta(minutes=at)
        signal = Signal("probe_failed", probe_failed) if probe_failed is not None else None
        scalars = {"probe_failed": signal} if signal else {}
        server = SignalSet(scope="server", at=now, window_seconds=300.0, scalars=scalars)
        return Evaluated(
            now=now, servers=dict.fromkeys(self.names, server), firings={GROUP: firings} if firings else {},
            tunes={GROUP: outcomes or (outcome("raise-tokens", Truth.TRUE if firings else Truth.FALSE),)},
            bases={GROUP: basis([self.history.track(name) for name in self.names], f"group:{GROUP}", firings, now)},
            alerts=alerts, told=0,
        )

    def run(self, *firings: TuneFiring, at: float = 0.0, **more: object) -> Decision | None:
        made = self.decider.run(self.seen(*firings, at=at, **more))  # type: ignore[arg-type]
        return made[0] if made else None

    def stored(self) -> list[Decision]:
        with self.store.read() as unit:
            return unit.decisions.since(None, NOON - timedelta(days=1000))

    def newest(self) -> Decision:
        with self.store.read() as unit:
            return unit.decisions.latest(GROUP)[0]

    def told(self) -> list[Notice]:
        with self.store.read() as unit:
            return [notice for notice, _ in reversed(unit.outbox.recent(100))]

    def update(self, **changes: object) -> None:
        with self.store.write() as unit:
            unit.decisions.update(replace(self.newest(), **changes))  # type: ignore[arg-type]


RAISE = firing(UP)


class TestOneStandingConclusion:
    def test_the_same_conclusion_is_stored_and_told_once(self) -> None:
        desk = Desk()
        assert desk.run(RAISE) is not None
        for minute in range(1, 50):
            assert desk.run(RAISE, at=minute) is None
        (decision,) = desk.stored()
        assert (decision.action, decision.state) == (Action.RAISE, DecisionState.RECOMMENDED)
        (notice,) = desk.told()
        assert notice.thread == f"decision:{decision.id}"
        assert decision.id in notice.text
        assert desk.counters.seen == [("g", "raise", "above_raise_threshold")]

    def test_a_conclusion_to_keep_is_stored_and_not_told(self) -> None:
        desk = Desk()
        decision = desk.run()
        assert decision is not None
        assert (decision.reason, decision.state) == (Reason.BETWEEN_THRESHOLDS, DecisionState.STANDING)
        assert desk.run(at=1) is None
        assert desk.told() == []

    def test_a_daemon_that_begins_anew_says_nothing_again(self) -> None:
        desk = Desk()
        desk.run(RAISE)
        desk.new_decider()
        assert desk.run(RAISE, at=1) is None
        assert len(desk.told()) == 1

    def test_a_new_conclusion_takes_the_place_of_the_standing_one(self) -> None:
        desk = Desk()
        first = desk.run(RAISE)
        second = desk.run(at=1)
        assert first is not None and second is not None
        states = {d.id: d.state for d in desk.stored()}
        assert states == {first.id: DecisionState.SUPERSEDED, second.id: DecisionState.STANDING}

    def test_a_rate_that_swings_about_its_threshold_recommends_once(self) -> None:
        desk = Desk()
        first = desk.run(RAISE)
        assert first is not None
        for minute in range(1, 20, 2):
            desk.run(at=minute)
            again = desk.run(RAISE, at=minute + 1)
            assert again is not None and again.id == first.id
        assert len(desk.told()) == 1
        assert desk.newest().id == first.id
        assert desk.newest().state is DecisionState.RECOMMENDED

    def test_what_comes_back_after_hours_is_told_again(self) -> None:
        desk = Desk()
        first = desk.run(RAISE)
        desk.run(at=1)
        again = desk.run(RAISE, at=300)
        assert first is not None and again is not None and again.id != first.id
        assert len(desk.told()) == 2

    def test_it_is_renewed_with_the_newest_numbers_before_it_runs_out(self) -> None:
        desk = Desk()
        first = desk.run(RAISE)
        assert first is not None
        newer = replace(RAISE, evidence={"acceptance_rate": 0.91})
        desk.run(newer, at=59)
        assert desk.newest().evidence["acceptance_rate"] == 0.77
        desk.run(newer, at=60)
        renewed = desk.newest()
        assert renewed.id == first.id
        assert renewed.evidence["acceptance_rate"] == 0.91
        assert renewed.expires_at == NOON + timedelta(minutes=120)
        desk.run(newer, at=61)
        assert desk.newest() == renewed

    def test_a_server_that_restarted_gets_a_decision_on_its_new_life_under_the_same_id(self) -> None:
        desk = Desk()
        first = desk.run(RAISE)
        assert first is not None
        desk.history = History(86_400.0)
        desk.lives = {name: life(name, tokens=2, method="ngram", number=2) for name in desk.names}
        for name in desk.names:
            desk.serve(name)
        desk.new_decider()
        second = desk.run(RAISE, at=1)
        assert second is not None and second.id == first.id
        assert second.precondition.lives == {"s1": ("s1-0-2",)}
        assert len(desk.told()) == 1

    def test_nothing_is_decided_while_a_rollout_is_under_way(self) -> None:
        desk = Desk()
        setting = Setting(method="ngram", num_speculative_tokens=2)
        with desk.store.write() as unit:
            unit.rollouts.add(
                Rollout(id=RolloutId("r"), group=GROUP, decision=desk.world.decision(3).id, current=setting,
                        proposed=replace(setting, num_speculative_tokens=3), created_at=NOON, requested_by="ann")
            )
        assert desk.run(RAISE) is None
        assert desk.stored() == []

    def test_groups_without_rules_are_left_alone(self) -> None:
        desk = Desk()
        assert desk.decider.run(replace(desk.seen(), tunes={})) == []


class TestModes:
    @pytest.mark.parametrize(
        ("mode", "state", "told", "words"),
        [
            (Mode.OBSERVE, DecisionState.STANDING, 0, ""),
            (Mode.RECOMMEND, DecisionState.RECOMMENDED, 1, "acceptd plan"),
            (Mode.APPROVE, DecisionState.AWAITING_APPROVAL, 1, "Waiting for your approval"),
            (Mode.AUTO, DecisionState.ACTED_ON, 1, "acceptd does it as soon as"),
        ],
    )
    def test_how_far_it_goes(self, mode: Mode, state: DecisionState, told: int, words: str) -> None:
        desk = Desk(mode)
        desk.run(RAISE)
        assert desk.newest().state is state
        assert len(desk.told()) == told
        assert all(words in notice.text for notice in desk.told())
        assert len(desk.began) == (1 if mode is Mode.AUTO else 0)

    @pytest.mark.parametrize("mode", list(Mode))
    def test_servers_without_a_driver_are_never_restarted(self, mode: Mode) -> None:
        desk = Desk(mode, managed=False)
        desk.run(RAISE)
        desk.run(RAISE, at=1)
        assert desk.began == []
        expected = DecisionState.STANDING if mode is Mode.OBSERVE else DecisionState.RECOMMENDED
        assert desk.newest().state is expected
        for notice in desk.told():
            assert "only watches" in notice.text
            assert "acceptd plan" not in notice.text

    def test_a_group_with_one_unmanaged_server_is_not_acted_on(self) -> None:
        desk = Desk(Mode.AUTO, servers=2)
        desk.fleet = replace(desk.fleet, managed={desk.names[0]: desk.fleet.managed[desk.names[0]]})
        desk.new_decider()
        desk.run(RAISE)
        assert desk.began == []

    def test_what_a_change_would_do_is_kept_for_whoever_looks(self) -> None:
        desk = Desk()
        decision = desk.run(RAISE)
        assert decision is not None
        with desk.store.read() as unit:
            kept = unit.evidence.get(f"plan:{decision.id}")
        assert kept is not None
        diff = next(text for title, text in kept.parts.items() if title.startswith("command line of s1"))
        assert "+ --speculative-config" in diff and '"num_speculative_tokens": 3' in diff
        assert kept.parts["can be applied now"]


class TestAuto:
    def test_where_the_page_tells_no_step_time_it_is_done_and_said_to_rest_on_an_estimate(self) -> None:
        desk = Desk(Mode.AUTO)
        (name,) = desk.names
        pairs = run_of(desk.lives[name], 120, seconds=60.0, per_pos=(900.0, 800.0), finished=50.0, has_latency=False,
                       steps=None)
        desk.history = History(86_400.0)
        desk.history.add([desk.lives[name]], [interval for _, interval in pairs], NOON)
        desk.new_decider()
        decision = desk.run(RAISE)
        assert decision is not None and desk.newest().state is DecisionState.ACTED_ON
        assert "step times are estimates from running requests" in decision.sentence

    def test_what_was_put_off_is_tried_again_until_it_may(self) -> None:
        desk = Desk(Mode.AUTO)
        desk.refusal = ActionError("group g rests until 13:00", reason="cooldown", retryable=True)
        desk.run(RAISE)
        assert desk.newest().state is DecisionState.RECOMMENDED
        assert desk.newest().note == "not done: group g rests until 13:00"
        desk.run(RAISE, at=10)
        assert desk.began == []
        desk.refusal = None
        desk.run(RAISE, at=20)
        assert [d.id for d in desk.began] == [desk.newest().id]
        assert len(desk.told()) == 1

    @pytest.mark.parametrize("reason", ["paused", "changes_per_day", "budget", "busy", "active_rollout", "cooldown"])
    def test_what_time_lifts_is_put_off(self, reason: str) -> None:
        desk = Desk(Mode.AUTO)
        desk.refusal = ActionError("not now", reason=reason)
        desk.run(RAISE)
        assert desk.newest().state is DecisionState.RECOMMENDED

    def test_it_is_put_off_for_days_without_a_word_more(self) -> None:
        desk = Desk(Mode.AUTO)
        desk.refusal = ActionError("2 of 1 changes a day", reason="changes_per_day")
        for minute in range(0, 3 * 1440, 20):
            desk.run(RAISE, at=minute)
        assert len(desk.stored()) == len(desk.told()) == 1
        assert desk.newest().expires_at > NOON + timedelta(days=3) - timedelta(minutes=20)

    def test_what_may_never_be_is_refused_and_said_once_in_its_thread(self) -> None:
        desk = Desk(Mode.AUTO)
        desk.refusal = ActionError("s1 cannot be restarted without its clients noticing", reason="downtime")
        desk.run(RAISE)
        decision = desk.newest()
        assert decision.state is DecisionState.REFUSED
        told = desk.told()
        assert [notice.thread for notice in told] == [f"decision:{decision.id}"] * 2
        assert "without its clients noticing" in told[1].text and told[1].in_thread
        desk.refusal = None
        for minute in range(1, 1439, 30):
            # A conclusion in between does not make it new.
            assert desk.run(RAISE, at=minute) is None
            desk.run(at=minute + 1)
        assert desk.began == []
        assert len(desk.told()) == 2

    def test_after_a_day_it_is_asked_for_again(self) -> None:
        desk = Desk(Mode.AUTO)
        desk.refusal = ActionError("no", reason="downtime")
        desk.run(RAISE)
        assert desk.run(RAISE, at=1441) is not None
        assert len(desk.stored()) == 2

    def test_what_was_carried_out_and_undone_is_not_repeated_at_once(self) -> None:
        desk = Desk(Mode.AUTO)
        desk.run(RAISE)
        assert desk.run(RAISE, at=10) is None
        desk.run(at=11)
        assert desk.run(RAISE, at=12) is None
        assert len(desk.began) == 1
        desk.run(RAISE, at=61)
        assert len(desk.began) == 2

    def test_a_restart_that_would_cure_a_fault_is_proposed_and_never_begun(self) -> None:
        desk = Desk(Mode.AUTO)
        labels = {"alertname": "AcceptanceCliff", "severity": "page", "server": "s1"}
        cliff = Alert(
            fingerprint=fingerprint(labels), labels=labels, annotations={}, state=AlertState.FIRING, active_since=NOON
        )
        made = desk.run(alerts=(cliff,))
        assert made is not None and made.action is Action.RESTART
        for minute in range(1, 600, 30):
            desk.run(at=minute, alerts=(cliff,))
        assert desk.began == []
        assert len(desk.told()) == 1


class TestDeclined:
    def test_a_no_holds_for_a_day_from_when_it_was_said(self) -> None:
        desk = Desk()
        first = desk.run(RAISE)
        assert first is not None
        said = NOON + timedelta(minutes=50)
        desk.update(state=DecisionState.REJECTED, expires_at=said + timedelta(days=1))
        for minute in range(51, 1480, 20):
            assert desk.run(RAISE, at=minute) is None
            desk.run(at=minute + 1)
        assert len(desk.told()) == 1
        again = desk.run(RAISE, at=50 + 1441)
        assert again is not None and again.id != first.id

    def test_many_conclusions_in_between_do_not_make_it_forgotten(self) -> None:
        desk = Desk()
        desk.run(RAISE)
        desk.update(state=DecisionState.REJECTED, expires_at=NOON + timedelta(days=1))
        held = (outcome("raise-tokens", Truth.TRUE),)
        for minute in range(1, 120, 2):
            desk.run(at=minute)
            desk.run(at=minute + 1, outcomes=held)
        assert len(desk.stored()) > 50
        assert desk.run(RAISE, at=130) is None

    def test_another_change_may_still_be_asked_for(self) -> None:
        desk = Desk()
        desk.run(RAISE)
        desk.update(state=DecisionState.REJECTED, expires_at=NOON + timedelta(days=1))
        lowered = desk.run(firing(DOWN, rule="lower-tokens"), at=1)
        assert lowered is not None and lowered.action is Action.LOWER


class TestWhatItKnows:
    def test_replicas_at_different_settings_are_not_one_group(self) -> None:
        desk = Desk(servers=2)
        desk.history = History(86_400.0)
        desk.lives[desk.names[1]] = life("s2", tokens=3, method="ngram")
        desk.serve(desk.names[0])
        desk.serve(desk.names[1], per_pos=(900.0, 800.0, 700.0))
        desk.new_decider()
        decision = desk.run(RAISE)
        assert decision is not None
        assert (decision.action, decision.reason) == (Action.KEEP, Reason.SETTING_UNKNOWN)

    def test_a_replica_without_a_life_holds_the_group(self) -> None:
        desk = Desk(Mode.AUTO, servers=2)
        desk.history = History(86_400.0)
        desk.serve(desk.names[0])
        desk.new_decider()
        decision = desk.run(RAISE)
        assert decision is not None and decision.reason is Reason.SETTING_UNKNOWN
        assert desk.began == []

    def test_a_stuck_engine_is_never_tuned(self) -> None:
        desk = Desk(Mode.AUTO)
        decision = desk.run(RAISE, probe_failed=1.0)
        assert decision is not None
        assert (decision.action, decision.reason) == (Action.KEEP, Reason.ENGINE_STUCK)
        assert desk.began == [] and desk.told() == []

    def test_a_probe_that_got_its_token_changes_nothing(self) -> None:
        decision = Desk().run(RAISE, probe_failed=0.0)
        assert decision is not None and decision.action is Action.RAISE

    def test_counters_that_contradict_each_other_are_never_tuned_on(self) -> None:
        desk = Desk()
        desk.history = History(86_400.0)
        desk.serve(desk.names[0], flags=frozenset({Flag.IDENTITIES_BROKEN}))
        desk.new_decider()
        decision = desk.run(RAISE)
        assert decision is not None and decision.reason is Reason.UNRELIABLE_COUNTERS

    @pytest.mark.parametrize("state", [AlertState.PENDING, AlertState.FIRING])
    def test_a_collapse_is_a_fault_and_no_setting_and_a_restart_is_only_proposed(self, state: AlertState) -> None:
        labels = {"alertname": "AcceptanceCliff", "severity": "page", "server": "s1"}
        alert = Alert(fingerprint=fingerprint(labels), labels=labels, annotations={}, state=state, active_since=NOON)
        decision = Desk().run(firing(DOWN), alerts=(alert,))
        assert decision is not None
        assert (decision.action, decision.reason) == (Action.RESTART, Reason.BROKEN_DRAFT)
        assert decision.proposed == decision.current
        assert decision.state is DecisionState.RECOMMENDED

    @pytest.mark.parametrize(
        ("state", "action"), [(AlertState.PENDING, Action.LOWER), (AlertState.FIRING, Action.RESTART)]
    )
    def test_a_fall_with_uptime_is_a_fault_once_it_is_sure(self, state: AlertState, action: Action) -> None:
        labels = {"alertname": "AcceptanceDecaysWithUptime", "severity": "page", "server": "s1"}
        alert = Alert(fingerprint=fingerprint(labels), labels=labels, annotations={}, state=state, active_since=NOON)
        decision = Desk().run(firing(DOWN), alerts=(alert,))
        assert decision is not None and decision.action is action
        assert (decision.reason is Reason.DECAY_WITH_UPTIME) is (action is Action.RESTART)

    def test_a_draft_that_never_fitted_has_not_fallen(self) -> None:
        labels = {"alertname": "DraftBroken", "severity": "page", "server": "s1"}
        alert = Alert(
            fingerprint=fingerprint(labels), labels=labels, annotations={}, state=AlertState.FIRING, active_since=NOON
        )
        decision = Desk().run(RAISE, alerts=(alert,))
        assert decision is not None and decision.action is not Action.RESTART

    def test_a_collapse_elsewhere_says_nothing_of_this_group(self) -> None:
        labels = {"alertname": "AcceptanceCliff", "severity": "page", "server": "other"}
        alert = Alert(
            fingerprint=fingerprint(labels), labels=labels, annotations={}, state=AlertState.FIRING, active_since=NOON
        )
        decision = Desk().run(RAISE, alerts=(alert,))
        assert decision is not None and decision.action is Action.RAISE

    def test_nothing_is_concluded_of_a_process_that_is_gone(self) -> None:
        desk = Desk()
        with desk.store.write() as unit:
            unit.restarts.add(Restart(ServerName("s1"), NOON + timedelta(seconds=1), "going back", "begun"))
        assert desk.run(RAISE) is None
        with desk.store.read() as unit:
            assert unit.decisions.latest(GROUP) == []

    def test_a_setting_that_lost_is_not_asked_for(self) -> None:
        desk = Desk()
        rejection = Rejection(GROUP, 3, "ngram", NOON, NOON + timedelta(days=1), 1, "it lost")
        with desk.store.write() as unit:
            unit.rejections.add(rejection)
        decision = desk.run(RAISE)
        assert decision is not None and decision.reason is Reason.REJECTED_BEFORE


class TestCostOfARestart:
    def change(self, number: int, seconds: float | None) -> Change:
        asked = NOON - timedelta(days=number)
        setting = Setting(method="ngram", num_speculative_tokens=2)
        return Change(
            id=ChangeId(f"c{number}"), rollout=RolloutId("r"), server=ServerName("s1"), position=number,
            state=ChangeState.PROMOTED, current=setting, proposed=setting, entered_at=asked, stop_asked_at=asked,
            ready_at=None if seconds is None else asked + timedelta(seconds=seconds),
        )

    def test_it_is_the_mean_of_those_seen_and_a_usual_value_before(self) -> None:
        desk = Desk()
        with desk.store.read() as unit:
            assert restart_seconds(unit, desk.group, NOON) == RESTART_SECONDS
        setting = Setting(method="ngram", num_speculative_tokens=2)
        with desk.store.write() as unit:
            unit.rollouts.add(
                Rollout(id=RolloutId("r"), group=GROUP, decision=desk.world.decision(3).id, current=setting,
                        proposed=setting, created_at=NOON, requested_by="ann")
            )
            # One that never became ready and one of long ago say nothing.
            seen = ((1, 60.0), (2, 100.0), (3, None), (40, 900.0))
            unit.changes.add([self.change(number, seconds) for number, seconds in seen])
            assert restart_seconds(unit, desk.group, NOON) == 80.0


def test_lives_of_the_history_name_what_must_still_be_true() -> None:
    desk = Desk(servers=2)
    decision = desk.run(RAISE)
    assert decision is not None
    assert decision.precondition.lives == {name: (found.id,) for name, found in desk.lives.items()}
    assert decision.servers == tuple(desk.names)


class TestTheDraftsFiles:
    def decided(self, facts: DraftFacts) -> Decision:
        """What is decided at two tokens when four are predicted to pay, and the files of the draft say so much."""
        desk = Desk()
        (name,) = desk.names
        of = life(name, tokens=2, method="dflash")
        desk.history = History(86_400.0)
        for _, one in run_of(of, 60, seconds=60.0, per_pos=(950.0, 900.0), finished=50.0):
            desk.history.add([of], [one], one.end)
        managed = {name: replace(desk.fleet.managed[name], draft=lambda: facts)}
        desk.fleet = replace(desk.fleet, managed=managed)
        desk.new_decider()
        made = desk.run(firing(TuneChange(ChangeKind.TUNER)))
        assert made is not None
        return made

    def test_nothing_is_raised_past_the_depth_it_was_trained_for(self) -> None:
        for facts in (DraftFacts(), DraftFacts(method="dflash"), DraftFacts(method="medusa", trained_depth=2)):
            assert self.decided(facts).proposed.num_speculative_tokens == 4
        assert self.decided(DraftFacts(method="dflash", trained_depth=3)).proposed.num_speculative_tokens == 3
        kept = self.decided(DraftFacts(method="dflash", trained_depth=2))
        assert (kept.action, kept.reason) == (Action.KEEP, Reason.AT_LIMIT)
