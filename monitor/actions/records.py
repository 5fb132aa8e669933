"""What the records say about acting on a server: pauses, lease, budget, lives. Asked inside the transaction that acts.

Asked there, a pause that was stored before a step is stored is always heeded; there is no moment in between.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from monitor.actions.step import Refusal
from monitor.model.decision import Decision
from monitor.model.record import EVERYTHING, Pause, group_scope, server_scope
from monitor.model.rollout import Change, ChangeState, Lease, Outcome, Rollout
from monitor.model.server import ActionLimits, Group, GroupName, ServerName
from monitor.store.api import Unit

#: States in which a server is, or may be, away from its clients because of us.
AWAY = (ChangeState.DRAINING, ChangeState.RESTARTING, ChangeState.UNDOING)
#: What budgets are counted over.
DAY = timedelta(days=1)


def pause_of(unit: Unit, group: GroupName, servers: Sequence[ServerName], now: datetime) -> Pause | None:
    """The pause that covers the group or one of its servers; the widest first, None where there is none."""
    active = {pause.scope: pause for pause in unit.pauses.active(now)}
    scopes = (EVERYTHING, group_scope(group), *(server_scope(server) for server in servers))
    return next((active[scope] for scope in scopes if scope in active), None)


def describe_pause(pause: Pause) -> str:
    """A pause in words: what, by whom, until when."""
    what = "everything" if pause.scope == EVERYTHING else pause.scope.replace(":", " ")
    until = f" until {pause.until:%Y-%m-%d %H:%M} UTC" if pause.until is not None else ""
    return f"{what} is paused by {pause.author}{until}: {pause.reason}"


def starts_left(unit: Unit, server: ServerName, limits: ActionLimits, now: datetime) -> int:
    """Starts of `server` that `restarts_per_day` still allows; never negative."""
    return max(0, limits.restarts_per_day - len(unit.restarts.since(server, now - DAY)))


def lease_name(group: GroupName) -> str:
    """Name of the lease that its coordinator holds."""
    return f"rollout:{group}"


def is_in_force(stored: Lease | None, held: Lease | None, now: datetime) -> bool:
    """Whether the lease we hold is the one that is stored, and not over."""
    if stored is None or held is None:
        return False
    return (stored.holder, stored.fence) == (held.holder, held.fence) and stored.expires_at > now


def is_in_traffic(unit: Unit, server: ServerName, now: datetime) -> bool:
    """Whether `server` should get requests, as far as acting on it goes: what a polled readiness endpoint answers."""
    changes = unit.changes.of_server(server, now - DAY * 400)
    return not (changes and changes[-1].traffic_held)


def refusal_of_records(
    unit: Unit,
    change: Change,
    rollout: Rollout,
    decision: Decision | None,
    group: Group,
    here: Collection[ServerName],
    now: datetime,
) -> Refusal | None:
    """Why the records forbid to stop the server of `change` now; None where they do not.

    `here` are the servers of this host: one of them at a time is taken away from its clients.
    """
    pause = pause_of(unit, rollout.group, (change.server,), now)
    if pause is not None:
        return Refusal(Outcome.PAUSED, describe_pause(pause))
    lease = unit.leases.get(lease_name(rollout.group))
    if lease is None or lease.expires_at <= now:
        return Refusal(Outcome.PRECONDITION_FAILED, "no daemon coordinates this group now")
    if change.state is ChangeState.PLANNED:
        away = [c.server for c in unit.changes.active() if c.id != change.id and c.server in here and c.state in AWAY]
        if away:
            return Refusal(
                Outcome.PRECONDITION_FAILED, f"{away[0]} on this host is being changed: one at a time"
            )
    is_tuning = rollout.current != rollout.proposed
    if is_tuning and change.state is ChangeState.PLANNED:
        # A peer that nothing is sent to does not carry its share, however healthy it says it is.
        idle = [s for s in group.servers if s != change.server and not is_in_traffic(unit, s, now)]
        if idle:
            return Refusal(Outcome.PRECONDITION_FAILED, f"{idle[0]} of the same group gets no requests")
    limits, needed = group.limits, 2 if is_tuning else 1
    left = starts_left(unit, change.server, limits, now)
    if left < needed:
        return Refusal(
            Outcome.PRECONDITION_FAILED,
            f"{left} of {limits.restarts_per_day} starts a day are left, {needed} are needed (one to go back)",
            lasting=True,
        )
    return _another_life(unit, change, decision)


def _another_life(unit: Unit, change: Change, decision: Decision | None) -> Refusal | None:
    if decision is None or change.current != decision.precondition.setting:
        return None
    expected = decision.precondition.lives.get(change.server)
    if not expected:
        return None
    found = {life.id for life in unit.lives.open_of(change.server)}
    if found == set(expected):
        return None
    return Refusal(
        Outcome.PRECONDITION_FAILED, "it was restarted or changed since the decision was made", lasting=True
    )


def is_first_start(unit: Unit, change: Change, now: datetime) -> bool:
    """Whether the change's setting never started on its server in the last 30 days, as far as changes tell."""
    past = unit.changes.of_server(change.server, now - timedelta(days=30))
    started = {c.proposed for c in past if c.id != change.id and c.ready_at is not None}
    started |= {c.current for c in past if c.state is ChangeState.ROLLED_BACK}
    return change.proposed not in started
