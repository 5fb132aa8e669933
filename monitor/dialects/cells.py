"""Reading numbers from the lines they stand on. It owns adding and taking the largest, not labels or names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import cast

from monitor.dialects.names import Role
from monitor.exposition import Series
from monitor.model.counts import Histogram

#: One line, or groups of lines: of each group the largest value, and their sum.
Cell = int | tuple[tuple[int, ...], ...]
Values = Sequence[float | None]

#: Labels of a bucket line that do not tell histograms apart.
_BUCKET_LABELS = frozenset({"le"})


def bind_sum(groups: Iterable[Iterable[int]]) -> Cell:
    """The cell that adds these groups up."""
    bound = tuple(tuple(group) for group in groups)
    return bound[0][0] if len(bound) == 1 and len(bound[0]) == 1 else bound


def lines_of(cell: Cell) -> tuple[int, ...]:
    """Every line of a cell."""
    return (cell,) if isinstance(cell, int) else tuple(line for group in cell for line in group)


def take(values: Values, cell: Cell | None) -> float | None:
    """The number in a cell; None where any part of it is unknown, or there is no cell."""
    if cell is None:
        return None
    if isinstance(cell, int):
        return values[cell]
    total = 0.0
    for group in cell:
        known = [value for line in group if (value := values[line]) is not None]
        if not known:
            return None
        total += max(known)
    return total


def take_largest(values: Values, cell: Cell | None) -> float | None:
    """The largest number in a cell (shares are never added); None where none is known."""
    if cell is None:
        return None
    if isinstance(cell, int):
        return values[cell]
    return max((value for group in cell for line in group if (value := values[line]) is not None), default=None)


def take_each(values: Values, cells: Mapping[str, Cell]) -> dict[str, float]:
    """The known numbers of cells that have a label each."""
    return {key: value for key, cell in cells.items() if (value := take(values, cell)) is not None}


@dataclass(frozen=True, slots=True, eq=False)
class HistogramCells:
    """Where a histogram stands: its edges, and the lines of buckets, sum and count of each part that adds up."""

    edges: tuple[float, ...]
    parts: tuple[Callable[[Values], tuple[float | None, ...]], ...]
    sums: tuple[int, ...]
    counts: tuple[int, ...]


def bind_histogram(roles: Mapping[Role, Sequence[Series]]) -> HistogramCells | None:
    """The cells of a histogram from its samples; None where they make no histogram (edges that differ or repeat)."""
    parts: dict[frozenset[tuple[str, str]], dict[float, int]] = {}
    for series in roles.get(Role.BUCKET, ()):
        edges = parts.setdefault(_part(series), {})
        edge = _edge(series.labels.get("le", ""))
        if edge is None or edge in edges:
            return None
        edges[edge] = series.line
    sums = {_part(series): series.line for series in roles.get(Role.SUM, ())}
    counts = {_part(series): series.line for series in roles.get(Role.COUNT, ())}
    if not parts or sums.keys() != parts.keys() or counts.keys() != parts.keys():
        return None
    all_edges = {tuple(sorted(edges)) for edges in parts.values()}
    if len(all_edges) != 1 or (common := all_edges.pop())[-1] != float("inf") or len(common) < 2:
        return None
    getters = tuple(itemgetter(*(edges[edge] for edge in common)) for edges in parts.values())
    return HistogramCells(common, getters, tuple(sums.values()), tuple(counts[part] for part in parts))


def take_histogram(values: Values, cells: HistogramCells | None) -> Histogram | None:
    """The histogram in these cells; None where a part is unknown or below 0, buckets fall or the count differs."""
    if cells is None:
        return None
    columns = [_known(get(values)) for get in cells.parts]
    total, count = _add(values, cells.sums), _add(values, cells.counts)
    known = [column for column in columns if column is not None]
    if total is None or count is None or len(known) < len(columns):
        return None
    cumulative = known[0] if len(known) == 1 else tuple(map(sum, zip(*known, strict=True)))
    if cumulative[-1] != count or cumulative[0] < 0 or total < 0 or tuple(sorted(cumulative)) != cumulative:
        return None
    return Histogram(cells.edges, cumulative, total, count)


def _known(column: tuple[float | None, ...]) -> tuple[float, ...] | None:
    return None if None in column else cast("tuple[float, ...]", column)


def _add(values: Values, lines: Iterable[int]) -> float | None:
    total = 0.0
    for line in lines:
        value = values[line]
        if value is None:
            return None
        total += value
    return total


def _part(series: Series) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in series.labels.items() if key not in _BUCKET_LABELS)


def _edge(text: str) -> float | None:
    try:
        edge = float(text)
    except ValueError:
        return None
    return None if edge != edge else edge
