"""One evaluation: what is told is marked as told where it is queued, so that no death tells twice or forgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from monitor.cycle.evaluate import Evaluated, Evaluator
from monitor.cycle.history import History
from monitor.cycle.objectives import Objectives, SloLook
from monitor.cycle.prober import ProbeResult
from monitor.errors import StoreError
from monitor.model.alert import AlertState, Matcher, Silence, SilenceId
from monitor.model.decision import DecisionId
from monitor.model.life import LastReading, Setting
from monitor.model.notice import Notice, NoticeKind
from monitor.model.outcome import RuleOutcome, Truth
from monitor.model.reading import Reading, Verdict
from monitor.model.record import Baseline, Checks
from monitor.model.rollout import Change, ChangeId, ChangeState, Outcome, Rollout, RolloutId
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.policy.rule import RuleSet
from monitor.policy.telling import TellingPolicy
from monitor.signals.baseline import baseline_key
from tests.fakes.memory_store import MemoryStore
from tests.fakes.mortal import Died, MortalStore
from tests.unit.policy.words import rules
from tests.unit.signals.windows import NOON, interval, life

A = ServerName("a")
ALERTS = """
groups:
  - name: alerts
    rules:
      - alert: Low
        when: acceptance_rate < 0.50
        labels: {severity: page}
        annotations: {summary: "{{ $labels.server }} is low"}
      - alert: RestartFailed
        when: restart_failed == 1.0
        labels: {severity: page}
        annotations: {summary: "a restart of {{ $labels.server }} failed", during_rollout: tell}
      - alert: EngineStuck
        when: stuck_seconds > 60.0 && probe_failed == 1.0
        labels: {severity: page}
        annotations: {summary: "{{ $labels.server }} is stuck"}
      - alert: Undelivered
        scope: daemon
        when: deliveries_failed > 0.0
        labels: {severity: page}
        annotations: {summary: "{{ $labels.host }} cannot deliver"}
"""
TUNING = """
groups:
  - name: tuning
    rules:
      - tune: lower-tokens
        when: acceptance_rate < 0.50
        window: 5m
        for: 10m
        do: {num_speculative_tokens: "-1"}
