"""Running the tests of a rule file: time goes on in steps, and what is said must be what is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from monitor.model.alert import Alert, AlertState
from monitor.model.duration import format_duration
from monitor.model.outcome import TuneFiring
from monitor.model.record import group_scope, server_scope
from monitor.model.signal import NoData, Signal, SignalSet, VectorSignal
from monitor.policy.rule import RuleSet, Scope, ScopeKind
from monitor.policy.rule_test import AlertCase, RuleTestFile, TestModel, TuneCase, change_of
from monitor.policy.series import Series
from monitor.policy.timeline import Timeline

#: When every test begins: any moment will do, this one is easy to count from.
START = datetime(2026, 1, 1, tzinfo=UTC)

#: Sample size of a signal whose test names none: enough for every `need`.
_AMPLE = 1e12


@dataclass(frozen=True, slots=True)
class RuleTestReport:
    """How many expectations were checked, and a sentence for each that was not met."""

    checked: int = 0
    failures: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every expectation was met."""
        return not self.failures


@dataclass(slots=True)
class _Moment:
    """What held at one evaluation."""

    alerts: Sequence[Alert]
    firings: Sequence[TuneFiring] = field(default_factory=tuple)


def run_rule_test(test_file: RuleTestFile, rules: RuleSet) -> RuleTestReport:
    """Run every test of the file over `rules` (those of its `rule_files`)."""
    checked, failures = 0, []
    for i, test in enumerate(test_file.tests):
        moments = _run(test_file, test, test_file.series(i), rules)
        title = test.name or f"test {i + 1}"
        for alert_case in test.alert_rule_test:
            checked += 1
            failures += _alert_failures(title, alert_case, _at(moments, alert_case.eval_time))
        for tune_case in test.tune_rule_test:
            checked += 1
            failures += _tune_failures(title, tune_case, _at(moments, tune_case.eval_time))
    return RuleTestReport(checked, tuple(failures))


