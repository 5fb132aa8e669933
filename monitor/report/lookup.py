"""Single things in full, and lists of them, as plain data: what page, command line and JSON show when asked for one."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from monitor.model.alert import AlertState, Fingerprint
from monitor.model.decision import Decision, DecisionId
from monitor.model.record import SCHEDULE, WORKED_OUT, group_scope, server_scope
from monitor.model.rollout import ChangeId, Rollout, RolloutId
from monitor.model.server import GroupName, ServerName
from monitor.report.views import (
    audit_view,
    change_view,
    decision_view,
    pause_view,
    report_view,
    rollout_view,
    silence_view,
    told_alert,
)
from monitor.store.api import Unit

#: How far back evidence and lives of a server are listed.
_KEPT = timedelta(days=90)
#: How long before a decision the advice on a schedule may have been kept: the same is kept again after a day.
_SCHEDULE_BEFORE = timedelta(hours=26)


def find_decision(unit: Unit, subject: str) -> Decision | None:
    """The decision of that id, or behind the rollout or change of that id; None where there is none."""
    change = unit.changes.get(ChangeId(subject))
    rollout = unit.rollouts.get(change.rollout if change else RolloutId(subject))
    return unit.decisions.get(rollout.decision if rollout else DecisionId(subject))


def explain(unit: Unit, decision: Decision, planned: str | None = None) -> dict[str, Any]:
    """A decision with its plan, what came of it, and everyone who had a hand in it.

    The plan is the one that the request `planned` asked for, else the one of the moment when it was decided.
    """
    rollouts = [r for r in unit.rollouts.since(decision.group, decision.made_at) if r.decision == decision.id]
    changes = [change for rollout in rollouts for change in unit.changes.of_rollout(rollout.id)]
    subjects = [decision.id, *(rollout.id for rollout in rollouts), *(change.id for change in changes)]
    trail = sorted((entry for subject in subjects for entry in unit.audit.of(subject)), key=lambda entry: entry.at)
    plan = unit.evidence.get(f"plan:{planned or decision.id}")
    return {
        "decision": decision_view(decision),
        "plan": dict(plan.parts) if plan is not None else None,
        "planned_at": plan.at.isoformat() if plan is not None else None,
        "schedule": schedule_of(unit, decision),
        "rollouts": [rollout_view(rollout) for rollout in rollouts],
        "changes": [change_view(change) for change in changes],
        "trail": [audit_view(entry) for entry in trail],
    }


def schedule_of(unit: Unit, decision: Decision) -> str | None:
    """What the newest advice on a schedule by batch size says of the decision's servers; None where there is none."""
    since = decision.made_at - _SCHEDULE_BEFORE
    kept = [one for name in decision.servers for one in unit.evidence.of(name, since) if one.what == SCHEDULE]
    return " ".join(max(kept, key=lambda one: one.at).parts.values()) if kept else None


def rollout_in_full(unit: Unit, name: str) -> dict[str, Any] | None:
    """A rollout with its changes and its trail; None where there is none."""
    rollout = unit.rollouts.get(RolloutId(name))
    if rollout is None:
        return None
    changes = unit.changes.of_rollout(rollout.id)
    trail = [entry for subject in (rollout.id, *(change.id for change in changes)) for entry in unit.audit.of(subject)]
    return {
        "rollout": rollout_view(rollout),
        "changes": [change_view(change) for change in changes],
        "trail": [audit_view(entry) for entry in sorted(trail, key=lambda entry: entry.at)],
    }


def rollouts_since(unit: Unit, group: str | None, since: datetime) -> list[dict[str, Any]]:
    """Rollouts of one group or of all, newest first; active ones however old."""
    found: dict[str, Rollout] = {r.id: r for r in unit.rollouts.since(GroupName(group) if group else None, since)}
    found |= {r.id: r for r in unit.rollouts.active(GroupName(group) if group else None)}
    return [rollout_view(one) for one in sorted(found.values(), key=lambda one: one.created_at, reverse=True)]


