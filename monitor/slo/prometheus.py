"""The same objectives as rules for Prometheus, over acceptd's own counters of good and valid events.

acceptd counts events (interpolated in their buckets, slices judged, planned restarts left out) and Prometheus adds them
up over the windows, so that both burn at the same rate whatever engine is behind. Prometheus extrapolates `increase` to
the edges of its window: at counters that move evenly that is nothing, at the edge of an incident one scrape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from monitor import names
from monitor.model.alert import Severity
from monitor.model.duration import format_duration
from monitor.model.slo import Slo
from monitor.slo.burn import BURN_ALERT, KEEP_FIRING_SECONDS, shortest
from monitor.slo.load import SloPolicy
from monitor.slo.windows import BurnWindow

#: Labels that tell objectives apart; events of several daemons add.
_BY = f"{names.SLO}, {names.GROUP}, {names.SERVER}, {names.MODEL}"
_RATE = "acceptd:slo_burn_rate"
_EVENTS = "acceptd:slo_valid_events"
#: How long each objective has been watched; daemons that share one began at different times. Over an hour, so that a
#: restart of acceptd does not take the alerts away.
_KNOWN = f"max by ({_BY}) (last_over_time({names.SLO_KNOWN}{{{names.SLO}=\"%s\"}}[1h]))"
_LEFT = "acceptd:slo_error_budget_remaining:ratio"
#: Own alerts about the watcher: name, expression, `for`, severity, what it says.
_WATCHER = (
    ("AcceptdDown", 'up{job="acceptd"} == 0', "5m", "ticket", "acceptd on {{ $labels.instance }} is down"),
    ("AcceptdEvaluatesNothing", f'increase({names.CYCLES}{{outcome="ok"}}[10m]) == 0', "5m", "ticket",
     "acceptd on {{ $labels.instance }} evaluates nothing"),
    ("AcceptdCannotTell", f"{names.OUTBOX_PENDING} > 0", "15m", "page",
     "{{ $value }} messages of acceptd on {{ $labels.instance }} do not get out"),
    ("AcceptdErrors", f"increase({names.ERRORS}[1h]) > 0", "0m", "ticket",
     "acceptd on {{ $labels.instance }} met an error that nobody foresaw; it is in its log"),
)  # fmt: skip


def prometheus_rules(policies: Iterable[SloPolicy]) -> dict[str, Any]:
    """Rule groups as Prometheus' rule files hold them: one for each objective, and one that watches acceptd itself."""
    groups = [
        {"name": f"acceptd-slo-{policy.slo.name}", "rules": [*_records(policy), *_alerts(policy)]}
        for policy in policies
    ]
    watcher = [
        {"alert": alert, "expr": expr, "for": wait, "labels": {"severity": severity},
         "annotations": {"summary": summary}}
        for alert, expr, wait, severity, summary in _WATCHER
    ]
    return {"groups": [*groups, {"name": "acceptd", "rules": watcher}]}


def _total(metric: str, slo: Slo, seconds: float) -> str:
    return f'sum by ({_BY}) (increase({metric}{{{names.SLO}="{slo.name}"}}[{_span(seconds)}]))'


def _span(seconds: float) -> str:
    """A duration as Prometheus writes it."""
    return format_duration(seconds)


def _known(slo: Slo, seconds: float) -> str:
    """The share of a window that was watched, as `monitor.slo.burn.Burn.known`."""
    return f"clamp_max({_KNOWN % slo.name} / {seconds:.12g}, 1)"


def _records(policy: SloPolicy) -> list[dict[str, Any]]:
    slo = policy.slo
    # The label is in the series already; said again, promtool can tell the rules of several objectives apart.
    labels = {names.SLO: slo.name}
    spans = {3600.0}
    for window in policy.windows:
        short = shortest(slo, window)
        spans |= {short, max(window.long_seconds, short)}
    rules = []
    for seconds in sorted(spans):
        bad = f"1 - {_total(names.SLO_GOOD, slo, seconds)} / {_total(names.SLO_VALID, slo, seconds)}"
        rate = f"({bad}) / {slo.error_budget:.12g}"
        rules.append({"record": f"{_RATE}:{_span(seconds)}", "expr": rate, "labels": dict(labels)})
        events = _total(names.SLO_VALID, slo, seconds)
        rules.append({"record": f"{_EVENTS}:{_span(seconds)}", "expr": events, "labels": dict(labels)})
    period = slo.period_days * 86400.0
    whole = f"1 - {_total(names.SLO_GOOD, slo, period)} / {_total(names.SLO_VALID, slo, period)}"
    spent = f"({whole}) / {slo.error_budget:.12g} * on ({_BY}) {_known(slo, period)}"
    rules.append({"record": _LEFT, "expr": f"1 - {spent}", "labels": dict(labels)})
    return rules


def _alerts(policy: SloPolicy) -> list[dict[str, Any]]:
    if policy.slo.report_only:
        return []
    severities = dict.fromkeys(window.severity for window in policy.windows)
    return [_alert(policy, severity) for severity in severities]


def _alert(policy: SloPolicy, severity: Severity) -> dict[str, Any]:
    slo = policy.slo
    parts = [_burning(slo, window) for window in policy.windows if window.severity is severity]
    where = "{{ $labels.group }}{{ with $labels.server }} {{ . }}{{ end }}{{ with $labels.model }} {{ . }}{{ end }}"
    return {
        "alert": BURN_ALERT,
        "expr": "\nor\n".join(parts),
        "keep_firing_for": _span(KEEP_FIRING_SECONDS),
        "labels": {"severity": severity.value, names.SLO: slo.name},
        "annotations": {
            "summary": f"{where}: {slo.name} fails {{{{ $value | humanize }}}} times as often as it may",
            "runbook": "error-budget-burn",
        },
    }


def _burning(slo: Slo, window: BurnWindow) -> str:
    short = shortest(slo, window)
    long = max(window.long_seconds, short)
    chosen = f'{{{names.SLO}="{slo.name}"}}'
    parts = [
        f"{_RATE}:{_span(long)}{chosen} > on ({_BY}) {window.factor:.12g} / {_known(slo, long)}",
        f"{_RATE}:{_span(short)}{chosen} > {window.factor:.12g}",
    ]
    if slo.minimum_events:
        parts.append(f"{_EVENTS}:{_span(long)}{chosen} >= {slo.minimum_events:.12g}")
    return f"({' and '.join(parts)})"
