"""Line charts as SVG text: colours come from the page's style sheet, so that they follow dark, light and print.

No styles, scripts or outside references are inside, so a strict content security policy lets them pass. Each has a
name and a sentence for those who do not see it; each point tells its value when pointed at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import pairwise

from monitor.show.axis import time_ticks, value_ticks
from monitor.show.figures import FORMS, UNKNOWN

#: Size of the drawing in its own units; the page scales it. Room for labels at the left and below.
WIDTH, HEIGHT = 720.0, 168.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 8.0, 16.0, 20.0
#: Points further apart than this many steps are not joined: a gap stays one.
_JOINED_STEPS = 1.5


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a name and a value for each time of its chart; None where there is no data."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment worth seeing: `kind` is `kept`, `undone`, `open` (a change) or `alert`."""

    at: datetime
    label: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over one time axis. `form` is how values read (`monitor.show.figures.FORMS`).

    `floor` and `ceiling` hold the axis where they are given; `target` is drawn as a dotted line.
    """

    name: str
    form: str
    start: datetime
    end: datetime
    times: Sequence[datetime]
    lines: Sequence[Line]
    marks: Sequence[Mark] = ()
    floor: float | None = None
    ceiling: float | None = None
    target: float | None = None


def summary(chart: Chart) -> str:
    """What a chart shows, in a sentence: newest value and range of each line."""
    parts = []
    for line in chart.lines:
        known = [value for value in line.values if value is not None]
        show = FORMS[chart.form]
        what = f"{line.name} " if len(chart.lines) > 1 else ""
        if known:
            parts.append(f"{what}last {show(known[-1])}, from {show(min(known))} to {show(max(known))}")
        else:
            parts.append(f"{what}no data")
    return "; ".join(parts)


def line_chart(chart: Chart, *, points: bool = True) -> str:
    """The chart as one `<svg>` element; `points` adds what each point tells when pointed at."""
    scale = _Scale(chart)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="'
        f'{escape(f"{chart.name}: {summary(chart)}{_marked(chart)}")}">',
        *_grid(chart, scale),
        *(_target(chart, scale) if chart.target is not None else ()),
    ]
    for index, line in enumerate(chart.lines):
        parts += _line(chart, scale, line, index)
    parts += _marks(chart, scale)
    if points:
        parts += _points(chart, scale)
    return "".join([*parts, "</svg>"])


class _Scale:
    """From times and values to places in the drawing."""

    def __init__(self, chart: Chart) -> None:
        known = [value for line in chart.lines for value in line.values if value is not None]
        known += [chart.target] if chart.target is not None else []
        low = min(known, default=0.0) if chart.floor is None else chart.floor
        high = max(known, default=1.0) if chart.ceiling is None else chart.ceiling
        if high <= low:
            high = low + (abs(low) or 1.0)
        self.ticks = value_ticks(low, high)
        self.low, self.high = self.ticks[0], self.ticks[-1]
        self._start = chart.start
        self._length = max((chart.end - chart.start).total_seconds(), 1e-9)

    def x(self, moment: datetime) -> float:
        share = (moment - self._start).total_seconds() / self._length
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - _BOTTOM - min(max(share, 0.0), 1.0) * (HEIGHT - _TOP - _BOTTOM)


def _grid(chart: Chart, scale: _Scale) -> list[str]:
    parts = []
    for tick in scale.ticks:
        y = scale.y(tick)
        parts.append(f'<path class="grid" d="M{_LEFT:g} {y:.1f}H{WIDTH - _RIGHT:g}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 6:g}" y="{y + 3.5:.1f}" text-anchor="end">'
                     f"{escape(_tick(tick, chart.form, scale.high))}</text>")
    for moment, label in time_ticks(chart.start, chart.end):
        x = scale.x(moment)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP:g}V{HEIGHT - _BOTTOM:g}"/>')
        anchor = "end" if x > WIDTH - 40 else "start" if x < _LEFT + 10 else "middle"
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6:g}" text-anchor="{anchor}">{label}</text>')
    return parts


def _tick(value: float, form: str, highest: float) -> str:
    """A tick's label, without decimals that say nothing."""
    if form in ("share", "signed"):
        return f"{value:.0%}" if abs(value * 100 - round(value * 100)) < 1e-6 else f"{value:.1%}"
    if form == "time":
        return f"{value * 1000:g} ms" if highest < 1 else f"{value:g} s"
    return f"{value:,.10g}" if abs(value) < 10_000 else f"{value / 1000:,.10g} k"