def decisions_since(unit: Unit, group: str | None, since: datetime) -> list[dict[str, Any]]:
    """Decisions of one group or of all, newest first."""
    found = unit.decisions.since(GroupName(group) if group else None, since)
    return [decision_view(decision) for decision in reversed(found)]


def alerts_since(
    unit: Unit, since: datetime, now: datetime, but: Collection[tuple[Fingerprint, datetime]] = ()
) -> dict[str, list[dict[str, Any]]]:
    """Alerts that fire, that are pending, and that resolved after `since`; the newest first.

    Those in `but` (fingerprint, beginning) are left out.
    """
    found = [alert for alert in unit.alerts.since(since) if (alert.fingerprint, alert.active_since) not in but]
    found.sort(key=lambda alert: alert.active_since, reverse=True)
    silences = unit.silences.active(now)
    return {
        state.value: [
            told_alert(alert, silences, now)
            for alert in found
            if alert.state is state
        ]
        for state in (AlertState.FIRING, AlertState.PENDING, AlertState.RESOLVED)
    }


def alert_in_full(unit: Unit, name: str, now: datetime) -> dict[str, Any] | None:
    """The newest incident of a fingerprint: the alert, who mutes it, and its trail; None where there is none."""
    alert = unit.alerts.get(Fingerprint(name))
    if alert is None:
        return None
    muting = [one for one in unit.silences.active(now) if one.mutes(alert.labels, now)]
    return {
        "alert": told_alert(alert, muting, now),
        "silenced_by": [silence_view(silence, now) for silence in muting],
        "trail": [audit_view(entry) for entry in unit.audit.of(alert.fingerprint)],
    }


def muted(unit: Unit, now: datetime, days: float) -> dict[str, list[dict[str, Any]]]:
    """Pauses and silences in force, and silences that ended in the last `days`."""
    since = now - timedelta(days=days)
    silences = [one for one in unit.silences.all() if one.ends_at > since]
    return {
        "silences": [silence_view(silence, now) for silence in reversed(silences)],
        "pauses": [pause_view(pause) for pause in unit.pauses.active(now)],
    }


def server_in_full(unit: Unit, name: ServerName, group: str, now: datetime) -> dict[str, Any]:
    """What is kept of a server beside its figures: lives, changes, evidence, decisions of its group."""
    since = now - _KEPT
    kept = [one for one in unit.evidence.of(name, since) if one.what not in WORKED_OUT]
    return {
        "lives": [
            {
                "first_seen": life.first_seen.isoformat(),
                "ended": life.ended.isoformat() if life.ended else None,
                "setting": life.setting.describe(),
                "model": life.model,
                "engine": life.engine,
                "engine_version": life.engine_version,
                "evidence": life.evidence.value,
            }
            for life in reversed(unit.lives.of(name, since, now))
        ],
        "changes": [change_view(change) for change in reversed(unit.changes.of_server(name, since))],
        "evidence": [{"id": one.id, "at": one.at.isoformat(), "what": one.what} for one in reversed(kept)],
        "trail": [audit_view(entry) for scope in (server_scope(name), group_scope(group))
                  for entry in unit.audit.of(scope)],
    }  # fmt: skip


def evidence_in_full(unit: Unit, name: str) -> dict[str, Any] | None:
    """Kept evidence with its parts; None where there is none."""
    kept = unit.evidence.get(name)
    if kept is None:
        return None
    return {"id": kept.id, "server": kept.server, "at": kept.at.isoformat(), "what": kept.what,
            "parts": dict(kept.parts)}  # fmt: skip


def reports_kept(unit: Unit) -> list[dict[str, Any]]:
    """Every report, newest first."""
    return [report_view(report) for report in reversed(unit.reports.all())]


def recent_trail(unit: Unit, limit: int) -> list[dict[str, Any]]:
    """The newest lines of the audit trail, newest first."""
    return [audit_view(entry) for entry in unit.audit.recent(limit)]
