"""One sample line, read carefully: name, labels, value, timestamp. It owns the grammar, not pages.

Grammar: https://prometheus.io/docs/instrumenting/exposition_formats/ and the OpenMetrics 1.0 specification.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)?")
_BLANK = re.compile(r"[ \t]*")
_LABEL_NAME = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*=")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r'\\([\\n"])')
_ESCAPED = {"\\": "\\", "n": "\n", '"': '"'}
#: No metric is as large as this; what is would turn sums and rates into infinities.
LARGEST = 1e100


@dataclass(frozen=True, slots=True)
class LineHead:
    """The part of a sample line before its value; `end` is where that part ends (characters)."""

    name: str
    labels: dict[str, str]
    end: int


def parse_head(text: str) -> LineHead:
    """Name and labels of a sample line, with any quoting: spaces, commas, braces and escapes inside label values.

    Without labels the blank after the name belongs to the head, so that no longer name starts with the same head.

    Raises:
        ValueError: the line is no sample line; the text says what was expected where.
    """
    match = _NAME.match(text)
    assert match is not None  # every part of the pattern may be empty
    name, end = match.group(1), match.end()
    brace = _skip_blank(text, end)
    if text.startswith("{", brace):
        name, labels, end = _parse_braces(text, brace + 1, name)
    elif text[end : end + 1] in (" ", "\t"):
        labels, end = {}, end + 1
    else:
        raise ValueError(f"expected a blank or '{{' after the name at character {end}, found {_shown(text[end:])}")
    if name is None:
        raise ValueError(f"expected a metric name, found {_shown(text)}")
    return LineHead(name, labels, end)


def _parse_braces(text: str, position: int, name: str | None) -> tuple[str | None, dict[str, str], int]:
    labels: dict[str, str] = {}
    while True:
        position = _skip_blank(text, position)
        if text.startswith("}", position):
            return name, labels, position + 1
        key, position = _parse_key(text, position)
        quoted = _QUOTED.match(text, position)
        if quoted is None:
            what = "a label name" if key is None else f"a quoted value of label {key!r}"
            raise ValueError(f"expected {what} at character {position}, found {_shown(text[position:])}")
        if key is None:  # {"name", label="value"}: a quoted metric name stands alone, before all labels
            if name is not None or labels:
                raise ValueError(f"expected a label name at character {position}, found {_shown(text[position:])}")
            name = unescape(quoted.group(1))
        elif key in labels:
            raise ValueError(f"label {key!r} twice in one line")
        else:
            labels[key] = unescape(quoted.group(1))
        position = _skip_blank(text, quoted.end())
        if text.startswith(",", position):
            position += 1
        elif not text.startswith("}", position):
            raise ValueError(f"expected ',' or '}}' at character {position}, found {_shown(text[position:])}")


def _parse_key(text: str, position: int) -> tuple[str | None, int]:
    """The label name before an `=`, plain or quoted, and where its value begins; None where there is no name."""
    plain = _LABEL_NAME.match(text, position)
    if plain is not None:
        return plain.group(1), _skip_blank(text, plain.end())
    quoted = _QUOTED.match(text, position)
    if quoted is not None and text.startswith("=", quoted.end()):
        return unescape(quoted.group(1)), quoted.end() + 1
    return None, position


def parse_tail(tail: bytes) -> tuple[float | None, float | None]:
    """Value and timestamp from what follows name and labels; an exemplar after ` # ` is left out.

    The value is None where it is NaN, infinite or no number at all: that sample is lost, not its page. The timestamp
    is as printed (milliseconds in classic text, seconds in OpenMetrics), None where there is none.

    Raises:
        ValueError: nothing there, more than a value and a timestamp, or bytes that are not UTF-8.
    """
    text = tail.decode()
    tokens = tail.split(b" # ", 1)[0].split()
    if not tokens:
        raise ValueError("expected a value, found the end of the line")
    if len(tokens) > 2 or not tokens[0].isascii():
        raise ValueError(f"expected a value and at most a timestamp, found {_shown(text)}")
    return finite(tokens[0]), None if len(tokens) == 1 else _timestamp(tokens[1])


def finite(token: bytes) -> float | None:
    """The number a value token stands for; None for NaN, infinities, the absurdly large and what is none (`1_0`)."""
    if b"_" in token:
        return None
    try:
        value = float(token)
    except ValueError:
        return None
    return value if -LARGEST < value < LARGEST else None


def unescape(text: str) -> str:
    """A label value with its escapes resolved: backslash, double quote and line feed; others stay as they are."""
    return _ESCAPE.sub(lambda match: _ESCAPED[match.group(1)], text) if "\\" in text else text


def _timestamp(token: bytes) -> float:
    try:
        return float(token)
    except ValueError:
        raise ValueError(f"expected a timestamp, found {_shown(token.decode())}") from None


def _skip_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    assert match is not None  # the pattern may be empty
    return match.end()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
