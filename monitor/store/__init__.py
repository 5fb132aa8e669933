"""The store: everything acceptd remembers, in SQLite or PostgreSQL. Values in, values out; tables stay inside."""

from monitor.store.api import (
    ActiveRolloutExists,
    LifeTotals,
    Retention,
    Sizes,
    Store,
    TableSize,
    Unit,
)
from monitor.store.opening import open_readonly, open_store
from monitor.store.refusals import StoreAway, StoreBusy

__all__ = [
    "ActiveRolloutExists",
    "LifeTotals",
    "Retention",
    "Sizes",
    "Store",
    "StoreAway",
    "StoreBusy",
    "TableSize",
    "Unit",
    "open_readonly",
    "open_store",
]
