"""Commands for the store: its schema, size, health, and copies of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, TextColumn

from monitor.cli.context import LOCAL_DB, Context
from monitor.cli.fleet import shared_store
from monitor.cli.looking import Json
from monitor.cli.output import console, errors, print_json, table
from monitor.cli.recovering import db_recover, remove
from monitor.clock import SystemClock
from monitor.errors import ConfigError, MonitorError, Problem, StoreError
from monitor.notify.words import duration_words
from monitor.store.opening import open_readonly, open_store
from monitor.store.sql import SqlStore

db = typer.Typer(help="The store: schema, size, health, copies.", no_args_is_help=True, rich_markup_mode=None)

Shared = Annotated[bool, typer.Option("--shared", help="The fleet's database (`store.shared`), not the local file.")]


@db.command("upgrade")
def db_upgrade(ctx: typer.Context, shared: Shared = False, as_json: Json = False) -> None:
    """Bring the store's tables to this version; a backup of a local file is kept first."""
    context: Context = ctx.obj
    if not shared:
        folder = context.folder()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        except OSError as error:
            raise MonitorError(f"{folder}: cannot be made ({error.strerror})") from error
    with _writing(context, shared) as store:
        steps = store.upgrade()
        # Else what comes before the night would wait outside its day until then.
        store.make_days(SystemClock().now())
        revision = store.revision()
        name = store.name if shared else str(context.folder() / LOCAL_DB)
    if as_json:
        print_json({"store": name, "steps": steps, "revision": revision})
    else:
        done = f"{len(steps)} step{'s' if len(steps) != 1 else ''}" if steps else "nothing to do"
        console.print(f"{name}: {done}, now at revision {revision}", markup=False, soft_wrap=True)


@db.command("size")
def db_size(ctx: typer.Context, shared: Shared = False, as_json: Json = False) -> None:
    """How big the store is, how old its rows are, and how far rollups are behind."""
    context: Context = ctx.obj
    with _reading(context, shared) as store:
        sizes, ages, lags = store.sizes(), {age.table: age for age in store.ages()}, store.lags()
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "name": one.name, "rows": one.rows, "bytes": one.bytes,
                "oldest": _iso(ages[one.name].oldest) if one.name in ages else None,
                "newest": _iso(ages[one.name].newest) if one.name in ages else None,
            }
            for one in sizes.tables
        ]
        behind = [
            {"step_seconds": it.step_seconds, "server": it.server, "until": _iso(it.until), "newest": _iso(it.newest)}
            for it in lags
        ]
        print_json({"total_bytes": sizes.total_bytes, "tables": rows, "rollups": behind})
        return
    now = SystemClock().now()
    rows_text = [
        [
            one.name, f"{one.rows:,}", "–" if one.bytes is None else f"{one.bytes / 1024:,.0f}",
            _age(ages[one.name].oldest if one.name in ages else None, now),
            _age(ages[one.name].newest if one.name in ages else None, now),
        ]
        for one in sizes.tables
    ]
    console.print(table(("table", "rows", "KiB", "oldest", "newest"), rows_text, right=(1, 2, 3, 4)))
    console.print(f"total {sizes.total_bytes / 1024:,.0f} KiB")
    for lag in lags:
        behind_by = duration_words((lag.newest - lag.until).total_seconds())
        console.print(f"rollups over {lag.step_seconds} s: at most {behind_by} behind ({lag.server})", markup=False)


@db.command("check")
def db_check(ctx: typer.Context, shared: Shared = False, as_json: Json = False) -> None:
    """Check that the schema fits and that the database finds nothing wrong with itself; reads every row."""
    context: Context = ctx.obj
    problems: list[str] = []
    with _reading(context, shared) as store:
        name = store.name
        try:
            store.check()
            problems = store.faults()
        except StoreError as error:
            problems = [str(error)]
    if as_json:
        print_json({"store": name, "ok": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            console.print(problem, style="red", markup=False, soft_wrap=True)
        console.print("What to do: docs/operations.md, A damaged database file.", soft_wrap=True)
    else:
        console.print(f"{name}: fine", markup=False, soft_wrap=True)
    if problems:
        raise typer.Exit(1)


db.command("recover")(db_recover)


@db.command("export")
def db_export(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="File to write; it becomes a whole store of its own (SQLite).")],
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Copy the whole store into a file, as of one moment, with the daemon up or down: a backup, or a way to move."""
    context: Context = ctx.obj
    if file.exists():
        raise ConfigError([Problem("FILE", f"{str(file)!r}, which exists", "a new file")])
    unfinished = file.with_name(f"{file.name}.unfinished")
    remove(unfinished)
    try:
        with _reading(context, shared) as source, closing(open_store(f"sqlite:///{unfinished.absolute()}")) as target:
            target.upgrade()
            with _shown() as progress:
                copied = target.copy_from(source, progress)
        # Closed, so that its write-ahead log is folded into it.
        unfinished.replace(file)
    finally:
        remove(unfinished)
    _say_copied(f"written to {file}", copied, as_json)


@db.command("import")
def db_import(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file of `db export`, or a daemon's local.db.")],
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Take over what a file has and the store has not; doing it twice adds nothing."""
    context: Context = ctx.obj
    if not file.is_file():
        raise ConfigError([Problem("FILE", f"{str(file)!r}, which is not there", "a file of `acceptd db export`")])
    with closing(open_readonly(file)) as source, _writing(context, shared) as target:
        if source.revision() != target.revision():
            raise StoreError(
                f"{source.name} is at revision {source.revision()}, {target.name} at {target.revision()}:"
                " bring both to the same one with `acceptd db upgrade` of one version"
            )
        with _shown() as progress:
            copied = target.copy_from(source, progress)
        # Until what came late is in them, reports would lack what only rollups have.
        target.roll_up(SystemClock().now())
        name = target.name
    _say_copied(f"taken over into {name}", copied, as_json)


def _say_copied(what: str, copied: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json({"rows": sum(copied.values()), "tables": copied})
        return
    rows = sum(copied.values())
    console.print(f"{rows:,} row{'s' if rows != 1 else ''} {what}", markup=False, soft_wrap=True)


@contextmanager
def _shown() -> Iterator[Callable[[str, int], None]]:
    """What tells of the rows of a table that were copied, on a line that goes away, where somebody watches."""
    with Progress(
        TextColumn("{task.description}"), console=errors, transient=True, disable=not errors.is_terminal
    ) as line:  # fmt: skip
        task = line.add_task("copying")
        yield lambda name, rows: line.update(task, description=f"{name}: {rows:,} rows")


@contextmanager
def _reading(context: Context, shared: bool) -> Iterator[SqlStore]:
    if shared:
        with shared_store(context) as store:
            yield store
        return
    with context.reading() as store:
        yield store


@contextmanager
def _writing(context: Context, shared: bool) -> Iterator[SqlStore]:
    if shared:
        with shared_store(context) as store:
            yield store
        return
    with closing(open_store(f"sqlite:///{context.folder() / LOCAL_DB}")) as store:
        yield store


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _age(moment: datetime | None, now: datetime) -> str:
    return "–" if moment is None else duration_words((now - moment).total_seconds())
