"""Finding known flags in a command line. It owns the habits of each engine's parser, not what a flag means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from monitor.launch.versions import EVERY, Span


class Takes(Enum):
    """How many items of the line belong to a flag after its name."""

    VALUE = "one value"
    SWITCH = "nothing"
    TRUTH = "true or false, or nothing"
    MANY = "one value or more"
    PAIR = "two values"


class Kind(Enum):
    """What a value is read as."""

    TEXT = "text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    TRUTH = "true or false"
    JSON = "a JSON object"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of an engine: its spellings (the first is the one we write), what it sets, and where it exists."""

    names: tuple[str, ...]
    key: str
    kind: Kind = Kind.TEXT
    takes: Takes = Takes.VALUE
    span: Span = EVERY
    #: Whether it is part of the speculation setting, so that rendering replaces it.
    is_speculation: bool = True


@dataclass(frozen=True, slots=True)
class Habits:
    """How an engine's parser reads a line."""

    #: `--flag=value`.
    equals: bool
    #: `--some_flag` for `--some-flag`.
    underscores: bool
    #: An unambiguous beginning of a long flag stands for it (Python's argparse).
    beginnings: bool
    #: `--json-flag.key value` (vLLM).
    dotted: bool
    #: A flag takes the next item whatever it looks like (llama.cpp).
    greedy: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A known flag in a line: items `start` to `stop` (excluded), its values, the dotted path if it had one."""

    flag: Flag
    name: str
    values: tuple[str, ...]
    start: int
    stop: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """All known flags of a line in order, and what a parser would stumble over."""

    found: tuple[Found, ...]
    problems: tuple[str, ...]


#: Shorter beginnings are too likely to mean a flag that our tables do not hold.
_SHORTEST_BEGINNING = 8
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_TRUTHS = frozenset({"true", "false", "1", "0"})


def scan(argv: Sequence[str], flags: Sequence[Flag], habits: Habits) -> Scan:
    """Find every flag of `flags` in `argv`; items that are none of them are passed over."""
    names = {name: flag for flag in flags for name in flag.names}
    found: list[Found] = []
    problems: list[str] = []
    position = 0
    while position < len(argv):
        hit = _match(argv, position, names, habits, problems)
        if hit is None:
            position += 1
            continue
        found.append(hit)
        position = hit.stop
    return Scan(tuple(found), tuple(problems))


def _match(
    argv: Sequence[str], position: int, names: dict[str, Flag], habits: Habits, problems: list[str]
) -> Found | None:
    item = argv[position]
    if not item.startswith("-") or item in ("-", "--"):
        return None
    name, equals, joined = item.partition("=") if habits.equals else (item, "", "")
    path = ""
    if habits.dotted and "." in name:
        name, _, path = name.partition(".")
    if habits.underscores and name.startswith("--"):
        name = name.replace("_", "-")
    flag = names.get(name) or _by_beginning(name, names, habits, problems)
    if flag is None or (path and flag.kind is not Kind.JSON):
        return None
    after = position + 1
    if equals:
        return Found(flag, name, (joined,), position, after, path)
    takes = Takes.VALUE if path else flag.takes
    stop = after + sum(1 for _ in _values(argv, after, takes, habits))
    values = tuple(argv[after:stop])
    if len(values) < {Takes.VALUE: 1, Takes.MANY: 1, Takes.PAIR: 2}.get(takes, 0):
        problems.append(f"{name}: found no value, expected {takes.value}")
    return Found(flag, name, values, position, stop, path)


def _by_beginning(name: str, names: dict[str, Flag], habits: Habits, problems: list[str]) -> Flag | None:
    if not habits.beginnings or not name.startswith("--") or len(name) < _SHORTEST_BEGINNING:
        return None
    full = [known for known in names if known.startswith(name)]
    if len({id(names[known]) for known in full}) == 1:
        return names[full[0]]
    if any(names[known].is_speculation for known in full):
        problems.append(f"{name}: may mean {', '.join(sorted(full))}")
    return None


def _values(argv: Sequence[str], after: int, takes: Takes, habits: Habits) -> Iterator[str]:
    most = {Takes.VALUE: 1, Takes.SWITCH: 0, Takes.TRUTH: 1, Takes.MANY: len(argv), Takes.PAIR: 2}[takes]
    for item in argv[after : after + most]:
        if takes is Takes.TRUTH and item.lower() not in _TRUTHS:
            return
        if not habits.greedy and is_flag(item):
            return
        yield item


def is_flag(item: str) -> bool:
    """Whether argparse takes `item` for a flag and not for a value (a negative number, a text with spaces)."""
    return item.startswith("-") and len(item) > 1 and " " not in item and not _NEGATIVE_NUMBER.fullmatch(item)


def without(argv: Sequence[str], found: Sequence[Found]) -> tuple[str, ...]:
    """`argv` without the items of `found`, order kept."""
    dropped = {index for hit in found for index in range(hit.start, hit.stop)}
    return tuple(item for index, item in enumerate(argv) if index not in dropped)


def option_value(argv: Sequence[str], name: str) -> str | None:
    """Value of an option that no engine's table knows, first mention, written `NAME VALUE` or `NAME=VALUE`; or None."""
    for at, item in enumerate(argv):
        if item.startswith(f"{name}="):
            return item.partition("=")[2]
        if item == name and at + 1 < len(argv):
            return argv[at + 1]
    return None
