"""Expressions of matchers: RE2's, anchored, and never a long time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from monitor.actions.asking import matcher
from monitor.errors import ConfigError
from monitor.model.alert import Matcher
from monitor.policy.matchers import parse_matcher


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("page|ticket", "page", True),
        ("page|ticket", "pager", False),
        ("chat-.+", "chat-1", True),
        ("chat-.+", "my-chat-1", False),
        ("a$", "a\n", False),
        (".*", "a\nb", False),
        ("(?s).*", "a\nb", True),
        ("(?i)CHAT", "chat", True),
        ("Büro-.", "Büro-ß", True),
        (r"\d", "٣", False),
        ("\ud800", "\ud800", True),
        ("", "", True),
    ],
)
def test_the_whole_value_must_fit(pattern: str, value: str, fits: bool) -> None:
    assert Matcher("x", "=~", pattern).matches({"x": value}) is fits
    assert Matcher("x", "!~", pattern).matches({"x": value}) is not fits


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"(a)\1", r"a reference to a group; invalid escape sequence: \1"),
        ("(?P<n>a)(?P=n)", "a reference to a group, or a group without a name; invalid perl operator: (?P"),
        ("a(?=b)", "look-ahead; invalid perl operator: (?="),
        ("a(?!b)", "look-ahead; invalid perl operator: (?!"),
        ("(?<=a)b", "look-behind; invalid perl operator: (?<="),
        ("(?<!a)b", "look-behind; invalid perl operator: (?<!"),
        ("(", "missing ): ("),
        ("a++", "bad repetition operator: ++"),
        ("a{1001}", "invalid repetition size: {1001}"),
    ],
)
def test_what_re2_does_not_take_is_named_by_everybody_who_reads_matchers(
    pattern: str, found: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError) as by_rule:
        parse_matcher(f"x=~'{pattern}'".replace("'", '"').replace("\\", "\\\\"))
    assert str(by_rule.value) == f"a regular expression that RE2 can read ({found})"
    with pytest.raises(ConfigError) as by_hand:
        matcher(f"x=~{pattern}")
    assert f"a regular expression that RE2 can read ({found})" in str(by_hand.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("operator", ["=~", "!~"])
def test_a_refused_one_that_was_stored_matches_nothing(operator: str) -> None:
    assert not Matcher("x", operator, "a(?=b)").matches({"x": "a"})
    assert not Matcher("x", operator, "a(?=b)").matches({})


def test_nested_repetition_takes_no_time() -> None:
    # Python's `re` would take 2 ** 200 steps.
    program = (
        "from monitor.model.alert import Matcher\n"
        "for pattern in ('(a+)+$', '(a|aa)+', '(.*)*x', '(a?){200}a{200}'):\n"
        "    assert not Matcher('x', '=~', pattern).matches({'x': 'a' * 199 + 'b'}), pattern\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_re2_is_loaded_where_there_is_an_expression_only() -> None:
    program = (
        "import sys\nfrom monitor.model.alert import Matcher\n"
        "Matcher('x', '=', 'a').matches({})\nassert 're2' not in sys.modules\n"
        "Matcher('x', '=~', 'a').matches({})\nassert 're2' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
