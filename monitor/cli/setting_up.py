"""Commands for setting up: init, check."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.context import Context, find_config, state_folder
from monitor.cli.looking import Json
from monitor.cli.output import console, errors, print_json
from monitor.clock import SystemClock
from monitor.config.everything import every_problem
from monitor.config.load import without_password
from monitor.config.scalars import http_url
from monitor.dialects import Dialects
from monitor.errors import ConfigError, Problem, ScrapeError
from monitor.launch import redact
from monitor.model.reading import Reading, Verdict
from monitor.model.server import Engine, ServerName
from monitor.scrape.client import ACCEPT_PAGE, ServerClient
from monitor.scrape.probe import ServerProbe
from monitor.targets.local import LocalServer, find_servers, server_behind
from monitor.watchdog import Watchdog

_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found out about one server for a new configuration."""

    name: str
    url: str
    version: str | None
    reading: Reading
    local: LocalServer | None
    models: tuple[str, ...]


def check(
    ctx: typer.Context,
    path: Annotated[Path | None, typer.Argument(help="Configuration file; the usual places if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Check configuration and rules: every mistake with its place, what was found and what was expected."""
    context: Context = ctx.obj
    chosen = find_config(path or context.config_path)
    problems, config, loaded = every_problem(chosen)
    rules = len(loaded) if loaded is not None else 0
    name = str(chosen) if chosen else "defaults (no file)"
    if as_json:
        fields = ("file", "path", "found", "expected")
        found = [{field: getattr(problem, field) for field in fields} for problem in problems]
        print_json({"config": name, "ok": not problems, "problems": found})
    elif problems:
        for problem in problems:
            console.print(str(problem), style="red", markup=False, soft_wrap=True)
        count = len(problems)
        console.print(f"{count} mistake{'s' if count != 1 else ''} in {name}", markup=False, soft_wrap=True)
    elif config is not None:
        servers = len(config.servers)
        console.print(f"{name}: fine ({servers} server{'s' if servers != 1 else ''}, {rules} rules)", markup=False,
                      soft_wrap=True)
    if problems:
        raise typer.Exit(2)


def init(
    ctx: typer.Context,
    urls: Annotated[list[str] | None, typer.Argument(help="Base URLs; servers of this host if none is given.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; - for the terminal.")] = Path(
        "acceptd.yaml"
    ),
    force: Annotated[bool, typer.Option(help="Overwrite the file.")] = False,
) -> None:
    """Find the inference servers of this host (or ask the URLs given) and write a commented configuration."""
    if str(output) != "-" and output.exists() and not force:
        raise ConfigError([Problem("--output", f"{str(output)!r}, which exists", "a new file, or --force")])
    wanted = _checked(urls) if urls else [server.base_url for server in find_servers()]
    if not wanted:
        console.print("No inference server listens on this host (looked for processes of vLLM, SGLang and llama.cpp).",
                      style="yellow")
        console.print("Give base URLs: acceptd init http://HOST:8000", markup=False)
        raise typer.Exit(1)
    seen = look(wanted)
    text = write_config(seen)
    # What goes into a pipe is the configuration alone.
    said = errors if str(output) == "-" else console
    if str(output) == "-":
        print(text, end="")
    else:
        output.write_text(text)
        said.print(f"{output}: written, {len(seen)} server{'s' if len(seen) != 1 else ''}.", markup=False,
                   soft_wrap=True)
    for one in seen:
        said.print(f"  {one.name}: {one.reading.verdict.value}, {one.reading.reason}", markup=False, soft_wrap=True)
    if str(output) != "-":
        said.print(f"Next: acceptd check {output}; acceptd --config {output} run", markup=False, soft_wrap=True)


def _checked(urls: list[str]) -> list[str]:
    """Base URLs as a configuration takes them, each once. Raises ConfigError with all that are none."""
    found: dict[str, None] = {}
    problems = []
    for url in urls:
        try:
            found[http_url(url).removesuffix("/metrics")] = None
        except ValueError as error:
            problems.append(Problem("URLS", repr(without_password(url)), str(error)))
    if problems:
        raise ConfigError(problems)
    return list(found)


def look(urls: list[str]) -> list[Seen]:
    """Ask each server for its page, version and models; one that does not answer is kept with its verdict."""
    clock = SystemClock()
    dog = Watchdog(clock)
    dog.start()
    found: list[Seen] = []
    try:
        for url in urls:
            base = url.rstrip("/")
            client = ServerClient(dog, size_limit=16 * 1024**2)
            probe = ServerProbe(client, base, timeout_seconds=_LOOK_SECONDS)
            version, models = probe.version(), probe.models() or ()
            name = _name(models, {one.name for one in found})
            reader = Dialects().reader(ServerName(name))
            try:
                answer = client.get(f"{base}/metrics", deadline_seconds=_LOOK_SECONDS, accept=ACCEPT_PAGE)
                body, status, kind = answer.body, answer.status, answer.content_type
                reading = reader.read(body, scraped_at=clock.now(), monotonic=clock.monotonic(), status=status,
                                      content_type=kind, version=version)
            except ScrapeError as error:
                reading = unreachable(ServerName(name), clock, str(error))
            found.append(Seen(name, base, version, reading, server_behind(base), models))
            client.close()
    finally:
        dog.stop()
    return found


def unreachable(server: ServerName, clock: SystemClock, reason: str) -> Reading:
    """The reading of a server whose page could not be had."""
    return Reading(server=server, scraped_at=clock.now(), monotonic=clock.monotonic(), dialect="none",
                   verdict=Verdict.SCRAPE_ERROR, reason=reason)


def _name(models: tuple[str, ...], taken: set[str]) -> str:
    last = models[0].rsplit("/", 1)[-1] if models else "server"
    stem = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in last).strip("-._")[:40]
    stem = stem.lower() or "server"
    return next(name for n in range(1, 10_000) if (name := f"{stem}-{n}") not in taken)


def write_config(seen: list[Seen]) -> str:
    """A configuration for the servers seen, with a comment on each thing that was found or left to decide."""
    lines = [
        "# acceptd configuration. All settings: docs/configuration.md; check this file with `acceptd check FILE`.",
        "",
        "# How far acceptd may go: observe | recommend | approve | auto.",
        "mode: recommend",
        "",
        f"data_dir: {_quoted(_data_dir())}",
        "",
        "servers:",
    ]
    for one in seen:
        lines += _server_lines(one)
    lines += [
        "# Where on-call is told. Without this section notices go to the console.",
        "# slack:",
        "#   bot_token_file: /etc/acceptd/slack-token   # xoxb-…, scopes chat:write and files:write",
        "#   channel: '#llm-oncall'",
        "#   app_token_file: /etc/acceptd/slack-app-token   # xapp-…, for buttons; then also:",
        "#   users: [U0123ABC]   # who may press them",
        "",
        "# When the weekly report is made.",
        "report:",
        "  day: mon",
        "  at: '09:00'",
        "  timezone: UTC",
        "",
    ]
    return "\n".join(lines)


def _data_dir() -> str:
    return "/var/lib/acceptd" if os.geteuid() == 0 else str(state_folder())


def _server_lines(one: Seen) -> list[str]:
    engine = one.local.engine if one.local else _engine_of(one.reading)
    shown = [e.num_speculative_tokens for e in one.reading.engines if e.num_speculative_tokens is not None]
    lines = [f"  # {_comment(one.reading.verdict.value + ': ' + one.reading.reason)}"]
    facts = [f"version {one.version}" if one.version else "version unknown"]
    if one.models:
        facts.append("model " + ", ".join(one.models[:3]))
    if shown:
        facts.append(f"num_speculative_tokens {max(shown)} (from the page)")
    if one.local is not None:
        facts.append(f"{one.local.setting.describe()} (from the command line of process {one.local.pid})")
    lines += [f"  # {_comment('; '.join(facts))}", f"  - name: {_quoted(one.name)}",
              f"    url: {_quoted(one.url)}"]
    if engine not in (Engine.VLLM, Engine.UNKNOWN):
        lines.append(f"    engine: {engine.value}")
    lines += [
        "    # A driver lets acceptd restart the server; without one it is only watched.",
        "    # driver:",
        "    #   kind: process",
    ]
    if one.local is not None:
        items = ", ".join(_quoted(item) for item in redact(one.local.argv))
        lines.append(f"    #   command: [{_comment(items)}]")
    else:
        lines.append("    #   command: [vllm, serve, MODEL, --port, '8000']")
    return [*lines, ""]


def _engine_of(reading: Reading) -> Engine:
    name = reading.dialect.split("_")[0]
    return Engine(name) if name in Engine._value2member_map_ else Engine.UNKNOWN


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _comment(text: str) -> str:
    return " ".join(text.split())
