"""Sample pages, and what accidents make of them: for tests that any bytes are read rightly or refused."""

from __future__ import annotations

import pathlib

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
