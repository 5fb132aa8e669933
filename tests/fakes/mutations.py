"""Sample pages, and what accidents make of them: for tests that any bytes are read rightly or refused."""

from __future__ import annotations

import pathlib
import re

from hypothesis import strategies as st

EXPOSITION = pathlib.Path(__file__).parents[1] / "golden" / "exposition"
SAMPLES = EXPOSITION / "samples"
#: Sample pages, and pages taken from real servers.
PAGES = sorted(EXPOSITION.glob("*/*.prom"))
BODIES = [path.read_bytes() for path in PAGES]
SMALL = [body for body in BODIES if 0 < len(body) < 9_000]


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


_COUNTER = re.compile(rb"[^#\n]*(spec_|generation_tokens|tokens_predicted|num_requests_total)")


@st.composite
def damaged(draw: st.DrawFn, page: bytes) -> bytes:
    """This page with one accident to its counters that leaves every line well formed."""
    lines = page.split(b"\n")
    counters = [index for index, line in enumerate(lines) if _COUNTER.match(line)]
    if len(counters) < 2:
        return page
    one, other = draw(st.lists(st.sampled_from(counters), min_size=2, max_size=2, unique=True))
    head, _, value = lines[one].rpartition(b" ")
    match draw(st.sampled_from(["lose", "swap", "copy", "relabel", "strip", "rename", "digit", "again"])):
        case "lose":
            del lines[one]
        case "swap":
            theirs, _, taken = lines[other].rpartition(b" ")
            lines[one], lines[other] = head + b" " + taken, theirs + b" " + value
        case "copy":
            lines[other] = head + b" " + lines[other].rpartition(b" ")[2]
        case "relabel":
            label = draw(st.sampled_from([b"position", b"engine", b"model_name", b"is_streaming"]))
            new = draw(st.sampled_from([b"0", b"1", b"7", b"00", b"-1", b"x", b""]))
            lines[one] = re.sub(label + rb'="[^"]*"', label + b'="' + new + b'"', lines[one])
        case "strip":
            label = draw(st.sampled_from([b"position", b"engine", b"model_name", b"is_streaming"]))
            lines[one] = re.sub(label + rb'="[^"]*",?', b"", lines[one])
        case "rename":
            at = draw(st.integers(1, max(1, len(re.split(rb"[{ ]", lines[one])[0]) - 1)))
            lines[one] = lines[one][:at] + lines[one][at + 1 :]
        case "digit":
            digits = [index for index, byte in enumerate(value) if byte in b"0123456789"]
            at = draw(st.sampled_from(digits)) if digits else 0
            new = draw(st.sampled_from([b"", b"0", b"4", b"9"]))
            lines[one] = head + b" " + (value[:at] + new + value[at + 1 :] or b"0")
        case "again":
            lines.insert(other, head + b" " + str(draw(st.integers(0, 99_999))).encode())
    return b"\n".join(lines)


@st.composite
def spliced(draw: st.DrawFn, first: bytes, second: bytes) -> bytes:
    """The beginning of one page and the end of another, joined at a line."""
    before, after = first.split(b"\n"), second.split(b"\n")
    return b"\n".join(before[: draw(st.integers(1, len(before)))] + after[draw(st.integers(0, len(after) - 1)) :])
