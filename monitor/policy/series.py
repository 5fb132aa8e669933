"""Series in test files, in promtool's notation: `0.72x30 _x5 0.4+0.1x3`. It owns no evaluation.

Notation: https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series. `axn` is a, n+1 times;
`a+bxn` is a, a+b, … a+b*n; `_` is no sample, `_xn` n of them; `stale` ends a series (here: no sample from then on).
Ours: `off` (`offxn`) is no sample because speculation is off, and `NAME.samples` is the sample size of a signal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from monitor.model.signal import NoData

#: Longest series that a test may have (samples): a year of minutes.
MAX_SAMPLES = 600_000

_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
_ITEM = re.compile(rf"(?P<start>{_NUMBER})(?:(?P<step>[+-](?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))?(?:x(?P<times>\d+))?")
_GAP = re.compile(r"(_|off)(?:x(\d+))?")
_NAME = re.compile(r'([A-Za-z_]\w*(?:\.samples)?)\s*(?:\{(.*)\})?', re.DOTALL)
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:\\.|[^"\\])*)"\s*(?:,|\Z)')

SERIES_FORM = "a series such as acceptance_rate{server=\"a\", group=\"chat\"}"
VALUES_FORM = "values such as 0.72x30 _x5 0.4+0.1x3 (promtool's notation)"


@dataclass(frozen=True, slots=True)
class Series:
    """One series: a signal's name, its labels, one value per step, or why there is none."""

    name: str
    labels: tuple[tuple[str, str], ...]
    values: tuple[float | NoData, ...]


def parse_values(text: str) -> tuple[float | NoData, ...]:
    """The values in `text`, one per step; a series goes on only as far as it is written.

    Raises ValueError naming the item that cannot be read.
    """
    values: list[float | NoData] = []
    for item in text.split():
        if item == "stale":
            return tuple(values)
        gap, number = _GAP.fullmatch(item), _ITEM.fullmatch(item)
        if gap:
            count = int(gap[2] or 1)
        elif number and (number["times"] or not number["step"]):
            count = int(number["times"] or 0) + 1
        else:
            raise ValueError(f"{VALUES_FORM}, not {item!r}")
        if len(values) + count > MAX_SAMPLES:
            raise ValueError(f"at most {MAX_SAMPLES} values")
        if gap:
            values += [NoData.SPECULATION_OFF if gap[1] == "off" else NoData.NO_INTERVALS] * count
        elif number:
            values += [float(number["start"]) + i * float(number["step"] or 0) for i in range(count)]
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
