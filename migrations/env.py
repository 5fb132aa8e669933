"""Alembic's environment: runs revisions in the transaction that `monitor/store/schema.py` hands over.

Revisions are numbered without gaps from 0001, add first, and take away only what no supported version reads any more.
`draft.py` writes the next one.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext

from monitor.store.columns import Moment, Nested, PlainText, Word
from monitor.store.tables import Base


def render_item(kind: str, item: Any, autogen_context: AutogenContext) -> str | Literal[False]:
    """Column types as the plain types they are in the database: a revision must not change with our code."""
    if kind == "type" and isinstance(item, Moment):
        return "MOMENT"
    if kind == "type" and isinstance(item, (PlainText, Word, Nested)):
        return "sa.Text()"
    return False


def include_name(name: str | None, kind: str, parents: Any) -> bool:
    """Whether a table of the database is looked at: its days are parts of tables that are."""
    return kind != "table" or re.fullmatch(r"(intervals|interval_details)_(\d{8}|default)", name or "") is None


connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    compare_type=True,
    render_item=render_item,
    include_name=include_name,
    # SQLite cannot alter most of a table: Alembic then copies it into a new one.
    render_as_batch=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
