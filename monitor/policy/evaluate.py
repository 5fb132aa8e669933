"""Rules over signals: what each rule says now, and which tuning rules have held long enough. It owns no alert's life.

Pure: the same rules, signals, timers and `now` give the same answer, so any past minute can be evaluated again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from monitor.model.outcome import RuleOutcome, Truth, TuneFiring
from monitor.model.record import RuleTimer
from monitor.model.signal import NoData, SignalSet
from monitor.policy.condition import absence, known_positions
from monitor.policy.rule import AlertRule, Need, Rule, RuleSet, Scope, TuneRule
from monitor.policy.template import humanize_number

#: Longest time between two evaluations that still counts as held (seconds): two and a half evaluations at the default
#: interval of 60 s. Beyond it (no data, daemon down) the clock of `for` stands still instead of running on unseen.
CREDIT_SECONDS = 150.0

#: Where a rule finds its signals: (window in seconds, scope name).
Signals = Mapping[tuple[float, str], SignalSet]
TimerKey = tuple[str, str]

#: Since when scopes are at their settings, where no setting ever changed.
NEVER_CHANGED: Mapping[str, datetime] = {}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What all rules said at one moment.

    `outcomes` are those of alert rules, `tunes` those of tuning rules (for `why` and replay), `firings` the tuning
    rules that held for their `for`. `timers` are the tuning rules' new timers, `changed` those to be stored.
    """

    outcomes: tuple[RuleOutcome, ...]
    tunes: tuple[RuleOutcome, ...]
    firings: tuple[TuneFiring, ...]
    timers: Mapping[TimerKey, RuleTimer] = field(default_factory=dict)
    changed: tuple[RuleTimer, ...] = ()


def evaluate(
    rules: RuleSet,
    signals: Signals,
    scopes: Iterable[Scope],
    timers: Mapping[TimerKey, RuleTimer],
    now: datetime,
    *,
    credit_seconds: float = CREDIT_SECONDS,
    settled: Mapping[str, datetime] = NEVER_CHANGED,
) -> Evaluation:
    """Evaluate every rule in every scope of its kind; a scope without signals gives no data.

    `timers` are those of the last evaluation; timers of rules or scopes that are gone are dropped. `settled` says since
    when a scope is at its setting: what a tuning rule held for at another one does not count.
    """
    outcomes, tunes, firings = [], [], []
    kept: dict[TimerKey, RuleTimer] = {}
    changed: list[RuleTimer] = []
    for scope in scopes:
        for alert in rules.alerts:
            if alert.scope is scope.kind:
                outcomes.append(outcome_of(alert, scope, signals))
        for tune in rules.tunes:
            if tune.scope is not scope.kind:
                continue
            outcome = outcome_of(tune, scope, signals)
            tunes.append(outcome)
            before = timers.get((tune.name, scope.name))
            if before is not None and _is_of_another_setting(before, settled.get(scope.name)):
                before = None
            timer = step_timer(tune.name, scope.name, outcome.truth, before, now, credit_seconds)
            kept[tune.name, scope.name] = timer
            if timer != timers.get((tune.name, scope.name)):
                changed.append(timer)
            firing = _firing(tune, outcome, timer, now)
            if firing:
                firings.append(firing)
    return Evaluation(tuple(outcomes), tuple(tunes), tuple(firings), kept, tuple(changed))


def _is_of_another_setting(timer: RuleTimer, settled: datetime | None) -> bool:
    return settled is not None and timer.last_true is not None and timer.last_true < settled


def outcome_of(rule: Rule, scope: Scope, signals: Signals) -> RuleOutcome:
    """What one rule says of one scope: no data where it lacks signals, or where one it needs is absent or too small."""
    found = signals.get((rule.window_seconds, scope.name))
    truth, reason = (Truth.NO_DATA, "no signals of this scope") if found is None else _truth(rule, found)
    # What tuning rules rest on is shown whatever they say; an alert that does not hold shows nothing.
    if truth is not Truth.TRUE and not isinstance(rule, TuneRule):
        return _outcome(rule, scope, truth, reason, {}) if reason else _quiet(rule, scope, truth)
    evidence = evidence_of(rule, found) if found is not None else {}
    return _outcome(rule, scope, truth, reason, evidence)


