"""What all pages of a process have in common: line heads, their series, and layouts. It reads no values.

A thousand servers of one model print the same names and labels; keeping each of them once is what makes remembering
pages cheap in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from monitor.exposition.line import parse_head
from monitor.exposition.page import Layout, Series

#: Heads kept before all are forgotten and learned again: bounds what pages with ever new label values can cost.
MAX_HEADS = 100_000


@dataclass(frozen=True, slots=True)
class KnownHead:
    """A line head met before: the bytes before the value, and what they say (labels None: not wanted)."""

    prefix: bytes
    name: str
    labels: Mapping[str, str] | None


class Lines(list[bytes]):
    """What stands before the values of a page, line by line; never changed. A plain list cannot be held weakly."""


@dataclass(slots=True)
class Vocabulary:
    """Shared memory of page readers; safe to share between threads, since losing an entry only costs time.

    `wanted` says by its name whether a series is read at all.
    """

    wanted: Callable[[str], bool] = field(default=lambda name: True)
    _heads: dict[bytes, KnownHead] = field(default_factory=dict)
    _comments: dict[bytes, bytes] = field(default_factory=dict)
    #: Only those that a reader still holds: pages with ever new labels would otherwise fill memory with layouts.
    _layouts: WeakValueDictionary[object, Layout] = field(default_factory=WeakValueDictionary)
    #: By their hash: a key of its own would be as long as they are.
    _lines: WeakValueDictionary[int, Lines] = field(default_factory=WeakValueDictionary)

    def head(self, line: bytes) -> KnownHead:
        """The head of a sample line.

        Raises:
            ValueError: the line is no sample line.
        """
        # The last brace ends the labels, the first blank a bare name; with an exemplar or a tab neither is found in
        # the memory and the line is parsed with care every time.
        prefix = line[: line.rfind(b"}") + 1] or line[: line.find(b" ") + 1]
        known = self._heads.get(prefix)
        return known if known is not None else self._learn(line)

    def comment(self, line: bytes) -> bytes:
        """One shared copy of a comment line."""
        if len(self._comments) > MAX_HEADS:
            self._comments.clear()
        return self._comments.setdefault(line, line)

    def lines(self, prefixes: Iterable[bytes]) -> Lines:
        """What stands before the values of a page: the same object for pages that are the same but for their values."""
        made = Lines(prefixes)
        known = self._lines.setdefault(hash(tuple(made)), made)
        return known if known == made else made

    def layout(
        self, heads: Sequence[KnownHead | None], types: Mapping[str, str], redeclared: frozenset[str] = frozenset()
    ) -> Layout:
        """The layout of a page with these heads on its lines: the same object for pages with the same series."""
        wanted = tuple((line, head.prefix) for line, head in enumerate(heads) if head and head.labels is not None)
        names = frozenset(head.name for head in heads if head)
        key = (wanted, names, frozenset(types.items()), redeclared)
        known = self._layouts.get(key)
        if known is None:
            known = self._layouts[key] = _lay_out(heads, types, names, redeclared)
        return known

    def _learn(self, line: bytes) -> KnownHead:
        text = line.decode()
        head = parse_head(text)
        prefix = text[: head.end].encode()
        if len(self._heads) > MAX_HEADS:
            self._heads.clear()
        known = KnownHead(prefix, head.name, head.labels if self.wanted(head.name) else None)
        return self._heads.setdefault(prefix, known)


def _lay_out(
    heads: Sequence[KnownHead | None], types: Mapping[str, str], names: frozenset[str], redeclared: frozenset[str]
) -> Layout:
    series: list[Series] = []
    seen: dict[tuple[str, frozenset[tuple[str, str]]], list[int]] = {}
    for line, head in enumerate(heads):
        if head is None or head.labels is None:
            continue
        lines = seen.setdefault((head.name, frozenset(head.labels.items())), [])
        if not lines:
            series.append(Series(head.name, head.labels, line))
        lines.append(line)
    duplicates = tuple(tuple(lines) for lines in seen.values() if len(lines) > 1)
    return Layout(tuple(series), dict(types), names, duplicates, redeclared)
