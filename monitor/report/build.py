"""From stored values to a `WeeklyReport`: pure, so that any past week can be reported again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from monitor.model.alert import Alert, Severity
from monitor.model.decision import Action, Decision, DecisionState
from monitor.model.interval import Interval
from monitor.model.life import Life
from monitor.model.rollout import Change, ending
from monitor.model.server import Group, ServerName
from monitor.model.signal import SignalSet
from monitor.policy.grouping import is_told
from monitor.report.content import (
    AdviceReport,
    AlertReport,
    ChangeReport,
    GroupReport,
    ServerReport,
    SloReport,
    TrendPoint,
    WeeklyReport,
)
from monitor.report.figures import REPORT_FIGURES
from monitor.report.first import headline, things_to_do
from monitor.report.reading import Read
from monitor.report.views import change_began
from monitor.report.weekly import busy_hours, calls, confidence, covered_share, equal_load_change, hindrance, noise
from monitor.signals.build import signals
from monitor.signals.means import means
from monitor.signals.track import UNRELIABLE, Pair
from monitor.slo.burn import SloStatus

#: No point is shorter than this (seconds): it would show single scrapes.
SHORTEST_POINT_SECONDS = 10.0

#: States of a decision that a person may still act on.
_OPEN = (DecisionState.STANDING, DecisionState.RECOMMENDED, DecisionState.AWAITING_APPROVAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a report is made from, beside what was read of the servers of each group."""

    key: str
    start: datetime
    end: datetime
    made_at: datetime
    host: str
    decisions: Mapping[str, Decision | None] = field(default_factory=dict)
    changes: Sequence[Change] = ()
    alerts: Sequence[Alert] = ()
    slos: Sequence[SloStatus] = ()
    target_acceptance: float = 0.6
    simulated: bool = False
    notes: tuple[str, ...] = ()


def whole(inputs: Inputs, parts: Sequence[GroupReport]) -> WeeklyReport:
    """The report from the parts of its groups, by name; their objectives are told here.

    A server or a group without data is in it and says so.
    """
    groups = tuple(
        replace(part, slos=tuple(_slo(status, part.name) for status in inputs.slos if part.name in status.groups))
        for part in parts
    )
    known = {(alert.name, alert.scope, alert.fired_at) for group in groups for alert in group.alerts}
    others = tuple(one for one in map(_alert, _fired(inputs)) if (one.name, one.scope, one.fired_at) not in known)
    heard = noise(inputs.alerts, inputs.start, inputs.end)
    length = inputs.end - inputs.start
    todo = things_to_do(groups, others, weeks=length / timedelta(days=7), now=inputs.made_at)
    return WeeklyReport(
        key=inputs.key,
        start=inputs.start,
        end=inputs.end,
        made_at=inputs.made_at,
        host=inputs.host,
        groups=groups,
        todo=todo,
        headline=headline(groups, todo, heard),
        target_acceptance=inputs.target_acceptance,
        noise=heard,
        alerts=others,
        simulated=inputs.simulated,
        notes=inputs.notes,
    )


def group_report(inputs: Inputs, group: Group, found: Read) -> GroupReport:
    """The part of one group, from what was read of it; without its objectives."""
    changes = [c for c in inputs.changes if c.server in group.servers and inputs.start <= c.entered_at < inputs.end]
    decision = inputs.decisions.get(group.name)
    together = [pair for name in group.servers for pair in found.fine.get(name, ())]
    alerts = [alert for alert in _fired(inputs) if _concerns(alert, group)]
    return GroupReport(
        name=group.name,
        mode=group.mode,
        servers=tuple(_server(inputs, found, name) for name in group.servers),
        changes=tuple(_change(change) for change in sorted(changes, key=lambda c: c.entered_at)),
        advice=_advice(decision) if decision is not None else None,
        slos=(),
        alerts=tuple(map(_alert, alerts)),
        trend=_trend(together, inputs, found) if len(group.servers) > 1 else (),
        hindrance=hindrance(decision),
        pages=len(calls(alerts, Severity.PAGE, inputs.start, inputs.end)),
    )


def _server(inputs: Inputs, found: Read, name: ServerName) -> ServerReport:
    pairs, fine = found.pairs.get(name, []), found.fine.get(name, [])
    length = (inputs.end - inputs.start).total_seconds()
    now = signals(pairs, scope=name, at=inputs.end, window_seconds=length)
    before = signals(pairs, scope=name, at=inputs.start, window_seconds=length)
    recent = [pair for pair in pairs if inputs.start < pair[1].end <= inputs.end]
    life: Life | None = recent[-1][0] if recent else None
    survival = now.vectors.get("acceptance_rate_at_pos")
    return ServerReport(
        name=name,
        model=life.model if life else "",
        setting=life.setting.describe() if life else "no data",
        engine_version=life.engine_version if life else None,
        figures=_figures(now),
        before=_figures(before),
        survival=survival.values if survival else (),
        generation_tokens=_generated([interval for _, interval in recent]),
        trend=_trend(fine, inputs, found),
        notes=_notes(recent, now, inputs.target_acceptance),
        covered=covered_share(fine, inputs.start, inputs.end),
        equal_load_change=equal_load_change(found.loads.get(name, {}), found.loads_before.get(name, {})),
        busy_hours=busy_hours(found.loads.get(name, {})),
    )