"""
LOW, FINE = (500.0, 300.0, 200.0), (800.0, 600.0, 500.0)
EAGLE = Setting(method="eagle3", num_speculative_tokens=3)


class Prober:
    """Says what it is told, and notes whom it was pointed at."""

    def __init__(self) -> None:
        self.looked: list[tuple[str, float | None, bool]] = []
        self.failed_pages: dict[str, bool] = {}
        self.answer: ProbeResult | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    def look(self, server: ServerName, stuck_seconds: float | None, is_sleeping: bool) -> None:
        self.looked.append((server, stuck_seconds, is_sleeping))
        self.meanwhile()

    def look_health(self, server: ServerName, page_failed: bool) -> None:
        self.failed_pages[server] = page_failed

    def result(self, server: ServerName) -> ProbeResult | None:
        return self.answer

    def health(self, server: ServerName) -> bool | None:
        return None


class Desk:
    """An evaluator of one server whose minutes a test writes; `restart` makes a new one on the same store."""

    def __init__(
        self, alerts: str = ALERTS, *, baseline_seconds: float = 300.0, slos: Objectives | None = None
    ) -> None:
        self.slos = slos
        self.store = MemoryStore()
        self.life = life("a")
        self.minute = 0
        self.rules: RuleSet = rules(alerts)
        self.reap: Callable[[str], None] = lambda _: None
        self.prober = Prober()
        self.baseline_seconds = baseline_seconds
        self.pairs: list[tuple[object, object]] = []
        self.restart()

    def restart(self) -> None:
        self.history = History(86_400.0)
        self.history.fill([self.life], [i for _, i in self.pairs])  # type: ignore[misc]
        self.evaluator = Evaluator(
            MortalStore(self.store, lambda moment: self.reap(moment)),  # type: ignore[arg-type]
            self.history, self.prober,  # type: ignore[arg-type]
            servers=[Server(name=A, group=GroupName("g"), base_url="http://x", metrics_url="http://x/metrics")],
            groups=[Group(name=GroupName("g"), servers=(A,))],
            alert_rules=self.rules, tuning_rules={GroupName("g"): rules(TUNING)}, host="h1",
            receivers=lambda _: ["slack"], telling=TellingPolicy(), watched_since=NOON, simulated=False,
            credit_seconds=150.0, baseline_seconds=self.baseline_seconds, slos=self.slos,
        )  # fmt: skip

    @property
    def now(self) -> datetime:
        return NOON + timedelta(minutes=self.minute)

    def serve(self, per_pos: tuple[float, ...] = LOW, **more: object) -> None:
        """One more minute of traffic."""
        self.minute += 1
        made = interval(self.life, 60.0 * self.minute, seconds=60.0, per_pos=per_pos, **more)  # type: ignore[arg-type]
        self.pairs.append((self.life, made))
        self.history.add([self.life], [made], self.now)

    def run(self) -> Evaluated:
        return self.evaluator.run(self.now)

    def told(self) -> list[Notice]:
        with self.store.read() as unit:
            return [notice for notice, _ in reversed(unit.outbox.recent(100))]

    def titles(self) -> list[str]:
        return [notice.title for notice in self.told()]

    def change(self, state: ChangeState, *, outcome: Outcome | None = None, deadline: float | None = None) -> None:
        """A change of ours on the server, now in `state`."""
        change = Change(
            id=ChangeId("c"), rollout=RolloutId("r"), server=A, position=0, state=state, current=EAGLE, proposed=EAGLE,
            entered_at=self.now, stop_asked_at=self.now, outcome=outcome,
            deadline=None if deadline is None else self.now + timedelta(seconds=deadline),
        )
        with self.store.write() as unit:
            if unit.rollouts.get(RolloutId("r")) is None:
                unit.rollouts.add(
                    Rollout(id=RolloutId("r"), group=GroupName("g"), decision=DecisionId("d"), current=EAGLE,
                            proposed=EAGLE, created_at=self.now, requested_by="ann")
                )
                unit.changes.add([change])
            else:
                unit.changes.update(change)

    def baseline(self) -> Baseline | None:
        with self.store.read() as unit:
            key = baseline_key(self.life.setting, self.life.engine_version)
            return next((one for one in unit.baselines.of_servers([A]) if one.key == key), None)


class TestTelling:
    def test_an_alert_is_told_once_and_its_end_too(self) -> None:
        desk = Desk()
        for _ in range(10):
            desk.serve(LOW)
            desk.run()
        assert desk.titles() == ["a is low"]
        for _ in range(10):
            desk.serve(FINE)
            seen = desk.run()
        first, second = desk.told()
        assert (first.kind, second.kind) == (NoticeKind.ALERT_FIRING, NoticeKind.ALERT_RESOLVED)
        assert second.thread == first.thread and second.edits_root
        assert [alert.state for alert in seen.alerts] == [AlertState.RESOLVED]

    def test_an_alert_keeps_the_causes_that_were_found_when_it_fired(self) -> None:
        desk = Desk()
        for _ in range(6):
            desk.serve(LOW, waiting=8.0, running=4.0)
            desk.run()
        (said,) = desk.told()
        assert "Probable cause: It has more to do than it can: requests queue" in said.text
        desk.restart()
        for _ in range(3):
            desk.serve(LOW)
            seen = desk.run()
        (one,) = seen.alerts
        assert len(one.causes) == 1

    def test_a_daemon_that_begins_anew_tells_nobody_twice(self) -> None:
        desk = Desk()
        for _ in range(15):
            desk.serve(LOW)
            desk.run()
            desk.restart()
        assert desk.titles() == ["a is low"]

    @pytest.mark.parametrize("moment", ["before commit", "after commit"])
    @pytest.mark.parametrize("at", range(4))
    def test_whenever_it_dies_an_alert_is_told_exactly_once(self, moment: str, at: int) -> None:
        desk, left = Desk(), at

        def die(passed: str) -> None:
            nonlocal left
            if passed == moment:
                left -= 1
                if left == -1:
                    raise Died(passed)

        desk.reap = die
        for _ in range(6):
            desk.serve(LOW)
            try:
                desk.run()
            except Died:
                desk.restart()
        assert desk.titles() == ["a is low"]
        with desk.store.read() as unit:
            (alert,) = unit.alerts.all()
        assert alert.notified_at is not None and alert.incident == desk.told()[0].thread.removeprefix("alert:")

    def test_a_store_that_is_away_loses_nothing(self) -> None:
        desk = Desk()
        desk.serve(LOW)
        desk.store.away = StoreError("disk full")
        with pytest.raises(StoreError):
            desk.run()
        desk.store.away = None
        desk.serve(LOW)
        assert desk.run().told == 1
        assert desk.titles() == ["a is low"]

    def test_a_silence_keeps_it_quiet_until_it_ends(self) -> None:
        desk = Desk()
        with desk.store.write() as unit:
            unit.silences.add(
                Silence(id=SilenceId("s"), matchers=(Matcher("server", "=", "a"),), author="ann", reason="known",
                        starts_at=NOON, ends_at=NOON + timedelta(minutes=5))
            )
        for _ in range(4):
            desk.serve(LOW)
            desk.run()
        # It says beforehand, once, that it ends over something.
        assert desk.titles() == ["Silence s ends in 1 min"]
        desk.serve(LOW)
        desk.run()
        assert desk.titles() == ["Silence s ends in 1 min", "a is low"]

    def test_a_stored_silence_that_re2_refuses_hides_nothing_and_is_named_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        desk = Desk()
        with desk.store.write() as unit:
            unit.silences.add(
                Silence(id=SilenceId("s"), matchers=(Matcher("server", "!~", r"(x)\1"),), author="ann", reason="old",
                        starts_at=NOON, ends_at=NOON + timedelta(minutes=50))
            )
        for _ in range(3):
            desk.serve(LOW)
            desk.run()
        assert desk.titles() == ["a is low"]
        (line,) = [one.getMessage() for one in caplog.records if "hides nothing" in one.getMessage()]
        assert r"server!~(x)\1" in line and "a reference to a group" in line and "silence=s" in line

    def test_an_acknowledgement_given_while_it_evaluates_is_kept(self) -> None:
        desk = Desk()
        desk.serve(LOW)
        desk.run()

        def acknowledge() -> None:
            with desk.store.write() as unit:
                unit.alerts.put([replace(alert, acknowledged_by="ann") for alert in unit.alerts.all()])

        desk.prober.meanwhile = acknowledge
        desk.serve(LOW)
        desk.run()
        with desk.store.read() as unit:
            assert [alert.acknowledged_by for alert in unit.alerts.all()] == ["ann"]
        desk.prober.meanwhile = lambda: None
        for _ in range(90):
            desk.serve(LOW)
            desk.run()
        # Somebody is on it: not repeated every half hour.
        assert desk.titles() == ["a is low"]

    def test_the_daemon_itself_is_a_scope(self) -> None:
        desk = Desk()
        desk.serve(FINE)
        assert desk.run().alerts == ()
        desk.serve(LOW)
        desk.run()
        with desk.store.write() as unit:
            ((_, (delivery,)),) = unit.outbox.recent(1)
            unit.outbox.update(replace(delivery, attempts=3))
        for _ in range(7):
            desk.serve(LOW)
            desk.run()
        assert "h1 cannot deliver" in desk.titles()


class TestOurOwnRollout:
    @pytest.mark.parametrize(
        "state", [ChangeState.DRAINING, ChangeState.RESTARTING, ChangeState.WARMING, ChangeState.UNDOING]
    )
    def test_it_mutes_its_server(self, state: ChangeState) -> None:
        desk = Desk()
        desk.change(state, deadline=900.0)
        desk.serve(LOW)
        seen = desk.run()
        assert [alert.state for alert in seen.alerts] == [AlertState.FIRING]
        assert desk.titles() == []

    def test_what_still_holds_when_it_is_over_is_told(self) -> None:
        desk = Desk()
        desk.change(ChangeState.WARMING, deadline=900.0)
        desk.serve(LOW)
        desk.run()
        desk.change(ChangeState.OBSERVING, deadline=900.0)
        desk.serve(LOW)
        desk.run()
        assert desk.titles() == ["a is low"]

    def test_an_alert_about_the_change_is_told_all_the_same(self) -> None:
        desk = Desk()
        desk.change(ChangeState.UNDOING, outcome=Outcome.START_FAILED, deadline=900.0)
        desk.serve(LOW)
        desk.run()
        assert desk.titles() == ["a restart of a failed"]

    @pytest.mark.parametrize(("deadline", "minutes"), [(60.0, 12), (None, 131)])
    def test_a_change_that_stands_still_mutes_nothing_any_more(self, deadline: float | None, minutes: int) -> None:
        desk = Desk()
        desk.change(ChangeState.RESTARTING, deadline=deadline)
        for _ in range(minutes):
            desk.serve(LOW)
            if desk.minute in (1, minutes - 2, minutes):
                desk.run()
            if desk.minute == minutes - 2:
                assert desk.titles() == []
        assert desk.titles() == ["a is low"]


class TestBaselines:
    def test_it_learns_a_window_at_a_time(self) -> None:
        desk = Desk()
        for _ in range(16):
            desk.serve(FINE)
            desk.run()
        learned = desk.baseline()
        assert learned is not None
        # Two minutes until 2,000 drafts, then every five.
        assert learned.windows == 3
        assert learned.acceptance_length == pytest.approx(2.9)

    def test_the_windows_may_be_shorter(self) -> None:
        desk = Desk(baseline_seconds=120.0)
        for _ in range(16):
            desk.serve(FINE)
            desk.run()
        learned = desk.baseline()
        assert learned is not None and learned.windows == 8

    @pytest.mark.parametrize("state", [ChangeState.DRAINING, ChangeState.RESTARTING, ChangeState.WARMING])
    def test_not_while_a_change_of_ours_is_under_way(self, state: ChangeState) -> None:
        desk = Desk()
        desk.change(state, deadline=3600.0)
        for _ in range(16):
            desk.serve(FINE)
            desk.run()
        assert desk.baseline() is None

    def test_another_setting_has_a_baseline_of_its_own(self) -> None:
        desk = Desk()
        for _ in range(12):
            desk.serve(FINE)
            desk.run()
        before = desk.baseline()
        desk.life = life("a", tokens=5, number=2)
        assert desk.baseline() is None
        desk.life = life("a")
        assert desk.baseline() == before

    def test_too_few_drafts_teach_nothing(self) -> None:
        desk = Desk()
        for _ in range(12):
            desk.serve((8.0, 6.0, 5.0), drafts=10.0)
            desk.run()
        assert desk.baseline() is None


class TestTuning:
    def test_how_long_a_condition_has_held_outlives_the_daemon(self) -> None:
        desk = Desk()
        for _ in range(9):
            desk.serve(LOW)
            seen = desk.run()
            desk.restart()
            assert seen.firings.get(GroupName("g"), ()) == ()
            assert [o.truth for o in seen.tunes[GroupName("g")]] == [Truth.TRUE]
        for _ in range(2):
            desk.serve(LOW)
            seen = desk.run()
        (fired,) = seen.firings[GroupName("g")]
        assert fired.rule == "lower-tokens" and fired.held_seconds >= 600.0


class TestContexts:
    RULES = """
