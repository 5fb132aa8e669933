"""Numbers of histogram edges: each set is stored once, intervals refer to it by number. It owns no interval."""

from __future__ import annotations

import json

from sqlalchemy import Connection, select

from monitor.errors import StoreError
from monitor.store.codec import to_json
from monitor.store.packing import Edges
from monitor.store.records import new_rows
from monitor.store.tables.history import HistogramEdgesRow


class EdgesCache:
    """What a store knows of the table for sure, that is, from transactions that were committed."""

    def __init__(self) -> None:
        self.numbers: dict[Edges, int] = {}
        self.edges: dict[int, Edges] = {}


class UnitEdges:
    """The table within one transaction. What it learns reaches the cache by `keep`, once that has committed."""

    def __init__(self, connection: Connection, cache: EdgesCache) -> None:
        self._connection = connection
        self._cache = cache
        self._numbers: dict[Edges, int] = {}
        self._edges: dict[int, Edges] = {}

    def number(self, edges: Edges) -> int:
        """The number of `edges`, given now where they are new."""
        found = self._cache.numbers.get(edges) or self._numbers.get(edges)
        return found if found is not None else self._store(edges)

    def edges(self, number: int) -> Edges:
        """The edges of that number. Raises StoreError where it is not in the table."""
        found = self._cache.edges.get(number) or self._edges.get(number)
        return found if found is not None else self._load(number)

    def keep(self) -> None:
        """The transaction has committed: what it saw is true for the next ones."""
        self._cache.numbers.update(self._numbers)
        self._cache.edges.update(self._edges)

    def _store(self, edges: Edges) -> int:
        text = to_json(edges)
        insert = new_rows(self._connection.dialect.name, HistogramEdgesRow)
        self._connection.execute(insert.values(edges=text).on_conflict_do_nothing())
        where = HistogramEdgesRow.edges == text
        number: int = self._connection.execute(select(HistogramEdgesRow.number).where(where)).scalar_one()
        self._numbers[edges] = number
        return number

    def _load(self, number: int) -> Edges:
        for known, text in self._connection.execute(select(HistogramEdgesRow.number, HistogramEdgesRow.edges)):
            self._edges[known] = tuple(map(float, json.loads(text)))
        if number not in self._edges:
            raise StoreError(f"an interval refers to the histogram edges {number}, which table histogram_edges lacks")
        return self._edges[number]
