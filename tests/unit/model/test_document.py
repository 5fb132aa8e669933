from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import ConfigError
from monitor.model.document import Mark, one_of, parse_document, parse_documents


def problem_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, "f.yaml")
    return str(caught.value)


def test_values_know_their_place() -> None:
    document = parse_document("groups:\n  - name: a\n    rules: [x,\n      y]\n", "f.yaml")
    assert document.value == {"groups": [{"name": "a", "rules": ["x", "y"]}]}
    assert document.mark(("groups", 0, "rules", 1)) == Mark(4, 7)
    assert document.mark(("groups", 0, "missing")) == Mark(2, 5)
    assert document.found(("groups", 0, "name")) == "'a'"
    assert document.found(("groups", 7)) == "nothing"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("no", "no"),
        ("true", True),
        ("+1", "+1"),
        ("-1", -1),
        ("010", 10),
        ("12:30", "12:30"),
        ("0.70", 0.7),
        ("1e3", 1000.0),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
        ("", None),
        ("'5'", "5"),
    ],
)
def test_words_mean_what_they_look_like(text: str, value: object) -> None:
    found = parse_document(text, "f.yaml").value
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: a: found a second one, expected one a (the first is on line 1)"),
        ("a: [1, 2\n", "f.yaml:2:1: the file: found expected ',' or ']', but got '<stream end>', expected valid YAML"),
        ("a: !!python/object:os.system x\n", "the tag tag:yaml.org,2002:python/object:os.system"),
        ("a: !secret x\n", "the tag !secret"),
        ("? [1]\n: 2\n", "a key that is no word"),
        ("a: &x [*x]\n", "an alias without end"),
        ("a: \x00\n", "expected valid YAML"),
        ("--- 1\n--- 2\n", "f.yaml:2:5: the file: found a second document, expected one"),
        ("[" * 5000, "nesting without end"),
    ],
)
def test_a_mistake_names_its_place(text: str, message: str) -> None:
    assert message in problem_of(text)


def test_several_documents_are_read_where_they_are_allowed() -> None:
    one, two = parse_documents("--- {a: 1}\n---\nb: 2\n", "f.yaml")
    assert (one.value, two.value, two.mark(("b",))) == ({"a": 1}, {"b": 2}, Mark(3, 4))


def test_every_doubled_key_is_told_at_once() -> None:
    assert problem_of("a: 1\na: 2\nb: {c: 1, c: 2}\n").count("a second one") == 2


def test_an_alias_bomb_is_refused_and_not_expanded() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "an alias without end" in problem_of("\n".join(lines))


def test_the_nearest_word_is_suggested() -> None:
    assert one_of("wen", ("when", "window")) == "one of when, window; did you mean when?"
    assert one_of("zzz", ("when", "window")) == "one of when, window"
    assert one_of("zzz", ()) == "nothing here"


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_document_or_a_config_error(text: str) -> None:
    try:
        parse_document(text, "f.yaml")
    except ConfigError as error:
        assert error.problems
