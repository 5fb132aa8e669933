"""The command `rules replay`: what rules would have done over stored history, several groups at once."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from monitor.app.limits import collect_seldom
from monitor.cli.context import Context, file_text
from monitor.cli.looking import Json, duration, known_groups
from monitor.cli.output import console, errors, interval, print_json, table
from monitor.clock import SystemClock
from monitor.config.rules import load_rules_in_force, rules_section, vocabulary
from monitor.config.running import Running
from monitor.cycle.past import COARSE_SECONDS, read_past
from monitor.cycle.planning import restart_seconds
from monitor.cycle.replay import Replayed, not_judged, replay_group
from monitor.errors import ConfigError, Problem
from monitor.model.alert import Alert
from monitor.model.duration import format_duration
from monitor.model.server import Group
from monitor.policy.load import load_rules
from monitor.policy.rule import RuleSet
from monitor.policy.timeline import EventKind
from monitor.report.views import decision_view
from monitor.store import open_readonly

#: Servers up to which a day or less is replayed as scraped, evaluation for evaluation, unless a step is asked for.
_FEW = 4
#: Servers from which the work is spread over processes.
_MANY = 8


@dataclass(frozen=True, slots=True)
class _Task:
    """What one process needs to replay one group; plain values, since compiled rules do not travel."""

    database: Path
    running: Running
    group: Group
    settings: str
    files: tuple[str, ...]
    since: datetime
    until: datetime
    step_seconds: float


@dataclass(frozen=True, slots=True)
class _Told:
    """What came of one group."""

    group: str
    found: tuple[Replayed, ...]
    sums_until: datetime | None
    begins: datetime | None


def rules_replay(
    ctx: typer.Context,
    since: Annotated[str, typer.Option(help="How far back, e.g. 7d.")] = "7d",
    files: Annotated[list[Path] | None, typer.Option("--rules", help="Rule files in place of those in force.")] = None,
    group: Annotated[str, typer.Option(help="Only this group.")] = "",
    step: Annotated[str, typer.Option(help="Time between two evaluations; from 5m on in sums over 5 minutes.")] = "",
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0 for as many as there are CPUs and work.")] = 0,
    as_json: Json = False,
) -> None:
    """What rules would have done over stored history: alerts, and what tuning would have come to. Changes nothing."""
    context: Context = ctx.obj
    running = context.running()
    groups = known_groups(running, group)
    until = SystemClock().now()
    span = duration(since, "--since")
    servers = sum(len(one.servers) for one in groups)
    seconds = duration(step, "--step") if step else _step(span, servers, running)
    if span <= 0 or seconds <= 0 or span / seconds > 100_000:
        raise ConfigError([Problem("--step", repr(step or since), "a step and a span above 0, at most 100,000 steps")])
    with context.reading():
        database = context.folder() / "local.db"
    names = tuple(str(path) for path in files or ())
    settings = json.dumps(dict(running.rule_settings), sort_keys=True)
    rule_sets = [rules_of(settings, running.rules.get(one.name, ""), names) for one in groups]
    start = until - timedelta(seconds=span)
    tasks = [_Task(database, running, one, settings, names, start, until, seconds) for one in groups]
    told = list(_work(tasks, jobs or _jobs(servers)))
    sums = [one.sums_until for one in told if one.sums_until is not None and one.sums_until > start]
    begins = min((one.begins for one in told if one.begins is not None), default=None)
    blind = {name: facts for made in rule_sets for name, facts in not_judged(made).items()}
    if as_json:
        print_json({
            "since": tasks[0].since.isoformat(), "until": until.isoformat(), "step_seconds": seconds,
            "approximate": bool(sums), "sums_until": max(sums).isoformat() if sums else None,
            "history_begins": begins.isoformat() if begins else None,
            "not_judged": {name: list(facts) for name, facts in blind.items()},
            "events": [_view(one.group, found) for one in told for found in one.found],
        })  # fmt: skip
        return
    _print_head(tasks[0], max(sums, default=None), begins)
    _print_events(told)
    for name, facts in blind.items():
        console.print(f"not judged: {name} rests on {', '.join(facts)}, which is not stored", style="dim", markup=False)


def _step(span: float, servers: int, running: Running) -> float:
    interval_seconds = rules_section(running.rule_settings).interval
    return min(interval_seconds, 60.0) if span <= 86_400.0 and servers <= _FEW else COARSE_SECONDS


def _jobs(servers: int) -> int:
    return 1 if servers < _MANY else os.cpu_count() or 1


@cache
def rules_of(settings: str, tuning: str, files: tuple[str, ...]) -> RuleSet:
    """The rules of a group whose tuning set is called `tuning`: those in force, or those of `files`."""
    if files:
        return load_rules({name: file_text(Path(name)) for name in files}, vocabulary())
    made = load_rules_in_force(json.loads(settings))
    tunes = made.tuning.get(tuning, RuleSet()).tunes
    return RuleSet(alerts=made.alerts.alerts, tunes=tunes, inhibitions=made.alerts.inhibitions)


def _work(tasks: Sequence[_Task], jobs: int) -> Iterator[_Told]:
    """Every group's replay, in their order, with a bar where a person waits."""
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        bars = bar.add_task("replaying", total=len(tasks))
        if jobs <= 1 or len(tasks) == 1:
            for task in tasks:
                yield _replay(task)
                bar.advance(bars)
            return
        # Spawned, not forked: a fork would share the open database of this process.
        with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=get_context("spawn")) as pool:
            for told in pool.map(_replay, tasks):
                yield told
                bar.advance(bars)


