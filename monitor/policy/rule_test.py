"""Tests of rules, as promtool's: series in, expected alerts and decisions out. The file's shape; the run is beside it.

Series are signals, already over their windows: a rule finds the same value whatever its window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from monitor.errors import ConfigError, Problem
from monitor.model.document import Document, Keys, Path, parse_document
from monitor.model.outcome import TuneChange
from monitor.policy import schema
from monitor.policy.condition import signal_expected
from monitor.policy.condition_check import VECTOR
from monitor.policy.rule import RuleSet
from monitor.policy.series import Series, parse_name, parse_values

_SAMPLES = ".samples"


def _series_name(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a text")
    return parse_name(value)


def _values(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a text such as '0.72x30'")
    return parse_values(value)


class SeriesModel(schema.Part):
    """One input series."""

    series: Annotated[Any, BeforeValidator(_series_name)]
    values: Annotated[Any, BeforeValidator(_values)]


class ExpectedAlert(schema.Part):
    """An alert that must fire, with all its labels but `alertname`, and the annotations that are named."""

    exp_labels: dict[str, str] = Field(default_factory=dict)
    exp_annotations: dict[str, str] = Field(default_factory=dict)


class AlertCase(schema.Part):
    """The alerts of one rule that must be in a state at a time; none when the list is empty."""

    eval_time: schema.Duration
    alertname: str
    state: Literal["firing", "pending", "resolved"] = "firing"
    exp_alerts: list[ExpectedAlert] = Field(default_factory=list)


class ExpectedFiring(schema.Part):
    """A tuning rule that must have held for its `for` in a group, and what it asks."""

    group: str
    num_speculative_tokens: Annotated[Any, BeforeValidator(schema.change_asked)] = None


class TuneCase(schema.Part):
    """The firings of one tuning rule at a time; none when the list is empty."""

    eval_time: schema.Duration
    tune: str
    exp_firings: list[ExpectedFiring] = Field(default_factory=list)


class TestModel(schema.Part):
    """One test."""

    __test__ = False

    name: str = ""
    interval: Annotated[float, BeforeValidator(schema.window_seconds)] = 60.0
    input_series: list[SeriesModel] = Field(min_length=1)
    alert_rule_test: list[AlertCase] = Field(default_factory=list)
    tune_rule_test: list[TuneCase] = Field(default_factory=list)


class TestFileModel(schema.Part):
    """A test file."""

    __test__ = False

    rule_files: list[str] = Field(min_length=1)
    evaluation_interval: Annotated[float, BeforeValidator(schema.window_seconds)] = 60.0
    tests: list[TestModel] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class RuleTestFile:
    """A checked test file: which rule files it tests (as written), how often they are evaluated, and the tests."""

    document: Document
    rule_files: tuple[str, ...]
    evaluation_seconds: float
    tests: tuple[TestModel, ...]

    def series(self, index: int) -> tuple[Series, ...]:
        """Input series of the test at `index`."""
        entries = self.tests[index].input_series
        return tuple(Series(entry.series[0], entry.series[1], entry.values) for entry in entries)


_KEYS: Keys = {
    (): schema.keys_of(TestFileModel),
    ("tests",): schema.keys_of(TestModel),
    ("tests", "input_series"): schema.keys_of(SeriesModel),
    ("tests", "alert_rule_test"): schema.keys_of(AlertCase),
    ("tests", "alert_rule_test", "exp_alerts"): schema.keys_of(ExpectedAlert),
    ("tests", "tune_rule_test"): schema.keys_of(TuneCase),
    ("tests", "tune_rule_test", "exp_firings"): schema.keys_of(ExpectedFiring),
}


def load_rule_test(text: str, file: str) -> RuleTestFile:
    """The test file in `text`. Raises ConfigError with every mistake in it."""
    document = parse_document(text, file)
    try:
        model = TestFileModel.model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(document.problems(error, (), _KEYS)) from None
    return RuleTestFile(document, tuple(model.rule_files), model.evaluation_interval, tuple(model.tests))


def check_rule_test(test_file: RuleTestFile, rules: RuleSet, vocabulary: Mapping[str, str]) -> list[Problem]:
    """Mistakes that only the rules and the vocabulary can tell: a test of a rule that does not exist proves nothing."""
    found: list[Problem] = []
    alerts = {rule.name for rule in rules.alerts}
    tunes = {rule.name for rule in rules.tunes}
    for i, test in enumerate(test_file.tests):
        for j, entry in enumerate(test.input_series):
            found += _series_problems(test_file.document, ("tests", i, "input_series", j, "series"), entry, vocabulary)
        for kind, key, known, cases in (
            ("alert_rule_test", "alertname", alerts, [case.alertname for case in test.alert_rule_test]),
            ("tune_rule_test", "tune", tunes, [case.tune for case in test.tune_rule_test]),
        ):
            for j, name in enumerate(cases):
                if name not in known:
                    path: Path = ("tests", i, kind, j, key)
                    expected = f"a rule of {', '.join(test_file.rule_files)}: {', '.join(sorted(known)) or 'none'}"
                    found.append(test_file.document.problem(path, expected))
    return found


def _series_problems(
    document: Document, path: Path, entry: SeriesModel, vocabulary: Mapping[str, str]
) -> list[Problem]:
    name, pairs = entry.series
    labels, signal = dict(pairs), name.removesuffix(_SAMPLES)
    if signal not in vocabulary:
        return [document.problem(path, signal_expected(signal, vocabulary), found=f"the name {signal!r}")]
    if not labels.keys() & {"server", "group", "host"}:
        return [document.problem(path, "a label server, group or host, which says whose series it is")]
    is_vector = vocabulary[signal] == VECTOR and name == signal
    if is_vector != labels.get("position", "").isdecimal():
        return [document.problem(path, 'a label position="0" and so on for a signal with one value per position, only')]
    return []


def change_of(expected: ExpectedFiring) -> TuneChange | None:
    """The change that a firing must ask for; None where any will do."""
    change = expected.num_speculative_tokens
    return change if isinstance(change, TuneChange) else None
