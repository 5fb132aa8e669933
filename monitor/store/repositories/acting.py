"""Repositories of deciding and acting: decisions, rollouts, changes, and what is remembered of servers for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import Connection

from monitor.errors import StoreError
from monitor.model.decision import Decision, DecisionId, DecisionState
from monitor.model.record import Baseline, LastGood, Rejection, Restart
from monitor.model.rollout import Change, ChangeId, ChangeState, Rollout, RolloutId, RolloutState
from monitor.model.server import GroupName, ServerName
from monitor.store.api import ActiveRolloutExists
from monitor.store.records import Records
from monitor.store.tables.acting import (
    BaselineRow,
    ChangeRow,
    DecisionRow,
    LastGoodRow,
    RejectionRow,
    RestartRow,
    RolloutRow,
)

_UNFINISHED = [state for state in ChangeState if not state.is_final]


class SqlDecisions:
    """What was concluded."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Decision, DecisionRow)

    def add(self, decision: Decision) -> None:
        """Store a new decision."""
        self._rows.insert([decision])

    def update(self, decision: Decision) -> None:
        """Replace the decision of that id."""
        self._rows.replace(decision, f"decision {decision.id}")

    def get(self, decision: DecisionId) -> Decision | None:
        """The decision of that id."""
        return self._rows.one(DecisionRow.id == decision)

    def latest(self, group: GroupName, limit: int = 1) -> list[Decision]:
        """The newest decisions of `group`, newest first."""
        order = (DecisionRow.made_at.desc(), DecisionRow.id.desc())
        return self._rows.many(DecisionRow.group == group, order=order, limit=limit)

    def since(self, group: GroupName | None, since: datetime) -> list[Decision]:
        """Decisions made at or after `since`, oldest first."""
        where = [DecisionRow.made_at >= since]
        if group is not None:
            where.append(DecisionRow.group == group)
        return self._rows.many(*where, order=(DecisionRow.made_at, DecisionRow.id))

    def in_state(self, *states: DecisionState) -> list[Decision]:
        """Decisions in one of `states`, oldest first."""
        return self._rows.many(DecisionRow.state.in_(states), order=(DecisionRow.made_at, DecisionRow.id))


class SqlRollouts:
    """New settings on their way through a group."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Rollout, RolloutRow)

    def add(self, rollout: Rollout) -> None:
        """Store a new rollout; the partial unique index decides between two that come at once."""
        if self._rows.insert_if_new(rollout):
            return
        for existing in self.active(rollout.group):
            if existing.id != rollout.id:
                raise ActiveRolloutExists(existing)
        raise StoreError(f"cannot add rollout {rollout.id}: it is in the store already")

    def update(self, rollout: Rollout) -> None:
        """Replace the rollout of that id."""
        self._rows.replace(rollout, f"rollout {rollout.id}")

    def get(self, rollout: RolloutId) -> Rollout | None:
        """The rollout of that id."""
        return self._rows.one(RolloutRow.id == rollout)

    def active(self, group: GroupName | None = None) -> list[Rollout]:
        """Active rollouts, oldest first."""
        where = [RolloutRow.state == RolloutState.ACTIVE]
        if group is not None:
            where.append(RolloutRow.group == group)
        return self._rows.many(*where, order=(RolloutRow.created_at, RolloutRow.id))

    def since(self, group: GroupName | None, since: datetime) -> list[Rollout]:
        """Rollouts created at or after `since`, oldest first."""
        where = [RolloutRow.created_at >= since]
        if group is not None:
            where.append(RolloutRow.group == group)
        return self._rows.many(*where, order=(RolloutRow.created_at, RolloutRow.id))


class SqlChanges:
    """The parts of rollouts."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Change, ChangeRow)

    def add(self, changes: Iterable[Change]) -> None:
        """Store new changes."""
        self._rows.insert(changes)

    def update(self, change: Change) -> None:
        """Replace the change of that id."""
        self._rows.replace(change, f"change {change.id}")

    def get(self, change: ChangeId) -> Change | None:
        """The change of that id."""
        return self._rows.one(ChangeRow.id == change)

    def of_rollout(self, rollout: RolloutId) -> list[Change]:
        """Changes of one rollout, by position."""
        return self._rows.many(ChangeRow.rollout == rollout, order=(ChangeRow.position, ChangeRow.id))

    def active(self) -> list[Change]:
        """Changes that are not final, by rollout and position."""
        order = (ChangeRow.rollout, ChangeRow.position, ChangeRow.id)
        return self._rows.many(ChangeRow.state.in_(_UNFINISHED), order=order)

    def of_server(self, server: ServerName, since: datetime) -> list[Change]:
        """Changes of `server` that entered their present state at or after `since`."""
        return self.of_servers([server], since)

    def of_servers(self, servers: Collection[ServerName], since: datetime) -> list[Change]:
        """The same of many servers at once."""
        where = (ChangeRow.server.in_(servers), ChangeRow.entered_at >= since)
        return self._rows.many(*where, order=(ChangeRow.entered_at, ChangeRow.id))


class SqlRejections:
    """Settings that were tried and lost."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Rejection, RejectionRow)

    def add(self, rejection: Rejection) -> None:
        """Store one more rejection."""
        self._rows.insert([rejection])

    def of(self, group: GroupName) -> list[Rejection]:
        """Rejections of `group`, oldest first."""
        return self._rows.many(RejectionRow.group == group, order=(RejectionRow.at, RejectionRow.number))


class SqlRestarts:
    """Starts of managed servers by us."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Restart, RestartRow)

    def add(self, restart: Restart) -> None:
        """Store one more start."""
        self._rows.insert([restart])

    def since(self, server: ServerName, since: datetime) -> list[Restart]:
        """Starts of `server` at or after `since`, oldest first."""
        return self.of_servers([server], since)

    def of_servers(self, servers: Collection[ServerName], since: datetime) -> list[Restart]:
        """The same of many servers at once."""
        where = (RestartRow.server.in_(servers), RestartRow.at >= since)
        return self._rows.many(*where, order=(RestartRow.at, RestartRow.number))


class SqlLastGoods:
    """Last settings with which servers were seen serving."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, LastGood, LastGoodRow)

    def get(self, server: ServerName) -> LastGood | None:
        """The last good setting of `server`."""
        return self._rows.one(LastGoodRow.server == server)

    def put(self, last_good: LastGood) -> None:
        """Store it in place of the server's last."""
        self._rows.put([last_good])


class SqlBaselines:
    """What is normal for a server at a setting."""

    def __init__(self, connection: Connection) -> None:
        self._rows = Records(connection, Baseline, BaselineRow)

    def of_servers(self, servers: Collection[ServerName]) -> list[Baseline]:
        """All there are of these servers, by server and key."""
        return self._rows.many(BaselineRow.server.in_(servers), order=(BaselineRow.server, BaselineRow.key))

    def put(self, baseline: Baseline) -> None:
        """Store it in place of the last one."""
        self._rows.put([baseline])