def _run(
    test_file: RuleTestFile, test: TestModel, series: Sequence[Series], rules: RuleSet
) -> list[tuple[float, _Moment]]:
    scopes = _scopes(series)
    step = test_file.evaluation_seconds
    ends = [*(case.eval_time for case in test.alert_rule_test), *(case.eval_time for case in test.tune_rule_test)]
    end = max(ends, default=0.0)
    timeline = Timeline(rules, scopes, credit_seconds=2.5 * step)
    windows = {window for _, window in rules.windows}
    moments: list[tuple[float, _Moment]] = []
    tokens: dict[str, float] = {}
    settled: dict[str, datetime] = {}
    for i in range(int(end // step) + 1):
        now = START + timedelta(seconds=i * step)
        index = int(i * step // test.interval)
        signals: dict[tuple[float, str], SignalSet] = {}
        for scope in scopes:
            for window in windows:
                signals[window, scope.name] = _signals(scope, series, index, now, window)
            now_at = _tokens(scope, series, index)
            if now_at is not None and tokens.setdefault(scope.name, now_at) != now_at:
                tokens[scope.name], settled[scope.name] = now_at, now
        said, _ = timeline.step(now, signals, settled)
        moments.append((i * step, _Moment(timeline.alerts, said.firings)))
    return moments


def _at(moments: list[tuple[float, _Moment]], eval_time: float) -> _Moment:
    return [moment for seconds, moment in moments if seconds <= eval_time][-1]


def _scopes(series: Sequence[Series]) -> list[Scope]:
    found: dict[str, Scope] = {}
    for entry in series:
        scope = _scope(dict(entry.labels))
        found.setdefault(scope.name, scope)
    return list(found.values())


def _scope(labels: Mapping[str, str]) -> Scope:
    own = {name: value for name, value in labels.items() if name != "position"}
    if "server" in own:
        return Scope(server_scope(own["server"]), ScopeKind.SERVER, own)
    if "group" in own:
        return Scope(group_scope(own["group"]), ScopeKind.GROUP, own)
    return Scope(f"daemon:{own.get('host', '')}", ScopeKind.DAEMON, own)


def _tokens(scope: Scope, series: Sequence[Series], index: int) -> float | None:
    """The setting of a scope at that step, where a series tells it."""
    for entry in series:
        if entry.name == "num_speculative_tokens" and _scope(dict(entry.labels)).name == scope.name:
            value = entry.values[index] if index < len(entry.values) else NoData.NO_INTERVALS
            return None if isinstance(value, NoData) else value
    return None


def _signals(scope: Scope, series: Sequence[Series], index: int, now: datetime, window: float) -> SignalSet:
    found = [
        (entry, entry.values[index] if index < len(entry.values) else NoData.NO_INTERVALS)
        for entry in series
        if _scope(dict(entry.labels)).name == scope.name
    ]
    sizes = {entry.name: 0.0 if isinstance(value, NoData) else value for entry, value in found}
    scalars: dict[str, Signal] = {}
    positions: dict[str, dict[int, float | NoData]] = {}
    for entry, value in found:
        position = dict(entry.labels).get("position")
        if position is not None:
            positions.setdefault(entry.name, {})[int(position)] = value
        elif not entry.name.endswith(".samples"):
            scalars[entry.name] = _signal(entry.name, value, sizes.get(f"{entry.name}.samples", _AMPLE))
    vectors = {name: _vector(name, values) for name, values in positions.items()}
    return SignalSet(scope=scope.name, at=now, window_seconds=window, scalars=scalars, vectors=vectors)


def _signal(name: str, value: float | NoData, size: float) -> Signal:
    return Signal(name, None, reason=value) if isinstance(value, NoData) else Signal(name, value, size)


def _vector(name: str, found: Mapping[int, float | NoData]) -> VectorSignal:
    values: list[float | None] = []
    reason = None
    for position in range(max(found) + 1):
        value = found.get(position, NoData.NO_INTERVALS)
        values.append(None if isinstance(value, NoData) else value)
        reason = reason or (value if isinstance(value, NoData) else None)
    if values[0] is None:
        return VectorSignal(name, (), reason=reason)
    return VectorSignal(name, tuple(values), _AMPLE)


def _alert_failures(title: str, case: AlertCase, moment: _Moment) -> list[str]:
    found = [a for a in moment.alerts if a.name == case.alertname and a.state is AlertState(case.state)]
    rest = list(found)
    missing = []
    for expected in case.exp_alerts:
        hit = next((a for a in rest if _fits(a, expected.exp_labels, expected.exp_annotations)), None)
        if hit is None:
            missing.append(f"{_text(expected.exp_labels)} {_text(expected.exp_annotations)}".strip())
        else:
            rest.remove(hit)
    if not missing and not rest:
        return []
    where = f"{title}: at {format_duration(case.eval_time)} {case.alertname} {case.state}"
    shown = [f"{_text(_bare(a.labels))} {_text(a.annotations)}" for a in (rest if missing else found)]
    return [f"{where}: expected {'; '.join(missing) or f'{len(case.exp_alerts)} alerts'}, "
            f"found {'; '.join(shown) or 'none'}"]


def _fits(alert: Alert, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    if _bare(alert.labels) != dict(labels):
        return False
    return all(alert.annotations.get(name) == text for name, text in annotations.items())


def _bare(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name != "alertname"}


def _tune_failures(title: str, case: TuneCase, moment: _Moment) -> list[str]:
    found = {f.scope: f.change for f in moment.firings if f.rule == case.tune}
    expected = {group_scope(entry.group): change_of(entry) for entry in case.exp_firings}
    if found.keys() == expected.keys() and all(c in (None, found[scope]) for scope, c in expected.items()):
        return []
    wanted = ", ".join(f"{scope} {c.describe() if c else 'any'}" for scope, c in expected.items()) or "none"
    got = ", ".join(f"{scope} {change.describe()}" for scope, change in found.items()) or "none"
    return [f"{title}: at {format_duration(case.eval_time)} {case.tune}: expected {wanted}, found {got}"]


def _text(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}" if labels else ""
