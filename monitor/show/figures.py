"""Numbers as text for people: shares, times, gains, ages. A dash stands for what is unknown, never a zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

#: Stands for a number that is not known.
UNKNOWN = "–"


def share(value: float | None) -> str:
    """A ratio in percent."""
    return UNKNOWN if value is None else f"{value:.1%}"


def signed(value: float | None) -> str:
    """A gain (ratio) in percent with its sign."""
    return UNKNOWN if value is None else f"{value:+.1%}"


def number(value: float | None, digits: int = 2) -> str:
    """A number with so many decimals."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def count(value: float | None) -> str:
    """A whole number; from ten millions on in millions, since nobody reads more digits."""
    if value is None:
        return UNKNOWN
    for size, word in ((1e12, "T"), (1e9, "G"), (1e7, "M")):
        if abs(value) >= size:
            scale = 1e6 if word == "M" else size
            return f"{value / scale:,.1f} {word}"
    return f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """A latency: milliseconds below a second."""
    if value is None:
        return UNKNOWN
    return f"{value * 1000:,.1f} ms" if value < 1 else f"{value:,.2f} s"


def rate(value: float | None) -> str:
    """A number of things a second or in a queue: one decimal below a hundred."""
    return UNKNOWN if value is None else f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


#: How a figure is shown, by the word that tables of figures use.
FORMS: Mapping[str, Callable[[float | None], str]] = {
    "share": share, "signed": signed, "number": number, "count": count, "time": seconds, "rate": rate,
}  # fmt: skip


def figure(value: float | None, form: str) -> str:
    """A figure in one of `FORMS`."""
    return FORMS[form](value)


def gain(value: float | None, low: float | None, high: float | None) -> str:
    """A gain with its interval."""
    return signed(value) + (f" ({signed(low)} to {signed(high)})" if low is not None and high is not None else "")


def span(length: float | None) -> str:
    """A length of time (seconds) in its largest fitting unit."""
    if length is None:
        return UNKNOWN
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if length >= 2 * size:
            return f"{length / size:.0f} {unit}"
    return f"{max(0.0, length):.0f} s"


def until_spent(length: float | None) -> str:
    """Time until an error budget is spent: in days or hours, since nobody plans by the minute."""
    if length is None:
        return UNKNOWN
    if length <= 0:
        return "spent"
    return f"{length / 86400:.1f} d" if length >= 2 * 86400 else f"{length / 3600:.1f} h"


def ago(stamp: str | datetime | None, now: datetime) -> str:
    """How long ago a moment was."""
    if stamp is None:
        return "never"
    moment = datetime.fromisoformat(stamp) if isinstance(stamp, str) else stamp
    return f"{span((now - moment.astimezone(UTC)).total_seconds())} ago"


def stamp(value: str | datetime | None) -> str:
    """A moment to the minute, in UTC."""
    if value is None:
        return UNKNOWN
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
