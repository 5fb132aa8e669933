"""The charts of a report: a server's trend with its changes marked. It draws nothing; `monitor.show` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from monitor.report.content import ChangeReport, TrendPoint
from monitor.show.lines import Chart, Line, Mark


def marks(changes: Sequence[ChangeReport]) -> tuple[Mark, ...]:
    """Where changes were made, by how they ended."""
    return tuple(Mark(change.at, change.new.split(",")[-1].strip(), change.ending.value) for change in changes)


def trend_charts(
    points: Sequence[TrendPoint], changes: Sequence[ChangeReport], target: float, start: datetime, end: datetime, *,
    prefix: str = "",
) -> tuple[Chart, ...]:
    """Acceptance rate (with the guides' target), acceptance length and throughput over one time axis.

    It begins with the first data where most of the period has none.
    """
    first = next((point.at for point in points if point.generation_tokens_per_second is not None), start)
    if first - start > (end - start) / 2:
        start = first - (end - first) / 50

    def chart(name: str, form: str, get: Callable[[TrendPoint], float | None], *, floor: float | None = None,
              ceiling: float | None = None, at: float | None = None) -> Chart:  # fmt: skip
        return Chart(
            name=f"{prefix}{name}", form=form, start=start, end=end, times=[point.at for point in points],
            lines=[Line(name, [get(point) for point in points])], marks=marks(changes), floor=floor, ceiling=ceiling,
            target=at,
        )

    return (
        chart("Acceptance rate", "share", lambda p: p.acceptance_rate, floor=0.0, ceiling=1.0, at=target),
        chart("Acceptance length", "number", lambda p: p.acceptance_length, floor=1.0),
        chart("Tokens per second", "rate", lambda p: p.generation_tokens_per_second, floor=0.0),
    )