groups:
  - name: alerts
    rules:
      - alert: Decays
        when: acceptance_length_since_start < 0.70
        labels: {severity: page}
        annotations: {summary: "{{ $labels.server }} decays"}
      - alert: Costs
        when: gain_over_off < 0.0
        labels: {severity: ticket}
        annotations: {summary: "{{ $labels.server }} is slower than without speculation"}
"""

    def test_a_fall_with_uptime_is_seen_against_the_first_hours_of_the_process(self) -> None:
        desk = Desk(self.RULES)
        desk.life = life("a", process_start=NOON.timestamp())
        with desk.store.write() as unit:
            unit.lives.add(desk.life)
            unit.intervals.add(
                [interval(desk.life, 600.0 * (n + 1), seconds=600.0, per_pos=FINE) for n in range(36)]
            )
        desk.minute = 47 * 60
        desk.serve((200.0, 100.0, 50.0))
        desk.run()
        assert desk.titles() == ["a decays"]

    def test_what_speculation_gains_is_known_where_the_server_was_off_at_like_load(self) -> None:
        desk = Desk(self.RULES)
        on, desk.life = desk.life, life("a", tokens=0, number=0)
        for _ in range(3):
            desk.serve((), has_speculation=False, step_seconds=0.008)
        desk.life = on
        for _ in range(6):
            desk.serve((300.0, 100.0, 50.0), step_seconds=0.018)
        seen = desk.run()
        gain = seen.servers[A].value("gain_over_off")
        assert gain == pytest.approx(1.45 * 0.008 / 0.018 - 1.0)
        assert desk.titles() == ["a is slower than without speculation"]


class TestProbing:
    def test_it_is_pointed_at_a_server_whose_counters_stand_still_with_work_to_do(self) -> None:
        desk = Desk()
        for _ in range(3):
            desk.serve(FINE, generation=0.0, prompt=0.0, steps=0.0, finished=0.0, drafts=0.0, outputs=None,
                       has_speculation=False, running=3.0)
        desk.run()
        assert desk.prober.looked == [("a", 180.0, False)]

    def test_it_asks_nothing_of_a_server_that_we_are_restarting(self) -> None:
        desk = Desk()
        desk.change(ChangeState.RESTARTING, deadline=600.0)
        desk.serve(generation=0.0, prompt=0.0, steps=0.0)
        desk.run()
        assert desk.prober.looked == []

    def test_what_it_found_is_told_with_where_the_evidence_is(self) -> None:
        desk = Desk()
        desk.prober.answer = ProbeResult(True, "no token generated: timeout; /health says 200", NOON, "e123")
        for _ in range(3):
            desk.serve(FINE, generation=0.0, prompt=0.0, steps=0.0, finished=0.0, drafts=0.0, outputs=None,
                       has_speculation=False, running=3.0)
            desk.run()
        (notice,) = desk.told()
        assert notice.title == "a is stuck"
        assert "no token generated: timeout" in notice.text and "acceptd evidence e123" in notice.text

    def test_health_is_asked_while_the_page_is_missing(self) -> None:
        desk = Desk()
        for verdict, failed in ((Verdict.SCRAPE_ERROR, True), (Verdict.OK, False)):
            page = Reading(server=A, scraped_at=NOON, monotonic=0.0, dialect="none", verdict=verdict, reason="x")
            with desk.store.write() as unit:
                unit.readings.put(LastReading(page, None))
            desk.run()
            assert desk.prober.failed_pages == {"a": failed}


class Burning:
    """Objectives of which one burns, with checks to be stored."""

    def __init__(self) -> None:
        self.truth = Truth.TRUE
        self.left: tuple[Checks, ...] = (Checks(A, NOON, 3, 1),)

    def look(self, now: datetime) -> SloLook:
        labels = {"alertname": "ErrorBudgetBurn", "slo": "ttft", "group": "g", "severity": "page"}
        said = RuleOutcome(rule="ErrorBudgetBurn:ttft:page", scope="g", truth=self.truth, labels=labels,
                           annotations={"summary": "g: ttft burns"})
        return SloLook(outcomes=(said,))

    def checks(self) -> tuple[Checks, ...]:
        return self.left

    def stored(self, checks: Iterable[Checks]) -> None:
        self.left = ()


class TestObjectives:
    def test_a_burning_one_is_an_alert_like_any_other(self) -> None:
        desk = Desk(slos=Burning())
        desk.serve(FINE)
        seen = desk.run()
        assert [(alert.name, alert.state) for alert in seen.alerts] == [("ErrorBudgetBurn", AlertState.FIRING)]
        assert desk.titles() == ["g: ttft burns"]

    def test_what_is_not_known_leaves_it_firing(self) -> None:
        slos = Burning()
        desk = Desk(slos=slos)
        desk.run()
        slos.truth = Truth.NO_DATA
        desk.minute += 1
        desk.restart()
        states = {alert.name: alert.state for alert in desk.run().alerts}
        assert states == {"ErrorBudgetBurn": AlertState.FIRING, "AlertHasNoData": AlertState.PENDING}
        slos.truth = Truth.FALSE
        for _ in range(3):
            desk.minute += 1
            states = {alert.name: alert.state for alert in desk.run().alerts}
        assert states == {"ErrorBudgetBurn": AlertState.RESOLVED}

    def test_checks_are_stored_once(self) -> None:
        slos = Burning()
        desk = Desk(slos=slos)
        desk.run()
        desk.minute += 1
        desk.run()
        with desk.store.read() as unit:
            assert unit.checks.between(None, NOON - timedelta(hours=1), NOON) == [Checks(A, NOON, 3, 1)]

    def test_checks_of_a_turn_that_could_not_be_stored_are_kept(self) -> None:
        slos = Burning()
        desk = Desk(slos=slos)

        def die(moment: str) -> None:
            raise Died(moment)

        desk.reap = die
        with pytest.raises(Died):
            desk.run()
        assert slos.left


def test_a_server_of_which_nothing_is_known_yet_breaks_nothing() -> None:
    desk = Desk()
    seen = desk.run()
    assert (seen.alerts, seen.told, list(seen.servers)) == ((), 0, ["a"])
