"""The tables: typed mappings that stay inside the store. Importing this package knows them all."""

from monitor.store.tables import acting, asking, history, telling
from monitor.store.tables.base import Base

__all__ = ["Base", "acting", "asking", "history", "telling"]
