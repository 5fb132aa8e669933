"""YAML texts as plain values that remember their lines, so that every mistake can name its place. No file is read here.

The YAML is the core schema of YAML 1.2: only `true` and `false` are booleans (`off` and `no` stay words), `+1` stays a
text, and a key given twice is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import yaml

from monitor.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pydantic import ValidationError

Path = tuple[str | int, ...]

#: Keys allowed at each place of a document's part, for the message about an unknown one; indices are left out.
Keys = Mapping[tuple[str, ...], Sequence[str]]

#: Values in one document (count). More is no rule file but an alias bomb, or a mistake.
MAX_VALUES = 200_000

#: Longest piece of a file that a message repeats (characters).
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    """The value of a YAML text, and where each part of it stands."""

    file: str
    value: Any
    marks: Mapping[Path, Mark]

    def mark(self, path: Path) -> Mark:
        """Where the value at `path` stands; where it is missing, the nearest thing around it."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path, Mark(1, 1))

    def found(self, path: Path) -> str:
        """The value at `path`, short, for a message; `nothing` where there is none."""
        value = self.value
        for part in path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return "nothing"
        return shown(value)

    def problem(
        self, path: Path, expected: str, *, found: str | None = None, name: str = "", below: int = 0
    ) -> Problem:
        """A mistake at `path`. `name` says whose it is (`rule raise-tokens`) in place of the first `below` keys."""
        spot = self.mark(path)
        where = ": ".join(part for part in (name, path_text(path[below:] if name else path)) if part)
        return Problem(
            path=where or "the file",
            found=self.found(path) if found is None else found,
            expected=expected,
            file=f"{self.file}:{spot.line}:{spot.column}",
        )

    def problems(self, error: ValidationError, prefix: Path, known: Keys, name: str = "") -> list[Problem]:
        """Every mistake that pydantic found in the part at `prefix`, which `name` names in messages."""
        out = []
        for entry in error.errors(include_url=False, include_context=False):
            loc = entry["loc"]
            found = None
            if entry["type"] == "missing":
                expected, found = "a value (it is required)", "nothing"
            elif entry["type"] == "extra_forbidden":
                allowed = known.get(tuple(p for p in loc[:-1] if isinstance(p, str)), ())
                expected, found = one_of(str(loc[-1]), allowed), "an unknown key"
            else:
                text = entry["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
                expected = EXPECTED.get(entry["type"], text)
            if loc and loc[-1] == "[key]":
                loc, found = loc[:-1], f"the key {shown(loc[-2])}"
            out.append(self.problem(prefix + loc, expected, found=found, name=name, below=len(prefix)))
        return out


#: Plain words for pydantic's commonest mistakes, by their type.
EXPECTED = {
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "string_type": "a text",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "too_short": "at least one entry",
}


def one_of(word: str, allowed: Sequence[str]) -> str:
    """What is allowed in place of `word`, with the nearest one suggested, for a message."""
    near = get_close_matches(word, allowed, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"one of {', '.join(allowed)}{hint}" if allowed else "nothing here"


def shown(value: object) -> str:
    """A value as a message shows it: short, on one line."""
    if isinstance(value, Mapping):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def path_text(path: Path) -> str:
    """A path as text: `groups[0].rules[2].when`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class _CoreLoader(yaml.SafeLoader):
    """Resolves plain words by the core schema of YAML 1.2; https://yaml.org/spec/1.2.2/#103-core-schema."""


# `+1` stays a text on purpose: in rules it means "one more", and an integer would have lost the sign.
_CoreLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"-?[0-9]+", list("-0123456789")),
    ("float", r"-?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|-?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
     list("-.0123456789")),
):
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)


def parse_document(text: str, file: str) -> Document:
    """The one document in `text`; an empty one has the value None.

    Raises ConfigError with the place of the first mistake in the YAML itself, or of every key given twice.
    """
    documents = parse_documents(text, file)
    if len(documents) > 1:
        at = documents[1].mark(())
        raise ConfigError([Problem("the file", "a second document", "one", f"{file}:{at.line}:{at.column}")])
    return documents[0]


def parse_documents(text: str, file: str) -> list[Document]:
    """The documents in `text`, parted by `---`; at least one. Raises ConfigError as `parse_document` does."""
    try:
        nodes = list(yaml.compose_all(text, Loader=_CoreLoader))
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        where = f"{file}:{at.line + 1}:{at.column + 1}" if at else file
        raise ConfigError([Problem("the file", error.problem or "broken YAML", "valid YAML", where)]) from error
    except yaml.YAMLError as error:
        raise ConfigError([Problem("the file", " ".join(str(error).split()), "valid YAML", file)]) from error
    except RecursionError as error:
        raise ConfigError([Problem("the file", "nesting without end", "valid YAML", file)]) from error
    documents = []
    found: list[Problem] = []
    for node in nodes:
        reader = _Reader(file)
        documents.append(Document(file, reader.read(node, ()), reader.marks))
        found += reader.found
    if found:
        raise ConfigError(found)
    return documents or [Document(file, None, {})]


class _Reader:
    """Turns composed nodes into plain values and notes where each began."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.marks: dict[Path, Mark] = {}
        self.found: list[Problem] = []
        self._open: set[int] = set()

    def read(self, node: yaml.Node, path: Path) -> Any:
        """The value of `node`, which stands at `path`."""
        self.marks[path] = Mark(node.start_mark.line + 1, node.start_mark.column + 1)
        if id(node) in self._open or len(self.marks) > MAX_VALUES:
            raise ConfigError([self._problem(node, path, "an alias without end", f"at most {MAX_VALUES} values")])
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
            return self._scalar(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        value: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                self.found.append(self._problem(key_node, path, "a key that is no word", "a word as key"))
            elif key in first:
                expected = f"one {key} (the first is on line {first[key]})"
                self.found.append(self._problem(key_node, (*path, key), "a second one", expected))
            else:
                first[key] = key_node.start_mark.line + 1
                value[key] = self.read(value_node, (*path, key))
        return value

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        word = str(node.value)
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        try:
            match tag:
                case "str":
                    return word
                case "null":
                    return None
                case "bool":
                    return word.lower() == "true"
                case "int":
                    return int(word)
                case "float":
                    return float(word.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            self.found.append(self._problem(node, path, shown(word), f"a value of type {tag}"))
            return None
        self.found.append(self._problem(node, path, f"the tag {node.tag}", "a plain value without tag"))
        return None

    def _problem(self, node: yaml.Node, path: Path, found: str, expected: str) -> Problem:
        at = node.start_mark
        return Problem(path_text(path) or "the file", found, expected, f"{self.file}:{at.line + 1}:{at.column + 1}")
