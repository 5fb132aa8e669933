from __future__ import annotations

import pytest

from monitor.errors import ConfigError
from monitor.policy.rule_test import check_rule_test, load_rule_test
from monitor.policy.rule_test_run import run_rule_test
from monitor.shipped import rules_folder
from tests.unit.policy.words import WORDS, rules

RULES = """
groups:
  - name: g
    rules:
      - {tune: more, when: acceptance_rate > 0.70, for: 2m, do: {num_speculative_tokens: "+1"}}
      - alert: Down
        when: up == 0.0
        for: 1m
        labels: {severity: page}
        annotations: {summary: "{{ $labels.server }} is down"}
"""
HEAD = """
rule_files: [rules.yaml]
tests:
  - name: t
    input_series:
      - {series: 'up{server="a"}', values: '1 0x9'}
      - {series: 'acceptance_rate{group="g"}', values: '0.8x9'}
"""
DOWN = "{exp_labels: {severity: page, server: a}}"


def failures(rest: str) -> tuple[str, ...]:
    test_file = load_rule_test(HEAD + rest, "t.test.yaml")
    found = rules(RULES)
    assert check_rule_test(test_file, found, WORDS) == []
    return run_rule_test(test_file, found).failures


@pytest.mark.parametrize(
    "rest",
    [
        f"    alert_rule_test: [{{eval_time: 2m, alertname: Down, exp_alerts: [{DOWN}]}}]",
        "    alert_rule_test: [{eval_time: 1m, alertname: Down}]",
        f"    alert_rule_test: [{{eval_time: 1m, alertname: Down, state: pending, exp_alerts: [{DOWN}]}}]",
        '    tune_rule_test: [{eval_time: 2m, tune: more, exp_firings: [{group: g, num_speculative_tokens: "+1"}]}]',
        "    tune_rule_test: [{eval_time: 1m, tune: more}]",
    ],
)
def test_what_holds_passes(rest: str) -> None:
    assert failures(rest) == ()


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (
            f"    alert_rule_test: [{{eval_time: 1m, alertname: Down, exp_alerts: [{DOWN}]}}]",
            't: at 1m Down firing: expected {server="a", severity="page"}, found none',
        ),
        (
            "    alert_rule_test: [{eval_time: 2m, alertname: Down}]",
            't: at 2m Down firing: expected 0 alerts, found {server="a", severity="page"} {summary="a is down"}',
        ),
        (
            "    alert_rule_test: [{eval_time: 2m, alertname: Down, exp_alerts: [{exp_labels: {severity: page}}]}]",
            't: at 2m Down firing: expected {severity="page"}, found {server="a", severity="page"}',
        ),
        (
            "    alert_rule_test: [{eval_time: 2m, alertname: Down, exp_alerts: ["
            "{exp_labels: {severity: page, server: a}, exp_annotations: {summary: other}}]}]",
            'expected {server="a", severity="page"} {summary="other"}',
        ),
        (
            "    tune_rule_test: [{eval_time: 2m, tune: more}]",
            "t: at 2m more: expected none, found group:g +1",
        ),
        (
            "    tune_rule_test: [{eval_time: 2m, tune: more, exp_firings: [{group: g, num_speculative_tokens: 4}]}]",
            "t: at 2m more: expected group:g 4, found group:g +1",
        ),
        (
            "    tune_rule_test: [{eval_time: 2m, tune: more, exp_firings: [{group: h}]}]",
            "t: at 2m more: expected group:h any, found group:g +1",
        ),
    ],
)
def test_what_does_not_hold_is_told(rest: str, message: str) -> None:
    (only,) = failures(rest)
    assert message in only


def test_a_test_of_what_does_not_exist_is_a_mistake() -> None:
    text = """
rule_files: [rules.yaml]
tests:
  - input_series:
      - {series: 'upp{server="a"}', values: '1'}
      - {series: 'up', values: '1'}
      - {series: 'acceptance_rate_at_pos{server="a"}', values: '1'}
      - {series: 'up{server="a", position="0"}', values: '1'}
    alert_rule_test: [{eval_time: 1m, alertname: Dwon}]
    tune_rule_test: [{eval_time: 1m, tune: less}]
"""
    found = check_rule_test(load_rule_test(text, "t"), rules(RULES), WORDS)
    positions = 'a label position="0" and so on for a signal with one value per position, only'
    whose = "a label server, group or host, which says whose series it is"
    series = "tests[0].input_series"
    assert [str(problem).split(":", 3)[3].strip() for problem in found] == [
        f"{series}[0].series: found the name 'upp', expected a signal, such as up",
        f"{series}[1].series: found 'up', expected {whose}",
        f"{series}[2].series: found 'acceptance_rate_at_pos{{server=\"a\"}}', expected {positions}",
        f"{series}[3].series: found 'up{{server=\"a\", position=\"0\"}}', expected {positions}",
        "tests[0].alert_rule_test[0].alertname: found 'Dwon', expected a rule of rules.yaml: Down",
        "tests[0].tune_rule_test[0].tune: found 'less', expected a rule of rules.yaml: more",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t:1:1: the file: found nothing, expected a mapping"),
        ("rule_files: []\ntests: []\n", "rule_files: found an empty list, expected at least one entry"),
        (HEAD.replace("1 0x9", "1 0y9"), "input_series[0].values: found '1 0y9', expected values such as 0.72x30"),
        (HEAD.replace("input_series", "input"), "found an unknown key, expected one of name, interval, input_series"),
        (HEAD + "    alert_rule_test: [{eval_time: 5, alertname: Down}]", "eval_time: found 5, expected a duration"),
    ],
)
def test_a_broken_test_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_rule_test(text, "t")
    assert message in str(caught.value)


class TestShipped:
    """What is shipped in `rules/`: it loads over the real vocabulary, and its own tests hold."""

    FILES = sorted(rules_folder().glob("*.test.yaml"))

    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
    def test_its_tests_hold(self, path) -> None:  # type: ignore[no-untyped-def]
        test_file = load_rule_test(path.read_text(), path.name)
        found = rules_of(test_file.rule_files)
        assert check_rule_test(test_file, found, WORDS) == []
        report = run_rule_test(test_file, found)
        assert report.ok, "\n".join(report.failures)
        assert report.checked > 0

    def test_every_rule_file_has_tests_and_every_rule_is_tested(self) -> None:
        named: set[str] = set()
        for path in self.FILES:
            test_file = load_rule_test(path.read_text(), path.name)
            tested = {case.alertname for test in test_file.tests for case in test.alert_rule_test if case.exp_alerts}
            tested |= {case.tune for test in test_file.tests for case in test.tune_rule_test if case.exp_firings}
            assert {rule.name for rule in rules_of(test_file.rule_files)} == tested
            named |= set(test_file.rule_files)
        assert {"threshold.yaml", "guarded.yaml", "goodput.yaml", "alerts.yaml"} <= named


def rules_of(files: tuple[str, ...]):  # type: ignore[no-untyped-def]
    from monitor.policy.load import load_rules

    return load_rules({name: (rules_folder() / name).read_text() for name in files}, WORDS)
