from __future__ import annotations

import pytest

from monitor.errors import LaunchError
from monitor.launch.versions import Span, parse_version, spans_text
from monitor.model.server import Engine


@pytest.mark.parametrize(
    ("engine", "text", "release", "is_development"),
    [
        (Engine.VLLM, "0.8.5.post1", (0, 8, 5), False),
        (Engine.VLLM, "v0.9.0.1", (0, 9, 0, 1), False),
        (Engine.VLLM, "0.11.1rc3", (0, 11, 1), True),
        (Engine.VLLM, "0.9.2.dev12+g1a2b3c.cu128", (0, 9, 2), True),
        (Engine.VLLM, " 0.32.0+cpu ", (0, 32, 0), False),
        (Engine.VLLM, "0.10", (0, 10, 0), False),
        (Engine.SGLANG, "0.5.23", (0, 5, 23), False),
        (Engine.LLAMACPP, "b11434", (11434,), False),
        (Engine.LLAMACPP, "11434", (11434,), False),
        (Engine.LLAMACPP, "b11434-1a2b3c4", (11434,), False),
        (Engine.LLAMACPP, "11434.0.0", (11434,), False),
        (Engine.LLAMACPP, "version: 9093 (1a2b3c4)", (9093,), False),
    ],
)
def test_version_texts_of_pages_and_packages_are_read(
    engine: Engine, text: str, release: tuple[int, ...], is_development: bool
) -> None:
    version = parse_version(engine, text)
    assert (version.release, version.is_development) == (release, is_development)


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        (Engine.VLLM, ""),
        (Engine.VLLM, "nightly"),
        (Engine.VLLM, "0"),
        (Engine.VLLM, "b11434"),
        (Engine.VLLM, "0.8.5; rm"),
        (Engine.VLLM, "1.2.3.4.5"),
        (Engine.LLAMACPP, "0.33.0"),
        (Engine.LLAMACPP, "b12"),
    ],
)
def test_a_text_that_is_no_version_is_named_in_the_error(engine: Engine, text: str) -> None:
    with pytest.raises(LaunchError, match="expected") as error:
        parse_version(engine, text)
    assert repr(text) in str(error.value)


def test_an_unknown_engine_has_no_versions() -> None:
    with pytest.raises(LaunchError, match="expected one of vllm, sglang, llamacpp"):
        parse_version(Engine.UNKNOWN, "1.0")


@pytest.mark.parametrize(
    ("span", "text", "is_in"),
    [
        (Span("0.4.1", "0.8.2"), "0.4.0", False),
        (Span("0.4.1", "0.8.2"), "0.4.1", True),
        (Span("0.4.1", "0.8.2"), "0.8.2.post1", True),
        (Span("0.4.1", "0.8.2"), "0.8.3", False),
        (Span("0.4.0", "0.9.0"), "0.9.0.1", True),
        (Span("0.9.1"), "0.9.0.1", False),
        (Span("0.9.1"), "0.10.0", True),
        (Span(None, "0.9.2"), "0.10.0", False),
        (Span(), "99.0", True),
    ],
)
def test_ranges_include_both_ends_and_the_post_releases_of_the_last(span: Span, text: str, is_in: bool) -> None:
    assert (parse_version(Engine.VLLM, text) in span) is is_in


@pytest.mark.parametrize(
    ("spans", "text"),
    [
        ((Span("0.15.0"), Span("0.4.1", "0.9.2")), "0.4.1–0.9.2, 0.15.0 or newer"),
        ((Span("0.5.2", "0.9.2"), Span("0.9.0", "0.32.0")), "0.5.2–0.32.0"),
        ((Span("0.4.2", "0.9.2"), Span("0.7.3")), "0.4.2 or newer"),
        ((None, None), "no version"),
        ((Span(None, "0.9.2"),), "0.9.2 or older"),
        ((Span("0.9.2", "0.9.2"),), "0.9.2"),
        ((Span(),), "every version"),
    ],
)
def test_ranges_are_told_in_words(spans: tuple[Span | None, ...], text: str) -> None:
    assert spans_text(*spans) == text
