"""The outbox: notices, and one delivery of each to each of its receivers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, func, select

from monitor.model.notice import Delivery, DeliveryState, Notice, NoticeId
from monitor.store.records import Records, shape
from monitor.store.tables.telling import DeliveryRow, NoticeRow

_NOTICE = shape(Notice, NoticeRow)
_DELIVERY = shape(Delivery, DeliveryRow)
_BOTH = select(*_NOTICE.columns, *_DELIVERY.columns).join_from(
    _NOTICE.table, _DELIVERY.table, NoticeRow.id == DeliveryRow.notice
)
_PENDING = DeliveryRow.state == DeliveryState.PENDING


class SqlOutbox:
    """Notices and their deliveries."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._notices = Records(connection, Notice, NoticeRow)
        self._deliveries = Records(connection, Delivery, DeliveryRow)

    def queue(self, notice: Notice, receivers: Sequence[str], now: datetime) -> bool:
        """Store a notice and its deliveries unless its key is known."""
        if not self._notices.insert_if_new(notice):
            return False
        self._deliveries.insert(_first(notice.id, receiver, now) for receiver in dict.fromkeys(receivers))
        return True

    def forward(self, notice: NoticeId, receiver: str, now: datetime) -> bool:
        """Queue a stored notice for one more receiver."""
        return self._deliveries.insert_if_new(_first(notice, receiver, now))

    def due(self, now: datetime, limit: int) -> list[tuple[Notice, Delivery]]:
        """Pending deliveries whose next attempt is due."""
        statement = _BOTH.where(_PENDING, DeliveryRow.next_attempt_at <= now)
        return self._pairs(statement.order_by(DeliveryRow.next_attempt_at, NoticeRow.number).limit(limit))

    def waiting(self, receiver: str, limit: int) -> list[tuple[Notice, Delivery]]:
        """Pending deliveries to one receiver in the order they were queued, due or not."""
        statement = _BOTH.where(_PENDING, DeliveryRow.receiver == receiver)
        return self._pairs(statement.order_by(NoticeRow.number).limit(limit))

    def update(self, delivery: Delivery) -> None:
        """Replace the delivery of that notice and receiver."""
        self._deliveries.replace(delivery, f"delivery of notice {delivery.notice} to {delivery.receiver}")

    def sent_in(self, thread: str, receiver: str) -> list[tuple[Notice, Delivery]]:
        """What of a thread was sent to `receiver` and has a name there, in that order."""
        where = (
            NoticeRow.thread == thread,
            DeliveryRow.receiver == receiver,
            DeliveryRow.state == DeliveryState.SENT,
            DeliveryRow.external_id.is_not(None),
        )
        return self._pairs(_BOTH.where(*where).order_by(DeliveryRow.sent_at, NoticeRow.number))

    def newest(self, receiver: str) -> Delivery | None:
        """The delivery to `receiver` that was sent last."""
        where = (DeliveryRow.receiver == receiver) & (DeliveryRow.state == DeliveryState.SENT)
        found = self._deliveries.many(where, order=(DeliveryRow.sent_at.desc(),), limit=1)
        return found[0] if found else None

    def recent(self, limit: int) -> list[tuple[Notice, list[Delivery]]]:
        """The newest notices with their deliveries."""
        notices = self._notices.many(order=(NoticeRow.number.desc(),), limit=limit)
        found: dict[NoticeId, list[Delivery]] = {notice.id: [] for notice in notices}
        where = DeliveryRow.notice.in_(list(found))
        for delivery in self._deliveries.many(where, order=(DeliveryRow.receiver,)):
            found[delivery.notice].append(delivery)
        return [(notice, found[notice.id]) for notice in notices]

    def pending_receivers(self) -> list[str]:
        """Receivers that something waits for."""
        statement = select(DeliveryRow.receiver).where(_PENDING).distinct().order_by(DeliveryRow.receiver)
        return list(self._connection.execute(statement).scalars())

    def pending_count(self) -> int:
        """Number of deliveries that are neither sent nor given up."""
        return self._connection.execute(select(func.count()).select_from(DeliveryRow).where(_PENDING)).scalar_one()

    def _pairs(self, statement: object) -> list[tuple[Notice, Delivery]]:
        rows: Iterable[Sequence[object]] = self._connection.execute(statement)  # type: ignore[call-overload]
        split = len(_NOTICE.columns)
        return [(_NOTICE.build(row[:split]), _DELIVERY.build(row[split:])) for row in rows]


def _first(notice: NoticeId, receiver: str, now: datetime) -> Delivery:
    return Delivery(notice=notice, receiver=receiver, state=DeliveryState.PENDING, next_attempt_at=now)
