"""Bodies that are no whole page, each with its own reason."""

import gzip

import pytest

from monitor.errors import ExpositionError
from monitor.exposition.body import MAX_BODY_BYTES, clean_body, is_openmetrics

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"

REFUSED = {
    "nothing": (b"", TEXT, "empty"),
    "only blanks": (b" \n\n" * 200, TEXT, "empty"),
    "a login page": (b"<!DOCTYPE html><html><body>Sign in</body></html>\n", "text/html", "html"),
    "HTML called text": (b"  <html></html>\n", TEXT, "html"),
    "a JSON error": (b'{"detail":"Not Found"}', "application/json", "json"),
    "a JSON list": (b"[1, 2]\n", None, "json"),
    "an escaped page": (b'"# HELP a b\\na 1\\n"', TEXT, "json_string"),
    "a bracket that is no JSON": (b"[oops\n", TEXT, "malformed"),
    "gzip without its header": (gzip.compress(b"a 1\n"), TEXT, "compressed"),
    "NUL bytes": (b"a 1\0\n", TEXT, "binary"),
    "cut off in a number": (b"a 1234\nb 12", TEXT, "truncated"),
    "cut off in a label": (b'a{m="x', None, "truncated"),
    "OpenMetrics without its end": (b"a 1234\nb 12\n", OPEN, "truncated"),
    "OpenMetrics cut in its end": (b"a 1234\n# EO", OPEN, "truncated"),
    "nested brackets without end": (b"[" * 100_000, TEXT, "malformed"),
}


@pytest.mark.parametrize(("body", "content_type", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(body: bytes, content_type: str | None, reason: str) -> None:
    with pytest.raises(ExpositionError) as caught:
        clean_body(body, content_type)
    assert caught.value.reason == reason
    assert str(caught.value)


def test_too_large() -> None:
    with pytest.raises(ExpositionError) as caught:
        clean_body(b"a 1\n" * (MAX_BODY_BYTES // 4 + 1), TEXT)
    assert caught.value.reason == "too_large"


TAKEN = {
    "classic text": (b"a 1\n", TEXT),
    "no content type": (b"a 1\n", None),
    "a wrong content type": (b"a 1\n", "text/html"),
    "OpenMetrics": (b"a 1\n# EOF\n", OPEN),
    "OpenMetrics without a last line feed": (b"a 1\n# EOF", OPEN),
    "OpenMetrics under another name": (b"a 1\n# EOF", TEXT),
    "a quoted name": (b'{"my.name"} 1\n', TEXT),
}


@pytest.mark.parametrize(("body", "content_type"), TAKEN.values(), ids=TAKEN.keys())
def test_taken(body: bytes, content_type: str | None) -> None:
    assert clean_body(body, content_type) == body


def test_a_byte_order_mark_is_dropped() -> None:
    assert clean_body(b"\xef\xbb\xbfa 1\n", TEXT) == b"a 1\n"


@pytest.mark.parametrize(
    ("body", "content_type", "answer"),
    [(b"a 1\n", TEXT, False), (b"a 1\n", OPEN, True), (b"a 1\n# EOF\n", TEXT, True), (b"a 1\n", None, False)],
)
def test_which_format(body: bytes, content_type: str | None, answer: bool) -> None:
    assert is_openmetrics(body, content_type) is answer
