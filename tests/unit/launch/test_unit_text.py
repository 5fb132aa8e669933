"""systemd's grammars, case by case; tests/integration/systemd holds the same functions against systemd itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import LaunchError
from monitor.launch.unit_text import (
    env_line,
    expand,
    quote_words,
    read_env,
    split_words,
    unit_words,
    variable_of,
    variables_in,
)

WORDS = st.lists(st.text(st.characters(blacklist_categories=("Cc", "Cs"))))


@given(WORDS)
def test_words_survive_file_and_splitting(words: list[str]) -> None:
    text = "# a comment\nOTHER=x\n" + env_line("NAME", quote_words(words))
    assert split_words(read_env(text)["NAME"]) == tuple(words)


@given(st.text())
def test_any_text_can_be_read_and_split(text: str) -> None:
    for value in read_env(text).values():
        assert all(isinstance(word, str) for word in split_words(value))


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ((), ""),
        (("",), "''"),
        (("--a", "b"), "--a b"),
        (("--json", '{"k": 1}'), "--json '{\"k\": 1}'"),
        (("it's", "a\\b"), "'it\\'s' 'a\\\\b'"),
    ],
)
def test_what_is_written_is_plain_where_it_can_be(words: tuple[str, ...], value: str) -> None:
    assert quote_words(words) == value


def test_an_empty_value_is_written_as_such_and_becomes_no_word() -> None:
    assert env_line("NAME", quote_words([])) == 'NAME=""\n'
    assert expand(["program", "$NAME", "last"], {"NAME": ""}) == ("program", "last")


def test_a_dollar_and_a_quote_are_escaped_in_the_file() -> None:
    assert env_line("N", '$a "b" `c` \\d') == 'N="\\$a \\"b\\" \\`c\\` \\\\d"\n'


@pytest.mark.parametrize("word", ["a\nb", "a\tb", "\x00", "\x7f", "\ud800"])
def test_what_no_launch_file_can_carry_is_refused(word: str) -> None:
    with pytest.raises(LaunchError, match="which a launch file cannot carry"):
        quote_words([word])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=b c  \n", {"A": "b c"}),
        ("A = b\n", {"A": "b"}),
        ("A='b' \"c\"d\n", {"A": "bcd"}),
        ("A=b\\\n  c\n", {"A": "b  c"}),
        ("A=\"b\\\nc\\n\"\n", {"A": "bc\\n"}),
        ("# A=x\n; A=y\nA=z", {"A": "z"}),
        ("A=1\nA=2\n", {"A": "2"}),
        ("export A=1\nB-C=2\n1=3\nA\n", {}),
        ("A=\nB=''\n", {"A": "", "B": ""}),
        ("A='b\nc'", {"A": "b\nc"}),
    ],
)
def test_environment_files_are_read_as_systemd_does(text: str, expected: dict[str, str]) -> None:
    assert read_env(text) == expected


def test_a_variable_is_split_alone_and_kept_whole_within_a_word() -> None:
    environ = {"A": "x 'y z'", "B": "1 2"}
    assert expand(["$A", "${B}", "-${B}-", "$$A", "$${A}", "$NONE", "a$A"], environ) == (
        "x", "y z", "1 2", "-1 2-", "$A", "${A}", "a$A",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("item", "whole", "names"),
    [
        ("$A", "A", ("A",)), ("${A}", None, ("A",)), ("x${A}y${B}", None, ("A", "B")), ("$$A", None, ()),
        ("$${A}", None, ()), ("$$${A}", None, ("A",)), ("a$A", None, ()),
    ],
)  # fmt: skip
def test_variables_of_an_item(item: str, whole: str | None, names: tuple[str, ...]) -> None:
    assert (variable_of(item), variables_in(item)) == (whole, names)


def test_items_are_written_for_a_unit_file_with_specifiers_escaped_and_variables_kept() -> None:
    assert unit_words(["/bin/x", "$A", "${B} c", "100%", 'a"b\\c', "", ";"]) == (
        '/bin/x $A "${B} c" "100%%" "a\\"b\\\\c" "" ";"'
    )
