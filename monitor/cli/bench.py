"""The command `bench`: vLLM's own serving benchmark on one server, its result kept, and two lives compared."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from monitor.benchmark.result import COMPARED, BenchResult, Compared, compare, from_evidence, numbers_of, to_evidence
from monitor.benchmark.run import BenchmarkFailed, run_benchmark
from monitor.benchmark.target import find_target
from monitor.benchmark.workload import Workload, read_workload
from monitor.cli.context import Absent, Context, find_config
from monitor.cli.fetching import Asking, asking
from monitor.cli.looking import Json, known_server
from monitor.cli.output import console, errors, interval, milliseconds, number, print_json, share, table
from monitor.clock import SystemClock
from monitor.config.fleet import credentials
from monitor.errors import ConfigError, Problem
from monitor.intervals.pages import read_pages
from monitor.model.life import Life
from monitor.model.server import Server
from monitor.scrape.client import Credentials

#: How long the page is watched for requests of others before anything is sent (seconds).
_WATCH_SECONDS = 3.0
#: How far back results are looked for.
_PAST = timedelta(days=400)


def bench(
    ctx: typer.Context,
    server: Annotated[str, typer.Argument(help="Name of a watched vLLM server on this host.")],
    prompts: Annotated[
        Path | None, typer.Option(help="Your requests: a prompt a line, .jsonl with prompt, or ShareGPT's .json.")
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="Requests of each run.")] = 100,
    concurrency: Annotated[int, typer.Option(min=1, help="Most requests at once.")] = 8,
    output_tokens: Annotated[int, typer.Option(min=1, help="Longest answer.")] = 200,
    rate: Annotated[float | None, typer.Option(min=0.0, help="Requests a second; as fast as answered without.")] = None,
    runs: Annotated[int, typer.Option(min=1, max=20, help="Runs; from two on there are error bars.")] = 3,
    on_live: Annotated[bool, typer.Option("--on-live", help="Also while the server serves others.")] = False,
    against: Annotated[str, typer.Option(help="Result or life to compare with; else the newest of another life.")] = "",
    only_compare: Annotated[str, typer.Option("--compare", help="Run nothing: compare this result with that.")] = "",
    results: Annotated[bool, typer.Option("--results", help="Run nothing: list what is stored.")] = False,
    python: Annotated[str | None, typer.Option(help="Interpreter with vLLM, where the server's is not seen.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Folder or name of the model, where not seen.")] = None,
    as_json: Json = False,
) -> None:
    """Measure a server by its own vLLM's benchmark, keep the result beside its life, compare it with another life."""
    context: Context = ctx.obj
    running = context.running()
    name = known_server(running, server)
    target = next(one for one in running.servers if one.name == name)
    if results:
        _list(_stored(context, target), as_json)
        return
    if only_compare:
        stored = _stored(context, target)
        _show(_find(stored, only_compare), stored, against, as_json)
        return
    workload = read_workload(
        prompts, requests=requests, concurrency=concurrency, output_tokens=output_tokens, rate=rate or None
    )
    result = _run(context, target, workload, runs=runs, on_live=on_live, python=python, tokenizer=tokenizer)
    _show(result, _stored(context, target), against, as_json)