def _target(chart: Chart, scale: _Scale) -> list[str]:
    assert chart.target is not None
    return [f'<path class="target" d="M{_LEFT:g} {scale.y(chart.target):.1f}H{WIDTH - _RIGHT:g}"/>']


def _line(chart: Chart, scale: _Scale, line: Line, index: int) -> list[str]:
    """A path for each stretch without a gap; a point that stands alone is a dot."""
    parts = []
    for stretch in _stretches(chart.times, line.values):
        if len(stretch) == 1:
            moment, value = stretch[0]
            parts.append(f'<circle class="dot c{index}" cx="{scale.x(moment):.1f}" cy="{scale.y(value):.1f}" r="1.8"/>')
        else:
            path = "L".join(f"{scale.x(moment):.1f} {scale.y(value):.1f}" for moment, value in stretch)
            parts.append(f'<path class="line c{index}" d="M{path}"/>')
    return parts


def _stretches(times: Sequence[datetime], values: Sequence[float | None]) -> list[list[tuple[datetime, float]]]:
    found: list[list[tuple[datetime, float]]] = []
    step = min((later - earlier for earlier, later in pairwise(times)), default=None)
    before: datetime | None = None
    for moment, value in zip(times, values, strict=True):
        if value is None:
            before = None
            continue
        if before is None or (step is not None and moment - before > step * _JOINED_STEPS):
            found.append([])
        found[-1].append((moment, value))
        before = moment
    return found


def _marked(chart: Chart) -> str:
    return "".join(f"; {mark.at:%Y-%m-%d %H:%M} {mark.label} ({mark.kind})" for mark in chart.marks)


def _marks(chart: Chart, scale: _Scale) -> list[str]:
    """The marks; a label that would cover the one before it is left to the tip."""
    parts, taken = [], 0.0
    for mark in sorted(chart.marks, key=lambda mark: mark.at):
        if not chart.start <= mark.at <= chart.end:
            continue
        x = scale.x(mark.at)
        label = mark.label if len(mark.label) <= 24 else f"{mark.label[:23]}…"
        width = len(label) * 6.0
        begin = x + 3 if x + width + 3 < WIDTH else x - 3 - width
        shown = f'<text x="{begin:.1f}" y="{_TOP - 5:g}">{escape(label)}</text>' if begin >= taken else ""
        taken = begin + width + 6 if shown else taken
        tip = escape(f"{mark.at:%Y-%m-%d %H:%M} UTC: {mark.label}")
        parts.append(f'<g class="mark {mark.kind}"><title>{tip}</title>'
                     f'<path d="M{x:.1f} {_TOP - 4:g}V{HEIGHT - _BOTTOM:g}"/>{shown}</g>')
    return parts


def _points(chart: Chart, scale: _Scale) -> list[str]:
    """Invisible strips, one for each time, that tell time and values when pointed at."""
    if not chart.times:
        return []
    width, height = (WIDTH - _LEFT - _RIGHT) / len(chart.times), HEIGHT - _TOP - _BOTTOM
    parts = []
    for index, moment in enumerate(chart.times):
        values = [(line.name, line.values[index]) for line in chart.lines]
        if all(value is None for _, value in values):
            continue
        show = FORMS[chart.form]
        if len(values) > 1:
            said = ", ".join(f"{name} {UNKNOWN if value is None else show(value)}" for name, value in values)
        else:
            said = show(values[0][1])
        place = f'x="{scale.x(moment) - width / 2:.1f}" y="{_TOP:g}" width="{width:.1f}" height="{height:g}"'
        said = escape(f"{moment:%Y-%m-%d %H:%M} UTC: {said}")
        parts.append(f'<rect class="hit" {place}><title>{said}</title></rect>')
    return parts
