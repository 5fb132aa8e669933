"""The store's outbox as the delivering threads see it: one short transaction a call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from monitor.clock import Clock
from monitor.config.routes import CONSOLE
from monitor.model.notice import NO_RECEIVER, Delivery, DeliveryState, Notice, NoticeKind
from monitor.notify.receiver import Root
from monitor.store import Store

log = logging.getLogger(__name__)

#: Most messages of one receiver that are handed over at a start; what is left goes at the next.
_MOST = 1000
#: Kinds of messages that say that something fires.
_FIRING = (NoticeKind.ALERT_FIRING, NoticeKind.ALERT_REPEAT)


class StoreOutbox:
    """Rows of the store for delivering threads."""

    def __init__(self, store: Store, clock: Clock, fallen: Callable[[], None], *, fallback: str) -> None:
        """`fallback` is the receiver that takes over, `fallen` wakes it."""
        self._store = store
        self._clock = clock
        self._fallen = fallen
        self._fallback = fallback

    def due(self, receiver: str, limit: int) -> Sequence[tuple[Notice, Delivery]]:
        """Pending deliveries in order."""
        with self._store.read() as unit:
            return unit.outbox.waiting(receiver, limit)

    def update(self, delivery: Delivery) -> None:
        """Store what became of one."""
        with self._store.write() as unit:
            unit.outbox.update(delivery)

    def root_of(self, thread: str, receiver: str) -> Root | None:
        """The first message of a thread; None where none was sent, or where it has no name there."""
        with self._store.read() as unit:
            said = unit.outbox.sent_in(thread, receiver)
        names: list[str] = []
        open_posts: list[str] = []
        for notice, delivery in said:
            assert delivery.external_id is not None  # others are not asked for
            names.append(delivery.external_id)
            if notice.kind is NoticeKind.ALERT_RESOLVED:
                open_posts.clear()
            elif notice.kind in _FIRING and not notice.edits_root:
                open_posts.append(delivery.external_id)
        return Root(names[0], tuple(open_posts)) if names else None

    def newest(self, receiver: str) -> Root | None:
        """The message that arrived last at a receiver; None where none did, or where it has no name there."""
        with self._store.read() as unit:
            delivery = unit.outbox.newest(receiver)
        return Root(delivery.external_id) if delivery is not None and delivery.external_id else None

    def take_over(self, receivers: Collection[str]) -> int:
        """Hand what waits for receivers that are no longer configured to the fallback, once; how many there were.

        Nobody would deliver it any more, and it would count as failing for as long as it is kept.
        """
        moved = 0
        with self._store.write() as unit:
            for receiver in unit.outbox.pending_receivers():
                for notice, delivery in unit.outbox.waiting(receiver, _MOST) if receiver not in receivers else ():
                    unit.outbox.update(replace(delivery, state=DeliveryState.FAILED, reason=NO_RECEIVER))
                    unit.outbox.forward(notice.id, self._fallback, self._clock.now())
                    moved += 1
        if moved:
            log.warning("messages for receivers that are no longer configured go to %s count=%d", self._fallback, moved)
        return moved

    def fall_back(self, notice: Notice, receiver: str) -> None:
        """Hand a notice that `receiver` refuses for good to the fallback, and what that refuses to the console."""
        other = CONSOLE if receiver == self._fallback else self._fallback
        if receiver == CONSOLE:
            return
        with self._store.write() as unit:
            unit.outbox.forward(notice.id, other, self._clock.now())
        self._fallen()
