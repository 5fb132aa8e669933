"""Every sample page, and pages made of their pieces: read as prometheus_client reads them, remembered or not."""

from __future__ import annotations

import math
import pathlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_classic

from monitor.errors import ExpositionError
from monitor.exposition import Page, PageReader, Vocabulary, parse

SAMPLES = pathlib.Path(__file__).parents[1] / "golden" / "exposition" / "samples"
PAGES = sorted(SAMPLES.glob("*.prom"))
BODIES = [path.read_bytes() for path in PAGES]
SMALL = [body for body in BODIES if 0 < len(body) < 9_000]

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
            said[name, frozenset(sample.labels.items()), value if math.isfinite(value) else None] = 1
    return said


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name.removesuffix(".prom"))
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


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A sample page after a few accidents: cut, doubled, swapped, spliced lines; bytes changed, dropped, added."""
    body = draw(st.sampled_from(SMALL))
    for _ in range(draw(st.integers(1, 4))):
        lines = body.split(b"\n")
        place = draw(st.integers(0, max(0, len(body) - 1)))
        line = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["cut", "drop", "double", "swap", "splice", "flip", "insert", "delete", "digit"])):
            case "cut":
                body = body[:place]
            case "drop":
                body = b"\n".join(lines[:line] + lines[line + 1 :])
            case "double":
                body = b"\n".join(lines[: line + 1] + lines[line:])
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[line], lines[other] = lines[other], lines[line]
                body = b"\n".join(lines)
            case "splice":
                other_body = draw(st.sampled_from(SMALL))
                body = body[:place] + other_body[draw(st.integers(0, len(other_body))) :]
            case "flip":
                body = body[:place] + bytes([draw(st.integers(0, 255))]) + body[place + 1 :]
            case "insert":
                body = body[:place] + draw(st.binary(min_size=1, max_size=3)) + body[place:]
            case "delete":
                body = body[:place] + body[place + draw(st.integers(1, 40)) :]
            case "digit":
                digits = [i for i, byte in enumerate(body) if byte in b"0123456789"]
                if digits:
                    at = draw(st.sampled_from(digits))
                    body = body[:at] + draw(st.sampled_from([b"0", b"7", b"9"])) + body[at + 1 :]
    return body


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


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
LABELS = st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(max_size=12), max_size=4)


def rendered(name: str, labels: dict[str, str], value: float) -> str:
    escaped = {
        key: text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for key, text in labels.items()
    }
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
