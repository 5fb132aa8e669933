"""The outbox worker: order, patience, and no message lost or sent on a dead receiver for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.errors import NotifyError
from monitor.model.notice import Delivery, DeliveryState, Notice, NoticeId, NoticeKind
from monitor.notify.outbox import OutboxWorker
from monitor.notify.receiver import FIRST, Attempt, Root
from tests.unit.notify.test_blocks import NOW, notice


class Clock:
    def __init__(self) -> None:
        self.at = NOW
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += timedelta(seconds=seconds)


class Rows:
    """An outbox in memory."""

    def __init__(self, *notices: Notice) -> None:
        self.notices = {n.id: n for n in notices}
        self.rows = {
            n.id: Delivery(notice=n.id, receiver="r", state=DeliveryState.PENDING, next_attempt_at=NOW)
            for n in notices
        }
        self.fallen: list[NoticeId] = []

    def due(self, receiver: str, limit: int) -> Sequence[tuple[Notice, Delivery]]:
        pending = [d for d in self.rows.values() if d.state is DeliveryState.PENDING]
        return [(self.notices[d.notice], d) for d in pending][:limit]

    def update(self, delivery: Delivery) -> None:
        self.rows[delivery.notice] = delivery

    def newest(self, receiver: str) -> Root | None:
        return Root("newest")

    def root_of(self, thread: str, receiver: str) -> Root | None:
        for d in self.rows.values():
            if d.state is DeliveryState.SENT and self.notices[d.notice].thread == thread and d.external_id:
                return Root(d.external_id)
        return None

    def fall_back(self, notice: Notice, receiver: str) -> None:
        self.fallen.append(notice.id)


class Receiver:
    """Takes everything, unless an error is due."""

    name = "r"
    pause_seconds = 1.0

    def __init__(self, *errors: NotifyError | None) -> None:
        self.errors = list(errors)
        self.said: list[tuple[str, str | None]] = []

    def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        self.said.append((notice.id, root.external_id if root else None))
        return f"id-{notice.id}"


class Counted:
    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def notice(self, receiver: str, outcome: str) -> None:
        self.outcomes.append(outcome)


def named(name: str, **changes: object) -> Notice:
    return notice(id=NoticeId(name), dedupe_key=name, **changes)


def make(rows: Rows, receiver: Receiver) -> tuple[OutboxWorker, Clock, Counted]:
    clock, counted = Clock(), Counted()
    return OutboxWorker(receiver, rows, clock=clock, counters=counted), clock, counted


def test_notices_go_out_in_order_with_a_pause_and_know_their_thread() -> None:
    rows, receiver = Rows(named("a"), named("b")), Receiver()
    worker, clock, counted = make(rows, receiver)
    worker.run_once()
    assert receiver.said == [("a", None), ("b", "id-a")]
    assert clock.slept == [1.0, 1.0]
    assert counted.outcomes == ["sent", "sent"]
    assert {d.state for d in rows.rows.values()} == {DeliveryState.SENT}


def test_a_resolve_does_not_overtake_its_alert_while_slack_asks_to_wait() -> None:
    slow = NotifyError("slow", reason="rate_limited", retryable=True, retry_after_seconds=30)
    rows, receiver = Rows(named("firing"), named("resolved")), Receiver(slow)
    worker, clock, _ = make(rows, receiver)
    worker.run_once()
    assert worker.run_once() == 30.0
    assert receiver.said == []
    clock.at += timedelta(seconds=30)
    worker.run_once()
    assert [name for name, _ in receiver.said] == ["firing", "resolved"]
    assert rows.rows[NoticeId("firing")].attempts == 2


def test_unclear_faults_are_retried_with_growing_waits() -> None:
    fault = NotifyError("fault", reason="server_error", retryable=True)
    rows, receiver = Rows(named("a")), Receiver(*[fault] * 6)
    worker, clock, _ = make(rows, receiver)
    waits = []
    for _ in range(6):
        before = clock.at
        worker.run_once()
        clock.at = rows.rows[NoticeId("a")].next_attempt_at
        waits.append((clock.at - before).total_seconds())
    # A page is told at most a minute after the receiver is back.
    assert waits == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


def test_a_permanent_error_is_not_retried_and_another_receiver_takes_over() -> None:
    gone = NotifyError("gone", reason="channel_not_found", retryable=False)
    rows, receiver = Rows(named("a"), named("b")), Receiver(gone)
    worker, _, _ = make(rows, receiver)
    worker.run_once()
    assert rows.fallen == ["a"]
    assert rows.rows[NoticeId("a")].state is DeliveryState.FAILED
    assert [name for name, _ in receiver.said] == ["b"]


def test_a_message_of_yesterday_is_given_up() -> None:
    fault = NotifyError("fault", reason="server_error", retryable=True)
    old = named("a", created_at=datetime(2026, 2, 28, tzinfo=UTC))
    rows, receiver = Rows(old), Receiver(fault)
    worker, _, _ = make(rows, receiver)
    worker.run_once()
    assert rows.rows[NoticeId("a")].state is DeliveryState.FAILED
    assert replace(rows.rows[NoticeId("a")]).reason == "server_error"


def test_an_attempt_is_written_down_before_it_is_made_so_that_a_death_leaves_it_unclear() -> None:
    rows = Rows(named("a"))

    class Dies(Receiver):
        def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
            raise KeyboardInterrupt

    worker, _, _ = make(rows, Dies())
    with pytest.raises(KeyboardInterrupt):
        worker.run_once()
    left = rows.rows[NoticeId("a")]
    assert (left.state, left.attempts, left.is_unclear) == (DeliveryState.PENDING, 1, True)

    class Looks(Receiver):
        attempt: Attempt | None = None

        def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
            self.attempt = attempt
            return None

    looks = Looks()
    worker, _, _ = make(rows, looks)
    worker.run_once()
    assert looks.attempt == Attempt(is_unclear=True, neighbour=Root("newest"))
    assert rows.rows[NoticeId("a")].state is DeliveryState.SENT


@pytest.mark.parametrize(
    ("reasons", "is_unclear"),
    [(["rate_limited"], False), (["unreachable"], False), (["no_answer"], True), (["server_error"], True),
     # What may have arrived stays so, whatever is answered to the next attempts.
     (["no_answer", "rate_limited"], True)],
)  # fmt: skip
def test_whether_an_earlier_attempt_may_have_arrived(reasons: list[str], is_unclear: bool) -> None:
    rows = Rows(named("a"))
    worker, clock, _ = make(rows, Receiver(*[NotifyError("x", reason=r, retryable=True) for r in reasons]))
    for _ in reasons:
        worker.run_once()
        clock.at = rows.rows[NoticeId("a")].next_attempt_at
    assert rows.rows[NoticeId("a")].is_unclear is is_unclear


def test_what_a_message_is_called_is_kept_while_its_file_waits() -> None:
    late = NotifyError("file", reason="server_error", retryable=True, external_id="C1:1")
    rows = Rows(named("a"))
    worker, _, _ = make(rows, Receiver(late))
    worker.run_once()
    left = rows.rows[NoticeId("a")]
    assert (left.state, left.external_id) == (DeliveryState.PENDING, "C1:1")


def test_a_message_that_breaks_the_receiver_does_not_hold_up_the_others_for_ever() -> None:
    rows = Rows(named("poison"), named("b"))

    class Breaks(Receiver):
        def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
            if notice.id == "poison":
                raise KeyError("unforeseen")
            return super().deliver(notice, root, attempt)

    receiver = Breaks()
    worker, clock, counted = make(rows, receiver)
    for _ in range(3):
        worker.run_once()
        clock.at = max(clock.at, rows.rows[NoticeId("poison")].next_attempt_at)
    assert rows.rows[NoticeId("poison")].state is DeliveryState.FAILED
    assert rows.fallen == ["poison"]
    assert [name for name, _ in receiver.said] == ["b"]
    assert counted.outcomes == ["unforeseen"] * 3 + ["sent"]


def alert(name: str, kind: NoticeKind, **changes: object) -> Notice:
    return named(name, kind=kind, thread="alert:inc", **changes)


class TestWhatIsOver:
    FIRING, REPEAT, RESOLVED = NoticeKind.ALERT_FIRING, NoticeKind.ALERT_REPEAT, NoticeKind.ALERT_RESOLVED

    def test_what_was_over_before_it_could_be_said_is_not_said_as_news(self) -> None:
        rows = Rows(
            alert("firing", self.FIRING), alert("repeat", self.REPEAT), named("other", thread="alert:other"),
            alert("over", self.RESOLVED, edits_root=True), alert("again", self.FIRING),
        )
        receiver = Receiver()
        worker, _, counted = make(rows, receiver)
        worker.run_once()
        assert [name for name, _ in receiver.said] == ["other", "over", "again"]
        assert rows.rows[NoticeId("firing")].state is DeliveryState.DROPPED
        assert counted.outcomes[:2] == ["over", "over"]

    def test_one_that_may_have_arrived_is_looked_for_first(self) -> None:
        rows = Rows(alert("firing", self.FIRING), alert("over", self.RESOLVED, edits_root=True))
        rows.rows[NoticeId("firing")] = replace(rows.rows[NoticeId("firing")], is_unclear=True)
        seen: list[Attempt] = []

        class Looks(Receiver):
            def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
                seen.append(attempt)
                return None

        worker, _, _ = make(rows, Looks())
        worker.run_once()
        assert seen == [Attempt(is_unclear=True, is_over=True, neighbour=Root("newest")), Attempt()]
