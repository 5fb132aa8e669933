"""Brings counts of checks over to the fleet's database: many rows that only grow at their end.

Ten thousand a server are kept, so nothing that is over is looked at twice: a daemon that starts asks how far the
database is, and reads on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from monitor.model.server import ServerName
from monitor.store.copying import chunks, plain_table, put_rows
from monitor.store.database import Database

_TABLE = plain_table("checks")
#: How far back they are brought over: as long as a shared database may be away without a gap in its records.
_BACK = timedelta(days=35)
#: How far before the newest that was brought over they are looked for: the bucket of now still grows, and a store of
#: pages may have samples later than its word that there are none.
_LATE = timedelta(hours=1)
#: Answered and missed by end, of each server.
_Counts = dict[ServerName, dict[datetime, tuple[int, int]]]


class ChecksMirror:
    """What one daemon has brought over."""

    def __init__(self, local: Database, shared: Database) -> None:
        self._local = local
        self._shared = shared
        #: The newest end of each server that the database has.
        self._reached: dict[ServerName, datetime] = {}
        #: What the last turn found of the rows that will be looked at again.
        self._growing: _Counts = {}

    def turn(self, servers: Sequence[ServerName], now: datetime) -> int:
        """Bring over what is new of these servers; the number of rows. Raises StoreError."""
        new = [server for server in servers if server not in self._reached]
        reached = {server: end for server, end in self._reached.items() if server in set(servers)}
        reached |= self._ends_there(new, now)
        copied, growing = 0, _Counts()
        for since, some in _by_start(servers, reached, now).items():
            statement = select(_TABLE).where(_TABLE.c.server.in_(some), _TABLE.c.end_at > since)
            with self._local.reading() as reading:
                for rows in chunks(reading, statement.order_by(_TABLE.c.end_at)):
                    changed = [row for row in rows if not _is_in(self._growing, row)]
                    put_rows(self._shared, _TABLE, changed)
                    copied += len(changed)
                    for row in rows:
                        _remember(growing, row)
                        reached[row["server"]] = max(reached.get(row["server"], row["end_at"]), row["end_at"])
        self._reached, self._growing = reached, growing
        return copied

    def _ends_there(self, servers: Sequence[ServerName], now: datetime) -> dict[ServerName, datetime]:
        """The newest end of each that the database has; what a clock that was wrong put ahead of now is none.

        One by one: each is one step into the key, while the newest of all at once is a walk over millions of rows.
        """
        found: dict[ServerName, datetime] = {}
        with self._shared.reading() as reading:
            for server in servers:
                newest = select(func.max(_TABLE.c.end_at)).where(_TABLE.c.server == server, _TABLE.c.end_at <= now)
                end = reading.execute(newest).scalar()
                if end is not None:
                    found[server] = end
        return found


def _by_start(
    servers: Sequence[ServerName], reached: Mapping[ServerName, datetime], now: datetime
) -> dict[datetime, list[ServerName]]:
    """From when on each is read; a clock that was set back writes before what is there."""
    found: dict[datetime, list[ServerName]] = {}
    for server in servers:
        since = min(reached[server], now) - _LATE if server in reached else now - _BACK
        found.setdefault(max(since, now - _BACK), []).append(server)
    return found


def _is_in(known: _Counts, row: Mapping[str, Any]) -> bool:
    return known.get(row["server"], {}).get(row["end_at"]) == (row["answered"], row["missed"])


def _remember(known: _Counts, row: Mapping[str, Any]) -> None:
    """What will be looked at again; rows come by their end."""
    own, end = known.setdefault(row["server"], {}), row["end_at"]
    own[end] = row["answered"], row["missed"]
    while (first := next(iter(own))) <= end - _LATE:
        del own[first]
