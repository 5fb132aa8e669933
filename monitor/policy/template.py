"""Texts with `{{ $labels.server }}` and `{{ $value.acceptance_rate }}` in them, as in Prometheus. It owns no rules.

A deliberate part of Prometheus' templates: labels, values and three of its functions, so that nothing can run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from monitor.model.duration import format_duration

_FIELD = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_WHAT = re.compile(r"\$(labels|value)\.([A-Za-z_]\w*)(?:\[(\d{1,3})\])?(?:\s*\|\s*(\w+))?")

#: Shown for a value that there is no data for; never 0.
NO_DATA_TEXT = "no data"


def humanize_number(value: float) -> str:
    """A number for people: three significant digits, whole numbers in full."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def humanize_percentage(value: float) -> str:
    """A ratio as percent, as Prometheus' function of that name."""
    return f"{value * 100:.3g}%"


def humanize_duration(value: float) -> str:
    """Seconds as a duration; whole seconds from one minute on."""
    if not math.isfinite(value):
        return str(value)
    return format_duration(round(value) if abs(value) >= 60 else round(value, 3))


def humanize_si(value: float) -> str:
    """A number with an SI prefix, as Prometheus' `humanize`."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size and math.isfinite(value):
            return f"{value / size:.4g}{prefix}"
    return f"{value:.4g}"


FUNCTIONS: Mapping[str, Callable[[float], str]] = {
    "humanize": humanize_si,
    "humanizePercentage": humanize_percentage,
    "humanizeDuration": humanize_duration,
}


@dataclass(frozen=True, slots=True)
class _Field:
    of: str
    name: str
    function: str | None

    def render(self, labels: Mapping[str, str], values: Mapping[str, float | None]) -> str:
        if self.of == "labels":
            return labels.get(self.name, "")
        value = values.get(self.name)
        return NO_DATA_TEXT if value is None else FUNCTIONS.get(self.function or "", humanize_number)(value)


@dataclass(frozen=True, slots=True)
class Template:
    """A checked text with fields; `source` is the text as written."""

    source: str
    _pieces: tuple[str | _Field, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """Names of the values that it shows, a vector's with the index (`acceptance_rate_at_pos[0]`)."""
        return tuple(p.name for p in self._pieces if isinstance(p, _Field) and p.of == "value")

    def render(self, labels: Mapping[str, str], values: Mapping[str, float | None]) -> str:
        """The text with every field filled in: an unknown label is empty, a value without data reads `no data`."""
        return "".join(p if isinstance(p, str) else p.render(labels, values) for p in self._pieces)


def parse_template(source: str) -> Template:
    """The template in `source`.

    Raises ValueError naming the first field that is neither a label nor a value, or an unknown function.
    """
    pieces: list[str | _Field] = []
    end = 0
    for match in _FIELD.finditer(source):
        pieces.append(source[end : match.start()])
        pieces.append(_field(match[1].strip()))
        end = match.end()
    rest = source[end:]
    if "{{" in rest or "}}" in rest:
        raise ValueError("`{{` and `}}` in pairs")
    return Template(source, tuple(p for p in (*pieces, rest) if p != ""))


def _field(text: str) -> _Field:
    match = _WHAT.fullmatch(text)
    if not match or (match[1] == "labels" and (match[3] or match[4])) or (match[4] and match[4] not in FUNCTIONS):
        raise ValueError(
            "`{{ $labels.NAME }}` or `{{ $value.SIGNAL }}`, a value optionally with "
            f"| {' or | '.join(FUNCTIONS)} (not `{{{{ {text} }}}}`)"
        )
    name = f"{match[2]}[{int(match[3])}]" if match[3] else match[2]
    return _Field(match[1], name, match[4])
