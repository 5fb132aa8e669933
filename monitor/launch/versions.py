"""Engine versions and ranges of them. It owns how a version is read and compared, not what a version can do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from monitor.errors import LaunchError
from monitor.model.server import Engine

#: `0.8.5.post1`, `v0.11.1rc3`, `0.9.2.dev12+g1a2b3c`: release, pre-release, post-release, development, local part.
_RELEASE = re.compile(r"v?(\d+(?:\.\d+){1,3})((?:a|b|rc)\d+)?(?:\.post\d+)?(\.dev\d+)?(?:\+[\w.]+)?")
#: llama.cpp counts builds: `b11434`, `11434`, `b11434-1a2b3c4`, `11434.0.0` (PyPI), `version: 11434 (1a2b3c4)`.
_BUILD = re.compile(r"(?:version: |build: )?b?(\d{3,6})(?:\.0\.0)?(?:[-+ (].*)?")
#: The engines by the names people use.
NAMES = {Engine.VLLM: "vLLM", Engine.SGLANG: "SGLang", Engine.LLAMACPP: "llama-server"}
_SHAPES = {
    Engine.VLLM: (_RELEASE, "a release such as 0.8.5.post1"),
    Engine.SGLANG: (_RELEASE, "a release such as 0.5.23"),
    Engine.LLAMACPP: (_BUILD, "a build such as b11434"),
}


@dataclass(frozen=True, slots=True)
class Version:
    """A version of an engine: the text people know it by and the numbers that ranges compare.

    `release` holds one number for llama.cpp (the build) and at least three otherwise. `is_development` is True for
    pre-releases and builds between releases, whose abilities may differ from the release they are named for.
    """

    text: str
    release: tuple[int, ...]
    is_development: bool = False

    def __str__(self) -> str:
        return self.text


def parse_version(engine: Engine, text: str) -> Version:
    """Read `text` as a version of `engine`; raises `LaunchError` when it is none.

    Post-releases count as the release they follow: no flag, key or method changed in one (75 releases compared).
    """
    if engine not in _SHAPES:
        raise LaunchError(f"engine {engine.value!r}: expected one of {', '.join(e.value for e in _SHAPES)}")
    shape, expected = _SHAPES[engine]
    found = shape.fullmatch(text.strip())
    if found is None:
        raise LaunchError(f"version {text!r} of {NAMES[engine]}: expected {expected}")
    numbers = tuple(int(part) for part in found[1].split("."))
    if engine is Engine.LLAMACPP:
        return Version(f"b{numbers[0]}", numbers)
    padded = numbers + (0,) * (3 - len(numbers))
    return Version(text.strip().removeprefix("v"), padded, bool(found[2] or found[3]))


@lru_cache(maxsize=512)
def bound(text: str) -> tuple[int, ...]:
    """The numbers of a bound as the tables write it: `0.8.2` or `b9297`."""
    return tuple(int(part) for part in text.removeprefix("b").split("."))


@dataclass(frozen=True, slots=True)
class Span:
    """A range of versions, both ends included; None is open. Post-releases of `last` belong to it."""

    first: str | None = None
    last: str | None = None

    def __contains__(self, version: Version) -> bool:
        if self.first is not None and version.release < bound(self.first):
            return False
        return self.last is None or version.release[: len(bound(self.last))] <= bound(self.last)

    def is_before(self, version: Version) -> bool:
        """Whether the range ended before `version`."""
        return self.last is not None and version.release[: len(bound(self.last))] > bound(self.last)

    def __str__(self) -> str:
        if self.last is None:
            return "every version" if self.first is None else f"{self.first} or newer"
        if self.first is None:
            return f"{self.last} or older"
        return self.first if self.first == self.last else f"{self.first}–{self.last}"


#: Every version.
EVERY = Span()


def spans_text(*spans: Span | None) -> str:
    """Several ranges in words, e.g. `0.4.1–0.9.2, 0.15.0 or newer`; `no version` where there is none."""
    known = sorted((span for span in spans if span is not None), key=lambda span: bound(span.first or "0"))
    merged: list[Span] = []
    for span in known:
        if merged and merged[-1].last is not None and span.first is not None and (
            bound(span.first) <= _next(bound(merged[-1].last))
        ):
            last = span.last if span.last is None or bound(span.last) > bound(merged[-1].last) else merged[-1].last
            merged[-1] = Span(merged[-1].first, last)
        else:
            merged.append(span)
    return ", ".join(str(span) for span in merged) or "no version"


def _next(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers[:-1], numbers[-1] + 1)
