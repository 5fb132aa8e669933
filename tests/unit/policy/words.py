"""Small makers for policy tests: a vocabulary, signal sets, rules from text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from monitor.model.alert import Alert, AlertState, fingerprint
from monitor.model.outcome import RuleOutcome, Truth
from monitor.model.signal import NoData, Signal, SignalSet, VectorSignal
from monitor.policy.facts import rule_vocabulary
from monitor.policy.load import load_rules
from monitor.policy.rule import RuleSet, Scope, ScopeKind
from monitor.signals.vocabulary import VOCABULARY

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
WORDS = rule_vocabulary({name: str(spec.kind) for name, spec in VOCABULARY.items()})
SERVER = Scope("server:a", ScopeKind.SERVER, {"server": "a", "group": "g"})
GROUP = Scope("group:g", ScopeKind.GROUP, {"group": "g"})


def minute(n: float) -> datetime:
    return START + timedelta(minutes=n)


def signal_set(
    scalars: Mapping[str, float | None | NoData] | None = None,
    vectors: Mapping[str, tuple[float | None, ...] | NoData] | None = None,
    *,
    scope: str = "server:a",
    window: float = 300.0,
    samples: Mapping[str, float] | None = None,
) -> SignalSet:
    def scalar(name: str, value: float | None | NoData) -> Signal:
        if value is None or isinstance(value, NoData):
            return Signal(name, None, reason=value or NoData.NO_INTERVALS)
        return Signal(name, value, (samples or {}).get(name, 1e9))

    def vector(name: str, values: tuple[float | None, ...] | NoData) -> VectorSignal:
        if isinstance(values, NoData):
            return VectorSignal(name, (), reason=values)
        return VectorSignal(name, values, 1e9, None if values else NoData.NO_DRAFTS)

    return SignalSet(
        scope=scope,
        at=START,
        window_seconds=window,
        scalars={name: scalar(name, value) for name, value in (scalars or {}).items()},
        vectors={name: vector(name, values) for name, values in (vectors or {}).items()},
    )


def rules(text: str) -> RuleSet:
    return load_rules({"rules.yaml": text}, WORDS)


def true_at(alerts: Iterable[Alert], at: float) -> list[Alert]:
    """The alerts as an evaluation at that minute leaves them where the conditions of all are true."""
    return [replace(one, last_true=minute(at)) for one in alerts]


def outcome(
    truth: Truth, *, name: str = "High", hold: float = 0.0, keep: float = 0.0, reason: str = "",
    labels: Mapping[str, str] | None = None,
) -> RuleOutcome:
    return RuleOutcome(
        rule=name,
        scope="server:a",
        truth=truth,
        labels=labels or {"alertname": name, "severity": "page", "server": "a", "group": "g"},
        annotations={"summary": "it is high"} if truth is Truth.TRUE else {},
        evidence={"acceptance_rate": 0.9} if truth is Truth.TRUE else {},
        reason=reason,
        for_seconds=hold,
        keep_firing_for_seconds=keep,
    )


def alert(
    name: str = "High", *, state: AlertState = AlertState.FIRING, server: str = "a", group: str = "g",
    severity: str = "page", fired: float = 0.0, resolved: float | None = None, notified: float | None = None,
    incident: str = "", acknowledged: str | None = None, annotations: Mapping[str, str] | None = None,
) -> Alert:
    labels = {"alertname": name, "severity": severity, "server": server, "group": group}
    return Alert(
        fingerprint=fingerprint(labels),
        labels=labels,
        annotations=annotations or {"summary": f"{name} on {server}"},
        state=state,
        active_since=minute(fired),
        fired_at=minute(fired),
        resolved_at=None if resolved is None else minute(resolved),
        last_true=minute(fired),
        acknowledged_by=acknowledged,
        notified_at=None if notified is None else minute(notified),
        incident=incident,
    )
