"""Empties the outbox to one receiver, in order, with patience. It owns no table: the rows come through `Outbox`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from monitor.clock import Clock
from monitor.errors import MonitorError, NotifyError
from monitor.model.notice import Delivery, DeliveryState, Notice, NoticeId, NoticeKind
from monitor.notify.receiver import Attempt, Receiver, Root

log = logging.getLogger(__name__)

#: Wait after a failed attempt (seconds), doubled each time up to the limit. Slack asks for no immediate retries; a page
#: that waited for the receiver must not wait much longer once that is back (Alertmanager's retries: a minute at most).
FIRST_WAIT_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 60.0
#: A message that could not be told for so long (seconds) is given up: by then it says nothing that is still true.
GIVE_UP_SECONDS = 24 * 3600.0
#: How often a message is tried whose delivering fails in a way that nobody foresaw: it must not hold up those behind it
#: for ever.
_UNFORESEEN_TRIES = 3
#: Reasons that leave open whether the message arrived.
UNCLEAR = frozenset({"no_answer", "server_error", "not_slack", "unforeseen"})
_BATCH = 20
_IDLE_SECONDS = 30.0


class Outbox(Protocol):
    """The rows that wait for one receiver."""

    def due(self, receiver: str, limit: int) -> Sequence[tuple[Notice, Delivery]]:
        """The oldest pending deliveries, in the order they were queued, those not yet due included."""
        ...

    def update(self, delivery: Delivery) -> None:
        """Store what became of a delivery."""
        ...

    def root_of(self, thread: str, receiver: str) -> Root | None:
        """The first message of a thread at this receiver."""
        ...

    def newest(self, receiver: str) -> Root | None:
        """The message that arrived last at this receiver."""
        ...

    def fall_back(self, notice: Notice, receiver: str) -> None:
        """The receiver will never take this notice: hand it to another one."""
        ...


class Counters(Protocol):
    """What the worker tells of itself."""

    def notice(self, receiver: str, outcome: str) -> None:
        """One attempt ended as `sent`, or with a reason."""


class OutboxWorker:
    """One thread for one receiver, so that a dead one delays neither the others nor the cycle."""

    def __init__(self, receiver: Receiver, outbox: Outbox, *, clock: Clock, counters: Counters) -> None:
        self._receiver = receiver
        self._outbox = outbox
        self._clock = clock
        self._counters = counters
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start delivering."""
        self._stopping = False
        thread = threading.Thread(target=self._run, name=f"outbox-{self._receiver.name}", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Deliver what is due now, then end; bounded by the receiver's own time limit."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=15)
            self._thread = None

    def wake(self) -> None:
        """Look at once: something was queued."""
        self._wake.set()

    def _run(self) -> None:
        while True:
            wait = _IDLE_SECONDS
            try:
                wait = self.run_once()
            except MonitorError as error:
                log.warning("outbox cannot be read receiver=%s error=%s", self._receiver.name, error)
            except Exception:
                log.exception("outbox failed unexpectedly receiver=%s", self._receiver.name)
            if self._stopping:
                return
            self._wake.wait(wait)
            self._wake.clear()

    def run_once(self) -> float:
        """Deliver what is due, in order; returns the seconds until there may be more."""
        rows = self._outbox.due(self._receiver.name, _BATCH)
        over = _over(rows)
        for notice, delivery in rows:
            wait = (delivery.next_attempt_at - self._clock.now()).total_seconds()
            if wait > 0:
                # Later ones stay behind it: a "resolved" must not overtake its "firing".
                return min(wait, _IDLE_SECONDS)
            if notice.id in over and not delivery.is_unclear:
                self._drop(notice, delivery)
                continue
            if not self._attempt(notice, delivery, is_over=notice.id in over):
                return 0.0
            if self._receiver.pause_seconds and not self._stopping:
                self._clock.sleep(self._receiver.pause_seconds)
        return _IDLE_SECONDS

    def _drop(self, notice: Notice, delivery: Delivery) -> None:
        """Say nothing of what was over before it could be said: its end, which waits behind it, says all."""
        self._counters.notice(self._receiver.name, "over")
        self._outbox.update(replace(delivery, state=DeliveryState.DROPPED, reason="over"))
        log.info("notice not sent, it is over receiver=%s notice=%s: %s", self._receiver.name, notice.id, notice.title)

    def _attempt(self, notice: Notice, delivery: Delivery, *, is_over: bool) -> bool:
        """Try once and store the outcome; False where the order asks to look again."""
        name = self._receiver.name
        neighbour = self._outbox.newest(name) if delivery.is_unclear else None
        attempt = Attempt(delivery.is_unclear, delivery.external_id, is_over, neighbour)
        tried = replace(delivery, attempts=delivery.attempts + 1)
        # Written before it is sent: should we die in between, the next attempt knows that this one may have arrived.
        self._outbox.update(replace(tried, is_unclear=True))
        try:
            external_id = self._receiver.deliver(notice, self._outbox.root_of(notice.thread, name), attempt)
        except NotifyError as error:
            return self._failed(notice, delivery, error)
        except Exception as error:
            log.exception("delivering failed in an unforeseen way receiver=%s notice=%s", name, notice.id)
            text = f"acceptd failed at it ({type(error).__name__})"
            again = tried.attempts < _UNFORESEEN_TRIES
            return self._failed(notice, delivery, NotifyError(text, reason="unforeseen", retryable=again))
        self._counters.notice(name, "sent")
        self._outbox.update(
            replace(
                tried, state=DeliveryState.SENT, external_id=external_id, sent_at=self._clock.now(), reason="",
                is_unclear=False,
            )
        )
        return True

    def _failed(self, notice: Notice, delivery: Delivery, error: NotifyError) -> bool:
        """Put the delivery off, or give it up where it can never succeed."""
        name, now = self._receiver.name, self._clock.now()
        self._counters.notice(name, error.reason)
        tried = replace(
            delivery, attempts=delivery.attempts + 1, reason=error.reason,
            external_id=error.external_id or delivery.external_id,
            is_unclear=delivery.is_unclear or error.reason in UNCLEAR,
        )  # fmt: skip
        is_old = (now - notice.created_at).total_seconds() > GIVE_UP_SECONDS
        if error.retryable and not is_old:
            backoff = min(FIRST_WAIT_SECONDS * 2 ** min(delivery.attempts, 16), LONGEST_WAIT_SECONDS)
            wait = error.retry_after_seconds if error.retry_after_seconds is not None else backoff
            self._outbox.update(replace(tried, next_attempt_at=now + timedelta(seconds=max(wait, 0.1))))
            log.warning("notice waits receiver=%s notice=%s wait=%.0fs: %s", name, notice.id, wait, error)
            return False
        self._outbox.update(replace(tried, state=DeliveryState.FAILED))
        log.error("notice cannot be delivered receiver=%s notice=%s: %s", name, notice.id, error)
        self._outbox.fall_back(notice, name)
        return True


def _over(rows: Sequence[tuple[Notice, Delivery]]) -> set[NoticeId]:
    """Of the notices that wait, those that say that something fires whose end waits behind them."""
    resolved = NoticeKind.ALERT_RESOLVED
    ends = {notice.thread: number for number, (notice, _) in enumerate(rows) if notice.kind is resolved}
    return {
        notice.id
        for number, (notice, _) in enumerate(rows)
        if notice.kind in (NoticeKind.ALERT_FIRING, NoticeKind.ALERT_REPEAT) and number < ends.get(notice.thread, 0)
    }
