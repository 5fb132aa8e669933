"""Durations as people write them: `90s`, `30m`, `1h30m`, as in Prometheus. It owns no time."""

from __future__ import annotations

import re

#: Seconds of each unit; a year is 365 days, as in Prometheus (`model.ParseDuration`).
_UNITS = {"y": 31536000.0, "w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PATTERN = re.compile("".join(rf"(?:(?P<{unit}>\d+){unit})?" for unit in _UNITS))

#: What is allowed, for messages.
DURATION_FORM = "a duration such as 90s, 30m or 1h30m (units y w d h m s ms, largest first; 0 for none)"


def parse_duration(text: str) -> float:
    """Seconds of a Prometheus duration; `0` needs no unit.

    Raises ValueError for anything else: a bare number (its unit would be a guess), units out of order, a sign.
    """
    if text == "0":
        return 0.0
    match = _PATTERN.fullmatch(text)
    if not match or not text:
        raise ValueError(f"{text!r}: expected {DURATION_FORM}")
    return sum(int(count) * _UNITS[unit] for unit, count in match.groupdict().items() if count)


def format_duration(seconds: float) -> str:
    """The shortest duration text of so many seconds, to the millisecond; negative ones with a minus sign."""
    left = round(abs(seconds) * 1000)
    text = ""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return ("-" if seconds < 0 and text else "") + (text or "0s")
