"""What acting on a decision would do, in titled texts that are kept for whoever looks at it; and what restarts cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from monitor.actions.plan import Plan
from monitor.drivers.protocol import Check
from monitor.model.server import Group
from monitor.store.api import Unit

#: What a restart is taken to cost until restarts were seen (seconds).
RESTART_SECONDS = 180.0


def restart_seconds(unit: Unit, group: Group, now: datetime) -> float:
    """What a restart of the group's servers costs (seconds): the mean of those seen, a usual value before."""
    seen = [
        (change.ready_at - change.stop_asked_at).total_seconds()
        for server in group.servers
        for change in unit.changes.of_server(server, now - timedelta(days=30))
        if change.ready_at is not None and change.stop_asked_at is not None and change.ready_at > change.stop_asked_at
    ]
    return sum(seen) / len(seen) if seen else RESTART_SECONDS


def plan_parts(plan: Plan) -> Mapping[str, str]:
    """A plan as titled texts, for people."""
    parts: dict[str, str] = {"plan": plan.id}
    for server in plan.servers:
        parts[f"command line of {server.server} ({server.driver})"] = "\n".join(server.diff) or "no change"
        cost = server.cost
        down = "not known yet" if cost.down_seconds is None else f"about {cost.down_seconds:.0f} s"
        lost = "" if cost.lost_tokens is None else f", about {cost.lost_tokens:,.0f} tokens not generated meanwhile"
        parts[f"restart of {server.server}"] = f"down {down}{lost}"
        parts[f"checks of {server.server}"] = "\n".join(_check_words(check) for check in server.checks)
    if plan.risks:
        parts["risks"] = "\n".join(plan.risks)
    parts["can be applied now"] = plan.refusal or "yes"
    return parts


def _check_words(check: Check) -> str:
    word = {True: "ok", False: "FAILED", None: "unknown"}[check.ok]
    return f"{word}: {check.name}: {check.sentence}"
