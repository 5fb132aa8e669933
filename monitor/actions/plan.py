"""A plan: what acting on a decision would do, shown before it is done. It owns no action."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from monitor.actions.admission import admit, check_commands, needs_downtime
from monitor.actions.fleet import Fleet, Managed
from monitor.actions.preflight import preflight
from monitor.actions.terms import grace_of
from monitor.drivers.protocol import Check
from monitor.errors import ActionError, MonitorError
from monitor.model.decision import Decision, DecisionId, ThresholdAnswer
from monitor.model.rollout import Change
from monitor.model.server import Group, GroupName, ServerName
from monitor.store.api import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartCost:
    """What one restart costs. `down_seconds` is learned from past restarts of the server, else None (unknown).

    `lost_tokens` is what the server would have generated in that time; None where its rate is not known.
    """

    down_seconds: float | None
    learned_from: int
    lost_tokens: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """What would happen to one server: the lines of its command that change (secrets redacted), cost, checks."""

    server: ServerName
    driver: str
    diff: tuple[str, ...]
    warnings: tuple[str, ...]
    cost: RestartCost
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A decision made concrete. `refusal` says why it cannot be applied now; empty where it can.

    Gains are ratios of goodput (0.05 = 5 % more), None where not predicted. `id` changes with command, setting or
    process, so that what is applied is what was seen.
    """

    id: str
    decision: DecisionId
    group: GroupName
    sentence: str
    current: str
    proposed: str
    servers: tuple[ServerPlan, ...]
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    evidence: Mapping[str, float | None]
    threshold: ThresholdAnswer | None
    risks: tuple[str, ...]
    #: Of the group as a whole.
    checks: tuple[Check, ...]
    refusal: str
    made_at: datetime
    expires_at: datetime


def make_plan(
    unit: Unit,
    decision: Decision,
    fleet: Fleet,
    now: datetime,
    *,
    by_operator: bool = True,
    max_concurrent: int = 1,
    tokens_per_second: Mapping[ServerName, float] | None = None,
    of_group: Sequence[Check] = (),
) -> Plan:
    """The plan for `decision` as things are now; reads records and looks at processes, touches nothing.

    `of_group` are checks of the group as a whole; one that failed is waited for, so it is no refusal.

    Raises ActionError where the group is not known here.
    """
    group = fleet.groups.get(decision.group)
    if group is None:
        raise ActionError(f"there is no group {decision.group!r} here", reason="unknown_group")
    servers = tuple(
        _server_plan(unit, decision, fleet.managed[name], now, (tokens_per_second or {}).get(name))
        for name in decision.servers
        if name in fleet.managed
    )
    return Plan(
        id=plan_id(decision, fleet.managed),
        decision=decision.id,
        group=decision.group,
        sentence=decision.sentence,
        current=decision.current.describe(),
        proposed=decision.proposed.describe(),
        servers=servers,
        gain=decision.gain,
        gain_low=decision.gain_low,
        gain_high=decision.gain_high,
        evidence=decision.evidence,
        threshold=decision.threshold,
        risks=_risks(decision, group, fleet.managed, servers),
        checks=tuple(of_group),
        refusal=_refusal(unit, decision, group, fleet, now, servers, by_operator, max_concurrent),
        made_at=now,
        expires_at=decision.expires_at,
    )


def plan_id(decision: Decision, managed: Mapping[ServerName, Managed]) -> str:
    """Identity of what a plan rests on: decision, settings, base commands and processes of its servers."""
    parts = [decision.id, repr(decision.current), repr(decision.proposed)]
    for name in decision.servers:
        server = managed.get(name)
        if server is None:
            continue
        try:
            process = server.driver.status().process
        except ActionError:
            process = "unknown"
        parts += [name, server.driver.launcher.base_hash, process]
    return "p-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def restart_cost(past: Sequence[Change], tokens_per_second: float | None) -> RestartCost:
    """What a restart costs, from the past changes of one server (stop asked to ready; the median)."""
    downs = [
        (c.ready_at - begun).total_seconds()
        for c in past
        if c.ready_at is not None and (begun := c.stop_asked_at or c.started_at) is not None and c.ready_at > begun
    ]
    down = median(downs) if downs else None
    lost = down * tokens_per_second if down is not None and tokens_per_second is not None else None
    return RestartCost(down_seconds=down, learned_from=len(downs), lost_tokens=lost)


def _server_plan(
    unit: Unit, decision: Decision, managed: Managed, now: datetime, tokens_per_second: float | None
) -> ServerPlan:
    launcher, name = managed.driver.launcher, managed.server.name
    try:
        diff = launcher.diff(decision.current, decision.proposed)
        warnings = launcher.render(decision.proposed).warnings
    except MonitorError:
        diff, warnings = (), ()
    past = unit.changes.of_server(name, now - timedelta(days=90))
    return ServerPlan(
        server=name,
        driver=managed.driver.kind,
        diff=diff,
        warnings=warnings,
        cost=restart_cost(past, tokens_per_second),
        checks=preflight(decision, managed),
    )


def _risks(
    decision: Decision, group: Group, managed: Mapping[ServerName, Managed], servers: Sequence[ServerPlan]
) -> tuple[str, ...]:
    risks = []
    alone = [n for n in decision.servers if n in managed and needs_downtime(group, managed[n])]
    if alone:
        risks.append(f"clients of {', '.join(alone)} are without it while it restarts")
    if group.limits.allow_downtime and any(
        grace_of(managed[n].driver.launcher) >= group.limits.drain_seconds > 0 for n in alone
    ):
        risks.append(
            f"past {group.limits.drain_seconds:g} s of draining it is asked to end: it finishes what runs and turns"
            " away what is new"
        )
    elif group.limits.cut_after_drain and group.limits.allow_downtime:
        risks.append(f"requests still running after {group.limits.drain_seconds:g} s are cut (cut_after_drain)")
    if decision.gain_low is not None and decision.gain_low < 0:
        risks.append(f"it may be worse: the predicted gain reaches down to {decision.gain_low:+.1%}")
    risks += [f"{plan.server}: {warning}" for plan in servers for warning in plan.warnings]
    if any(plan.cost.down_seconds is None for plan in servers):
        risks.append("how long a restart takes here is not known yet")
    return tuple(risks)


def _refusal(
    unit: Unit,
    decision: Decision,
    group: Group,
    fleet: Fleet,
    now: datetime,
    servers: Sequence[ServerPlan],
    by_operator: bool,
    max_concurrent: int,
) -> str:
    try:
        check_commands(decision, fleet.managed)
        admit(
            unit, decision, group, fleet.managed, now, by_operator=by_operator, max_concurrent=max_concurrent
        )
    except ActionError as error:
        return str(error)
    failed = [f"{plan.server}: {check.sentence}" for plan in servers for check in plan.checks if check.ok is False]
    return "; ".join(failed)
