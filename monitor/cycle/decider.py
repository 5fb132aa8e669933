"""Keeps decisions: one standing conclusion a group, told once, handed on where the group's mode says so."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from monitor.actions.fleet import Fleet
from monitor.actions.plan import Plan, make_plan
from monitor.actions.preflight import Check
from monitor.cycle.decide import Question, decide
from monitor.cycle.evaluate import SHORT_WINDOW_SECONDS, Evaluated
from monitor.cycle.experience import facts, tune_input
from monitor.cycle.history import History
from monitor.errors import ActionError
from monitor.model.alert import AlertState
from monitor.model.decision import Decision, DecisionId, DecisionState
from monitor.model.life import LifeId, Setting
from monitor.model.record import Evidence
from monitor.model.server import Group, Mode, ServerName
from monitor.model.signal import SignalSet
from monitor.notify.compose import decision_notice
from monitor.signals.build import signals
from monitor.store import Store
from monitor.store.api import Unit

log = logging.getLogger(__name__)

#: How long the same conclusion to keep is not written again (seconds).
_KEEP_AGAIN_SECONDS = 3600.0
#: How long a person's "no" to a change holds (seconds).
_REJECTED_SECONDS = 86_400.0
#: What a restart is taken to cost until restarts were seen (seconds).
RESTART_SECONDS = 180.0

#: Alerts that say acceptance collapsed at an unchanged setting: a fault, which no setting cures.
_COLLAPSED = frozenset({"AcceptanceCliff", "DraftBroken"})

_OPEN = (DecisionState.STANDING, DecisionState.RECOMMENDED, DecisionState.AWAITING_APPROVAL)
_STATES = {
    Mode.OBSERVE: DecisionState.STANDING,
    Mode.RECOMMEND: DecisionState.RECOMMENDED,
    Mode.APPROVE: DecisionState.AWAITING_APPROVAL,
    Mode.AUTO: DecisionState.RECOMMENDED,
}


class Counters(Protocol):
    """What deciding tells of itself."""

    def decision(self, group: str, action: str, reason: str) -> None:
        """A decision was made."""


class Decider:
    """Decides for every group after each evaluation; called by one thread."""

    def __init__(
        self,
        store: Store,
        history: History,
        groups: Sequence[Group],
        fleet: Fleet,
        *,
        begin: Callable[[Decision, str, datetime], object],
        receivers: Sequence[str],
        simulated: bool,
        counters: Counters,
    ) -> None:
        """`begin` starts a rollout for a decision; raises ActionError where it may not."""
        self._store = store
        self._history = history
        self._groups = tuple(groups)
        self._fleet = fleet
        self._begin = begin
        self._receivers = tuple(receivers)
        self._simulated = simulated
        self._counters = counters

    def run(self, seen: Evaluated) -> list[Decision]:
        """Decide for every group; what was concluded anew."""
        made = []
        for group in self._groups:
            if group.name not in seen.tunes:
                continue
            decision = self._decide(group, seen)
            if decision is not None:
                made.append(decision)
                self._counters.decision(decision.group, decision.action.value, decision.reason.value)
        return made

    def _decide(self, group: Group, seen: Evaluated) -> Decision | None:
        now = seen.now
        with self._store.read() as unit:
            if unit.rollouts.active(group.name):
                return None
            rejections = unit.rejections.of(group.name)
            latest = unit.decisions.latest(group.name, 20)
            restart = restart_seconds(unit, group, now)
        members = [name for name in group.servers if name in seen.servers]
        lives = {name: found for name in members if (found := self._history.newest_lives(name))}
        settings = {life.setting for found in lives.values() for life in found}
        pairs = self._history.pairs(members)
        window = self._window(group, seen, members)
        setting = next(iter(settings)) if len(settings) == 1 else Setting()
        given = None
        if len(settings) == 1:
            failed = any(seen.servers[name].value("probe_failed") == 1.0 for name in members)
            flags = {flag for _, i in self._history.pairs(members, now - timedelta(seconds=SHORT_WINDOW_SECONDS))
                     for flag in i.flags}
            given = tune_input(
                pairs, window, setting=setting, limits=group.limits, rejections=rejections, restart_seconds=restart,
                replicas=len(members), now=now,
                known_facts=facts(window, setting, flags, probe_failed=failed, fell=_fell(seen, group)),
            )
        decision = decide(
            Question(
                group=group, setting=setting, window=window, given=given, now=now,
                lives={name: tuple(LifeId(life.id) for life in found) for name, found in lives.items()},
                outcomes=seen.tunes[group.name], firings=seen.firings.get(group.name, ()),
                decision_id=DecisionId(f"d-{secrets.token_hex(3)}"),
            )
        )
        return self._settle(group, decision, latest, now)

    def _window(self, group: Group, seen: Evaluated, members: Sequence[ServerName]) -> SignalSet:
        """The group's signals over the longest window of its rules, on which evidence and advice rest."""
        outcomes = seen.firings.get(group.name, ())
        seconds = max((firing.window_seconds for firing in outcomes), default=SHORT_WINDOW_SECONDS)
        return signals(self._history.pairs(members), scope=f"group:{group.name}", at=seen.now, window_seconds=seconds)

    def _settle(self, group: Group, decision: Decision, latest: Sequence[Decision], now: datetime) -> Decision | None:
        """Store a new conclusion, or leave the standing one where it says the same."""
        newest = latest[0] if latest else None
        if newest is not None and _same(newest, decision):
            return self._again(group, newest, now)
        if decision.changes_setting and _was_declined(latest, decision, now):
            return None
        stored = replace(decision, state=_STATES[group.mode] if decision.changes_setting else DecisionState.STANDING)
        with self._store.write() as unit:
            for old in latest:
                if old.state in _OPEN:
                    unit.decisions.update(replace(old, state=DecisionState.SUPERSEDED))
            unit.decisions.add(stored)
            if stored.changes_setting:
                self._plan(unit, stored, now)
                if group.mode is not Mode.OBSERVE:
                    mode = group.mode if self._is_managed(stored) else Mode.RECOMMEND
                    unit.outbox.queue(decision_notice(stored, mode, now, simulated=self._simulated),
                                      self._receivers, now)
        log.info("decision id=%s group=%s action=%s reason=%s: %s", stored.id, stored.group, stored.action.value,
                 stored.reason.value, stored.sentence)
        if group.mode is Mode.AUTO and stored.changes_setting and self._is_managed(stored):
            self._try(stored, now)
        return stored

    def _again(self, group: Group, standing: Decision, now: datetime) -> Decision | None:
        """The same conclusion once more: try again what was only put off, renew what is running out."""
        if standing.state not in _OPEN:
            return None
        age = (now - standing.made_at).total_seconds()
        if standing.changes_setting and group.mode is Mode.AUTO and self._is_managed(standing):
            if standing.expires_at > now:
                self._try(standing, now)
                return None
        elif age < _KEEP_AGAIN_SECONDS:
            return None
        renewed = replace(standing, expires_at=now + (standing.expires_at - standing.made_at))
        with self._store.write() as unit:
            unit.decisions.update(renewed)
        return None

    def _try(self, decision: Decision, now: datetime) -> None:
        """Begin the rollout; what may not begin now is tried again, what may never is refused."""
        try:
            self._begin(decision, f"rule {decision.rule}", now)
        except ActionError as error:
            state = decision.state if error.retryable or error.reason in _PATIENT else DecisionState.REFUSED
            note = f"not done: {error}"
            if (state, note) == (decision.state, decision.note):
                return
            log.info("decision not acted on id=%s reason=%s: %s", decision.id, error.reason, error)
            with self._store.write() as unit:
                unit.decisions.update(replace(decision, state=state, note=note))

    def _is_managed(self, decision: Decision) -> bool:
        return bool(decision.servers) and all(name in self._fleet.managed for name in decision.servers)

    def _plan(self, unit: Unit, decision: Decision, now: datetime) -> None:
        """Keep what acting on the decision would do, for whoever looks at it."""
        if not self._is_managed(decision):
            return
        try:
            plan = make_plan(unit, decision, self._fleet, now)
        except ActionError as error:
            log.debug("no plan decision=%s: %s", decision.id, error)
            return
        unit.evidence.add(Evidence(f"plan:{decision.id}", decision.servers[0], now, "plan", plan_parts(plan)))


