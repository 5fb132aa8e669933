from __future__ import annotations

import pytest

from monitor.policy.advice import advice
from monitor.policy.load import load_rules
from monitor.shipped import rules_folder
from tests.unit.policy.words import WORDS, rules

ALERT = "alert: A, labels: {severity: page}, annotations: {summary: x, runbook: y}, for: 5m"


def advised(entry: str) -> tuple[str, ...]:
    return advice(rules(f"groups: [{{name: g, rules: [{{{entry}}}]}}]"))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (f"{ALERT}, when: up == 0.0", None),
        (f"{ALERT}, when: acceptance_rate < 0.5", "without a `need` for num_drafts"),
        (f"{ALERT}, when: acceptance_rate < 0.5, need: {{num_drafts: 100}}", None),
        (f"{ALERT}, when: acceptance_rate < 0.5, need: {{acceptance_rate.samples: 100}}", None),
        (f"{ALERT.replace(', runbook: y', '')}, when: up == 0.0", "pages without a `runbook`"),
        (f"{ALERT.replace(', for: 5m', '')}, when: up == 0.0", "neither `for` nor `keep_firing_for`"),
        (f"{ALERT.replace(', for: 5m', '')}, when: restart_failed == 1.0", None),
        (f"{ALERT.replace('page', 'info').replace(', for: 5m', '')}, when: up == 0.0", None),
        ("tune: t, when: kv_usage > 0.9, for: 30m, do: {num_speculative_tokens: -1}", "without any `need`"),
        (
            "tune: t, when: kv_usage > 0.9, for: 1m, need: {num_drafts: 9}, do: {num_speculative_tokens: -1}",
            "holds for less than 10m",
        ),
        ("tune: t, do: {tuner: goodput}", None),
    ],
)
def test_what_will_probably_hurt_is_said(entry: str, text: str | None) -> None:
    found = advised(entry)
    assert len(found) == (text is not None)
    if text:
        assert found[0].startswith("rules.yaml:1: rule ")
        assert text in found[0]


@pytest.mark.parametrize("name", ["alerts", "threshold", "guarded", "goodput"])
def test_the_shipped_files_need_none(name: str) -> None:
    path = rules_folder() / f"{name}.yaml"
    assert advice(load_rules({path.name: path.read_text()}, WORDS)) == ()
