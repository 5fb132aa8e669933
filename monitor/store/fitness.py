"""What a database of the fleet is fit for, as this user finds it: for the doctor. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from monitor.intervals.buckets import complete_until
from monitor.store.columns import Moment
from monitor.store.partitions import PARTITIONED, is_partitioned, partitions
from monitor.store.sql import SqlStore
from monitor.store.tables import Base

_DAY = timedelta(days=1)
#: Days to come that must have a partition: the nightly job makes them some days ahead.
_DAYS = 2
_NOW = text("SELECT clock_timestamp() AS moment").columns(moment=Moment)
_WRITABLE = text("SELECT NOT pg_is_in_recovery() AND current_setting('default_transaction_read_only') = 'off'")
_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_HAS_RIGHT = text("SELECT has_table_privilege(to_regclass(:name), :right)")
#: Only an owner (or a member of it) attaches and drops partitions.
_OWNS = text("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(:name)")
_MAY_CREATE = text("SELECT has_schema_privilege(current_schema(), 'CREATE')")
_ROWS = "SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT 1000) AS few"


@dataclass(frozen=True, slots=True)
class Fitness:
    """What was found."""

    #: The database's clock when it was asked.
    now: datetime
    is_writable: bool
    #: `TABLE: RIGHT, RIGHT`, for each table that the user may not use as it must.
    missing_rights: tuple[str, ...]
    #: Why days cannot be made and dropped by this user; empty where they can, or where nothing is in parts.
    unmanaged: str
    #: `TABLE: DAY` for each day to come without a partition.
    missing_days: tuple[str, ...]
    #: Rows (1,000 at most) outside all days, by table.
    astray: dict[str, int]


def fitness(store: SqlStore) -> Fitness:
    """Look at the database of `store`, which is PostgreSQL. Raises StoreError."""
    with store.database.reading() as connection:
        now = connection.execute(_NOW).scalar_one()
        rights = []
        for name in sorted(Base.metadata.tables):
            missing = [right for right in _RIGHTS
                       if not connection.execute(_HAS_RIGHT, {"name": name, "right": right}).scalar()]
            if missing:
                rights.append(f"{name}: {', '.join(missing)}")
        split = [table for table in PARTITIONED if is_partitioned(connection, table)]
        unmanaged = ""
        if split and not connection.execute(_MAY_CREATE).scalar():
            unmanaged = "it may create no tables in its schema"
        for table in PARTITIONED:
            in_parts = table in split or partitions(connection, table)
            if in_parts and not connection.execute(_OWNS, {"name": table}).scalar():
                unmanaged = f"it does not own {table}"
        today = complete_until(now, 86_400)
        days = []
        astray: dict[str, int] = {}
        for table in split:
            known = {one.begin for one in partitions(connection, table)}
            wanted = [today + number * _DAY for number in range(_DAYS)]
            days += [f"{table}: {day:%Y-%m-%d}" for day in wanted if day not in known]
            # The name is ours: nothing of it comes from outside.
            if not any(line.startswith(f"{table}: ") for line in rights):
                rows = connection.execute(text(_ROWS.format(name=f"{table}_default"))).scalar_one()
                astray |= {table: rows} if rows else {}
        return Fitness(now, bool(connection.execute(_WRITABLE).scalar()), tuple(rights), unmanaged, tuple(days), astray)
