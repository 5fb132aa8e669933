"""What the daemon knows of a server beside its page."""

from __future__ import annotations

from datetime import timedelta

import pytest

from monitor.cycle.facts import changes_of_last_day, daemon_facts, failed_restart, server_facts
from monitor.cycle.prober import Prober
from monitor.model.alert import Severity
from monitor.model.decision import DecisionId
from monitor.model.life import LastReading, Life, Setting
from monitor.model.notice import Delivery, DeliveryState, Notice, NoticeId, NoticeKind
from monitor.model.reading import Reading, Verdict
from monitor.model.rollout import Change, ChangeId, ChangeState, Outcome, Rollout, RolloutId
from monitor.model.server import GroupName, ServerName
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.readings import Counted, engine_reading, reading
from tests.unit.signals.windows import NOON, life

SERVER = ServerName("a")
NGRAM = Setting(method="ngram", num_speculative_tokens=2)


def prober() -> Prober:
    return Prober({}, clock=FakeClock(), keep=lambda _: None, gather=lambda _: {})


def change(
    number: int, state: ChangeState, outcome: Outcome | None = None, *, stopped: bool = True, held: bool = False
) -> Change:
    at = NOON + timedelta(minutes=number)
    return Change(
        id=ChangeId(f"c{number}"), rollout=RolloutId("r"), server=SERVER, position=number, state=state, current=NGRAM,
        proposed=NGRAM, entered_at=at, outcome=outcome, stop_asked_at=at if stopped else None, traffic_held=held,
    )


def fact(name: str, *, last: LastReading | None = None, lives: tuple[Life, ...] = (), changes: tuple[Change, ...] = ()
         ) -> float | None:
    return server_facts(SERVER, last, lives, list(changes), prober(), NOON + timedelta(minutes=10))[name]


GOOD = change(1, ChangeState.PROMOTED, Outcome.MEASURED_BETTER)


class TestRestartFailed:
    @pytest.mark.parametrize(
        ("changes", "failed"),
        [
            ((), 0.0),
            ((GOOD,), 0.0),
            # Measured and taken back is no failure of a restart, nor is one given up before the server was touched.
            ((change(2, ChangeState.ROLLED_BACK, Outcome.MEASURED_WORSE),), 0.0),
            ((change(2, ChangeState.ABANDONED, Outcome.DRAIN_TIMED_OUT, stopped=False),), 0.0),
            ((change(2, ChangeState.ROLLED_BACK, Outcome.START_FAILED),), 1.0),
            ((change(2, ChangeState.ROLLED_BACK, Outcome.NOT_GENERATING),), 1.0),
            ((change(2, ChangeState.ROLLED_BACK, Outcome.SERVER_DIED),), 1.0),
            ((change(2, ChangeState.ROLLED_BACK, Outcome.STOP_FAILED),), 1.0),
            ((change(2, ChangeState.ABANDONED, Outcome.UNDO_FAILED),), 1.0),
            ((change(2, ChangeState.ABANDONED, Outcome.PUT_BACK_FAILED),), 1.0),
            # From the moment it is being undone, not only when that is over.
            ((change(2, ChangeState.UNDOING, Outcome.START_FAILED),), 1.0),
            ((change(2, ChangeState.UNDOING, Outcome.MEASURED_WORSE),), 0.0),
            # A later one that did end as meant is the newest word; one under way is none.
            ((change(0, ChangeState.ROLLED_BACK, Outcome.START_FAILED), GOOD), 0.0),
            ((change(0, ChangeState.ROLLED_BACK, Outcome.START_FAILED), change(2, ChangeState.RESTARTING)), 1.0),
            ((GOOD, change(2, ChangeState.RESTARTING)), 0.0),
        ],
    )
    def test_the_newest_restart_decides(self, changes: tuple[Change, ...], failed: float) -> None:
        assert fact("restart_failed", changes=changes) == failed

    @pytest.mark.parametrize(
        ("minutes", "serves", "held", "is_fact"),
        [
            (19, True, False, True),
            # It serves again: told once, and not repeated all day.
            (23, True, False, False),
            (23, False, False, True),
            # It serves, but nothing is sent to it: somebody must act.
            (23, True, True, True),
        ],
    )
    def test_it_is_over_once_the_server_serves_again(
        self, minutes: int, serves: bool, held: bool, is_fact: bool
    ) -> None:
        failed = change(2, ChangeState.ROLLED_BACK, Outcome.START_FAILED, held=held)
        engines = (engine_reading(Counted(steps=1)),) if serves else ()
        last = LastReading(reading(0.0, *engines), None)
        found = failed_restart([failed], last, NOON + timedelta(minutes=minutes))
        assert (found == failed) is is_fact

    def test_changes_older_than_a_day_are_forgotten(self) -> None:
        store = MemoryStore()
        with store.write() as unit:
            unit.rollouts.add(
                Rollout(id=RolloutId("r"), group=GroupName("g"), decision=DecisionId("d"), current=NGRAM,
                        proposed=NGRAM, created_at=NOON, requested_by="ann")
            )
            unit.changes.add([change(0, ChangeState.ABANDONED, Outcome.UNDO_FAILED), change(60, ChangeState.PROMOTED)])
            found = changes_of_last_day(unit, [SERVER], NOON + timedelta(days=1, minutes=30))[SERVER]
        assert [one.id for one in found] == ["c60"]


