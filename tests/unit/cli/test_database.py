"""Commands for the store: copies that are whole stores, checks that find damage, refusals that name the mistake."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.store import open_store
from tests.integration.store.values import T0, A, at, head, interval, life, reading
from tests.unit.cli.conftest import Run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with some history."""
    made = tmp_path / "data"
    fill(made)
    return made


def fill(folder: Path) -> None:
    store = open_store(f"sqlite:///{folder}/local.db")
    store.upgrade()
    born = life()
    with store.write() as unit:
        unit.lives.add(born)
        unit.heads.put([head(born, at(7200))])
        unit.intervals.add([interval(born, 15.0 * n) for n in range(1, 481)])
        unit.readings.put(reading())
    store.roll_up(at(7200))
    store.close()


def ends(path: Path) -> int:
    store = open_store(f"sqlite:///{path}")
    with store.read() as unit:
        found = len(unit.intervals.between([A], T0, at(1e6)))
    store.close()
    return found


def test_an_export_is_a_whole_store_and_can_take_the_place_of_the_file(
    acceptd: Run, folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "backup.db"
    said = acceptd("--data-dir", str(folder), "db", "export", str(copy))
    assert (said.code, "rows written to" in said.out, said.err) == (0, True, "")
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == ["backup.db"]
    assert copy.stat().st_mode & 0o777 == 0o640
    assert ends(copy) == 480
    restored = tmp_path / "restored"
    restored.mkdir()
    copy.rename(restored / "local.db")
    assert acceptd("--data-dir", str(restored), "db", "check").code == 0


def test_an_export_never_overwrites_and_leaves_nothing_half_done(acceptd: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "there.db").write_text("mine")
    said = acceptd("--data-dir", str(folder), "db", "export", str(tmp_path / "there.db"))
    assert said.code == 2 and "expected a new file" in said.err
    assert (tmp_path / "there.db").read_text() == "mine"
    said = acceptd("--data-dir", str(folder), "db", "export", str(tmp_path / "no/such/folder/x.db"))
    assert said.code != 0 or (tmp_path / "no/such/folder/x.db").is_file()
    assert acceptd("--data-dir", str(tmp_path / "none"), "db", "export", str(tmp_path / "y.db")).code == 3
    assert not (tmp_path / "y.db").exists()


def test_an_import_takes_over_once(acceptd: Run, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert acceptd("--data-dir", str(other), "db", "upgrade").code == 0
    for expected in (480, 0):
        said = acceptd("--data-dir", str(other), "db", "import", str(folder / "local.db"), "--json")
        assert said.code == 0
        assert json.loads(said.out)["tables"]["intervals"] == expected
    assert ends(other / "local.db") == 480
    said = acceptd("--data-dir", str(other), "db", "import", str(tmp_path / "nothing.db"))
    assert said.code == 2 and "expected a file of `acceptd db export`" in said.err


def test_an_import_of_another_revision_is_refused(acceptd: Run, folder: Path, tmp_path: Path) -> None:
    with sqlite3.connect(folder / "local.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.close()
    other = tmp_path / "other"
    acceptd("--data-dir", str(other), "db", "upgrade")
    said = acceptd("--data-dir", str(other), "db", "import", str(folder / "local.db"))
    assert said.code == 1 and "is at revision 0001" in said.err and "acceptd db upgrade" in said.err


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 60_000), "malformed"),
        (lambda path: path.write_text("no database, but long enough to be looked at" * 9), "no SQLite database"),
        (lambda path: sqlite3.connect(path).executescript("PRAGMA foreign_keys=OFF; DELETE FROM lives"), "refers to"),
        (lambda path: sqlite3.connect(path).executescript("DROP TABLE alembic_version"), "no tables yet"),
    ],
    ids=["overwritten", "another file", "orphans", "no revision"],
)
def test_a_check_finds_damage(acceptd: Run, folder: Path, harm: Callable[[Path], object], words: str) -> None:
    assert acceptd("--data-dir", str(folder), "db", "check").out.endswith(": fine\n")
    harm(folder / "local.db")
    said = acceptd("--data-dir", str(folder), "db", "check")
    assert said.code == 1
    assert words in said.out + said.err


def test_sizes_have_ages_and_how_far_rollups_are_behind(acceptd: Run, folder: Path) -> None:
    said = acceptd("--data-dir", str(folder), "db", "size", "--json")
    tables = {table["name"]: table for table in json.loads(said.out)["tables"]}
    assert tables["intervals"]["rows"] == 480
    assert tables["intervals"]["oldest"] == at(15).isoformat()
    assert [lag["step_seconds"] for lag in json.loads(said.out)["rollups"]] == [300, 3600]
    said = acceptd("--data-dir", str(folder), "db", "size")
    assert "rollups over 300 s: at most" in said.out and "oldest" in said.out


@pytest.mark.parametrize("command", [("upgrade",), ("size",), ("check",), ("export", "x.db"), ("import", "{file}")])
def test_the_fleet_s_database_must_be_configured(
    acceptd: Run, folder: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    config = tmp_path / "acceptd.yaml"
    config.write_text("mode: observe\n")
    arguments = [part.format(file=folder / "local.db") for part in command]
    said = acceptd("--config", str(config), "db", *arguments, "--shared")
    assert said.code == 2 and "store.shared" in said.err
