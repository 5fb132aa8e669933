"""Records as plain data for terminal, page and JSON: moments in ISO 8601, unknown numbers None. It reads no store."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from monitor.model.alert import Alert, Silence
from monitor.model.decision import Decision
from monitor.model.record import AuditEntry, Command, Pause, ReportRecord
from monitor.model.rollout import Change, Rollout


def alert_view(alert: Alert) -> dict[str, Any]:
    """An alert as plain data."""
    return {
        "fingerprint": alert.fingerprint,
        "name": alert.name,
        "severity": alert.severity.value,
        "state": alert.state.value,
        "labels": dict(alert.labels),
        "summary": alert.annotations.get("summary", alert.name),
        "since": (alert.fired_at or alert.active_since).isoformat(),
        "resolved_at": alert.resolved_at.isoformat() if alert.resolved_at else None,
        "acknowledged_by": alert.acknowledged_by,
        "evidence": dict(alert.evidence),
        "description": alert.annotations.get("description", ""),
        "runbook": alert.annotations.get("runbook"),
        "causes": list(alert.causes),
    }


def told_alert(alert: Alert, silences: Iterable[Silence], now: datetime) -> dict[str, Any]:
    """An alert as plain data, and whether a silence keeps it from being told."""
    return {**alert_view(alert), "silenced": any(silence.mutes(alert.labels, now) for silence in silences)}


def change_began(change: Change) -> datetime:
    """When a change began: its first line of history, since going back overwrites the times of its steps."""
    stamp = change.history[0].partition(" ")[0] if change.history else ""
    try:
        return datetime.fromisoformat(stamp)
    except ValueError:
        return change.entered_at


def change_view(change: Change) -> dict[str, Any]:
    """A change as plain data."""
    measured = change.measured
    return {
        "id": change.id,
        "rollout": change.rollout,
        "server": change.server,
        "state": change.state.value,
        "from": change.current.describe(),
        "to": change.proposed.describe(),
        "since": change.entered_at.isoformat(),
        "deadline": change.deadline.isoformat() if change.deadline else None,
        "outcome": change.outcome.value if change.outcome else None,
        "began": change_began(change).isoformat(),
        "is_canary": change.is_canary,
        "is_final": change.state.is_final,
        "history": list(change.history),
        "measured_minutes": measured.minutes if measured else None,
        "sentence": change.sentence,
        "gain": measured.gain if measured else None,
        "gain_low": measured.gain_low if measured else None,
        "gain_high": measured.gain_high if measured else None,
    }


def decision_view(decision: Decision) -> dict[str, Any]:
    """A decision as plain data."""
    threshold = decision.threshold
    return {
        "id": decision.id,
        "group": decision.group,
        "servers": list(decision.servers),
        "rule": decision.rule,
        "action": decision.action.value,
        "reason": decision.reason.value,
        "sentence": decision.sentence,
        "from": decision.current.describe(),
        "to": decision.proposed.describe(),
        "num_speculative_tokens": decision.proposed.num_speculative_tokens,
        "gain": decision.gain,
        "gain_low": decision.gain_low,
        "gain_high": decision.gain_high,
        "state": decision.state.value,
        "note": decision.note,
        "made_at": decision.made_at.isoformat(),
        "expires_at": decision.expires_at.isoformat(),
        "window_seconds": decision.window_seconds,
        "evidence": dict(decision.evidence),
        "threshold_rule": {
            "action": threshold.action.value,
            "num_speculative_tokens": threshold.num_speculative_tokens,
            "sentence": threshold.sentence,
        }
        if threshold
        else None,
        "changes_setting": decision.changes_setting,
    }


def rollout_view(rollout: Rollout) -> dict[str, Any]:
    """A rollout as plain data."""
    measured = rollout.measured
    return {
        "id": rollout.id,
        "group": rollout.group,
        "decision": rollout.decision,
        "state": rollout.state.value,
        "from": rollout.current.describe(),
        "to": rollout.proposed.describe(),
        "created_at": rollout.created_at.isoformat(),
        "finished_at": rollout.finished_at.isoformat() if rollout.finished_at else None,
        "requested_by": rollout.requested_by,
        "outcome": rollout.outcome.value if rollout.outcome else None,
        "sentence": rollout.sentence,
        "gain": measured.gain if measured else None,
        "gain_low": measured.gain_low if measured else None,
        "gain_high": measured.gain_high if measured else None,
    }


def pause_view(pause: Pause) -> dict[str, Any]:
    """A pause as plain data."""
    return {
        "scope": pause.scope,
        "author": pause.author,
        "reason": pause.reason,
        "since": pause.since.isoformat(),
        "until": pause.until.isoformat() if pause.until else None,
    }


def silence_view(silence: Silence, now: datetime) -> dict[str, Any]:
    """A silence as plain data."""
    return {
        "id": silence.id,
        "matchers": [f"{m.label}{m.operator}{m.value}" for m in silence.matchers],
        "author": silence.author,
        "reason": silence.reason,
        "starts_at": silence.starts_at.isoformat(),
        "ends_at": silence.ends_at.isoformat(),
        "active": silence.starts_at <= now < silence.ends_at,
        "refusal": silence.refusal,
    }


def report_view(report: ReportRecord) -> dict[str, Any]:
    """A stored report as plain data, without its text."""
    return {
        "key": report.key,
        "made_at": report.made_at.isoformat(),
        "since": report.period_start.isoformat(),
        "until": report.period_end.isoformat(),
        "headline": report.headline,
    }


def audit_view(entry: AuditEntry) -> dict[str, Any]:
    """A line of the audit trail as plain data."""
    return {
        "at": entry.at.isoformat(),
        "actor": entry.actor,
        "what": entry.what,
        "subject": entry.subject,
        "sentence": entry.sentence,
    }


def command_view(command: Command) -> dict[str, Any]:
    """A request as plain data; `taken` is None until it is answered."""
    refused = command.outcome.startswith(("refused", "failed"))
    return {
        "id": command.id,
        "kind": command.kind.value,
        "subject": command.subject,
        "author": command.author,
        "asked_at": command.asked_at.isoformat(),
        "done_at": command.done_at.isoformat() if command.done_at else None,
        "taken": None if command.done_at is None else not refused,
        "outcome": command.outcome,
    }
