"""Addresses of stores: which are understood, and that a wrong one is named without its password."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.errors import StoreError
from monitor.store import Store, open_readonly, open_store
from tests.fakes.memory_store import MemoryStore


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:////var/lib/acceptd/local.db", "database file /var/lib/acceptd/local.db"),
        ("sqlite:///local.db", "database file local.db"),
        ("postgresql+psycopg://u:hunter2@db.example:5432/acceptd", "postgresql+psycopg://u:***@db.example:5432/acceptd"),
        ("postgresql://u:hunter2@db.example/acceptd?sslmode=require", "postgresql+psycopg://u:***@db.example/acceptd"),
    ],
)
def test_a_store_is_named_without_its_password(url: str, name: str) -> None:
    store: Store = open_store(url)
    assert store.name.endswith(name)
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hunter2",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        "mysql://u:hunter2@db/acceptd",
        "postgresql://u:hunter2@db:port/acceptd",
        "://hunter2",
    ],
)
def test_another_address_is_refused_with_what_is_expected(url: str) -> None:
    with pytest.raises(StoreError, match=r"expected sqlite:////path/to/file\.db or postgresql") as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


def test_every_store_is_a_store() -> None:
    """mypy compares each method with the protocol; here, that none is missing at run time."""
    stores: list[Store] = [open_store("sqlite:///x.db"), open_readonly(Path("x.db")), MemoryStore()]
    wanted = {name for name in dir(Store) if not name.startswith("_")}
    for store in stores:
        assert wanted <= set(dir(store))
