"""What acting on a decision would do, in titled texts that are kept for whoever looks at it; and what restarts cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from monitor.actions.fleet import Fleet
from monitor.actions.plan import Plan, make_plan, plan_id
from monitor.cycle.history import History
from monitor.drivers.protocol import Check
from monitor.model.decision import Decision, DecisionState
from monitor.model.server import Group, ServerName
from monitor.notify.words import evidence_fields
from monitor.signals.build import signals
from monitor.signals.capacity import Carrying
from monitor.store import Store
from monitor.store.api import Unit

#: What a restart is taken to cost until restarts were seen (seconds).
RESTART_SECONDS = 180.0
#: Over how long a server's throughput is taken (seconds): what a restart costs is what it makes now.
_RATE_SECONDS = 1800.0
#: Decisions of a group among which the one of a plan is looked for; a plan is about the newest or it is stale.
_NEWEST = 3
_OVER = frozenset({DecisionState.SUPERSEDED, DecisionState.EXPIRED, DecisionState.ACTED_ON, DecisionState.REJECTED})


def restart_seconds(unit: Unit, group: Group, now: datetime) -> float:
    """What a restart of the group's servers costs (seconds): the mean of those seen, a usual value before."""
    seen = [
        (change.ready_at - change.stop_asked_at).total_seconds()
        for change in unit.changes.of_servers(group.servers, now - timedelta(days=30))
        if change.ready_at is not None and change.stop_asked_at is not None and change.ready_at > change.stop_asked_at
    ]
    return sum(seen) / len(seen) if seen else RESTART_SECONDS


class Planner:
    """Makes plans for decisions of this daemon's groups; asks servers and host, so no transaction may be open."""

    def __init__(
        self, store: Store, history: History, fleet: Fleet, *, max_concurrent: int = 1,
        survivors: Callable[[Group, datetime], Carrying | None] = lambda group, now: None,
    ) -> None:
        """`survivors`: whether a group without one of its servers would carry its peak."""
        self._store = store
        self._history = history
        self._fleet = fleet
        self._max_concurrent = max_concurrent
        self._survivors = survivors

    def plan(self, decision: Decision, now: datetime) -> Plan:
        """What acting on `decision` would do now. Raises ActionError where its group is not known here."""
        group = self._fleet.groups.get(decision.group)
        carried = self._survivors(group, now) if group is not None else None
        of_group = (Check("capacity", carried.ok, carried.sentence),) if carried is not None else ()
        with self._store.read() as unit:
            return make_plan(
                unit, decision, self._fleet, now, max_concurrent=self._max_concurrent, of_group=of_group,
                tokens_per_second=self._tokens_per_second(decision.servers, now),
            )

    def find(self, plan: str, now: datetime) -> Decision | None:
        """The open decision that a plan of that id is about, as things are now; None where it is about none any more.

        An id holds decision, settings, base commands and processes: a plan that is stale is found no more.
        """
        with self._store.read() as unit:
            newest = [d for name in self._fleet.groups for d in unit.decisions.latest(name, _NEWEST)]
        return next(
            (
                decision
                for decision in newest
                if decision.changes_setting
                and decision.state not in _OVER
                and plan_id(decision, self._fleet.managed) == plan
            ),
            None,
        )

    def _tokens_per_second(self, servers: Iterable[ServerName], now: datetime) -> dict[ServerName, float]:
        """What each server generated a second in the last half hour; those without a page are left out."""
        found = {}
        for name in servers:
            pairs = self._history.pairs([name], now - timedelta(seconds=_RATE_SECONDS))
            load = signals(pairs, scope=name, at=now, window_seconds=_RATE_SECONDS)
            value = load.value("generation_tokens_per_second")
            if value is not None:
                found[name] = value
        return found


def plan_parts(plan: Plan) -> Mapping[str, str]:
    """A plan as titled texts, for people."""
    parts: dict[str, str] = {"plan": plan.id}
    shown = [f"{name} {text}" for name, text in evidence_fields(plan.evidence)]
    if shown:
        parts["evidence"] = "\n".join(shown)
    if plan.threshold is not None:
        parts["the 70/50 rule"] = plan.threshold.sentence
    for server in plan.servers:
        parts[f"command line of {server.server} ({server.driver})"] = "\n".join(server.diff) or "no change"
        cost = server.cost
        down = "not known yet" if cost.down_seconds is None else f"about {cost.down_seconds:.0f} s"
        lost = "" if cost.lost_tokens is None else f", about {cost.lost_tokens:,.0f} tokens not generated meanwhile"
        parts[f"restart of {server.server}"] = f"down {down}{lost}"
    shared = _shared_checks(plan)
    for server in plan.servers:
        own = [_check_words(check) for check in server.checks if check not in shared]
        if own:
            parts[f"checks of {server.server}"] = "\n".join(own)
    of_all = [*plan.checks, *shared]
    if of_all:
        parts[f"checks of {plan.group}"] = "\n".join(_check_words(check) for check in of_all)
    if plan.risks:
        parts["risks"] = "\n".join(plan.risks)
    parts["can be applied now"] = plan.refusal or "yes"
    return parts


def _shared_checks(plan: Plan) -> list[Check]:
    """What is the same for every server: said once, where there are several."""
    if len(plan.servers) < 2:
        return []
    return [check for check in plan.servers[0].checks if all(check in other.checks for other in plan.servers)]


def _check_words(check: Check) -> str:
    word = {True: "ok", False: "FAILED", None: "awaited" if check.is_awaited else "note"}[check.ok]
    return f"{word}: {check.name}: {check.sentence}"