#: Refusals that time lifts by itself: the decision stays and is tried again.
_PATIENT = frozenset({"cooldown", "changes_per_day", "paused", "busy", "active_rollout", "not_coordinator", "budget"})


def _fell(seen: Evaluated, group: Group) -> bool:
    """Whether an alert about collapsed acceptance of the group's servers is firing, or about to."""
    return any(
        alert.name in _COLLAPSED
        and alert.state in (AlertState.PENDING, AlertState.FIRING)
        and alert.labels.get("server") in group.servers
        for alert in seen.alerts
    )


def _same(old: Decision, new: Decision) -> bool:
    """Whether two decisions ask for the same from the same; a refused or finished one answers for the new one too."""
    same = (old.action, old.reason, old.current, old.proposed, old.rule) == (
        new.action, new.reason, new.current, new.proposed, new.rule
    )
    if not same:
        return False
    if old.state in _OPEN:
        return not new.changes_setting or old.precondition.lives == new.precondition.lives
    # A change that was refused or ended is not asked for again until something is different or it has expired.
    return new.made_at < old.expires_at


def _was_declined(latest: Sequence[Decision], decision: Decision, now: datetime) -> bool:
    return any(
        old.state is DecisionState.REJECTED
        and old.proposed == decision.proposed
        and (now - old.made_at).total_seconds() < _REJECTED_SECONDS
        for old in latest
    )


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
