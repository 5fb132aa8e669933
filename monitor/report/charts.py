"""Charts of a server's trend as SVG text or PNG bytes, with the changes marked. It owns no data."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from monitor.report.content import ChangeReport, TrendPoint

_INK = "#5b6472"
_LINES = ("#2563eb", "#0f9d6b", "#b45309")


def trend_figure(points: Sequence[TrendPoint], changes: Sequence[ChangeReport], target: float) -> Figure:
    """Three panels over one time axis: acceptance rate (with its target), acceptance length, tokens per second."""
    figure = Figure(figsize=(8.2, 4.6), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    rows: Sequence[tuple[str, Callable[[TrendPoint], float | None]]] = (
        ("acceptance\nrate", lambda p: p.acceptance_rate),
        ("acceptance\nlength", lambda p: p.acceptance_length),
        ("tokens/s", lambda p: p.generation_tokens_per_second),
    )
    times = [point.at for point in points]
    for axes, (label, get), colour in zip(panels, rows, _LINES, strict=True):
        values = [get(point) for point in points]
        # Gaps stay gaps: a missing value breaks the line rather than falling to 0.
        axes.plot(times, [float("nan") if v is None else v for v in values], color=colour, linewidth=1.4, marker=".",
                  markersize=3 if len(points) < 60 else 0)
        _style(axes, label)
    panels[0].set_ylim(0, 1.02)
    panels[0].axhline(target, color=_INK, linewidth=0.7, linestyle=":")
    panels[2].set_ylim(bottom=0)
    for change in changes:
        _mark(panels, change)
    locator = AutoDateLocator(maxticks=8)
    panels[-1].xaxis.set_major_locator(locator)
    panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure


def _style(axes: Axes, label: str) -> None:
    axes.set_ylabel(label, fontsize=8, color=_INK)
    axes.tick_params(labelsize=8, colors=_INK)
    axes.grid(True, linewidth=0.3, alpha=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_INK)


def _mark(panels: Sequence[Axes], change: ChangeReport) -> None:
    at = float(date2num(change.at))
    for axes in panels:
        axes.axvline(at, color="#dc2626" if "rolled_back" in change.outcome else "#7c3aed", linewidth=1.0, alpha=0.8)
    panels[0].annotate(
        change.new.split(",")[-1].strip(), (at, 1.0), xytext=(3, -8), textcoords="offset points", fontsize=7,
        color=_INK,
    )


def svg(figure: Figure, title: str) -> str:
    """The figure as an SVG element for embedding: no XML header, no outside reference, `title` for screen readers."""
    out = io.StringIO()
    FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None, "Title": title})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    # Fixed point sizes would break narrow screens; the view box alone scales.
    return re.sub(r'^<svg([^>]*?) width="[^"]*"', r"<svg\1", re.sub(r'^<svg([^>]*?) height="[^"]*"', r"<svg\1", text))


def png(figure: Figure) -> bytes:
    """The figure as PNG bytes."""
    out = io.BytesIO()
    FigureCanvasAgg(figure).print_png(out)
    return out.getvalue()
