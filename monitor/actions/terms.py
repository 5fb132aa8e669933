"""On what terms a change is carried out: drawn from rollout, decision, limits and the operator's own command."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from monitor.actions.course import is_restore
from monitor.actions.fleet import Managed
from monitor.actions.learned import starts_of
from monitor.actions.records import is_first_start
from monitor.actions.step import Terms, Timing
from monitor.actions.windows import end_of_next
from monitor.drivers.protocol import Launcher
from monitor.errors import LaunchError
from monitor.launch import grace_seconds
from monitor.model.decision import Decision, Reason
from monitor.model.life import Setting
from monitor.model.rollout import Change, Rollout
from monitor.model.server import ActionLimits, Group
from monitor.store.api import Unit

#: `Decision.rule` of a way back that a person asked for: not measured, since it is not a proposal.
ROLLBACK_RULE = "rollback"
#: Age of changes that starts are learned from.
_LEARNED_FROM = timedelta(days=90)


def terms_of(
    unit: Unit,
    change: Change,
    rollout: Rollout,
    decision: Decision | None,
    changes: Sequence[Change],
    managed: Managed,
    group: Group,
    timing: Timing,
    grace: float,
    now: datetime,
) -> Terms:
    """The terms of `change` as they are now (the operator may edit command and limits at any time)."""
    launcher = managed.driver.launcher
    brings_back = is_restore(change, rollout)
    edited = change.command_hash not in ("", launcher.base_hash)
    return Terms(
        limits=group.limits,
        timing=timing,
        goal=change.proposed,
        # An edited base command voids the last good setting: what the operator wrote is what is gone back to.
        undo_to=launcher.base_setting if edited else change.current,
        base_hash=launcher.base_hash,
        is_restart=rollout.current == rollout.proposed,
        is_restore=brings_back or (decision is not None and decision.rule == ROLLBACK_RULE),
        is_stuck=decision is not None and decision.reason is Reason.ENGINE_STUCK,
        has_drain_control=managed.balancer.has_control,
        grace_seconds=grace,
        is_first_start=is_first_start(unit, change, now),
        starts=starts_of(unit.changes.of_server(change.server, now - _LEARNED_FROM)),
        expires_at=_expires_at(change, decision, changes, group.limits, timing),
        # A rollout that is called off is what brings servers back, not a reason to stop doing so.
        cancelled=rollout.sentence if rollout.outcome is not None and not brings_back else "",
        dry_run="" if managed.driver.acts else _would_do(change.current, change.proposed, managed),
    )


def grace_of(launcher: Launcher) -> float:
    """How long a server lets its requests go on once it is asked to end (seconds); its version may be asked for."""
    command = launcher.parsed
    version = launcher.version() if command.shutdown_timeout_seconds else None
    return grace_seconds(command, version, launcher.environ)


def _expires_at(
    change: Change, decision: Decision | None, changes: Sequence[Change], limits: ActionLimits, timing: Timing
) -> datetime | None:
    """The first change acts while the decision holds; later ones have their turn only when the one before is done.

    Where that falls after the window has closed, they wait for the end of the next one.
    """
    done = [c.entered_at for c in changes if c.state.is_final]
    if done:
        waited = max(done) + timedelta(seconds=timing.wait_most_seconds)
        if not limits.maintenance:
            return waited
        return max(waited, end_of_next(limits.maintenance, max(done)))
    return decision.expires_at if decision is not None else change.entered_at


def _would_do(current: Setting, proposed: Setting, managed: Managed) -> str:
    try:
        lines = "; ".join(managed.driver.launcher.diff(current, proposed)) or "no difference"
    except LaunchError as error:
        lines = f"which its engine cannot do: {error}"
    return f"dry run: would drain and restart it with {proposed.describe()} ({lines})"
