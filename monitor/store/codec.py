"""Nested values of the model as JSON and back, by their type hints. It owns no table and no database.

A value is written with all its fields. Reading ignores fields it does not know (a newer acceptd wrote them) and takes
the default for fields that are not there (an older one wrote it): adding a field with a default needs no migration.
Floats come back to the last digit: `repr` of a double is exact, and `Infinity` is understood by Python's JSON.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from monitor.model.counts import Histogram

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]

#: Compact, and ASCII: pages and log tails hold zero bytes and broken characters that a database would refuse.
_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False)
#: One escape of JSON: a character of two halves, half a character, or any other.
_ESCAPE = re.compile(r"\\(?:ud[89ab]..\\ud[c-f]..|(ud[89a-f]..)|.)")


def dumps(kind: Any, value: Any) -> str:
    """JSON text of `value`, which is of the type `kind`."""
    return to_json(codec(kind)[0](value))


def loads(kind: Any, text: str) -> Any:
    """The value of type `kind` that `dumps` wrote. Raises ValueError, TypeError or KeyError on anything else."""
    return codec(kind)[1](json.loads(text))


def to_json(tree: Any) -> str:
    """JSON text of what is JSON already (dicts, lists or tuples, numbers, text).

    Half a character (others' JSON can hold one) is replaced: no page, terminal or message could carry it later.
    """
    text = _JSON.encode(tree)
    return _ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], text) if r"\ud" in text else text


def _same(value: Any) -> Any:
    return value


@cache
def codec(kind: Any) -> tuple[Encode, Decode]:
    """Functions that turn a value of type `kind` into JSON and back. Raises TypeError for a type without a form."""
    if isinstance(kind, NewType):
        return codec(kind.__supertype__)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _optional(args)
    if origin is tuple:
        return _tuple(args)
    if origin is frozenset:
        return _frozenset(args[0])
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(args[1])
    if kind in (str, int, bool):
        return _same, _same
    if kind is float:
        return _same, float
    if kind is datetime:
        return _moment_out, _moment_in
    if kind is Histogram:
        return _histogram_out, _histogram_in
    if isinstance(kind, type) and issubclass(kind, Enum):
        return (lambda member: member.value), kind
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind)
    raise TypeError(f"no JSON form for {kind!r}")


def _moment_out(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError(f"moment {moment.isoformat()} has no time zone: expected an aware one")
    return moment.astimezone(UTC).isoformat()


def _moment_in(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _histogram_out(histogram: Histogram) -> tuple[Any, ...]:
    return (histogram.edges, histogram.cumulative, histogram.total, histogram.count)


def _histogram_in(tree: Any) -> Histogram:
    edges, cumulative, total, count = tree
    return Histogram(tuple(map(float, edges)), tuple(map(float, cumulative)), float(total), float(count))


def _optional(args: tuple[Any, ...]) -> tuple[Encode, Decode]:
    inner = [arg for arg in args if arg is not NoneType]
    if len(inner) != 1:
        raise TypeError(f"no JSON form for the union of {args!r}")
    encode, decode = codec(inner[0])
    out = _same if encode is _same else lambda value: None if value is None else encode(value)
    return out, lambda tree: None if tree is None else decode(tree)


def _tuple(args: tuple[Any, ...]) -> tuple[Encode, Decode]:
    if len(args) == 2 and args[1] is Ellipsis:
        encode, decode = codec(args[0])
        out = _same if encode is _same else lambda values: [encode(value) for value in values]
        return out, lambda tree: tuple(map(decode, tree))
    parts = [codec(arg) for arg in args]
    return (
        lambda values: [encode(value) for (encode, _), value in zip(parts, values, strict=True)],
        lambda tree: tuple(decode(item) for (_, decode), item in zip(parts, tree, strict=True)),
    )


def _frozenset(kind: Any) -> tuple[Encode, Decode]:
    encode, decode = codec(kind)
    return (lambda values: sorted(map(encode, values))), (lambda tree: frozenset(map(decode, tree)))


def _mapping(kind: Any) -> tuple[Encode, Decode]:
    encode, decode = codec(kind)
    return (
        lambda values: {str(key): encode(value) for key, value in values.items()},
        lambda tree: {key: decode(item) for key, item in tree.items()},
    )


def _dataclass(kind: type) -> tuple[Encode, Decode]:
    hints = get_type_hints(kind)
    parts = [(field.name, *codec(hints[field.name])) for field in dataclasses.fields(kind) if field.init]

    def encode(value: Any) -> dict[str, Any]:
        return {name: out(getattr(value, name)) for name, out, _ in parts}

    def decode(tree: Any) -> Any:
        return kind(**{name: back(tree[name]) for name, _, back in parts if name in tree})

    return encode, decode
