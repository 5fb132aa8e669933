"""From the text after a flag to a value and back. A text that does not fit raises `LaunchError` naming the flag."""

from __future__ import annotations

import math

from monitor.errors import LaunchError
from monitor.launch.argv import Flag, Found, Kind, Takes

_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0"})


def value_of(found: Found) -> object:
    """The value a found flag gives: text, whole number, number, truth, or a list of texts where it takes several."""
    flag = found.flag
    if flag.takes in (Takes.MANY, Takes.PAIR):
        return list(found.values)
    if not found.values and flag.takes in (Takes.SWITCH, Takes.TRUTH):
        return not found.name.startswith("--no-")
    if not found.values:
        raise LaunchError(f"{found.name}: found no value, expected {flag.kind.value}")
    return _read(found.name, flag.kind, found.values[0])


def _read(name: str, kind: Kind, text: str) -> object:
    try:
        if kind is Kind.WHOLE:
            return int(text)
        if kind is Kind.NUMBER:
            return _finite(text)
    except ValueError as error:
        raise LaunchError(f"{name}: found {text!r}, expected {kind.value}") from error
    if kind is Kind.TRUTH:
        return _truth(name, text)
    return text


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _truth(name: str, text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise LaunchError(f"{name}: found {text!r}, expected {Kind.TRUTH.value}")


def items_for(flag: Flag, value: object) -> tuple[str, ...]:
    """The items that give `value` to `flag` on a command line; none for a switch that is off."""
    name = flag.names[0]
    if flag.takes is Takes.SWITCH:
        negated = next((other for other in flag.names if other.startswith("--no-")), None)
        if value is True:
            return (name,)
        return (negated,) if value is False and negated is not None else ()
    if flag.takes is Takes.PAIR:
        return (name, *(str(part) for part in value)) if isinstance(value, list | tuple) else (name, str(value))
    return (name, str(value))
