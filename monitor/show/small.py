"""Small drawings that stand inside a line of text or a table: a sparkline, a bar, a band of settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from monitor.show.figures import FORMS

_SPARK_WIDTH, _SPARK_HEIGHT = 96.0, 22.0
_BAND_WIDTH, _BAND_HEIGHT = 720.0, 22.0
#: Left edge and width of the drawing area that the band shares with `monitor.show.lines`.
_BAND_LEFT, _BAND_RIGHT = 52.0, 8.0
#: A segment of the band narrower than this has no room for its label.
_LABEL_ROOM = 34.0
_BARS = "▁▂▃▄▅▆▇█"


def spark_svg(name: str, values: Sequence[float | None], form: str, *, low: float | None = None,
              high: float | None = None) -> str:
    """A history as a line of a word's size; its name and range for those who do not see it."""
    known = [value for value in values if value is not None]
    show = FORMS[form]
    said = f"from {show(min(known))} to {show(max(known))}, last {show(known[-1])}" if known else "no data"
    said = escape(f"{name}: {said}")
    head = (f'<svg class="spark" viewBox="0 0 {_SPARK_WIDTH:g} {_SPARK_HEIGHT:g}" role="img" '
            f'aria-label="{said}"><title>{said}</title>')
    bottom = min(known, default=0.0) if low is None else low
    top = max(known, default=1.0) if high is None else high
    if top <= bottom:
        bottom, top = bottom - 0.5 * (abs(bottom) or 1.0), top + 0.5 * (abs(top) or 1.0)
    step = _SPARK_WIDTH / max(len(values) - 1, 1)
    paths, open_path = [], False
    for index, value in enumerate(values):
        if value is None:
            open_path = False
            continue
        share = min(max((value - bottom) / (top - bottom), 0.0), 1.0)
        place = f"{index * step:.1f} {_SPARK_HEIGHT - 2 - share * (_SPARK_HEIGHT - 4):.1f}"
        # A point alone has no length: the round cap of a line of length nothing shows it as a dot.
        paths.append(f"L{place}" if open_path else f"M{place}h0.01")
        open_path = True
    return f'{head}<path class="line c0" d="{"".join(paths)}"/></svg>' if paths else f"{head}</svg>"


def spark_text(values: Sequence[float | None], *, low: float = 0.0, high: float = 1.0) -> str:
    """A history as one character a value; a gap stays a space."""
    span = (high - low) or 1.0
    places = (None if value is None else int((value - low) / span * 8) for value in values)
    return "".join(" " if place is None else _BARS[min(7, max(0, place))] for place in places)


def bar_svg(name: str, value: float | None, form: str = "share") -> str:
    """A ratio (0 to 1) as a bar."""
    if value is None:
        return ""
    said = escape(f"{name}: {FORMS[form](value)}")
    width = 100 * min(max(value, 0.0), 1.0)
    return (f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{said}">'
            f'<title>{said}</title><rect class="rest" width="100" height="10"/>'
            f'<rect class="full" width="{width:.1f}" height="10"/></svg>')


def band_svg(name: str, start: datetime, end: datetime, segments: Sequence[tuple[datetime, datetime, str]]) -> str:
    """Which setting was in force when, above charts of the same time axis; each segment is (from, to, label)."""
    length = max((end - start).total_seconds(), 1e-9)
    inner = _BAND_WIDTH - _BAND_LEFT - _BAND_RIGHT
    labels = list(dict.fromkeys(label for _, _, label in segments))
    said = ", ".join(f"{label} from {begun:%Y-%m-%d %H:%M}" for begun, _, label in segments) or "unknown"
    parts = [f'<svg class="band" viewBox="0 0 {_BAND_WIDTH:g} {_BAND_HEIGHT:g}" role="img" '
             f'aria-label="{escape(f"{name}: {said}")}">']
    for begun, ended, label in segments:
        x = _BAND_LEFT + max(0.0, (begun - start).total_seconds() / length) * inner
        width = _BAND_LEFT + min(1.0, (ended - start).total_seconds() / length) * inner - x
        if width <= 0:
            continue
        tip = escape(f"{begun:%Y-%m-%d %H:%M} to {ended:%Y-%m-%d %H:%M} UTC: {label}")
        kind, shown_width = f"b{labels.index(label) % 6}", max(width, 1.0)
        parts.append(f'<rect class="{kind}" x="{x:.1f}" y="2" width="{shown_width:.1f}" height="18">'
                     f"<title>{tip}</title></rect>")
        if width >= _LABEL_ROOM:
            shown = label if len(label) * 6.2 < width - 8 else label.split(",")[-1].strip()
            if len(shown) * 6.2 < width - 8:
                parts.append(f'<text x="{x + 5:.1f}" y="15">{escape(shown)}</text>')
    return "".join([*parts, "</svg>"])
