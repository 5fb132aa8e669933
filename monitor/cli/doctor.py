"""`acceptd doctor`: looks at everything acceptd depends on and says what to do about each finding."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from monitor.app.lookup import Lookup
from monitor.cli.context import LOCAL_DB, Context, find_config, state_folder
from monitor.cli.looking import Json
from monitor.cli.output import console, print_json
from monitor.clock import Clock, SystemClock
from monitor.config.everything import every_problem
from monitor.config.found import with_found
from monitor.config.load import load, secret
from monitor.config.model import Config
from monitor.config.running import is_running
from monitor.config.sources import Source
from monitor.doctor.daemon import check_daemon
from monitor.doctor.files import check_data_folder, check_secrets
from monitor.doctor.finding import Area, Finding, State, Subject, has_problem
from monitor.doctor.host import check_clock, check_gpus, check_limits
from monitor.doctor.pairs import check_pair
from monitor.doctor.receivers import check_receivers
from monitor.doctor.servers import check_servers
from monitor.doctor.shared import check_shared
from monitor.doctor.sources import check_left_out, check_sources
from monitor.doctor.storage import check_store
from monitor.doctor.unit import check_unit
from monitor.errors import ConfigError
from monitor.targets.gpus import gpus
from monitor.targets.local import find_servers, server_behind
from monitor.targets.service_discovery import Found
from monitor.watchdog import Watchdog

_MARKS = {State.OK: ("ok", "green"), State.NOTE: ("note", "yellow"), State.PROBLEM: ("PROBLEM", "bold red")}


def doctor(
    ctx: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Leave out what is well.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Read the whole store for damage, however large it is.")] = False,
    as_json: Json = False,
) -> None:
    """Look at configuration, files, stores, daemon, unit, host, receivers, sources and each server; say what to do."""
    context: Context = ctx.obj
    # What a library logs of a request that failed stands in the finding.
    logging.getLogger("slack_sdk").setLevel(logging.CRITICAL)
    found = list(examine(context, deep=deep))
    if as_json:
        print_json({
            "ok": not has_problem(found),
            "findings": [
                {"area": one.area.value, "subject": one.subject, "state": one.state.value, "sentence": one.sentence,
                 "todo": one.todo or None}
                for one in found
            ],
        })  # fmt: skip
    else:
        _tell(found, quiet)
    if has_problem(found):
        raise typer.Exit(1)


def examine(context: Context, *, deep: bool) -> Iterator[Finding]:
    """Every finding; what cannot be looked at for want of a configuration is left out."""
    clock = SystemClock()
    path = find_config(context.config_path)
    config, mistakes = _configuration(path)
    yield from mistakes
    folder = context.data_dir or (config.data_dir if config is not None and path is not None else state_folder())
    if config is not None:
        yield from check_secrets(path, config)
    yield from check_data_folder(folder)
    yield from check_store(folder / LOCAL_DB, deep=deep)
    if config is not None:
        yield from check_shared(config, folder, clock, is_running=is_running(folder))
    yield from check_daemon(folder, _token(config))
    yield from check_unit(config.rules.interval if config is not None else 60.0)
    yield check_clock()
    yield check_limits(len(config.servers) if config is not None else len(find_servers()))
    yield from check_gpus(gpus())
    if config is None:
        return
    yield from check_receivers(config, clock)
    watchdog = Watchdog(clock)
    watchdog.start()
    try:
        found: dict[str, Sequence[Found]] = {}
        yield from check_sources(config.sources, lambda source: _listed(source, watchdog, clock), found)
        joined = with_found(config, found)
        yield from check_left_out(joined)
        yield from check_servers(joined.config, watchdog, clock, found=len(joined.source_of))
    finally:
        watchdog.stop()
    for one in config.servers:
        local = server_behind(one.url)
        if local is not None:
            yield from check_pair(one.name, local)


def _listed(source: Source, watchdog: Watchdog, clock: Clock) -> Sequence[Found]:
    lookup = Lookup(source, watchdog, clock)
    try:
        return lookup.ask()
    finally:
        lookup.close()


def _configuration(path: Path | None) -> tuple[Config | None, list[Finding]]:
    """The configuration, if it can be used, and what is to be said of it."""
    of = Subject(Area.CONFIGURATION, str(path) if path is not None else "none")
    todo = "docs/configuration.md has every setting; acceptd check lists mistakes alone"
    if path is None:
        return load(None), [of.note("no configuration file", "acceptd init writes one")]
    problems, config, _ = every_problem(path)
    if config is not None:
        return config, [of.ok("no mistakes, rules and objectives included")]
    found = [of.problem(f"{one.path}: found {one.found}, expected {one.expected}", todo) for one in problems]
    try:
        return load(path), found  # only its rules are wrong
    except ConfigError:
        return None, found


def _token(config: Config | None) -> str | None:
    try:
        return secret(config.web, "token") if config is not None else None
    except ConfigError:
        return None


def _tell(found: list[Finding], quiet: bool) -> None:
    for area in Area:
        shown = [one for one in found if one.area is area and not (quiet and one.state is State.OK)]
        if shown:
            console.print(area.value.upper(), style="bold")
        for one in shown:
            mark, style = _MARKS[one.state]
            console.print(f"  {mark:7}", style=style, end=" ", markup=False)
            console.print(f"{one.subject}: {one.sentence}", markup=False, soft_wrap=True)
            if one.todo:
                console.print(f"          -> {one.todo}", markup=False, soft_wrap=True)
    counts = {state: sum(one.state is state for one in found) for state in State}
    console.print(f"{counts[State.PROBLEM]} problems, {counts[State.NOTE]} notes, {counts[State.OK]} well")