def _run(
    context: Context, server: Server, workload: Workload, *, runs: int, on_live: bool, python: str | None,
    tokenizer: str | None,
) -> BenchResult:
    known = _credentials(context, server)
    target = find_target(
        server.base_url, python=python, tokenizer=tokenizer, api_key=known.bearer_token, verify_tls=known.verify
    )
    with asking(server.metrics_url, known) as asked:
        if not on_live:
            _refuse_if_busy(asked, server)
    before = _lives(context, server)
    errors.print(f"{server.name}: {workload.describe()}, {runs} run{'s' if runs > 1 else ''}", markup=False)
    with Progress(
        TextColumn("run {task.fields[run]} of {task.fields[runs]}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), console=errors, disable=not errors.is_terminal,
    ) as bars:  # fmt: skip
        bar = bars.add_task("requests", total=workload.requests, run=1, runs=runs)

        def progress(run: int, done: int, total: int) -> None:
            bars.update(bar, run=min(run + 1, runs), completed=done, total=total)

        raw = run_benchmark(target, workload, runs=runs, progress=progress)
    lives = _lives(context, server)
    if [life.id for life in before] != [life.id for life in lives]:
        raise BenchmarkFailed(f"{server.name} was restarted during the benchmark: its result is of no one life")
    result = BenchResult(
        id=f"b-{secrets.token_hex(3)}", server=server.name, at=SystemClock().now(),
        lives=tuple(life.id for life in lives), setting=lives[-1].setting.describe(),
        engine_version=lives[-1].engine_version, workload=workload.describe(), digest=workload.digest,
        runs=tuple(numbers_of(one) for one in raw),
    )  # fmt: skip
    with context.writing() as store, store.write() as unit:
        unit.evidence.add(to_evidence(result))
    return result


def _refuse_if_busy(asked: Asking, server: Server) -> None:
    """Raise BenchmarkFailed where the server works for somebody: its users would wait behind the benchmark."""
    fetched = asked.fetch(_WATCH_SECONDS)
    page = read_pages(fetched.pages, elapsed=fetched.elapsed, scraped_at=fetched.scraped_at)
    models: list[dict[str, Any]] = page["models"]  # type: ignore[assignment]
    if not models:
        raise BenchmarkFailed(f"{server.name} shows no model: {page['reason']}")
    queued = sum((model["running"] or 0) + (model["waiting"] or 0) for model in models)
    made = sum((model["interval"] or {}).get("generation_tokens") or 0 for model in models)
    if queued or made:
        running = f"{queued:.0f} requests run or wait"
        what = running if queued else f"{made:.0f} tokens were made in {_WATCH_SECONDS:g} s"
        raise BenchmarkFailed(
            f"{server.name} serves others ({what}): a benchmark would slow them and measure them too. Take it out of "
            "the traffic first, or say --on-live"
        )


def _credentials(context: Context, server: Server) -> Credentials:
    if find_config(context.config_path) is None:
        return Credentials()
    return next((credentials(one) for one in context.config().servers if one.name == server.name), Credentials())


def _lives(context: Context, server: Server) -> list[Life]:
    with context.reading() as store, store.read() as unit:
        found = unit.lives.open_of(server.name)
    if not found:
        raise Absent(f"{server.name}: its page was never read, so there is no life to keep a result of")
    return found


def _stored(context: Context, server: Server) -> list[BenchResult]:
    with context.reading() as store, store.read() as unit:
        return from_evidence(unit.evidence.of(server.name, SystemClock().now() - _PAST))


def _find(found: list[BenchResult], name: str) -> BenchResult:
    hit = next((one for one in reversed(found) if name == one.id or name in one.lives), None)
    if hit is None:
        raise Absent(f"no result or life {name!r}; known: {', '.join(one.id for one in found) or 'none'}")
    return hit


def _show(result: BenchResult, stored: list[BenchResult], against: str, as_json: bool) -> None:
    """Print a result, beside that of another life where there is one."""
    others = [one for one in stored if one.id != result.id]
    other = _find(others, against) if against else _of_another_life(result, others)
    if other is not None and other.digest != result.digest:
        same = f"the same requests as {result.id}: {result.workload}"
        raise ConfigError([Problem("--against", f"{other.id}: {other.workload}", same)])
    found = compare(other, result) if other is not None else []
    if as_json:
        print_json({
            "result": result.to_json(), "against": other.to_json() if other is not None else None,
            "compared": list(map(asdict, found)),
        })  # fmt: skip
        return
    console.print(f"{result.id}: {result.server}, {result.setting}; {result.workload}", markup=False)
    if other is None:
        rows = [[_title(name), _value(name, result.mean(name))] for name in COMPARED]
        console.print(table(("", "mean"), rows, right=(1,)))
        return
    console.print(f"against {other.id}: {other.setting} ({other.at:%Y-%m-%d %H:%M} UTC)", markup=False)
    columns = ("", other.setting, result.setting, "change (95 %)")
    console.print(table(columns, [_row(one) for one in found], right=(1, 2, 3)))


def _of_another_life(result: BenchResult, stored: list[BenchResult]) -> BenchResult | None:
    """The newest earlier result of the same requests on another life."""
    return next(
        (
            one for one in reversed(stored)
            if one.digest == result.digest and one.at < result.at and not set(one.lives) & set(result.lives)
        ),
        None,
    )


def _row(one: Compared) -> list[str]:
    change = interval(one.change, one.low, one.high)
    return [_title(one.name), _value(one.name, one.before), _value(one.name, one.after), change]


def _title(name: str) -> str:
    return name.replace("_seconds", "").replace("_", " ")


def _value(name: str, value: float | None) -> str:
    if name == "acceptance_rate":
        return share(value)
    return milliseconds(value) if "_seconds" in name else number(value)


def _list(found: list[BenchResult], as_json: bool) -> None:
    if as_json:
        print_json([one.to_json() for one in found])
        return
    rows = [
        [one.id, f"{one.at:%Y-%m-%d %H:%M}", one.setting, number(one.mean("output_tokens_per_second"), 0),
         milliseconds(one.mean("time_per_output_token_seconds_mean")), str(len(one.runs)), one.workload]
        for one in found
    ]  # fmt: skip
    console.print(table(("result", "at (UTC)", "setting", "tokens/s", "TPOT", "runs", "requests"), rows, right=(3, 4)))
