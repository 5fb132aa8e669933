"""Commands that ask the daemon to act, or not to: plan, apply, reject, rollback, pause, resume.

They only write a request; the daemon that owns the server acts, with all its checks, and writes the outcome.
"""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer

from monitor.actions import asking
from monitor.actions.drift import release_all
from monitor.cli.context import Absent, Context
from monitor.cli.following import follow_rollout
from monitor.cli.looking import Json, duration
from monitor.cli.output import console, interval, print_json, who
from monitor.clock import SystemClock
from monitor.config.running import is_running
from monitor.model.decision import Decision
from monitor.model.record import EVERYTHING, Command, CommandKind, Evidence, group_scope, server_scope
from monitor.model.rollout import RolloutId, RolloutState
from monitor.report.lookup import schedule_of
from monitor.report.views import decision_view

#: How long a command waits for the daemon to take its request; the work itself goes on afterwards.
Wait = Annotated[str, typer.Option(help="How long to wait for the daemon's answer.")]
_PATIENCE = "20s"
#: Whether a command shows what happens until the rollout is over.
Follow = Annotated[bool | None, typer.Option(help="Show progress until it is over; by default on a terminal.")]


def _ask(context: Context, kind: CommandKind, subject: str, wait: str) -> Command:
    """Write a request and wait until the daemon has answered it. Raises Absent where no daemon runs."""
    clock, patience = SystemClock(), duration(wait, "--wait")
    if not is_running(context.folder()):
        raise Absent(f"no daemon runs on {context.folder()}: nothing can be changed (start it with `acceptd run`)")
    with context.writing() as store:
        with store.write() as unit:
            command = asking.ask(unit, kind, subject, who(), clock.now())
        deadline = clock.monotonic() + patience
        while clock.monotonic() < deadline:
            with store.read() as unit:
                answered = unit.commands.get(command.id)
            if answered is not None and answered.done_at is not None:
                return answered
            clock.sleep(0.3)
    return command


def _report(answer: Command, as_json: bool) -> None:
    """Print the daemon's answer; exit 1 where it refused or did not answer in time."""
    taken = answer.done_at is not None and not answer.outcome.startswith(("refused", "failed"))
    outcome = answer.outcome or "not answered in time; the daemon will still see it"
    if as_json:
        print_json({"id": answer.id, "taken": taken, "outcome": outcome})
    else:
        console.print(outcome, style="green" if taken else "red", markup=False)
    if not taken:
        raise typer.Exit(1)


def _follow(context: Context, answer: Command, wanted: bool | None, as_json: bool) -> None:
    """Show what happens to the rollout that was begun, unless the output is for a program or nobody looks."""
    begun = re.search(r"\brollout (r-\w+)", answer.outcome)
    if begun is None or as_json or not (sys.stdout.isatty() if wanted is None else wanted):
        return
    try:
        ended = follow_rollout(context, RolloutId(begun[1]), SystemClock())
    except KeyboardInterrupt:
        console.print(f"It goes on without you: acceptd why {begun[1]}", markup=False)
        return
    if ended.state not in (RolloutState.PROMOTED, RolloutState.ROLLED_BACK):
        raise typer.Exit(1)


def plan(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(help="A decision's id, or a group for its newest decision.")],
    wait: Wait = _PATIENCE,
    as_json: Json = False,
) -> None:
    """What acting on a decision would do: command line, evidence, gain, cost, risk, checks. Changes nothing."""
    context: Context = ctx.obj
    with context.reading() as store, store.read() as unit:
        decision = unit.decisions.get(subject)  # type: ignore[arg-type]
        if decision is None:
            latest = unit.decisions.latest(subject)  # type: ignore[arg-type]
            if not latest:
                raise Absent(f"no decision {subject!r}; `acceptd status` shows their ids")
            decision = latest[0]
        kept = unit.evidence.get(f"plan:{decision.id}")
        schedule = schedule_of(unit, decision)
    said, note = "", ""
    if decision.changes_setting and kept is not None and is_running(context.folder()):
        answer = _ask(context, CommandKind.PLAN, decision.id, wait)
        with context.reading() as store, store.read() as unit:
            made = unit.evidence.get(f"plan:{answer.id}")
        kept, said = made or kept, "" if made else answer.outcome or "the daemon did not answer in time"
    if kept is not None and said:
        note = f"This is the plan of {kept.at:%Y-%m-%d %H:%M} UTC, not one made now: {said}"
    elif kept is not None and kept.id == f"plan:{decision.id}":
        note = f"This is the plan of {kept.at:%Y-%m-%d %H:%M} UTC: no daemon runs that could make it anew."
    view: dict[str, Any] = {
        **decision_view(decision), "plan": dict(kept.parts) if kept else None, "plan_note": note or None,
        "schedule": schedule,
    }
    if as_json:
        print_json(view)
        return
    _print_plan(decision, kept, note)
    if schedule is not None:
        console.print(f"Schedule by batch size: {schedule}", markup=False)


