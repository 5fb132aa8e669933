from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import ConfigError
from monitor.model.outcome import ChangeKind, TuneChange
from monitor.policy.load import load_rules, with_parameters
from monitor.policy.rule import Need, ScopeKind
from tests.unit.policy.rule_messages import BAD, FOLDER, messages
from tests.unit.policy.words import WORDS, rules


def test_every_key_that_a_rule_may_have_is_read() -> None:
    found = rules((FOLDER / "good" / "everything.yaml").read_text())
    by_name = {rule.name: rule for rule in found}
    first = found.tunes[0]
    assert (first.set_name, first.where, first.scope) == ("tuning", "rules.yaml:5", ScopeKind.GROUP)
    assert (first.window_seconds, first.for_seconds) == (5400.0, 1800.0)
    assert first.need == (Need("num_drafts", 5000.0), Need("acceptance_rate_at_pos", 1000.0, of_samples=True))
    assert (first.guard, first.labels) == ("goodput", {"team": "chat"})
    assert first.show == ("goodput", "acceptance_rate_at_pos")
    assert [tune.change for tune in found.tunes] == [
        TuneChange(ChangeKind.STEP, 1),
        TuneChange(ChangeKind.STEP, -1),
        TuneChange(ChangeKind.SET, 4),
        TuneChange(ChangeKind.OFF),
        TuneChange(ChangeKind.TUNER),
    ]
    slow = by_name["TooSlow"]
    assert (slow.scope, slow.for_seconds, slow.window_seconds) == (ScopeKind.GROUP, 0.0, 300.0)
    assert slow.when.names == ("running", "time_per_output_token_seconds_p95")
    (inhibition,) = found.inhibitions
    assert (inhibition.equal, inhibition.pending, inhibition.after_seconds) == (("server",), True, 600.0)
    assert found.windows == {(ScopeKind.GROUP, 5400.0), (ScopeKind.GROUP, 300.0)}
    assert {"acceptance_rate", "goodput", "num_drafts", "acceptance_rate_at_pos", "running"} <= found.signals


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_is_refused_with_exactly_these_words(path: Path) -> None:
    assert messages(path) == path.with_suffix(".txt").read_text()


def test_there_are_bad_files() -> None:
    assert len(BAD) >= 15


def test_every_mistake_of_every_file_is_told_at_once() -> None:
    bad = {path.name: path.read_text() for path in BAD}
    with pytest.raises(ConfigError) as caught:
        load_rules(bad, WORDS)
    told = {problem.file.split(":")[0] for problem in caught.value.problems}
    assert told == set(bad)


def test_a_name_may_be_used_once_over_all_files() -> None:
    text = "groups: [{name: g, rules: [{tune: t, do: {tuner: goodput}}]}]\n"
    with pytest.raises(ConfigError, match=r"the first t is at one.yaml:1"):
        load_rules({"one.yaml": text, "two.yaml": text}, WORDS)


class TestParameters:
    TEXT = """
groups:
  - name: g
    rules:
      - {tune: t, do: {tuner: goodput}, window: 30m}
      - {alert: A, when: up == 0.0, labels: {severity: page}, annotations: {summary: x}}
"""

    def test_they_replace_what_the_file_says(self) -> None:
        found = with_parameters(
            rules(self.TEXT), {"t.window": 600.0, "t.for": 60.0, "A.for": 120.0, "A.keep_firing_for": 300.0}
        )
        assert (found.tunes[0].window_seconds, found.tunes[0].for_seconds) == (600.0, 60.0)
        assert (found.alerts[0].for_seconds, found.alerts[0].keep_firing_for_seconds) == (120.0, 300.0)
        assert found.alerts[0].when is not None

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("u.window", 60.0, "found the rule 'u', expected one of A, t"),
            ("window", 60.0, "found the rule ''"),
            ("t.windw", 60.0, "found the parameter 'windw', expected one of window, for; did you mean window?"),
            ("t.keep_firing_for", 60.0, "expected one of window, for"),
            ("t.window", 0.0, "found 0s, expected a window of more than 0s"),
        ],
    )
    def test_unknown_ones_are_refused(self, key: str, value: float, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            with_parameters(rules(self.TEXT), {key: value})
        assert message in str(caught.value)


@settings(deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["g", "up == 0.0", "30m", "+1", ""])),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["groups", "name", "rules", "alert", "tune", "when", "for", "window", "need", "do",
                                 "labels", "annotations", "inhibit_rules", "num_speculative_tokens", "show"]),
                inner, max_size=4,
            ),
        ),
        max_leaves=20,
    )
)
def test_any_document_is_rules_or_a_list_of_mistakes(value: object) -> None:
    import yaml

    try:
        load_rules({"f.yaml": yaml.safe_dump(value)}, WORDS)
    except ConfigError as error:
        assert error.problems
