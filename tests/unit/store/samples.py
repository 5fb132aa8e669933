"""A value of any class of the model, made from its type hints: every field set, none at its default."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from monitor.model.alert import Matcher
from monitor.model.counts import Histogram

#: Classes whose constructors want more than the right types.
_SPECIAL = {
    Histogram: Histogram((0.5, math.inf), (1.0, 2.0), 0.1 + 0.2, 2.0),
    Matcher: Matcher("server", "=~", "a|b"),
}
_NOW = datetime(2026, 3, 1, 1, 2, 3, 456789, tzinfo=UTC)
_PLAIN = {str: "ä-\n'", int: 7, float: 0.1 + 0.2, bool: True, datetime: _NOW}


def sample(kind: Any) -> Any:
    """A value of type `kind`."""
    if isinstance(kind, NewType):
        return sample(kind.__supertype__)
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return sample(next(arg for arg in args if arg is not NoneType))
    if origin is tuple:
        return (sample(args[0]),) if args[-1] is Ellipsis else tuple(map(sample, args))
    if origin is frozenset:
        return frozenset({sample(args[0])})
    if origin is not None and issubclass(origin, Mapping):
        return {"key": sample(args[1])}
    if issubclass(kind, Enum):
        return list(kind)[-1]
    hints = get_type_hints(kind)
    values = {field.name: sample(hints[field.name]) for field in dataclasses.fields(kind)}
    for field in dataclasses.fields(kind):
        if values[field.name] == field.default:
            values[field.name] = _other(hints[field.name], field.default)
    return kind(**values)


def _other(kind: Any, default: Any) -> Any:
    """Another value than the default that the sample happens to be."""
    if isinstance(default, bool):
        return not default
    if isinstance(default, Enum):
        return next(iter(type(default)))
    raise TypeError(f"{kind}: no other value than the default {default!r} is known here")
