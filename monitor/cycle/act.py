"""One turn of acting: advance rollouts, answer requests, restart what was proved stuck. It never waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from monitor.actions.events import EventKind
from monitor.actions.executor import Executor
from monitor.actions.orders import Orders
from monitor.cycle.planning import Planner, plan_parts
from monitor.cycle.standing import DAY
from monitor.errors import ActionError, StoreError
from monitor.model.alert import Alert, AlertState
from monitor.model.decision import Decision, DecisionState, Reason
from monitor.model.record import PLAN, AuditEntry, Command, CommandKind, Evidence
from monitor.model.rollout import RolloutId
from monitor.model.server import Group, GroupName, ServerName
from monitor.store import Store
from monitor.store.api import Unit

log = logging.getLogger(__name__)

#: Name of the shipped alert that says an engine is stuck.
STUCK_ALERT = "EngineStuck"


#: Told of a request, the decision that it asks for where there is one, what came of it, and whether it was taken.
AnswerSink = Callable[[Unit, Command, Decision | None, str, bool], None]


def ignore_answer(unit: Unit, command: Command, decision: Decision | None, outcome: str, is_taken: bool) -> None:
    """Nobody wants to know."""


class Counters(Protocol):
    """What acting tells of itself."""

    def change_ended(self, group: str, outcome: str) -> None:
        """A change reached its end."""


class Actor:
    """Acts for this daemon's groups; called by one thread."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        orders: Orders,
        groups: Mapping[GroupName, Group],
        managed: Sequence[ServerName],
        *,
        planner: Planner,
        make_report: Callable[[str], str],
        counters: Counters,
        on_answer: AnswerSink = ignore_answer,
    ) -> None:
        """`make_report` makes the weekly report now for its requester and says where it lies. `on_answer` is told of
        each answer in the transaction that stores it.
        """
        self._store = store
        self._executor = executor
        self._orders = orders
        self._groups = dict(groups)
        self._managed = frozenset(managed)
        self._planner = planner
        self._make_report = make_report
        self._counters = counters
        self._on_answer = on_answer

    def run(self, now: datetime) -> int:
        """One turn; the number of things that happened. Raises StoreError where nothing can be written down."""
        with self._store.read() as unit:
            commands = unit.commands.pending()
        for command in commands:
            self._answer(command, now)
        events = self._executor.tick(now)
        for event in events:
            log.info("rollout=%s event=%s server=%s: %s", event.rollout, event.kind.value, event.server, event.sentence)
            if event.kind in (
                EventKind.CHANGE_PROMOTED, EventKind.CHANGE_ROLLED_BACK, EventKind.CHANGE_ABANDONED
            ):
                self._counters.change_ended(event.group, event.kind.value.removeprefix("change_"))
        return len(commands) + len(events)

    def restart_stuck(self, alerts: Sequence[Alert], now: datetime) -> None:
        """Restart each server whose engine is proved stuck, once an incident, where its group allows it."""
        for alert in alerts:
            server = ServerName(alert.labels.get("server", ""))
            if alert.name != STUCK_ALERT or alert.state is not AlertState.FIRING or server not in self._managed:
                continue
            group = next((g for g in self._groups.values() if server in g.servers), None)
            # One that came back soon after it had resolved is the same incident: the restart did not cure it.
            if group is None or not group.limits.restart_stuck or alert.refired:
                continue
            began = alert.fired_at or alert.active_since
            incident = f"{alert.fingerprint}-{began:%Y%m%dT%H%M%S}"
            why = alert.annotations.get("summary", "its engine is stuck")
            try:
                self._orders.restart(server, why, now, requested_by=f"alert {alert.name}",
                                     reason=Reason.ENGINE_STUCK, incident=incident)
            except ActionError as error:
                level = logging.DEBUG if error.reason == "once_an_incident" else logging.INFO
                log.log(level, "stuck server not restarted server=%s reason=%s: %s", server, error.reason, error)

    def _answer(self, command: Command, now: datetime) -> None:
        is_taken, decision = False, None
        try:
            decision = self._asked_for(command, now)
            outcome = self._obey(command, decision, now)
            is_taken = True
        except ActionError as error:
            outcome = f"refused ({error.reason}): {error}"
        except StoreError:
            raise
        except Exception as error:
            # A request that cannot be answered must not be tried for ever, and rollouts wait for this turn to end.
            log.exception("request failed unexpectedly kind=%s subject=%s", command.kind.value, command.subject)
            outcome = f"failed: {error}"
        log.info("request kind=%s subject=%s author=%s: %s", command.kind.value, command.subject, command.author,
                 outcome)
        with self._store.write() as unit:
            unit.commands.finish(command.id, now, outcome)
            unit.audit.add(
                AuditEntry(now, command.author, f"command.{command.kind.value}", command.subject, outcome)
            )
            self._on_answer(unit, command, decision, outcome, is_taken)

    def _asked_for(self, command: Command, now: datetime) -> Decision | None:
        """The decision that is to be acted on or declined; None for requests of another kind."""
        if command.kind is CommandKind.APPLY:
            return self._planned(command.subject, now)
        if command.kind in (CommandKind.APPROVE, CommandKind.REJECT):
            return self._decision(command.subject)
        return None

    def _obey(self, command: Command, decision: Decision | None, now: datetime) -> str:
        if command.kind is CommandKind.REPORT:
            return self._make_report(command.author)
        if command.kind is CommandKind.ROLLBACK:
            of = None if command.subject in self._groups else RolloutId(command.subject)
            rollout, _ = self._orders.roll_back(self._group_of(command.subject), command.author, now, of=of)
            to = rollout.current if rollout.outcome is not None else rollout.proposed
            return f"going back: rollout {rollout.id} to {to.describe()}"
        if command.kind is CommandKind.PLAN:
            return self._plan(self._decision_of(command.subject), command.id, now)
        if decision is None:
            raise ActionError(f"requests of kind {command.kind.value} are not for this daemon", reason="unknown")
        if command.kind is CommandKind.REJECT:
            return self._decline(decision, command.author, now)
        plan = command.subject if command.kind is CommandKind.APPLY else None
        return self._begin(decision, command.author, now, plan)

    def _begin(self, decision: Decision, author: str, now: datetime, plan: str | None = None) -> str:
        rollout, _ = self._orders.begin(decision, author, now, by_operator=True, expected_plan=plan)
        old, new = rollout.current.describe(), rollout.proposed.describe()
        return f"started rollout {rollout.id}: {f'{old} -> {new}' if old != new else f'restart with {new}'}"

    def _plan(self, decision: Decision, request: str, now: datetime) -> str:
        """Make the plan anew and keep it under the id of the request."""
        if not decision.changes_setting:
            raise ActionError(f"decision {decision.id} is to {decision.action}: nothing to do", reason="nothing_to_do")
        plan = self._planner.plan(decision, now)
        with self._store.write() as unit:
            unit.evidence.add(Evidence(f"plan:{request}", decision.servers[0], now, PLAN, plan_parts(plan)))
        return f"plan {plan.id} of {decision.id}: {plan.refusal or 'can be applied now'}"

    def _planned(self, subject: str, now: datetime) -> Decision:
        """The decision of a plan that still holds."""
        if not subject.startswith("p-"):
            raise ActionError(
                f"apply takes the id of a plan that was seen, not {subject!r}: `acceptd plan {subject}` shows it",
                reason="plan_needed",
            )
        decision = self._planner.find(subject, now)
        if decision is None:
            raise ActionError(
                f"plan {subject} is stale: decision, command, setting or process changed since; look at it again",
                reason="stale_plan",
            )
        return decision

    def _decision_of(self, subject: str) -> Decision:
        """A decision by its id, or the newest one of a group."""
        if subject in self._groups:
            with self._store.read() as unit:
                newest = unit.decisions.latest(GroupName(subject), 1)
            if newest:
                return self._decision(newest[0].id)
            raise ActionError(f"nothing was decided for group {subject!r} yet", reason="unknown")
        return self._decision(subject)

    def _decision(self, subject: str) -> Decision:
        with self._store.read() as unit:
            decision = unit.decisions.get(subject)  # type: ignore[arg-type]
        if decision is None:
            raise ActionError(f"there is no decision {subject!r}", reason="unknown")
        if decision.state in (DecisionState.SUPERSEDED, DecisionState.EXPIRED):
            raise ActionError(f"decision {subject} is {decision.state.value}: look at the newest one", reason="stale")
        return decision

    def _decline(self, decision: Decision, author: str, now: datetime) -> str:
        if decision.state is DecisionState.ACTED_ON:
            raise ActionError(f"decision {decision.id} is being carried out: roll it back instead", reason="too_late")
        declined = replace(
            decision, state=DecisionState.REJECTED, note=f"declined by {author}", expires_at=now + DAY
        )
        with self._store.write() as unit:
            unit.decisions.update(declined)
        return f"declined: {decision.id} is not asked for again for a day"

    def _group_of(self, subject: str) -> GroupName:
        """A group by its name, or by one of its rollouts."""
        if subject in self._groups:
            return GroupName(subject)
        with self._store.read() as unit:
            rollout = unit.rollouts.get(subject)  # type: ignore[arg-type]
        if rollout is None:
            known = ", ".join(self._groups)
            raise ActionError(f"no group or rollout {subject!r}; groups: {known}", reason="unknown")
        return rollout.group