def _print_plan(decision: Decision, kept: Evidence | None, note: str) -> None:
    console.print(f"{decision.group}: {decision.action.value}, {decision.current.describe()} ->"
                  f" {decision.proposed.describe()}", style="bold", markup=False)
    console.print(f"  {decision.sentence}", markup=False)
    expected = interval(decision.gain, decision.gain_low, decision.gain_high)
    if decision.changes_setting and decision.gain is None:
        expected = "not known: it will be measured"
    console.print(f"  expected goodput {expected}", markup=False)
    if kept is None:
        console.print("  Nothing to carry out: this decision changes no setting, or no server of the group is managed.")
        return
    for title, text in kept.parts.items():
        console.print(f"{title}", style="bold", markup=False)
        for line in text.splitlines():
            style = "green" if line.startswith("+") else "red" if line.startswith(("-", "FAILED")) else None
            console.print(f"  {line}", style=style, markup=False)
    if note:
        console.print(note, style="yellow", markup=False)
    elif decision.changes_setting and "plan" in kept.parts:
        console.print(f"Do it with: acceptd apply {kept.parts['plan']}", style="bold", markup=False)


def apply(
    ctx: typer.Context,
    plan_id: Annotated[str, typer.Argument(metavar="PLAN", help="Id of a plan (p-…), as shown by `acceptd plan`.")],
    wait: Wait = _PATIENCE,
    follow: Follow = None,
    as_json: Json = False,
) -> None:
    """Carry out a plan that was seen: restart with the new setting, measure, keep or revert. A stale one is refused."""
    answer = _ask(ctx.obj, CommandKind.APPLY, plan_id, wait)
    _report(answer, as_json)
    _follow(ctx.obj, answer, follow, as_json)


def reject(
    ctx: typer.Context,
    decision: Annotated[str, typer.Argument(help="Id of the decision.")],
    wait: Wait = _PATIENCE,
    as_json: Json = False,
) -> None:
    """Decline a decision that waits for approval."""
    _report(_ask(ctx.obj, CommandKind.REJECT, decision, wait), as_json)


def rollback(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(help="A rollout's id, or a group: its active or last rollout.")],
    wait: Wait = _PATIENCE,
    follow: Follow = None,
    as_json: Json = False,
) -> None:
    """Bring the servers of a rollout back to the last good setting."""
    answer = _ask(ctx.obj, CommandKind.ROLLBACK, subject, wait)
    _report(answer, as_json)
    _follow(ctx.obj, answer, follow, as_json)


def _scope(context: Context, name: str) -> str:
    if name == EVERYTHING:
        return EVERYTHING
    running = context.running()
    if any(group.name == name for group in running.groups):
        return group_scope(name)
    if any(server.name == name for server in running.servers):
        return server_scope(name)
    known = ", ".join([g.name for g in running.groups] + [s.name for s in running.servers])
    raise Absent(f"no group or server {name!r}; known: * (everything), {known}")


def pause(
    ctx: typer.Context,
    scope: Annotated[str, typer.Argument(help="A group, a server, or * for everything.")] = EVERYTHING,
    reason: Annotated[str, typer.Option(help="Why; shown to everyone.")] = "",
    until: Annotated[str, typer.Option("--for", help="How long, e.g. 4h; without it until `acceptd resume`.")] = "",
    as_json: Json = False,
) -> None:
    """Start no more changes in a scope; one under way is finished or undone. Works with the daemon down too."""
    context: Context = ctx.obj
    now = SystemClock().now()
    seconds = duration(until, "--for") if until else None
    wanted = _scope(context, scope)
    with context.writing() as store, store.write() as unit:
        made = asking.pause(unit, wanted, who(), reason, now, seconds)
    end = made.until
    if as_json:
        print_json({"scope": made.scope, "until": end.isoformat() if end else None})
    else:
        console.print(f"Paused: {made.scope}" + (f" until {end:%Y-%m-%d %H:%M} UTC" if end else ""), markup=False)


def resume(
    ctx: typer.Context,
    scope: Annotated[str, typer.Argument(help="A group, a server, or * for everything.")] = EVERYTHING,
    as_json: Json = False,
) -> None:
    """Lift a pause, and release servers that are left alone because somebody changed them by hand."""
    context: Context = ctx.obj
    wanted, now = _scope(context, scope), SystemClock().now()
    with context.writing() as store, store.write() as unit:
        lifted = asking.resume(unit, wanted, who(), now)
        held = release_all(unit, context.running().groups, wanted, who(), now)
    if as_json:
        print_json({"scope": wanted, "lifted": lifted, "released": [drift.server for drift in held]})
    else:
        console.print(f"Resumed: {wanted}" if lifted else f"{wanted} was not paused", markup=False)
        for drift in held:
            console.print(f"Released: {drift.server} is tuned again, from {drift.found.describe()}", markup=False)
    if not (lifted or held):
        raise typer.Exit(1)
