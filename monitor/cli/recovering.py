"""`acceptd db recover`: a damaged database file made whole again, with what can be read of it."""

from __future__ import annotations

from pathlib import Path

import typer

from monitor.cli.context import LOCAL_DB, Absent, Context
from monitor.cli.looking import Json
from monitor.cli.output import console, print_json, table
from monitor.clock import SystemClock
from monitor.config.running import FolderLock
from monitor.store.salvage import Salvaged, salvage


def db_recover(ctx: typer.Context, as_json: Json = False) -> None:
    """Replace a damaged database file by what can be read of it; the damaged one is kept beside it."""
    context: Context = ctx.obj
    clock = SystemClock()
    path = context.folder() / LOCAL_DB
    if not path.is_file():
        raise Absent(f"{path}: no such file")
    lock = FolderLock(path.parent, clock)
    lock.acquire()
    try:
        fresh = path.with_name(f"{path.name}.recovering")
        remove(fresh)
        found = salvage(path, fresh)
        kept = path.with_name(f"{path.name}.damaged-{clock.now():%Y%m%dT%H%M%S}")
        _move(path, kept)
        _move(fresh, path)
    finally:
        lock.release()
    _tell(found, path, kept, as_json)


def remove(path: Path) -> None:
    """Remove a database file with its log, as far as they are there."""
    for file in (path, *_beside(path)):
        file.unlink(missing_ok=True)


def _move(path: Path, target: Path) -> None:
    """The file with its log, so that neither is ever read with another's."""
    for file, place in zip((path, *_beside(path)), (target, *_beside(target)), strict=True):
        if file.exists():
            file.replace(place)


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def _tell(found: list[Salvaged], path: Path, kept: Path, as_json: bool) -> None:
    if as_json:
        tables = [{"name": one.table, "rows": one.rows, "whole": one.whole} for one in found]
        print_json({"store": str(path), "damaged": str(kept), "tables": tables})
        return
    rows = [[one.table, f"{one.rows:,}", "" if one.whole else "in part"] for one in found if one.rows or not one.whole]
    console.print(table(("table", "rows", ""), rows, right=(1,)))
    console.print(f"{path}: recovered; the damaged file is kept as {kept}", markup=False, soft_wrap=True)
