"""What was concluded and done: decisions, rollouts, changes, leases and what is remembered of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Protocol

from monitor.model.decision import Decision, DecisionId, DecisionState
from monitor.model.record import Baseline, LastGood, Rejection, Restart
from monitor.model.rollout import Change, ChangeId, Lease, Rollout, RolloutId
from monitor.model.server import GroupName, ServerName


class Decisions(Protocol):
    """What was concluded."""

    def add(self, decision: Decision) -> None:
        """Store a new decision; one with a known id is refused."""

    def update(self, decision: Decision) -> None:
        """Replace the decision of that id; an unknown id is refused."""

    def get(self, decision: DecisionId) -> Decision | None:
        """The decision of that id; None where there is none."""

    def latest(self, group: GroupName, limit: int = 1) -> list[Decision]:
        """The newest decisions of `group`, newest first."""

    def since(self, group: GroupName | None, since: datetime) -> list[Decision]:
        """Decisions made at or after `since`, of one group or (None) of all, oldest first."""

    def in_state(self, *states: DecisionState) -> list[Decision]:
        """Decisions in one of `states`, oldest first."""


class Rollouts(Protocol):
    """New settings on their way through a group; one active a group."""

    def add(self, rollout: Rollout) -> None:
        """Store a new rollout. Raises ActiveRolloutExists where the group has an active one."""

    def update(self, rollout: Rollout) -> None:
        """Replace the rollout of that id; an unknown id is refused."""

    def get(self, rollout: RolloutId) -> Rollout | None:
        """The rollout of that id; None where there is none."""

    def active(self, group: GroupName | None = None) -> list[Rollout]:
        """Active rollouts, of one group or (None) of all, oldest first."""

    def since(self, group: GroupName | None, since: datetime) -> list[Rollout]:
        """Rollouts created at or after `since`, of one group or (None) of all, oldest first."""


class Changes(Protocol):
    """The parts of rollouts, one a server."""

    def add(self, changes: Iterable[Change]) -> None:
        """Store new changes; their rollout must be stored, known ids are refused."""

    def update(self, change: Change) -> None:
        """Replace the change of that id; an unknown id is refused."""

    def get(self, change: ChangeId) -> Change | None:
        """The change of that id; None where there is none."""

    def of_rollout(self, rollout: RolloutId) -> list[Change]:
        """Changes of one rollout, by position."""

    def active(self) -> list[Change]:
        """Changes that are not final (planned ones included), by rollout and position."""

    def of_server(self, server: ServerName, since: datetime) -> list[Change]:
        """Changes of `server` that entered their present state at or after `since`, oldest first."""

    def of_servers(self, servers: Collection[ServerName], since: datetime) -> list[Change]:
        """The same of many servers at once."""


class Leases(Protocol):
    """Rights to do one thing in the fleet.

    On PostgreSQL time is the database's (`now` is not used), so that hosts with wrong clocks agree; on SQLite, which
    serves one host, it is `now`.
    """

    def acquire(self, name: str, holder: str, ttl_seconds: float, now: datetime) -> Lease | None:
        """Take the lease where it is free, released or expired, with a higher fence; None where another holds it.

        Its own holder gets it again, prolonged, with the same fence while it has not expired.
        """

    def release(self, lease: Lease) -> None:
        """Give a lease back; nothing happens where it is lost already."""

    def hold(self, names: Iterable[str], holder: str, ttl_seconds: float, now: datetime) -> dict[str, Lease]:
        """Take or prolong many at once, as `acquire` does each; those that `holder` has now, by name."""

    def standing(self, prefix: str, now: datetime) -> list[tuple[Lease, bool]]:
        """Leases whose names begin so and that somebody holds, by name; each with whether it is still in force."""

    def confirm(self, leases: Iterable[Lease], now: datetime) -> set[str]:
        """Names of those that are still in force with that holder and fence.

        Nobody else can take them before this unit ends: what it writes is written under them.
        """

    def get(self, name: str) -> Lease | None:
        """The lease as stored, expired or not; None where nobody holds it."""


class Rejections(Protocol):
    """Settings that were tried and lost."""

    def add(self, rejection: Rejection) -> None:
        """Store one more rejection."""

    def of(self, group: GroupName) -> list[Rejection]:
        """Rejections of `group`, oldest first."""


class Baselines(Protocol):
    """What is normal for a server at a setting."""

    def of_servers(self, servers: Collection[ServerName]) -> list[Baseline]:
        """All there are of these servers, by server and key."""

    def put(self, baseline: Baseline) -> None:
        """Store it in place of the last one of its server and key."""


class Restarts(Protocol):
    """Starts of managed servers by us."""

    def add(self, restart: Restart) -> None:
        """Store one more start."""

    def since(self, server: ServerName, since: datetime) -> list[Restart]:
        """Starts of `server` at or after `since`, oldest first."""

    def of_servers(self, servers: Collection[ServerName], since: datetime) -> list[Restart]:
        """The same of many servers at once."""


class LastGoods(Protocol):
    """Last settings with which servers were seen serving."""

    def get(self, server: ServerName) -> LastGood | None:
        """The last good setting of `server`; None where none is known."""

    def put(self, last_good: LastGood) -> None:
        """Store it in place of the server's last."""
