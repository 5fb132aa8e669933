"""The schema: from nothing, from every revision with data, back, and between versions of acceptd; on both databases."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import make_url, text

from monitor.errors import StoreError
from monitor.shipped import migrations_folder
from monitor.store import Store, open_store
from monitor.store.database import Database
from monitor.store.postgres import PostgresDatabase
from monitor.store.schema import Schema
from monitor.store.sqlite import SqliteDatabase
from tests.integration.postgres import PostgresServer
from tests.integration.store.values import (
    T0,
    alert,
    at,
    change,
    decision,
    head,
    interval,
    life,
    notice,
    reading,
    rollout,
)

Opener = Callable[..., Store]

#: A revision as a later version of acceptd might ship it: a column more, and a table rebuilt on SQLite.
NEXT = '''
import sqlalchemy as sa
from alembic import op

revision = "{number}"
down_revision = "{before}"


def upgrade() -> None:
    with op.batch_alter_table("rollouts") as batch:
        batch.add_column(sa.Column("colour_{number}", sa.Text(), nullable=True))
        batch.alter_column("sentence", existing_type=sa.Text(), server_default="")


def downgrade() -> None:
    with op.batch_alter_table("rollouts") as batch:
        batch.alter_column("sentence", existing_type=sa.Text(), server_default=None)
        batch.drop_column("colour_{number}")
'''


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/data/local.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url(server.new_database())


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """Migrations of a version of acceptd one revision ahead of this one."""
    return newer(tmp_path, 1)


def newer(tmp_path: Path, revisions: int) -> Path:
    folder = tmp_path / f"ahead-{revisions}"
    shutil.copytree(migrations_folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = newest()
    for _ in range(revisions):
        number = f"{int(before) + 1:04d}"
        (folder / "versions" / f"{number}_later.py").write_text(NEXT.format(number=number, before=before))
        before = number
    return folder


def newest() -> str:
    return Schema().pending(None)[-1]


@pytest.fixture
def opener() -> Iterator[Opener]:
    """Opens stores and closes them when the test ends."""
    stores: list[Store] = []

    def opener(url: str, migrations: Path | None = None) -> Store:
        stores.append(open_store(url, migrations=migrations))
        return stores[-1]

    yield opener
    for store in stores:
        store.close()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """The database at `url`, below the store."""
    parsed = make_url(url)
    path = Path(parsed.database or "")
    database: Database = SqliteDatabase(path) if url.startswith("sqlite") else PostgresDatabase(parsed)
    database.create()
    yield database
    database.close()


def fill(store: Store) -> None:
    """A row in every table that others refer to."""
    with store.write() as unit:
        unit.lives.add(life())
        unit.heads.put([head(life())])
        unit.intervals.add([interval(life(), 15)])
        unit.readings.put(reading())
        unit.decisions.add(decision("1"))
        unit.rollouts.add(rollout("r"))
        unit.changes.add([change("c", rollout("r"))])
        unit.alerts.put([alert("X")])
        unit.outbox.queue(notice("n"), ["slack"], T0)


def assert_filled(store: Store) -> None:
    with store.read() as unit:
        assert unit.lives.get(life().id) == life()
        assert unit.heads.get(life().id) == head(life())
        assert unit.intervals.between(None, T0, at(15)) == [interval(life(), 15)]
        assert unit.readings.all() == [reading()]
        assert unit.decisions.latest(decision("1").group) == [decision("1")]
        assert unit.rollouts.active() == [rollout("r")]
        assert unit.changes.of_rollout(rollout("r").id) == [change("c", rollout("r"))]
        assert unit.alerts.all() == [alert("X")]
        assert [n for n, _ in unit.outbox.due(T0, 9)] == [notice("n")]


def test_an_empty_database_is_brought_to_the_newest_revision_once(url: str, opener: Opener) -> None:
    store = opener(url)
    applied = store.upgrade()
    assert applied == Schema().pending(None)
    assert store.revision() == newest()
    assert store.upgrade() == []
    store.check()


def test_revisions_and_the_revision_are_what_alembic_says(database: Database) -> None:
    """Both are read without it, so that a daemon need not load it."""
    schema = Schema()
    with database.migrating() as connection:
        config = schema.config(connection)
        walked = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]
        assert schema.pending(None) == walked
        for revision in (walked[0], walked[-1]):
            command.upgrade(config, revision)
            assert MigrationContext.configure(connection).get_current_revision() == revision
            assert schema.revision(connection) == revision


def test_tables_and_migrations_agree(database: Database) -> None:
    """`alembic check`: a table changed without a revision fails here."""
    schema = Schema()
    with database.migrating() as connection:
        schema.upgrade(connection, before=lambda revision: None)
        command.check(schema.config(connection))


def test_the_check_sees_a_column_without_a_revision(database: Database) -> None:
    schema = Schema()
    with pytest.raises(Exception, match="New upgrade operations detected"), database.migrating() as connection:
        schema.upgrade(connection, before=lambda revision: None)
        connection.execute(text("ALTER TABLE lives DROP COLUMN engine_version"))
        command.check(schema.config(connection))


def test_every_revision_leads_back(database: Database) -> None:
    schema = Schema()
    for _ in range(2):
        with database.migrating() as connection:
            schema.upgrade(connection, before=lambda revision: None)
        with database.migrating() as connection:
            command.downgrade(schema.config(connection), "base")
            assert schema.revision(connection) is None


@pytest.mark.parametrize("revision", Schema().pending(None))
def test_data_of_every_revision_outlive_the_way_to_the_newest(
    url: str, tmp_path: Path, opener: Opener, revision: str
) -> None:
    """Rows are written by today's code: where that needs a column, say here how an older one wrote them."""
    folder = tmp_path / "until"
    shutil.copytree(migrations_folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    for script in (folder / "versions").iterdir():
        if script.name[:4] > revision:
            script.unlink()
    old = opener(url, migrations=folder)
    old.upgrade()
    assert old.revision() == revision
    fill(old)
    old.close()
    new = opener(url)
    assert new.upgrade() == Schema().pending(revision)
    new.check()
    assert_filled(new)


def test_data_outlive_an_upgrade(url: str, later: Path, opener: Opener) -> None:
    old = opener(url)
    old.upgrade()
    fill(old)
    old.close()
    new = opener(url, migrations=later)
    with pytest.raises(StoreError, match="acceptd db upgrade"):
        new.check()
    assert new.upgrade() == [f"{int(newest()) + 1:04d}"]
    new.check()
    assert_filled(new)
    with pytest.raises(StoreError), new.write() as unit:
        unit.changes.add([change("orphan", rollout("none"))])


def test_a_daemon_works_with_a_schema_one_revision_newer(url: str, later: Path, opener: Opener) -> None:
    new = opener(url, migrations=later)
    new.upgrade()
    new.close()
    old = opener(url)
    old.check()
    assert old.upgrade() == []
    fill(old)
    assert_filled(old)


def test_a_schema_two_revisions_newer_is_refused_and_left_alone(
    url: str, tmp_path: Path, opener: Opener
) -> None:
    new = opener(url, migrations=newer(tmp_path, 2))
    new.upgrade()
    revision = new.revision()
    new.close()
    old = opener(url)
    for refuse in (old.check, old.upgrade):
        with pytest.raises(StoreError, match=rf"{revision}.*knows {newest()}.*install a newer acceptd"):
            refuse()
    assert old.revision() == revision


def test_a_revision_that_is_not_ours_is_refused(url: str, database: Database, opener: Opener) -> None:
    store = opener(url)
    store.upgrade()
    with database.migrating() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'beef'"))
    with pytest.raises(StoreError, match="'beef'"):
        store.check()


def test_a_failed_upgrade_changes_nothing(url: str, later: Path, opener: Opener) -> None:
    script = next((later / "versions").glob("*_later.py"))
    broken = "    op.execute(\"no such thing\")\n\n\ndef downgrade"
    script.write_text(script.read_text().replace("\n\ndef downgrade", broken))
    old = opener(url)
    old.upgrade()
    fill(old)
    with pytest.raises(StoreError):
        opener(url, migrations=later).upgrade()
    old.check()
    assert_filled(old)


def test_a_store_without_tables_says_what_to_do(url: str, opener: Opener) -> None:
    store = opener(url)
    with pytest.raises(StoreError, match="acceptd db upgrade"):
        store.check()
    with pytest.raises(StoreError, match="acceptd db upgrade"), store.read() as unit:
        unit.lives.get(life().id)


def test_two_upgrades_at_once_apply_each_revision_once(url: str, opener: Opener) -> None:
    stores = [opener(url), opener(url)]
    with ThreadPoolExecutor(2) as pool:
        applied = list(pool.map(lambda store: store.upgrade(), stores))
    assert sorted(applied) == [[], Schema().pending(None)]


class TestBackup:
    """The embedded file is copied before a migration changes it."""

    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "data" / "local.db"

    def test_nothing_is_copied_when_nothing_changes(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{self.path(tmp_path)}")
        store.upgrade()
        store.upgrade()
        store.close()
        assert [file.name for file in self.path(tmp_path).parent.iterdir()] == ["local.db"]

    def test_the_copy_is_the_whole_database_before_the_migration(self, tmp_path: Path, later: Path) -> None:
        path = self.path(tmp_path)
        store = open_store(f"sqlite:///{path}")
        store.upgrade()
        fill(store)
        # The store stays open: what it wrote is still in the WAL and must be in the copy.
        new = open_store(f"sqlite:///{path}", migrations=later)
        new.upgrade()
        new.close()
        store.close()
        copy = path.with_name(f"local.db.from-{newest()}")
        assert stat.S_IMODE(copy.stat().st_mode) == 0o640
        restored = open_store(f"sqlite:///{copy}")
        restored.check()
        assert_filled(restored)
        restored.close()
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    def test_without_a_copy_nothing_is_upgraded(self, tmp_path: Path, later: Path) -> None:
        path = self.path(tmp_path)
        store = open_store(f"sqlite:///{path}")
        store.upgrade()
        store.close()
        path.with_name(f"local.db.from-{newest()}").mkdir()
        new = open_store(f"sqlite:///{path}", migrations=later)
        with pytest.raises(StoreError, match="no backup"):
            new.upgrade()
        assert new.revision() == newest()
        new.close()
        assert not list(path.parent.glob("*.unfinished"))