class TestAuthorization:
    @pytest.mark.parametrize(
        ("reason", "value"),
        [("HTTP 401: unauthorized", 1.0), ("HTTP 403", 1.0), ("HTTP 500", 0.0), ("unreachable: no route", 0.0)],
    )
    def test_only_a_refusal_of_credentials_counts(self, reason: str, value: float) -> None:
        page = Reading(
            server=SERVER, scraped_at=NOON, monotonic=0.0, dialect="none", verdict=Verdict.SCRAPE_ERROR, reason=reason
        )
        assert fact("scrape_unauthorized", last=LastReading(page, None)) == value

    def test_unknown_before_the_first_page(self) -> None:
        assert fact("scrape_unauthorized") is None


class TestNeuralDraft:
    @pytest.mark.parametrize(
        ("methods", "value"), [(("eagle3",), 1.0), (("ngram",), 0.0), (("eagle3", "ngram"), None), ((), None)]
    )
    def test_one_method_decides_and_several_do_not(self, methods: tuple[str, ...], value: float | None) -> None:
        lives = tuple(life(method=method, engine=str(i)) for i, method in enumerate(methods))
        assert fact("is_neural_draft", lives=lives) == value

    def test_an_engine_that_is_off_has_no_say(self) -> None:
        assert fact("is_neural_draft", lives=(life(method="eagle3"), life(tokens=0, method="", engine="1"))) == 1.0


class TestDeliveries:
    def count(self, *deliveries: tuple[DeliveryState, int, float]) -> float | None:
        """Facts of an outbox with deliveries of (state, attempts, age in seconds)."""
        store = MemoryStore()
        with store.write() as unit:
            for number, (state, attempts, age) in enumerate(deliveries):
                at = NOON - timedelta(seconds=age)
                notice = Notice(
                    id=NoticeId(f"n{number}"), kind=NoticeKind.ALERT_FIRING, dedupe_key=f"k{number}", thread="t",
                    severity=Severity.PAGE, title="x", text="x", created_at=at,
                )
                unit.outbox.queue(notice, ["slack"], at)
                unit.outbox.update(
                    Delivery(notice=notice.id, receiver="slack", state=state, attempts=attempts, next_attempt_at=at)
                )
            return daemon_facts(unit, NOON)["deliveries_failed"]

    def test_what_was_refused_for_good_counts_for_an_hour(self) -> None:
        assert self.count((DeliveryState.FAILED, 1, 60.0), (DeliveryState.FAILED, 1, 3601.0)) == 1.0

    def test_a_receiver_that_took_a_later_one_works_again(self) -> None:
        # In the order they were queued.
        assert self.count((DeliveryState.FAILED, 1, 600.0), (DeliveryState.SENT, 1, 60.0)) == 0.0
        assert self.count((DeliveryState.SENT, 1, 600.0), (DeliveryState.FAILED, 1, 60.0)) == 1.0

    def test_what_waits_counts_once_it_was_tried_and_five_minutes_are_over(self) -> None:
        waiting = DeliveryState.PENDING
        assert self.count((waiting, 0, 4000.0), (waiting, 3, 299.0), (waiting, 3, 301.0)) == 1.0

    def test_what_was_sent_does_not_count(self) -> None:
        assert self.count((DeliveryState.SENT, 1, 10.0)) == 0.0
