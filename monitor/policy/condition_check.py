"""Trial of a condition when it is loaded: every part must give true or false. It owns no evaluation over real signals.

`&&`, `||` and `?:` hide an error behind a decided side, so each piece between them is tried on its own.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from monitor.policy import language

#: Kind of a signal that has one value per draft position; everything else in a vocabulary is one number.
VECTOR = "vector"

#: What CEL raises when it cannot evaluate.
EVALUATION_ERRORS = (TypeError, RuntimeError, IndexError, KeyError, ValueError, ArithmeticError)

#: Positions that a trial evaluation gives a vector: more than any engine drafts.
_TRIAL_POSITIONS = 64


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with a condition: the piece found (with its place, from 1) and what is allowed there."""

    found: str
    expected: str
    line: int = 1
    column: int = 1


def trial(
    text: str, used: Collection[str], flags: Collection[str], vocabulary: Mapping[str, str]
) -> Iterator[Mistake]:
    """Mistakes that show only in use: each part on its own, since `&&` and `||` hide an error behind a decided side.

    The numbers are arbitrary but positive and distinct, so that no division of the trial gives NaN.
    """
    dice = random.Random(0)
    failed = False
    for start, part in [*_parts(text, 0), (0, text)]:
        if failed and part == text:
            return
        for truth in (True, False):
            bindings: dict[str, object] = dict.fromkeys(flags, truth)
            for name in used:
                values = [dice.uniform(0.01, 2.0) for _ in range(_TRIAL_POSITIONS)]
                bindings[name] = values if vocabulary[name] == VECTOR else values[0]
            mistake = _try(part, bindings, position(text, start))
            if mistake:
                yield mistake
                failed = True
                break


def _try(part: str, bindings: dict[str, object], place: tuple[int, int]) -> Mistake | None:
    try:
        result = language.compile(part).execute(bindings)
    except EVALUATION_ERRORS as error:
        what = f"`{part}`, which cannot be evaluated ({first_sentence(str(error))})"
        return Mistake(what, _hint(str(error)), *place)
    if isinstance(result, bool):
        return None
    return Mistake(f"`{part}`, which gives {_shape(result)}", "true or false, as in `acceptance_rate > 0.70`", *place)


def first_sentence(text: str) -> str:
    """The first sentence of an error text, short."""
    return text.split(". ")[0].split("\n")[0][:160]


def position(text: str, index: int) -> tuple[int, int]:
    """Line and column, from 1, of the character at `index`."""
    before = text[:index]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _hint(error: str) -> str:
    if "out of bounds" in error:
        return f"a position from 0 to {_TRIAL_POSITIONS - 1}"
    if "Undefined variable" in error:
        return "a signal, or a local name inside the macro that binds it"
    if "int" in error and "float" in error:
        return "numbers with a decimal point in arithmetic (`2.0`, not `2`), since signals are doubles"
    return "numbers compared with numbers; a signal with one value per position needs an index such as `[0]`"


def _shape(result: object) -> str:
    return f"the number {result:g}" if isinstance(result, int | float) else f"a {type(result).__name__}"


def _parts(text: str, offset: int) -> Iterator[tuple[int, str]]:
    """The pieces of a condition that are true or false by themselves: what stands between `&&`, `||`, `?` and `:`.

    Each with its index in the whole condition; `offset` is that of `text`.
    """
    for start, piece in _split(text):
        bare = piece.lstrip(" \t\n!")
        inner = offset + start + len(piece) - len(bare)
        if _is_enclosed(bare.rstrip()):
            yield from _parts(bare.rstrip()[1:-1], inner + 1)
        else:
            begin = len(piece) - len(piece.lstrip())
            yield offset + start + begin, piece.strip()


def _split(text: str) -> Iterator[tuple[int, str]]:
    start = skip = 0
    for i, depth in _depths(text):
        width = 2 if text[i : i + 2] in ("&&", "||") else 1 if text[i] in "?:" else 0
        if depth == 0 and width and i >= skip:
            yield start, text[start:i]
            start = skip = i + width
    yield start, text[start:]


def _is_enclosed(text: str) -> bool:
    """Whether one pair of parentheses spans the whole text."""
    if not text.startswith("("):
        return False
    return all(depth > 0 for i, depth in _depths(text) if 0 < i < len(text) - 1) and text.endswith(")")


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Index of each character outside quotes, with the number of brackets open around it."""
    depth, quote = 0, ""
    for i, character in enumerate(text):
        if quote:
            quote = "" if character == quote and text[i - 1] != "\\" else quote
            continue
        if character in "\"'":
            quote = character
            continue
        if character in ")]}":
            depth -= 1
        yield i, depth
        if character in "([{":
            depth += 1