def _outcome(
    rule: Rule, scope: Scope, truth: Truth, reason: str, evidence: Mapping[str, float | None]
) -> RuleOutcome:
    labels = {**rule.labels, **scope.labels, "alertname": rule.name}
    texts: dict[str, str] = {}
    if truth is Truth.TRUE:
        texts = {name: template.render(labels, evidence) for name, template in rule.annotations.items()}
    return RuleOutcome(
        rule=rule.name,
        scope=scope.name,
        truth=truth,
        labels=labels,
        annotations=texts,
        evidence=evidence,
        reason=reason,
        for_seconds=rule.for_seconds,
        keep_firing_for_seconds=rule.keep_firing_for_seconds if isinstance(rule, AlertRule) else 0.0,
    )


@lru_cache(maxsize=65_536)
def _quiet(rule: Rule, scope: Scope, truth: Truth) -> RuleOutcome:
    """An alert rule that does not hold says the same of a scope evaluation after evaluation: nearly all of them do.

    But for the reason of no data, which may hold a number that changes each time: it must not be a key here.
    """
    return _outcome(rule, scope, truth, "", {})


def evidence_of(rule: Rule, signals: SignalSet) -> dict[str, float | None]:
    """The numbers a rule rests on and shows: its condition's, its needs' and those of `show`, vectors by position."""
    evidence: dict[str, float | None] = {}
    for name in (*rule.when.names, *(need.signal for need in rule.need), *rule.show):
        if name in signals.vectors:
            evidence.update({f"{name}[{i}]": value for i, value in enumerate(known_positions(signals, name))})
        else:
            evidence[name] = signals.value(name)
    return evidence


def step_timer(
    rule: str, scope: str, truth: Truth, before: RuleTimer | None, now: datetime, credit_seconds: float = CREDIT_SECONDS
) -> RuleTimer:
    """The timer of one rule in one scope after one more outcome.

    True starts or continues it, false clears it, no data leaves it as it stands; see `resumed` for time without data.
    """
    held_since = before.held_since if before else None
    last_true = before.last_true if before else None
    if truth is Truth.TRUE:
        held_since = resumed(held_since, last_true, now, credit_seconds)
        last_true = now
    elif truth is Truth.FALSE:
        held_since = None
    return RuleTimer(rule, scope, held_since, last_true, str(truth))


def resumed(since: datetime | None, last_true: datetime | None, now: datetime, credit_seconds: float) -> datetime:
    """Since when a condition counts as held when it is true at `now` and was last true at `last_true`.

    Time beyond `credit_seconds` in between was not observed and does not count: the start moves up by it.
    """
    if since is None or last_true is None:
        return now
    unseen = max(0.0, (now - last_true).total_seconds() - credit_seconds)
    return min(now, since + timedelta(seconds=unseen))


def _truth(rule: Rule, signals: SignalSet) -> tuple[Truth, str]:
    truth, reason = rule.when.evaluate(signals)
    if not rule.need or not any(_lack(need, signals) for need in rule.need):
        return truth, reason
    # What a page never tells cannot be asked of it (llama.cpp counts no requests), as long as something else is.
    told = [need for need in rule.need if absence(signals, need.signal) is not NoData.NOT_EXPORTED]
    lacks = [lack for need in told or rule.need if (lack := _lack(need, signals))]
    if not lacks:
        return truth, reason
    named = (*rule.when.names, *(need.signal for need in rule.need))
    if any(absence(signals, name) is NoData.SPECULATION_OFF for name in named):
        # Known not to apply, so no minimum is asked: an alert about speculation ends when it is switched off.
        return truth, reason
    # Too little data forbids both answers: a quiet minute must not resolve what a busy one proved.
    return Truth.NO_DATA, ", ".join(lacks)


def _lack(need: Need, signals: SignalSet) -> str:
    signal = signals.scalars.get(need.signal) or signals.vectors.get(need.signal)
    value = signal.sample_size if signal and need.of_samples else signals.value(need.signal)
    if signal is None or signal.reason or value is None:
        return f"{need.name}: {signal.reason if signal and signal.reason else NoData.NOT_KNOWN}"
    if value >= need.minimum:
        return ""
    return f"{need.name}: {humanize_number(value)} of the {humanize_number(need.minimum)} needed"


def _firing(rule: TuneRule, outcome: RuleOutcome, timer: RuleTimer, now: datetime) -> TuneFiring | None:
    if outcome.truth is not Truth.TRUE or timer.held_since is None:
        return None
    held = (now - timer.held_since).total_seconds()
    if held < rule.for_seconds:
        return None
    return TuneFiring(
        rule=rule.name,
        scope=outcome.scope,
        change=rule.change,
        held_since=timer.held_since,
        held_seconds=held,
        window_seconds=rule.window_seconds,
        evidence=outcome.evidence,
        guard=rule.guard,
        labels=outcome.labels,
        annotations=outcome.annotations,
    )