def _replay(task: _Task) -> _Told:
    made = rules_of(task.settings, task.running.rules.get(task.group.name, ""), task.files)
    longest = max((window for _, window in made.windows), default=300.0)
    # Of the time to read a past, Python's own habit of looking for cycles would take half.
    collect_seldom()
    store = open_readonly(task.database)
    try:
        with store.read() as unit:
            past = read_past(
                unit, task.group, task.running.servers, task.since, task.until, step_seconds=task.step_seconds,
                longest_window=longest,
            )
            rejections = unit.rejections.of(task.group.name)
            restart = restart_seconds(unit, task.group, task.until)
    finally:
        store.close()
    # The past is held to the end: a collector that walks through it again and again takes a sixth of all the time.
    gc.freeze()
    baseline = rules_section(task.running.rule_settings).baseline_window
    found = replay_group(
        past, made, task.until, step_seconds=task.step_seconds, baseline_seconds=max(baseline, task.step_seconds),
        rejections=rejections, restart_seconds=restart,
    )
    return _Told(task.group.name, tuple(found), past.sums_until, past.begins)


def _view(group: str, one: Replayed) -> dict[str, Any]:
    event = one.event
    return {
        "at": event.at.isoformat(),
        "kind": event.kind.value,
        "rule": event.rule,
        "group": group,
        "scope": event.scope,
        "summary": _words(one),
        "decision": decision_view(one.decision) if one.decision is not None else None,
    }


def _words(one: Replayed) -> str:
    event, decision = one.event, one.decision
    if decision is not None:
        gain = interval(decision.gain, decision.gain_low, decision.gain_high)
        to = f" -> {decision.proposed.describe()}" if decision.changes_setting else ""
        worth = f" ({gain} goodput)" if decision.gain is not None else ""
        return f"{decision.action.value}{to}{worth}: {decision.sentence}"
    if event.alert is not None:
        return _alert_words(event.alert)
    return "no longer asked"


def _alert_words(alert: Alert) -> str:
    return f"{alert.labels.get('severity', '')}: {alert.annotations.get('summary', alert.name)}"


_KINDS = {
    EventKind.ALERT_FIRING: "fires",
    EventKind.ALERT_RESOLVED: "ends",
    EventKind.TUNE_BEGAN: "tunes",
    EventKind.TUNE_HOLDS: "tunes",
    EventKind.TUNE_ENDED: "ends",
}


def _print_head(task: _Task, sums_until: datetime | None, begins: datetime | None) -> None:
    how = "from pages as scraped"
    if task.step_seconds >= COARSE_SECONDS:
        how = "approximate: from sums over 5 minutes"
    elif sums_until is not None:
        how = f"approximate before {sums_until:%Y-%m-%d %H:%M} UTC, where only sums over 5 minutes are kept"
    console.print(f"{task.since:%Y-%m-%d %H:%M} to {task.until:%Y-%m-%d %H:%M} UTC, evaluated every"
                  f" {format_duration(task.step_seconds)}; {how}", markup=False)
    if begins is None:
        console.print("There is no history in this span.", style="yellow")
    elif begins > task.since + timedelta(seconds=2 * COARSE_SECONDS):
        console.print(f"History begins {begins:%Y-%m-%d %H:%M} UTC.", style="yellow", markup=False)


def _print_events(told: Sequence[_Told]) -> None:
    rows = [
        [f"{one.event.at:%m-%d %H:%M}", group.group, _KINDS[one.event.kind], one.event.rule, one.event.scope,
         _words(one)]
        for group in told
        for one in group.found
    ]  # fmt: skip
    if not rows:
        console.print("Nothing would have happened.", style="green")
        return
    console.print(table(("at", "group", "what", "rule", "of", "sentence"), rows))
    counts: dict[tuple[str, str], int] = {}
    for group in told:
        for one in group.found:
            if one.event.kind in (EventKind.ALERT_FIRING, EventKind.TUNE_BEGAN):
                key = (one.event.rule, _KINDS[one.event.kind])
                counts[key] = counts.get(key, 0) + 1
    console.print("; ".join(f"{rule} {what} {count}x" for (rule, what), count in sorted(counts.items())), markup=False)
