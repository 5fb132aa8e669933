"""The reference of every setting, as Markdown, from the model itself: `python -m monitor.config.reference`.

It owns no setting: what a table says is what `model.py` says.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from datetime import time
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from monitor.config import scalars
from monitor.config.model import Config
from monitor.model.duration import format_duration

#: What people are told of each scalar type.
_WORDS: dict[Any, str] = {
    scalars.Duration: "duration",
    scalars.PositiveDuration: "duration above 0s",
    scalars.Size: "size",
    scalars.TokenCount: "number of tokens, 0 or more",
    scalars.HttpUrl: "URL (http, https)",
    scalars.PageUrl: "URL (http, https)",
    scalars.DatabaseUrl: "URL (postgresql)",
    scalars.ListenAddress: "ADDRESS:PORT",
    scalars.TimeZone: "time zone",
    scalars.ClockTime: "time of day",
    scalars.Name: "name",
    scalars.MatcherText: "matcher",
    scalars.UnitName: "systemd service",
    scalars.RunbookUrl: "URL with `{runbook}`",
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "secret",
}
#: Attributes of the constraints that pydantic keeps with a number (annotated_types).
_BOUNDS = (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))
_DURATIONS = (scalars.Duration, scalars.PositiveDuration)
_BYTES = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


def reference() -> str:
    """A table of settings for each section, in the order of the model."""
    return "\n\n".join(_tables(Config, "", "The top level"))


def setting_paths() -> list[str]:
    """The path of every setting that is not a section itself, e.g. `servers[].driver.kind`."""
    return [path for path, _, _ in _settings(Config, "")]


def _tables(model: type[BaseModel], prefix: str, title: str) -> Iterator[str]:
    hints = get_type_hints(model, include_extras=True)
    own, below = [], []
    for name, field in model.model_fields.items():
        section = _section(hints[name])
        path = f"{prefix}{name}"
        if section is None:
            own.append(_row(path, hints[name], field))
        else:
            own.append(_section_row(path, hints[name], field))
            inner = f"{path}{'[]' if _is_list(hints[name]) else ''}"
            below.append((section, f"{inner}.", f"`{inner}`"))
    head = f"### {title}\n\n{_sentence(model)}\n\n| setting | type | default | what it is |\n| --- | --- | --- | --- |"
    yield "\n".join([head, *own])
    for section, inner, name in below:
        yield from _tables(section, inner, name)


def _settings(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, Any, FieldInfo]]:
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        section = _section(hints[name])
        if section is None:
            yield f"{prefix}{name}", hints[name], field
        else:
            yield from _settings(section, f"{prefix}{name}{'[]' if _is_list(hints[name]) else ''}.")


def _section(hint: Any) -> type[BaseModel] | None:
    """The section that a setting holds, itself or as the items of a list; None for a plain value."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint
    found = (_section(arg) for arg in get_args(hint) if get_origin(hint) in (Union, types.UnionType, tuple))
    return next((section for section in found if section is not None), None)


def _is_list(hint: Any) -> bool:
    return get_origin(hint) is tuple


def _row(path: str, hint: Any, field: FieldInfo) -> str:
    kind = ", ".join([type_words(hint), *_bounds(field)])
    return _cells(f"`{path}`", kind, _default(hint, field), _described(path, field))


def _section_row(path: str, hint: Any, field: FieldInfo) -> str:
    kind = "list of sections" if _is_list(hint) else "section"
    default = "empty" if _is_list(hint) else "none" if field.default is None else "see below"
    return _cells(f"`{path}`", kind, default, _described(path, field))


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _described(path: str, field: FieldInfo) -> str:
    if not field.description:
        raise ValueError(f"{path}: a setting without a description")
    return field.description


def type_words(hint: Any) -> str:
    """A type in words: `duration`, `one of a, b`, `list of text`. Raises ValueError for one that has no words yet."""
    if hint in _WORDS:
        return _WORDS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in args)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return "one of " + ", ".join(f"`{value}`" for value in hint)
    if origin in (Union, types.UnionType):
        return " or ".join(type_words(arg) for arg in args if arg is not type(None))
    if origin is tuple:
        return f"list of {type_words(args[0])}"
    if origin is dict:
        return f"mapping of {type_words(args[0])} to {type_words(args[1])}"
    raise ValueError(f"{hint}: a type without words")


def _bounds(field: FieldInfo) -> list[str]:
    """What a number must be, in words."""
    return [
        f"{words} {getattr(bound, name):g}"
        for bound in field.metadata
        for name, words in _BOUNDS
        if hasattr(bound, name)
    ]


def _default(hint: Any, field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if value in ((), {}):
        return "empty"
    return f"`{_value(hint, value)}`"


def _value(hint: Any, value: Any) -> str:
    if hint in _DURATIONS:
        return format_duration(value)
    if hint == scalars.Size:
        unit, size = next((unit, size) for unit, size in (*_BYTES, ("B", 1)) if value % size == 0)
        return f"{value // size}{unit}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, time):
        return f"{value:%H:%M}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def _sentence(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


if __name__ == "__main__":
    print(reference())
