"""Series in test files, in promtool's notation: `0.72x30 _x5 0.4+0.1x3`. It owns no evaluation.

Notation: https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series. `axn` is a, n+1 times;
`a+bxn` is a, a+b, … a+b*n; `_` is no sample, `_xn` n of them; `stale` ends a series (here: no sample from then on).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Longest series that a test may have (samples): a year of minutes.
MAX_SAMPLES = 600_000

_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
_ITEM = re.compile(rf"(?P<start>{_NUMBER})(?:(?P<step>[+-](?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))?(?:x(?P<times>\d+))?")
_GAP = re.compile(r"_(?:x(\d+))?")
_NAME = re.compile(r'([A-Za-z_]\w*)\s*(?:\{(.*)\})?', re.DOTALL)
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:\\.|[^"\\])*)"\s*(?:,|\Z)')

SERIES_FORM = "a series such as acceptance_rate{server=\"a\", group=\"chat\"}"
VALUES_FORM = "values such as 0.72x30 _x5 0.4+0.1x3 (promtool's notation)"


@dataclass(frozen=True, slots=True)
class Series:
    """One series: a signal's name, its labels, one value per step (None: no data)."""

    name: str
    labels: tuple[tuple[str, str], ...]
    values: tuple[float | None, ...]


def parse_values(text: str) -> tuple[float | None, ...]:
    """The values in `text`, one per step; a series goes on with its last item only as far as it is written.

    Raises ValueError naming the item that cannot be read.
    """
    values: list[float | None] = []
    for item in text.split():
        if item == "stale":
            return tuple(values)
        gap, number = _GAP.fullmatch(item), _ITEM.fullmatch(item)
        if gap:
            count, start, step = int(gap[1] or 1), None, 0.0
        elif number:
            count, start, step = int(number["times"] or 0) + 1, float(number["start"]), float(number["step"] or 0)
            if number["step"] and not number["times"]:
                number = None
        if not gap and not number:
            raise ValueError(f"{VALUES_FORM}, not {item!r}")
        if len(values) + count > MAX_SAMPLES:
            raise ValueError(f"at most {MAX_SAMPLES} values")
        values += [None if start is None else start + i * step for i in range(count)]
    return tuple(values)


def parse_name(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Name and labels in `text`, written as in Prometheus. Raises ValueError where it is neither."""
    match = _NAME.fullmatch(text.strip())
    if not match:
        raise ValueError(SERIES_FORM)
    labels: dict[str, str] = {}
    rest = (match[2] or "").strip()
    while rest:
        label = _LABEL.match(rest)
        if not label or label[1] in labels:
            raise ValueError(SERIES_FORM)
        labels[label[1]] = re.sub(r"\\(.)", r"\1", label[2])
        rest = rest[label.end() :].strip()
    return match[1], tuple(sorted(labels.items()))
