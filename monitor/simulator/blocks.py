"""How one family is written in the text format, value by value. It owns no names and no figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.utils import floatToGoString

from monitor.simulator.counts import Histogram
from monitor.simulator.families import Family

Labels = Mapping[str, str]


def number(value: float) -> str:
    """A value as prometheus_client prints it."""
    if isinstance(value, int) and 0 <= value < 1_000_000:
        return f"{value}.0"
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def label_text(labels: Labels) -> str:
    """Labels in alphabetical order, escaped; nothing where there are none."""
    inside = ",".join(f'{name}="{_escaped(labels[name])}"' for name in sorted(labels))
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class Block:
    """The lines of one family with the values left out; `births` are the lines of its `_created` gauge."""

    def __init__(self, family: Family, samples: Sequence[tuple[str, Labels]], births: str = "") -> None:
        """`samples`: suffix and labels of each line, in order."""
        self._head = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.type}\n"
        self._prefixes = [f"{family.name}{suffix}{label_text(labels)} " for suffix, labels in samples]
        self._births = births

    def text(self, values: Iterable[float]) -> str:
        """The block with these values, one for each line."""
        lines = [f"{prefix}{number(value)}\n" for prefix, value in zip(self._prefixes, values, strict=True)]
        return self._head + "".join(lines) + self._births


def births(family: Family, series: Sequence[Labels], born: Sequence[float]) -> str:
    """The `_created` gauge of a family: unix seconds at which each series was made; nothing without a series."""
    if not series:
        return ""
    name = (family.name.removesuffix("_total") if family.type == "counter" else family.name) + "_created"
    lines = [f"{name}{label_text(labels)} {number(at)}\n" for labels, at in zip(series, born, strict=True)]
    return f"# HELP {name} {family.help}\n# TYPE {name} gauge\n" + "".join(lines)


def histogram_samples(labels: Labels, edges: Sequence[float]) -> list[tuple[str, Labels]]:
    """Suffix and labels of a histogram's lines."""
    buckets = [("_bucket", {**labels, "le": number(float(edge))}) for edge in (*edges, float("inf"))]
    return [*buckets, ("_count", labels), ("_sum", labels)]


def histogram_values(histogram: Histogram) -> list[float]:
    """Values of a histogram's lines: cumulative buckets, count, sum."""
    cumulative = histogram.cumulative()
    return [*cumulative, cumulative[-1], histogram.sum]
