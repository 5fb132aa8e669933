"""What a page says: which series on which lines (the layout) and their values now. It parses nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a page: its name as printed, its labels, and the line its value stands on."""

    name: str
    labels: Mapping[str, str]
    line: int


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Layout:
    """What does not change from page to page: the series, where they stand, and the types declared.

    Pages of one server share one layout object as long as their series stand on the same lines, so a reader may keep
    what it worked out for a layout and look only at values afterwards (compare with `is`).
    """

    series: tuple[Series, ...]
    #: Family name to type, as the TYPE lines say.
    types: Mapping[str, str]
    #: Every sample name on the page, also of series that nobody asked for.
    names: frozenset[str]
    #: Lines of the same series, for series that stand on the page more than once.
    duplicates: tuple[tuple[int, ...], ...] = ()
    #: Families with more than one TYPE line, which no single server prints: pages were joined into one.
    redeclared: frozenset[str] = frozenset()

    def find(self, name: str) -> list[Series]:
        """The series of that exact name, in page order."""
        return [series for series in self.series if series.name == name]


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One page: a layout and the value on each line (None where it is no finite number, or contradicted).

    `conflicting` holds the lines of series printed twice with different values: their value is None.
    """

    layout: Layout
    values: Sequence[float | None]
    openmetrics: bool = False
    conflicting: frozenset[int] = frozenset()
    #: What stands behind name and labels, per line.
    _tails: Sequence[bytes] = field(default=(), repr=False)

    def samples(self, name: str) -> list[tuple[Mapping[str, str], float | None]]:
        """Labels and value of every series of that exact name, each once, in page order."""
        return [(series.labels, self.values[series.line]) for series in self.layout.find(name)]

    def __iter__(self) -> Iterator[tuple[str, Mapping[str, str], float | None]]:
        for series in self.layout.series:
            yield series.name, series.labels, self.values[series.line]

    def token(self, line: int) -> str:
        """The value on a line as it was printed: tells `1.20457e+06` from 1204570, and `-nan` from `n/a`."""
        tokens = self._tails[line].split(None, 1)
        return tokens[0].decode("utf-8", "replace") if tokens else ""

    def is_bad(self, line: int) -> bool:
        """Whether the value on a line was lost: an infinity, no number, or two different ones. NaN is not lost."""
        if self.values[line] is not None:
            return False
        return line in self.conflicting or self.token(line).lstrip("+-").lower() != "nan"
