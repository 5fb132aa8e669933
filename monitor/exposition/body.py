"""Is this body a whole metrics page at all? It owns the reasons why not, and reads no samples."""

from __future__ import annotations

import json

from monitor.errors import ExpositionError

#: Bytes; a page with 5,000 label sets is about 1 MB, so this only stops what can be no metrics page.
MAX_BODY_BYTES = 64 * 1024 * 1024

_EOF = b"# EOF"
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


def clean_body(body: bytes, content_type: str | None) -> bytes:
    """The body as exposition text, checked to be whole as far as its kind allows.

    OpenMetrics must end with `# EOF`, classic text with a line feed: a body cut off inside its last line would
    otherwise end in a shorter but plausible number.

    Raises:
        ExpositionError: reason `empty`, `too_large`, `compressed`, `html`, `json`, `json_string`, `binary` or
            `truncated`.
    """
    if body.startswith(_BOM):
        body = body[len(_BOM) :]
    first = body[:256].lstrip()[:1] or body.lstrip()[:1]
    if not first:
        raise ExpositionError("empty", "empty body: the server answered but printed no metrics")
    if len(body) > MAX_BODY_BYTES:
        raise ExpositionError("too_large", f"body of {len(body)} bytes: expected at most {MAX_BODY_BYTES}")
    if first in b'<{["':
        _refuse_other_formats(body.strip(), first)
    if body.startswith(_GZIP):
        raise ExpositionError("compressed", "body is gzip data: expected text (Content-Encoding is missing)")
    if b"\0" in body:
        raise ExpositionError("binary", "body has NUL bytes: expected text")
    _refuse_truncated(body, content_type)
    return body


def is_openmetrics(body: bytes, content_type: str | None) -> bool:
    """Whether the page is OpenMetrics, by its content type or by its closing `# EOF`."""
    return _declares_openmetrics(content_type) or body.rstrip().endswith(b"\n" + _EOF)


def _refuse_other_formats(text: bytes, first: bytes) -> None:
    if first == b"<":
        raise ExpositionError("html", "body is an HTML page, not metrics text: a login or error page, or a wrong URL")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if first == b'"' or first == b"[":
            raise ExpositionError("malformed", f"body starts with {first.decode()}: expected metrics text") from None
        return  # {"quoted.name"} 1 is exposition text
    if isinstance(value, str):
        raise ExpositionError("json_string", "body is a JSON string, not exposition text (line feeds are escaped)")
    raise ExpositionError("json", "body is a JSON document, not exposition text")


def _refuse_truncated(body: bytes, content_type: str | None) -> None:
    # A body that ends in "# EOF" is whole in either format, with or without a last line feed.
    end = body[-64:].rstrip()
    if end.endswith(_EOF):
        return
    if _declares_openmetrics(content_type):
        raise ExpositionError("truncated", "OpenMetrics body without `# EOF` at its end: cut off")
    if not body.endswith(b"\n"):
        shown = body[-60:].rpartition(b"\n")[2].decode("utf-8", "replace")
        raise ExpositionError("truncated", f"no line feed after the last line (…{shown!r}): cut off")


def _declares_openmetrics(content_type: str | None) -> bool:
    return content_type is not None and content_type.lstrip().lower().startswith("application/openmetrics-text")
