"""A reader says the same of a page whether it met it first or remembers its like."""

import gc
import weakref

import pytest

from monitor.errors import ExpositionError
from monitor.exposition import Page, PageReader, Vocabulary, parse
from monitor.exposition import vocabulary as vocabulary_module

FIRST = b"""# HELP a text
# TYPE a counter
a_total{m="x"} 1
a_total{m="y"} 2
# TYPE b gauge
b 0.5
"""


def said(page: Page) -> dict[tuple[str, str], float | None]:
    return {(name, ",".join(f"{k}={v}" for k, v in sorted(labels.items()))): value for name, labels, value in page}


def test_names_labels_values_and_types() -> None:
    page = parse(FIRST)
    assert said(page) == {("a_total", "m=x"): 1, ("a_total", "m=y"): 2, ("b", ""): 0.5}
    assert page.layout.types == {"a": "counter", "b": "gauge"}
    assert page.layout.names == {"a_total", "b"}
    assert page.samples("a_total") == [({"m": "x"}, 1.0), ({"m": "y"}, 2.0)]
    assert not page.openmetrics


def test_text_is_taken_too() -> None:
    assert said(parse(FIRST.decode())) == said(parse(FIRST))


CHANGES = {
    "a value": FIRST.replace(b"} 1", b"} 17"),
    "a value that is lost": FIRST.replace(b"} 1", b"} NaN"),
    "a value with a timestamp": FIRST.replace(b"} 1", b"} 17 1788616077000"),
    "a value with an exemplar": FIRST.replace(b"} 1", b'} 17 # {t="}"} 0.5'),
    "an infinity": FIRST.replace(b"} 1", b"} +Inf"),
    "an underscore in a number": FIRST.replace(b"} 1", b"} 1_0"),
    "a longer name": FIRST.replace(b"\nb 0.5", b"\nbb 0.5"),
    "a label": FIRST.replace(b'"y"', b'"z"'),
    "a comment": FIRST.replace(b"HELP a text", b"HELP a other"),
    "a type": FIRST.replace(b"# TYPE b gauge", b"# TYPE b counter"),
    "one line more": FIRST + b"c 3\n",
    "one line less": FIRST.replace(b"b 0.5\n", b""),
    "two lines swapped": FIRST.replace(b'a_total{m="x"} 1\na_total{m="y"} 2', b'a_total{m="y"} 2\na_total{m="x"} 1'),
    "nothing": FIRST,
}


@pytest.mark.parametrize("body", CHANGES.values(), ids=CHANGES.keys())
def test_remembering_changes_nothing(body: bytes) -> None:
    reader = PageReader()
    for page in (FIRST, body, FIRST, body, body):
        again, fresh = reader.read(page), parse(page)
        assert said(again) == said(fresh)
        assert again.layout.types == fresh.layout.types
        assert again.layout.names == fresh.layout.names


def test_a_bad_page_between_good_ones_spoils_nothing() -> None:
    reader = PageReader()
    reader.read(FIRST)
    for bad in (FIRST.replace(b"} 2", b"}"), FIRST + b"x{", FIRST.replace(b"} 2", b"} 2 3 4"), b""):
        with pytest.raises(ExpositionError):
            reader.read(bad)
    assert said(reader.read(FIRST)) == said(parse(FIRST))


def test_pages_read_before_keep_their_values() -> None:
    reader = PageReader()
    old = reader.read(FIRST)
    reader.read(CHANGES["a value"])
    reader.read(CHANGES["one line less"])
    assert said(old) == said(parse(FIRST))
    assert old.token(2) == "1"


def test_the_layout_is_one_object_while_series_stand_where_they_stood() -> None:
    vocabulary = Vocabulary()
    reader, other = PageReader(vocabulary), PageReader(vocabulary)
    layout = reader.read(FIRST).layout
    assert reader.read(CHANGES["a value"]).layout is layout
    assert other.read(CHANGES["a comment"]).layout is layout
    assert reader.read(CHANGES["a label"]).layout is not layout


def test_unwanted_series_are_named_but_not_read() -> None:
    page = PageReader(Vocabulary(lambda name: name == "b")).read(FIRST)
    assert said(page) == {("b", ""): 0.5}
    assert page.layout.names == {"a_total", "b"}


