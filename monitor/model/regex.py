"""Regular expressions that people write, matched by RE2 as in Alertmanager and Prometheus. It knows no labels.

RE2 takes time linear in the text. Python's `re` takes exponential time for `(a+)+$` and a label that does not match,
and a silence is stored: it would hold up every evaluation, after each restart too.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

#: Expressions kept ready, as many as the module `re2` keeps itself; each may take 8 MiB, most take some kB.
_KEPT = 128
#: What people know by other words than RE2's own.
_MEANT = {
    "invalid perl operator: (?=": "look-ahead",
    "invalid perl operator: (?!": "look-ahead",
    "invalid perl operator: (?<=": "look-behind",
    "invalid perl operator: (?<!": "look-behind",
    "invalid perl operator: (?P": "a reference to a group, or a group without a name",
    **{f"invalid escape sequence: \\{digit}": "a reference to a group" for digit in range(1, 10)},
}


class Regex:
    """One expression; `refusal` says what RE2 found that it does not take, and is empty where it takes all."""

    __slots__ = ("_fits", "refusal")

    def __init__(self, pattern: str) -> None:
        engine, options = _engine()
        self._fits: Any = None
        self.refusal = ""
        try:
            self._fits = engine.compile(_bytes(pattern), options).fullmatch
        except engine.error as error:
            found = error.args[0].decode(errors="replace")
            self.refusal = f"{_MEANT[found]}; {found}" if found in _MEANT else found

    def fits(self, text: str) -> bool:
        """Whether the whole of `text` matches; never where the expression is refused."""
        return self._fits is not None and self._fits(_bytes(text)) is not None


@lru_cache(maxsize=_KEPT)
def regex(pattern: str) -> Regex:
    """The expression of a text, sound or refused: evaluations ask for the same ones again and again."""
    return Regex(pattern)


@cache
def _engine() -> tuple[Any, Any]:
    """RE2 and how we use it. Imported here: it takes 3 MB, and many a process meets no expression."""
    import re2

    options = re2.Options()
    # Else it writes what it refuses to stderr as well.
    options.log_errors = False
    return re2, options


def _bytes(text: str) -> bytes:
    """As UTF-8; half a character (others' JSON can hold one) is carried along and fits itself."""
    return text.encode("utf-8", "surrogatepass")
