"""Every sample page, and pages made of their pieces: read as prometheus_client reads them, remembered or not."""

from __future__ import annotations

import pathlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_classic

from monitor.errors import ExpositionError
from monitor.exposition import Page, PageReader, Vocabulary, parse
from monitor.exposition.line import LARGEST
from tests.fakes.mutations import BODIES, PAGES, SMALL, mutated

Said = Counter[tuple[str, frozenset[tuple[str, str]], float | None]]


def ours(page: Page) -> Said:
    said: Said = Counter()
    for name, labels, value in page:
        said[name, frozenset(labels.items()), value] += 1
    return said


def theirs(text: str, openmetrics: bool) -> Said:
    """What the reference says; its counters named as printed, duplicates once, what is not finite None."""
    printed = {line.partition(" ")[0].partition("{")[0] for line in text.splitlines()}
    said: Said = Counter()
    for family in (read_openmetrics if openmetrics else read_classic)(text):
        for sample in family.samples:
            bare = sample.name.removesuffix("_total")
            name = sample.name if sample.name in printed or bare not in printed else bare
            value = float(sample.value)
            said[name, frozenset(sample.labels.items()), value if abs(value) < LARGEST else None] = 1
    return said


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_sample_page_as_the_reference_reads_it(path: pathlib.Path) -> None:
    body = path.read_bytes()
    try:
        page = parse(body)
    except ExpositionError as error:
        assert error.reason in {"empty", "json", "json_string", "truncated"}
        assert path.name.startswith(("http_", "llamacpp_json", "llamacpp_router", "v1_classic_truncated"))
        return
    assert ours(page) == theirs(body.decode(), page.openmetrics)


def test_one_reader_for_all_pages_in_turn() -> None:
    reader = PageReader()
    for body in BODIES + BODIES[::-1]:
        try:
            fresh: Said | str = ours(parse(body))
        except ExpositionError as error:
            fresh = error.reason
        try:
            again: Said | str = ours(reader.read(body))
        except ExpositionError as error:
            again = error.reason
        assert again == fresh


def outcome(reader: PageReader, body: bytes) -> tuple[str, Said | None]:
    try:
        return "page", ours(reader.read(body))
    except ExpositionError as error:
        assert str(error)
        return error.reason, None


@settings(max_examples=120, deadline=None)
@given(mutated())
def test_mutated_pages_are_read_as_the_reference_reads_them_or_refused(body: bytes) -> None:
    word, said = outcome(PageReader(), body)
    if said is None:
        return
    assert word == "page"
    lost = {(name, labels) for name, labels, value in said if value is None}
    try:
        reference = theirs(body.decode(errors="replace").replace("\r", " "), openmetrics=False)
    except ValueError:
        return  # the reference gives up on the whole page where one value is no number
    known = {(name, labels, value) for name, labels, value in reference}
    for name, labels, value in said:
        if (name, labels) not in lost:
            assert (name, labels, value) in known, (name, labels, value)


@settings(max_examples=120, deadline=None)
@given(st.lists(mutated(), min_size=1, max_size=4), st.sampled_from(SMALL))
def test_remembering_never_changes_what_is_said(bodies: list[bytes], good: bytes) -> None:
    vocabulary = Vocabulary()
    reader = PageReader(vocabulary)
    for body in [good, *bodies, good]:
        assert outcome(reader, body) == outcome(PageReader(), body)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_a_page_or_a_reason(body: bytes) -> None:
    outcome(PageReader(), body)


NUMBERS = st.floats(-1e99, 1e99)
LABELS = st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(max_size=12), max_size=4)


def rendered(name: str, labels: dict[str, str], value: float) -> str:
    escaped = {key: text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for key, text in labels.items()}
    inner = ",".join(f'{key}="{text}"' for key, text in escaped.items())
    return f"{name}{{{inner}}} {value!r}\n"


@settings(max_examples=200, deadline=None)
@given(st.from_regex(r"[a-z_:]{1,12}", fullmatch=True), LABELS, NUMBERS)
def test_what_was_rendered_is_read_back(name: str, labels: dict[str, str], value: float) -> None:
    body = rendered(name, labels, value).encode()
    if b"\0" in body:
        return
    [(read_name, read_labels, read_value)] = list(parse(body))
    assert (read_name, dict(read_labels), read_value) == (name, labels, value)
