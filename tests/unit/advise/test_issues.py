"""Known issues: which concern a version, a method and what is around them; and mistakes in the file."""

from __future__ import annotations

import pytest

from monitor.advise.issues import Condition, applying, load_issues
from monitor.errors import ConfigError
from monitor.launch.versions import parse_version
from monitor.model.server import Engine
from tests.unit.advise.models import issues


def ids(version: str, method: str, *conditions: Condition) -> set[str]:
    return {one.id for one in applying(issues(), parse_version(Engine.VLLM, version), method, conditions)}


@pytest.mark.parametrize(
    ("version", "method", "issue", "expected"),
    [
        ("0.9.2", "draft_model", "no-plain-draft", False),
        ("0.10.0", "draft_model", "no-plain-draft", True),
        ("0.14.1", "draft_model", "no-plain-draft", True),
        ("0.15.0", "draft_model", "no-plain-draft", False),
        ("0.12.0", "ngram", "no-plain-draft", False),
        ("0.9.2", "ngram", "blind-v0-metrics", True),
        ("0.10.0", "ngram", "blind-v0-metrics", False),
        ("0.32.0", "eagle3", "eagle-prefix-cache", True),
        ("0.32.0", "ngram", "eagle-prefix-cache", False),
    ],
)
def test_by_version_and_method(version: str, method: str, issue: str, expected: bool) -> None:
    assert (issue in ids(version, method)) is expected


@pytest.mark.parametrize(
    ("issue", "method", "condition"),
    [
        ("lora-ngram", "ngram", Condition.LORA), ("pipeline-parallel", "mtp", Condition.PIPELINE_PARALLEL),
        ("eagle-long-context", "eagle3", Condition.LONG_CONTEXT), ("schedule-off-costs", "eagle", Condition.SCHEDULE),
    ],
)  # fmt: skip
def test_only_where_what_it_needs_is_there(issue: str, method: str, condition: Condition) -> None:
    assert issue not in ids("0.32.0", method)
    assert issue in ids("0.32.0", method, condition)


def test_every_one_says_what_and_where_to_read_on() -> None:
    assert len({one.id for one in issues()}) == len(issues())
    for one in issues():
        assert one.effect.endswith(".") and "\n" not in one.effect
        assert one.link.startswith("https://")


GOOD = "issues: [{id: a, versions: {first: 0.10.0}, methods: [ngram], effect: x., link: 'https://x'}]"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.10.0", "next", "issues[0].versions.first: found 'next', expected a release"),
        ("[ngram]", "[ngrams]", "did you mean ngram"),
        ("id: a", "id: A B", "issues[0].id"),
        ("https://x", "http://x", "issues[0].link"),
        ("effect: x.,", "", "issues[0].effect"),
        ("effect: x.", "with: moon, effect: x.", "issues[0].with"),
        ("effect: x.", "effects: x.", "did you mean effect?"),
        ("]\n", "", ""),
    ],
)
def test_mistakes_are_named(old: str, new: str, message: str) -> None:
    assert load_issues(GOOD, "k.yaml")[0].versions.first == "0.10.0"
    text = GOOD.replace(old, new)
    if text == GOOD:
        text = "issues: [{id: a, effect: x., link: 'https://x'}, {id: a, effect: x., link: 'https://x'}]"
        message = "issues[1].id: found 'a', expected an id of its own"
    with pytest.raises(ConfigError) as error:
        load_issues(text, "k.yaml")
    assert any(message in str(problem) for problem in error.value.problems), error.value.problems