def test_labels_of_unwanted_series_may_change_without_a_new_layout() -> None:
    reader = PageReader(Vocabulary(lambda name: name == "b"))
    layout = reader.read(FIRST).layout
    assert reader.read(CHANGES["a label"]).layout is layout


def test_identical_duplicates_count_once() -> None:
    page = parse(FIRST + b'a_total{m="x"} 1\n')
    assert page.samples("a_total") == [({"m": "x"}, 1.0), ({"m": "y"}, 2.0)]
    assert page.layout.duplicates == ((2, 6),)
    assert not page.conflicting


def test_contradicting_duplicates_have_no_value() -> None:
    reader = PageReader()
    double = FIRST + b'a_total{m="x"} 1\n'
    contradicting = FIRST + b'a_total{m="x"} 9\n'
    for _ in range(2):
        assert reader.read(double).samples("a_total")[0][1] == 1
        page = reader.read(contradicting)
        assert page.samples("a_total")[0] == ({"m": "x"}, None)
        assert page.conflicting == {2}
        assert page.is_bad(2)


def test_duplicates_with_labels_in_another_order() -> None:
    page = parse(b'a{m="x",n="y"} 1\na{n="y",m="x"} 1\n')
    assert len(page.layout.series) == 1
    assert page.layout.duplicates == ((0, 1),)


def test_lost_values_are_told_from_values_that_are_not_there_yet() -> None:
    page = parse(b"a NaN\nb inf\nc n/a\nd 1\ne -nan\n")
    assert [page.is_bad(line) for line in range(5)] == [False, True, True, False, False]
    assert [page.token(line) for line in range(5)] == ["NaN", "inf", "n/a", "1", "-nan"]


def test_openmetrics_ends_with_its_end() -> None:
    assert parse(b"a_total 1\n# EOF\n").openmetrics
    with pytest.raises(ExpositionError, match="after `# EOF`") as caught:
        parse(b"a_total 1\n# EOF\nb 2\n# EOF\n")
    assert caught.value.reason == "malformed"


def test_a_malformed_line_is_named() -> None:
    with pytest.raises(ExpositionError, match="line 2 is no sample") as caught:
        parse(b"a 1\nno-sample 1\nb 2\n")
    assert caught.value.reason == "malformed"


def test_bytes_that_are_not_utf8() -> None:
    with pytest.raises(ExpositionError, match="not UTF-8"):
        parse(b'a{m="\xff"} 1\n')
    assert said(parse(b"# HELP a \xff\na 1\n")) == {("a", ""): 1}


def test_carriage_returns_and_empty_lines() -> None:
    assert said(parse(b"\r\na 1\r\n\r\nb 2\r\n")) == {("a", ""): 1, ("b", ""): 2}


def test_a_full_vocabulary_forgets_and_learns_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary_module, "MAX_HEADS", 3)
    reader = PageReader()
    for number in range(20):
        body = b"".join(b'a{m="%d"} %d\n# HELP %d x\n' % (number + i, i, number + i) for i in range(5))
        assert said(reader.read(body)) == said(parse(body))


def test_layouts_that_no_reader_holds_are_forgotten() -> None:
    """A page with ever new labels must not fill memory."""
    vocabulary = Vocabulary()
    reader, other = PageReader(vocabulary), PageReader(vocabulary)
    kept = weakref.ref(other.read(b'a{m="1"} 1\n').layout)
    assert reader.read(b'a{m="1"} 2\n').layout is kept(), "servers that look alike share it"
    lost = [weakref.ref(reader.read(b'a{m="%d"} 1\n' % number).layout) for number in range(2, 20)]
    gc.collect()
    assert [layout() is None for layout in lost] == [True] * 17 + [False]
    assert kept() is not None


def test_what_stands_before_the_values_is_kept_once_for_pages_that_are_else_the_same() -> None:
    vocabulary = Vocabulary()
    one = vocabulary.lines([b"a ", b"b "])
    assert vocabulary.lines([b"a ", b"b "]) is one
    assert vocabulary.lines([b"a ", b"c "]) == [b"a ", b"c "]
    forgotten = weakref.ref(one)
    del one
    assert forgotten() is None
