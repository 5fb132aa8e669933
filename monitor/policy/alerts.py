"""The life of alerts: inactive, pending, firing, resolved. It owns no conditions and tells nobody.

Time without data neither starts, resolves nor re-fires anything: breach, breach, gap, gap, breach is one firing. A
firing alert that has had no data for long raises one of its own, so that nobody takes silence for health.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from monitor.model.alert import FLAP_SECONDS, Alert, AlertState, Fingerprint, Severity, fingerprint
from monitor.model.outcome import RuleOutcome, Truth
from monitor.policy.evaluate import CREDIT_SECONDS

#: Name of the alert that a firing alert without data raises.
NO_DATA_ALERT = "AlertHasNoData"

#: How long a firing alert may be without data before that (seconds): above any restart of a server that we make.
NO_DATA_SECONDS = 900.0

#: Each re-fire doubles the hold before it resolves, from the first to the second (seconds).
FLAP_HOLD_SECONDS = (300.0, 3600.0)

#: Labels that say where an alert is, for the alert about missing data.
_PLACE_LABELS = ("server", "group", "host", "slo")


class TransitionKind(StrEnum):
    """What happened to an alert."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"
    #: It had been pending and its condition no longer holds; nobody had been told.
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True)
class Transition:
    """One step in an alert's life."""

    kind: TransitionKind
    alert: Alert
    at: datetime


@dataclass(frozen=True, slots=True)
class AlertStep:
    """All alerts after one evaluation (inactive ones left out), what happened, and what must be stored.

    `changed` also holds alerts that became inactive, or were resolved long ago, with the state `inactive`.
    """

    alerts: tuple[Alert, ...]
    transitions: tuple[Transition, ...]
    changed: tuple[Alert, ...]


def step_alerts(
    alerts: Iterable[Alert],
    outcomes: Iterable[RuleOutcome],
    now: datetime,
    *,
    credit_seconds: float = CREDIT_SECONDS,
) -> AlertStep:
    """Every alert one evaluation later.

    `outcomes` must be those of all alert rules and SLOs that exist: an alert without an outcome belongs to a rule or a
    server that was removed, and ends. Of the time between two evaluations at most `credit_seconds` count towards `for`.
    """
    before = {alert.fingerprint: alert for alert in alerts}
    current = {fingerprint(outcome.labels): outcome for outcome in outcomes}
    current |= {fingerprint(o.labels): o for o in _without_data(before, current)}
    after: dict[Fingerprint, Alert] = {}
    transitions: list[Transition] = []
    for key in dict.fromkeys((*before, *current)):
        old, outcome = before.get(key), current.get(key)
        if old is None and outcome is not None and outcome.truth is not Truth.TRUE:
            continue
        new = _removed(old, now) if outcome is None else _step(old, key, outcome, now, credit_seconds)
        if new is None:
            continue
        after[key] = new
        kind = _transition(old, new)
        if kind:
            transitions.append(Transition(kind, new, now))
    changed = tuple(alert for key, alert in after.items() if alert != before.get(key))
    kept = tuple(alert for alert in after.values() if alert.state is not AlertState.INACTIVE)
    return AlertStep(kept, tuple(transitions), changed)


def with_causes(step: AlertStep, causes: Mapping[Fingerprint, tuple[str, ...]]) -> AlertStep:
    """The step with these causes on its alerts."""

    def told(alert: Alert) -> Alert:
        found = causes.get(alert.fingerprint)
        return alert if found is None else replace(alert, causes=found)

    transitions = tuple(replace(transition, alert=told(transition.alert)) for transition in step.transitions)
    return AlertStep(tuple(map(told, step.alerts)), transitions, tuple(map(told, step.changed)))


def _without_data(
    before: Mapping[Fingerprint, Alert], current: Mapping[Fingerprint, RuleOutcome]
) -> Iterator[RuleOutcome]:
    """An outcome of the no-data alert for each place that has firing alerts, or already one about missing data."""
    places: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for key, alert in before.items():
        place = tuple((name, alert.labels[name]) for name in _PLACE_LABELS if name in alert.labels)
        if alert.name == NO_DATA_ALERT:
            places.setdefault(place, [])
        elif alert.state is AlertState.FIRING and key in current:
            blind = current[key].truth is Truth.NO_DATA
            places.setdefault(place, []).extend([f"{alert.name} ({current[key].reason})"] if blind else [])
    for place, blind_alerts in places.items():
        labels = {**dict(place), "alertname": NO_DATA_ALERT, "severity": str(Severity.TICKET)}
        where = ", ".join(value for _, value in place)
        names = "; ".join(sorted(blind_alerts))
        yield RuleOutcome(
            rule=NO_DATA_ALERT,
            scope=where,
            truth=Truth.TRUE if blind_alerts else Truth.FALSE,
            labels=labels,
            annotations={
                "summary": f"{where}: no data to tell whether firing alerts still hold",
                "description": f"Held as they were: {names}.",
                "runbook": "alert-has-no-data",
            },
            for_seconds=NO_DATA_SECONDS,
        )


