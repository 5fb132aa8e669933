"""What is allowed in a rule file and still seldom meant: for `acceptd rules check`. It refuses nothing."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.model.alert import Severity
from monitor.model.outcome import ChangeKind
from monitor.policy.rule import AlertRule, Rule, RuleSet, TuneRule

#: Signals that rest on drafts: few drafts make them noise.
_OF_DRAFTS = (
    "acceptance_", "conditional_acceptance", "effective_acceptance", "efficiency", "first_position", "goodput",
)

#: Least hold of a tuning rule below which a passing mix of traffic restarts servers (seconds).
_MIN_TUNE_HOLD = 600.0


def advice(rules: RuleSet) -> tuple[str, ...]:
    """A sentence for each thing that will probably hurt, with its place; none for the shipped files."""
    return tuple(f"{rule.where}: rule {rule.name}: {text}" for rule in rules for text in _of_rule(rule))


def _of_rule(rule: Rule) -> Iterator[str]:
    names = [name for name in rule.when.names if name.startswith(_OF_DRAFTS)]
    needed = {need.signal for need in rule.need}
    if names and not needed & {"num_drafts", *names}:
        yield f"judges {names[0]} without a `need` for num_drafts: a handful of drafts decides"
    if isinstance(rule, AlertRule):
        yield from _of_alert(rule)
    elif isinstance(rule, TuneRule):
        yield from _of_tune(rule)


def _of_alert(rule: AlertRule) -> Iterator[str]:
    if rule.labels.get("severity") == Severity.PAGE and "runbook" not in rule.annotations:
        yield "pages without a `runbook`: whoever is woken has to guess"
    if rule.labels.get("severity") != Severity.INFO and not rule.for_seconds and not rule.keep_firing_for_seconds:
        if any(name not in _FACTS_THAT_HOLD for name in rule.when.names):
            yield "has neither `for` nor `keep_firing_for`: it fires and resolves with every wobble"


def _of_tune(rule: TuneRule) -> Iterator[str]:
    if rule.change.kind is ChangeKind.TUNER:
        return
    if rule.for_seconds < _MIN_TUNE_HOLD:
        least = f"{_MIN_TUNE_HOLD / 60:.0f}m"
        yield f"holds for less than {least} before it changes a setting: servers restart for a passing mix"
    if not rule.need:
        yield "changes a setting without any `need`: an idle hour decides"


#: Signals that change only when something was done, so that an alert on them alone cannot wobble.
_FACTS_THAT_HOLD = frozenset({"restart_failed"})
