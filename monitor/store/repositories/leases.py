"""Leases: each method is one statement, so that two holders can never both win."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, case, func, literal, or_, select, update

from monitor.errors import StoreError
from monitor.model.rollout import Lease
from monitor.store.columns import Moment
from monitor.store.records import new_rows
from monitor.store.tables.acting import LeaseRow

_COLUMNS = (LeaseRow.name, LeaseRow.holder, LeaseRow.fence, LeaseRow.expires_at)
_NOBODY = ""


class SqlLeases:
    """Rights to do one thing in the fleet; `database_time` takes the database's clock instead of `now`."""

    def __init__(self, connection: Connection, *, database_time: bool) -> None:
        self._connection = connection
        self._database_time = database_time and connection.dialect.name == "postgresql"

    def hold(self, names: Iterable[str], holder: str, ttl_seconds: float, now: datetime) -> dict[str, Lease]:
        """Take or prolong many at once; those that `holder` has now."""
        if not holder or ttl_seconds <= 0:
            raise StoreError(f"leases: holder {holder!r}, {ttl_seconds} s: expected a name and more than 0 s")
        # In the order of their names: two daemons never wait for each other in a circle.
        wanted = sorted(set(names))
        if not wanted:
            return {}
        present, expiry = self._present(now), self._expiry(ttl_seconds, now)
        rows = [{"name": name, "holder": holder, "fence": 1, "expires_at": expiry} for name in wanted]
        # Taken where they are free, released or over; prolonged where `holder` has them.
        mine = and_(LeaseRow.holder == holder, LeaseRow.expires_at > present)
        fence = case((mine, LeaseRow.fence), else_=LeaseRow.fence + 1)
        statement = (
            new_rows(self._connection.dialect.name, LeaseRow)
            .values(rows)
            .on_conflict_do_update(
                index_elements=[LeaseRow.name],
                set_={"holder": holder, "expires_at": expiry, "fence": fence},
                where=or_(LeaseRow.holder.in_((_NOBODY, holder)), LeaseRow.expires_at <= present),
            )
            .returning(*_COLUMNS)
        )
        return {row.name: Lease(*row) for row in self._connection.execute(statement)}

    def standing(self, prefix: str, now: datetime) -> list[tuple[Lease, bool]]:
        """Leases whose names begin so, and whether they are in force."""
        statement = select(*_COLUMNS, LeaseRow.expires_at > self._present(now)).where(
            LeaseRow.name.startswith(prefix, autoescape=True), LeaseRow.holder != _NOBODY
        )
        rows = self._connection.execute(statement.order_by(LeaseRow.name))
        return [(Lease(*row[:4]), bool(row[4])) for row in rows]

    def confirm(self, leases: Iterable[Lease], now: datetime) -> set[str]:
        """Names of those that are still ours, locked until the unit ends."""
        wanted = {lease.name: lease for lease in leases}
        statement = (
            select(*_COLUMNS)
            .where(LeaseRow.name.in_(sorted(wanted)), LeaseRow.expires_at > self._present(now))
            .order_by(LeaseRow.name)
            .with_for_update(read=True)
        )
        found = [Lease(*row) for row in self._connection.execute(statement)]
        return {
            lease.name
            for lease in found
            if (lease.holder, lease.fence) == (wanted[lease.name].holder, wanted[lease.name].fence)
        }

    def acquire(self, name: str, holder: str, ttl_seconds: float, now: datetime) -> Lease | None:
        """Take the lease where it is free, or keep it where `holder` has it; None where another has it."""
        return self.hold([name], holder, ttl_seconds, now).get(name)

    def release(self, lease: Lease) -> None:
        """Give a lease back; its row keeps the fence."""
        self._connection.execute(update(LeaseRow).where(*self._is(lease)).values(holder=_NOBODY))

    def get(self, name: str) -> Lease | None:
        """The lease as stored, expired or not."""
        return self._lease(select(*_COLUMNS).where(LeaseRow.name == name, LeaseRow.holder != _NOBODY))

    def _is(self, lease: Lease) -> tuple[Any, ...]:
        return (LeaseRow.name == lease.name, LeaseRow.holder == lease.holder, LeaseRow.fence == lease.fence)

    def _lease(self, statement: Any) -> Lease | None:
        row = self._connection.execute(statement).first()
        return None if row is None else Lease(*row)

    def _present(self, now: datetime) -> Any:
        # clock_timestamp() goes on within a transaction; now() would stand still at its beginning.
        return func.clock_timestamp(type_=Moment()) if self._database_time else literal(now, Moment())

    def _expiry(self, ttl_seconds: float, now: datetime) -> Any:
        ttl = timedelta(seconds=ttl_seconds)
        if self._database_time:
            return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, ttl.total_seconds())
        return literal(now + ttl, Moment())