def _step(
    old: Alert | None, key: Fingerprint, outcome: RuleOutcome, now: datetime, credit_seconds: float
) -> Alert | None:
    match outcome.truth:
        case Truth.TRUE:
            return _on_true(old, key, outcome, now, credit_seconds)
        case Truth.FALSE:
            return _on_false(old, outcome, now)
        case Truth.NO_DATA:
            return _expired(old, now)


def _on_true(old: Alert | None, key: Fingerprint, outcome: RuleOutcome, now: datetime, credit_seconds: float) -> Alert:
    if old is None or old.state in (AlertState.INACTIVE, AlertState.RESOLVED):
        alert = _begun(old, key, outcome, now)
    elif old.state is AlertState.PENDING:
        unseen = max(0.0, _seconds(old.last_true or now, now) - credit_seconds)
        alert = replace(old, unseen_seconds=old.unseen_seconds + unseen)
    else:
        alert = old
    alert = replace(
        alert, last_true=now, clear_since=None, annotations=outcome.annotations, evidence=outcome.evidence
    )
    held = _seconds(alert.active_since, now) - alert.unseen_seconds
    if alert.state is AlertState.PENDING and held >= outcome.for_seconds:
        return replace(alert, state=AlertState.FIRING, fired_at=now)
    return alert


def _begun(old: Alert | None, key: Fingerprint, outcome: RuleOutcome, now: datetime) -> Alert:
    """A new pending alert; one that comes back soon after it resolved stays the same incident and is counted."""
    alert = Alert(
        fingerprint=key, labels=outcome.labels, annotations={}, state=AlertState.PENDING, active_since=now
    )
    if old is None or old.resolved_at is None or _seconds(old.resolved_at, now) > FLAP_SECONDS:
        return alert
    return replace(alert, incident=old.incident, refired=old.refired + 1)


def _on_false(old: Alert | None, outcome: RuleOutcome, now: datetime) -> Alert | None:
    if old is None:
        return None
    if old.state is AlertState.PENDING:
        return replace(old, state=AlertState.INACTIVE)
    if old.state is not AlertState.FIRING:
        return _expired(old, now)
    clear_since = old.clear_since or now
    if _seconds(clear_since, now) < max(outcome.keep_firing_for_seconds, _flap_hold(old.refired)):
        return replace(old, clear_since=clear_since)
    return replace(old, state=AlertState.RESOLVED, resolved_at=now, clear_since=None)


def _flap_hold(refired: int) -> float:
    first, longest = FLAP_HOLD_SECONDS
    return min(longest, first * 2.0 ** min(refired - 1, 10)) if refired else 0.0


def _removed(old: Alert | None, now: datetime) -> Alert | None:
    if old is None or old.state is AlertState.INACTIVE:
        return None
    if old.state is AlertState.PENDING:
        return replace(old, state=AlertState.INACTIVE)
    if old.state is AlertState.FIRING:
        texts = {**old.annotations, "resolved": "Its rule or its server is no longer configured."}
        return replace(old, state=AlertState.RESOLVED, resolved_at=now, clear_since=None, annotations=texts)
    return _expired(old, now)


def _expired(old: Alert | None, now: datetime) -> Alert | None:
    if old is not None and old.state is AlertState.RESOLVED and old.resolved_at is not None:
        if _seconds(old.resolved_at, now) > FLAP_SECONDS:
            return replace(old, state=AlertState.INACTIVE)
    return old


def _transition(old: Alert | None, new: Alert) -> TransitionKind | None:
    before = old.state if old else AlertState.INACTIVE
    if before is new.state:
        return None
    match new.state:
        case AlertState.PENDING:
            return TransitionKind.PENDING
        case AlertState.FIRING:
            return TransitionKind.FIRING
        case AlertState.RESOLVED if before is AlertState.FIRING:
            return TransitionKind.RESOLVED
    return TransitionKind.CLEARED if before is AlertState.PENDING else None


def _seconds(since: datetime, now: datetime) -> float:
    return (now - since).total_seconds()
