"""Values of the model in and out of one table: the statements that every repository needs. It owns no table.

A table holds one class of values: a field has the mapped attribute of its name, whose type converts both ways. Fields
that have none yet lie together in the column `more`, as JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar, get_type_hints

from sqlalchemy import (
    ColumnElement,
    Compiled,
    Connection,
    Dialect,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from monitor.errors import StoreError
from monitor.store.codec import codec, to_json
from monitor.store.tables.base import Record

Value = TypeVar("Value")


def new_rows(dialect: str, table: Any) -> Any:
    """An INSERT in the words of `dialect`, both of which know ON CONFLICT."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


class Shape(Generic[Value]):
    """How values of one class lie in one table; made once, since making statements costs more than running them."""

    def __init__(self, model: type[Value], row: type[Record]) -> None:
        mapper = inspect(row)
        names = [field.name for field in dataclasses.fields(model)]  # type: ignore[arg-type]
        self.model = model
        self.table: Table = mapper.local_table  # type: ignore[assignment]
        self.names = tuple(name for name in names if name in mapper.attrs)
        self.columns = (*(mapper.attrs[name].columns[0] for name in self.names), self.table.c.more)
        self._more = {name: codec(kind) for name, kind in get_type_hints(model).items() if name not in self.names}
        self.key = tuple(self.table.primary_key)
        self.select: Select[Any] = select(*self.columns)
        self.update = self._make_update()
        self._puts: dict[str, Compiled] = {}

    def values(self, value: Value) -> dict[str, Any]:
        """Column values of `value`."""
        values = {column.name: getattr(value, name) for name, column in zip(self.names, self.columns, strict=False)}
        more = {name: encode(getattr(value, name)) for name, (encode, _) in self._more.items()}
        values["more"] = to_json(more) if more else None
        return values

    def build(self, row: Sequence[Any]) -> Value:
        """The value of a selected row; a field that the row lacks has its default."""
        fields = dict(zip(self.names, row, strict=False))
        if self._more and row[-1] is not None:
            more = json.loads(row[-1])
            fields |= {name: decode(more[name]) for name, (_, decode) in self._more.items() if name in more}
        return self.model(**fields)

    def put(self, dialect: Dialect) -> Any:
        """Insert, or replace the row of that key; compiled here, since SQLAlchemy keeps no ON CONFLICT compiled."""
        known = self._puts.get(dialect.name)
        if known is None:
            insert = new_rows(dialect.name, self.table)
            rest = {column.name: insert.excluded[column.name] for column in self.columns if column not in self.key}
            insert = insert.on_conflict_do_update(index_elements=self.key, set_=rest)
            names = [column.name for column in self.columns]
            known = self._puts[dialect.name] = insert.compile(dialect=dialect, column_keys=names)
        return known

    def parameters(self, values: dict[str, Any]) -> dict[str, Any]:
        """Parameters of `update`: the values, and the key once more under the names that its condition uses."""
        return values | {f"old_{column.name}": values[column.name] for column in self.key}

    def _make_update(self) -> Update:
        key = [column == bindparam(f"old_{column.name}", type_=column.type) for column in self.key]
        return update(self.table).where(*key).values({c.name: bindparam(c.name, type_=c.type) for c in self.columns})


_SHAPES: dict[tuple[Any, Any], Shape[Any]] = {}


def shape(model: type[Value], row: type[Record]) -> Shape[Value]:
    """The shape of `model` in the table of `row`, made at its first use."""
    known = _SHAPES.get((model, row))
    if known is None:
        known = _SHAPES[model, row] = Shape(model, row)
    return known


class Records(Generic[Value]):
    """Values of one class in one transaction."""

    def __init__(self, connection: Connection, model: type[Value], row: type[Record]) -> None:
        self._connection = connection
        self._shape: Shape[Value] = shape(model, row)

    def insert(self, values: Iterable[Value]) -> None:
        """Store new values; a known key is refused by the database."""
        rows = [self._shape.values(value) for value in values]
        if rows:
            self._connection.execute(self._shape.table.insert(), rows)

    def insert_if_new(self, value: Value) -> bool:
        """Store a value unless a unique key of it is known; whether it was stored."""
        insert = new_rows(self._connection.dialect.name, self._shape.table).on_conflict_do_nothing()
        # Not by rowcount, which drivers need not know of an INSERT.
        result = self._connection.execute(insert.returning(*self._shape.key), self._shape.values(value))
        return result.first() is not None

    def put(self, values: Iterable[Value]) -> None:
        """Store values, each in place of the one with its key.

        In the order of their keys: two transactions that put the same rows then never wait for each other in a circle.
        """
        rows = [self._shape.values(value) for value in values]
        if rows:
            names = [column.name for column in self._shape.key]
            rows.sort(key=lambda row: [row[name] for name in names])
            self._connection.execute(self._shape.put(self._connection.dialect), rows)

    def replace(self, value: Value, words: str) -> None:
        """Replace the row with the key of `value`, which `words` name. Raises StoreError where there is none."""
        result = self._connection.execute(self._shape.update, self._shape.parameters(self._shape.values(value)))
        if result.rowcount == 0:
            raise StoreError(f"cannot update {words}: it is not in the store")

    def one(self, *where: ColumnElement[bool]) -> Value | None:
        """The value that meets the conditions, which name a key; None where there is none."""
        row = self._connection.execute(self._shape.select.where(*where)).first()
        return None if row is None else self._shape.build(row)

    def many(self, *where: ColumnElement[bool], order: Sequence[Any], limit: int | None = None) -> list[Value]:
        """All values that meet the conditions, in that order."""
        statement = self._shape.select.where(*where).order_by(*order).limit(limit)
        return [self._shape.build(row) for row in self._connection.execute(statement)]

    def change(self, where: Sequence[ColumnElement[bool]], **values: Any) -> int:
        """Set some columns of the rows that meet the conditions; the number of rows."""
        return self._connection.execute(update(self._shape.table).where(*where).values(values)).rowcount

    def remove(self, *where: ColumnElement[bool]) -> int:
        """Delete the rows that meet the conditions; their number."""
        return self._connection.execute(delete(self._shape.table).where(*where)).rowcount
