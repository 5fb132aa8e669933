"""The store's outbox as the delivering threads see it: one short transaction a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from monitor.clock import Clock
from monitor.config.routes import CONSOLE
from monitor.model.notice import Delivery, Notice
from monitor.notify.receiver import Root
from monitor.store import Store


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
            root = unit.outbox.root_of(thread, receiver)
        return Root(root.external_id) if root is not None and root.external_id else None

    def fall_back(self, notice: Notice, receiver: str) -> None:
        """Hand a notice that `receiver` refuses for good to the fallback, and what that refuses to the console."""
        other = CONSOLE if receiver == self._fallback else self._fallback
        if receiver == CONSOLE:
            return
        with self._store.write() as unit:
            unit.outbox.forward(notice.id, other, self._clock.now())
        self._fallen()
