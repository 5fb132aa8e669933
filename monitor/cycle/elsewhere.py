"""Step times of servers of other groups that run the same: model, release, drafter, and GPU as the operator named it.

What a draft token costs is the same there, whatever is asked of them; their acceptance is not, and is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from monitor.cycle.history import History
from monitor.model.life import Setting
from monitor.model.server import Group, Server, ServerName
from monitor.tuning import CostRow
from monitor.tuning.observe import cost_rows

#: Most other servers that are looked at: a few tell the cost as well as a thousand do.
MOST_SERVERS = 8
#: How long what was found of a server holds: its rows rest on hours.
_HELD = timedelta(minutes=15)

#: Engine, GPU, model and release.
_Kind = tuple[str, str, str, str]
_Asked = tuple[ServerName, _Kind, str | None, str | None]


class Elsewhere:
    """Finds the step times of servers like those of a group; used by one thread."""

    def __init__(self, history: History, servers: Sequence[Server]) -> None:
        self._history = history
        self._servers = {server.name: server for server in servers if server.gpu}
        self._kinds: tuple[datetime, dict[ServerName, _Kind | None]] | None = None
        self._known: dict[_Asked, tuple[datetime, tuple[CostRow, ...]]] = {}

    def costs(self, group: Group, setting: Setting, now: datetime) -> tuple[tuple[CostRow, ...], ...]:
        """Rows of each server of another group that runs what this group runs at `setting`, at most `MOST_SERVERS`.

        Nothing where a server of the group has no GPU named, or its model or release is not known to be one.
        """
        if self._kinds is None or self._kinds[0] != now:
            # Once for all groups of an evaluation.
            self._kinds = now, {name: self._kind(server) for name, server in self._servers.items()}
        known = self._kinds[1]
        kinds = {known.get(name) for name in group.servers}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is None:
            return ()
        found: list[tuple[CostRow, ...]] = []
        for name in self._servers:
            if len(found) == MOST_SERVERS:
                break
            if name in group.servers or known[name] != kind:
                continue
            rows = self._rows((name, kind, setting.method, setting.draft_model), now)
            if rows:
                found.append(rows)
        return tuple(found)

    def _kind(self, server: Server) -> _Kind | None:
        shown = {(life.model, life.engine_version) for life in self._history.newest_lives(server.name)}
        if server.gpu is None or len(shown) != 1:
            return None
        model, release = shown.pop()
        return (server.engine.value, server.gpu, model, release) if release is not None else None

    def _rows(self, asked: _Asked, now: datetime) -> tuple[CostRow, ...]:
        known = self._known.get(asked)
        if known is not None and now - known[0] < _HELD:
            return known[1]
        name, (_, _, model, release), method, draft_model = asked
        rows = cost_rows(
            self._history.coarse_track(name), method, draft_model,
            of=lambda life: (life.model, life.engine_version) == (model, release),
        )
        self._known[asked] = now, rows
        return rows
