"""Addresses of stores: which are understood, and that a wrong one is named without its password."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from sqlalchemy import make_url

from monitor.errors import StoreError
from monitor.store import Store, open_readonly, open_store
from monitor.store.postgres import tls
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


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://u@db.example/acceptd", "verify-full"),
        ("postgresql://u@10.0.0.7/acceptd", "verify-full"),
        ("postgresql:///acceptd?host=db1,db2", "verify-full"),
        ("postgresql:///acceptd?host=/run/postgresql&host=db2", "verify-full"),
        ("postgresql://u@localhost/acceptd", None),
        ("postgresql://u@127.0.0.1:5433/acceptd", None),
        ("postgresql://u@[::1]/acceptd", None),
        ("postgresql:///acceptd", None),
        ("postgresql:///acceptd?host=/run/postgresql", None),
        ("postgresql://u@db.example/acceptd?sslmode=require", None),
        ("postgresql://u@db.example/acceptd?service=fleet", None),
    ],
)
def test_a_database_over_a_network_must_prove_who_it_is(
    url: str, mode: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PGSSLMODE", "PGSSLROOTCERT", "PGHOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = tls(make_url(url))
    assert made == ({} if mode is None else {"sslmode": mode, "sslrootcert": DEFAULT_CA_BUNDLE_PATH})


def test_libpq_s_own_settings_of_tls_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = make_url("postgresql://u@db.example/acceptd")
    monkeypatch.delenv("PGSSLMODE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tls(url.update_query_dict({"sslrootcert": "/ca.pem"})) == {"sslmode": "verify-full"}
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").touch()
    assert tls(url) == {"sslmode": "verify-full"}
    monkeypatch.setenv("PGSSLMODE", "prefer")
    assert tls(url) == {}


def test_nothing_is_told_to_a_database_that_offers_no_tls() -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    # Eight bytes ask for TLS; N is no (PostgreSQL, Message Flow, SSL Session Encryption).
                    heard.append(connection.recv(8))
                    connection.sendall(b"N")
                    heard.append(connection.recv(100))

        thread = threading.Thread(target=refuse)
        thread.start()
        address = f"postgresql://u@db.example:{listener.getsockname()[1]}/acceptd?hostaddr=127.0.0.1&gssencmode=disable"
        for more in ("", "&sslmode=prefer"):
            store = open_store(address + more)
            with pytest.raises(StoreError, match="cannot be reached") as caught:
                store.revision()
            store.close()
            assert ("SSL" in str(caught.value)) == (not more)
        thread.join()
    asks, told, _, told_after_all = heard
    assert asks == bytes.fromhex("0000000804d2162f") and told == b""
    assert b"acceptd" in told_after_all


def test_every_store_is_a_store() -> None:
    """mypy compares each method with the protocol; here, that none is missing at run time."""
    stores: list[Store] = [open_store("sqlite:///x.db"), open_readonly(Path("x.db")), MemoryStore()]
    wanted = {name for name in dir(Store) if not name.startswith("_")}
    for store in stores:
        assert wanted <= set(dir(store))
