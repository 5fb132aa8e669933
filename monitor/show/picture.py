"""Charts as one PNG, for chats that show no drawings of a page. It needs matplotlib: import it where it is drawn.

matplotlib takes half a second and 30 MB, which a daemon needs once a week.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from monitor.show.figures import FORMS
from monitor.show.lines import Chart, Mark

_INK = "#4b5563"
_LINES = ("#2563eb", "#0f7a52", "#b45309", "#7c3aed", "#be123c", "#0e7490")
_MARKS = {"kept": "#7c3aed", "undone": "#c02626", "open": "#7c3aed", "alert": "#b45309"}
#: Inches and dots an inch: 1100 points wide, which chats show without scaling it up.
_WIDTH, _HEIGHT_EACH, _DPI = 9.2, 1.75, 120


def picture(title: str, charts: Sequence[Chart]) -> bytes:
    """The charts below each other over one time axis, as PNG bytes."""
    figure = Figure(figsize=(_WIDTH, 0.5 + _HEIGHT_EACH * len(charts)), dpi=_DPI, layout="constrained")
    figure.suptitle(_plain(title), fontsize=11, x=0.01, ha="left", fontweight="bold")
    panels = figure.subplots(len(charts), 1, sharex=True, squeeze=False)[:, 0]
    for axes, chart in zip(panels, charts, strict=True):
        _draw(axes, chart)
    locator = AutoDateLocator(maxticks=8)
    panels[-1].xaxis.set_major_locator(locator)
    panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))
    panels[-1].set_xlim(float(date2num(charts[-1].start)), float(date2num(charts[-1].end)))
    out = io.BytesIO()
    FigureCanvasAgg(figure).print_png(out)
    return out.getvalue()


def _draw(axes: Axes, chart: Chart) -> None:
    times = [float(date2num(moment)) for moment in chart.times]
    for index, line in enumerate(chart.lines):
        # Gaps stay gaps: a missing value breaks the line rather than falling to 0.
        values = [float("nan") if value is None else value for value in line.values]
        axes.plot(times, values, color=_LINES[index % len(_LINES)], linewidth=1.4, label=_plain(line.name))
    if chart.target is not None:
        axes.axhline(chart.target, color=_INK, linewidth=0.8, linestyle=":")
    axes.set_ylim(bottom=chart.floor, top=chart.ceiling)
    axes.set_title(_plain(chart.name), fontsize=9, loc="left", color=_INK)
    if len(chart.lines) > 1:
        axes.legend(fontsize=7, loc="upper left", frameon=False, ncols=min(6, len(chart.lines)))
    show = FORMS[chart.form]
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: show(float(value))))
    axes.tick_params(labelsize=8, colors=_INK)
    axes.grid(True, linewidth=0.3, alpha=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for mark in chart.marks:
        if chart.start <= mark.at <= chart.end:
            _mark(axes, mark)


def _mark(axes: Axes, mark: Mark) -> None:
    at = float(date2num(mark.at))
    colour = _MARKS.get(mark.kind, _INK)
    axes.axvline(at, color=colour, linewidth=1.0, alpha=0.8)
    axes.annotate(_plain(mark.label), (at, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -9),
                  textcoords="offset points", fontsize=7, color=colour, annotation_clip=True)


def _plain(text: str) -> str:
    """Text as it is: matplotlib would read dollar signs in names as mathematics."""
    return text.replace("$", r"\$")