def _figures(found: SignalSet) -> dict[str, float | None]:
    return {name: found.value(name) for name in REPORT_FIGURES}


def _generated(intervals: Sequence[Interval]) -> float:
    return sum(i.traffic.generation_tokens or 0.0 for i in intervals if i.traffic is not None)


def _trend(pairs: Sequence[Pair], inputs: Inputs, found: Read) -> tuple[TrendPoint, ...]:
    """Equal buckets over the part of the period that has data, none shorter than what was read: some would be empty."""
    start, end = inputs.start, inputs.end
    inside = [pair for pair in pairs if start < pair[1].end <= end]
    if not inside:
        return ()
    first = min(pair[1].start for pair in inside)
    first = max(first, start)
    longest = max((one.end - one.start for _, one in inside if not one.is_gap), default=timedelta())
    seconds = max((end - first).total_seconds() / found.points, longest.total_seconds(), SHORTEST_POINT_SECONDS)
    buckets: dict[int, list[Pair]] = {}
    for pair in inside:
        buckets.setdefault(int((pair[1].end - first).total_seconds() / seconds - 1e-9), []).append(pair)
    points = []
    for index in range(max(buckets) + 1):
        at = first + timedelta(seconds=(index + 1) * seconds)
        points.append(TrendPoint(at, *means(buckets.get(index, ()), at, seconds + 1.0)))
    return tuple(points)


def _notes(recent: Sequence[Pair], now: SignalSet, target: float) -> tuple[str, ...]:
    if not recent:
        return ("No data in this period.",)
    notes = []
    rate = now.scalars.get("acceptance_rate")
    if rate is not None and rate.value is None and rate.reason is not None:
        notes.append(f"No acceptance rate: {rate.reason.value}.")
    elif rate is not None and rate.value is not None and rate.value < target:
        notes.append(f"Below the guides' target acceptance rate of {target:.0%}; that alone says nothing of speed.")
    gaps = sum(1 for _, interval in recent if interval.is_gap)
    if gaps:
        notes.append(f"{gaps} gap{'s' if gaps != 1 else ''} in the scrapes: counts are kept, rates leave them out.")
    doubtful = sum(1 for _, interval in recent if interval.flags & UNRELIABLE)
    if doubtful:
        notes.append(f"{doubtful} intervals contradict themselves and are left out of acceptance.")
    return tuple(notes)


def _change(change: Change) -> ChangeReport:
    measured = change.measured
    return ChangeReport(
        at=change_began(change),
        server=change.server,
        old=change.current.describe(),
        new=change.proposed.describe(),
        outcome=change.state.value if change.outcome is None else f"{change.state.value} ({change.outcome.value})",
        sentence=change.sentence,
        ending=ending(change.state),
        gain=measured.gain if measured else None,
        gain_low=measured.gain_low if measured else None,
        gain_high=measured.gain_high if measured else None,
        measured_minutes=measured.minutes if measured else None,
    )


def _advice(decision: Decision) -> AdviceReport:
    if decision.action is Action.KEEP:
        words = f"keep {decision.current.describe()}"
    else:
        words = f"{decision.action.value}: {decision.current.describe()} -> {decision.proposed.describe()}"
    return AdviceReport(
        decision=decision.id,
        words=words,
        sentence=decision.sentence,
        is_open=decision.changes_setting and decision.state in _OPEN,
        gain=decision.gain,
        gain_low=decision.gain_low,
        gain_high=decision.gain_high,
        threshold_sentence=decision.threshold.sentence if decision.threshold else "",
        command=f"acceptd plan {decision.id}" if decision.changes_setting else "",
        confidence=confidence(decision) if decision.changes_setting else "",
    )


def _slo(status: SloStatus, group: str) -> SloReport:
    found, slo = status.attainment, status.slo
    return SloReport(
        slo.name, group, slo.objective, found.sli, found.error_budget_remaining, found.valid, slo.report_only
    )


def _fired(inputs: Inputs) -> list[Alert]:
    return [alert for alert in inputs.alerts if alert.fired_at is not None]


def _concerns(alert: Alert, group: Group) -> bool:
    return alert.labels.get("group") == group.name or alert.labels.get("server") in group.servers


def _alert(alert: Alert) -> AlertReport:
    fired = alert.fired_at or alert.active_since
    labels = alert.labels
    scope = labels.get("server") or labels.get("group") or labels.get("host", "")
    summary = alert.annotations.get("summary", alert.name)
    return AlertReport(
        alert.name, alert.severity.value, scope, fired, alert.resolved_at, summary, told=is_told(alert)
    )
