"""Keeps decisions: one standing conclusion a group, told once, handed on where the group's mode says so."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from monitor.actions.fleet import Fleet
from monitor.cycle.decide import Question, decide
from monitor.cycle.elsewhere import Elsewhere
from monitor.cycle.evaluate import Evaluated
from monitor.cycle.experience import facts, tune_input
from monitor.cycle.history import History
from monitor.cycle.planning import Planner, plan_parts, restart_seconds
from monitor.cycle.schedules import Schedules
from monitor.cycle.standing import DAY, OPEN, answer_for, is_same, revivable
from monitor.errors import ActionError
from monitor.launch.speculation import canonical_method
from monitor.model.alert import AlertState
from monitor.model.decision import Action, Decision, DecisionId, DecisionState
from monitor.model.life import LifeId, Setting
from monitor.model.record import Evidence, Rejection, Restart
from monitor.model.server import Group, Mode, ServerName
from monitor.notify.compose import decision_notice, refused_notice
from monitor.notify.routing import Routing
from monitor.store import Store
from monitor.store.api import Unit
from monitor.targets.drafts import DraftFacts
from monitor.tuning import TuneInput

log = logging.getLogger(__name__)

#: A standing conclusion is renewed with the newest numbers after so long.
_RENEWED_AFTER = timedelta(hours=1)

#: Alerts that say acceptance fell from what it was at an unchanged setting: a fault, which no setting cures. A draft
#: that never fitted is another matter: there restarting changes nothing.
_COLLAPSED = frozenset({"AcceptanceCliff"})
#: The same where it falls slowly in a process that runs for long; true for an hour before it fires.
_DECAYS = frozenset({"AcceptanceDecaysWithUptime"})
#: A collapse stops tuning before its alert has been sure for long enough to wake someone.
_AT_ONCE = (AlertState.PENDING, AlertState.FIRING)

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
        receivers: Routing,
        simulated: bool,
        counters: Counters,
        planner: Planner | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """`begin` starts a rollout for a decision; raises ActionError where it may not."""
        self._elsewhere = elsewhere or Elsewhere(history, ())
        self._planner = planner or Planner(store, history, fleet)
        self._store = store
        self._schedules = Schedules(fleet, history)
        self._history = history
        self._groups = tuple(groups)
        self._fleet = fleet
        self._begin = begin
        self._receivers = receivers
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
            restart = restart_seconds(unit, group, now)
            latest = unit.decisions.latest(group.name, 1)
            declined = [d for d in unit.decisions.in_state(DecisionState.REJECTED) if d.group == group.name]
            past = [*reversed(unit.decisions.since(group.name, now - DAY)), *declined]
            starts = unit.restarts.of_servers(group.servers, now - DAY)
        members = [name for name in group.servers if name in seen.servers]
        if any(self._is_unseen(name, [one for one in starts if one.server == name]) for name in members):
            # What is known is of a process that is gone: its numbers must not be taken for those of the new one.
            return None
        lives = {name: self._history.newest_lives(name) for name in members}
        settings = {life.setting for found in lives.values() for life in found}
        window = seen.bases[group.name].window
        # A server that shows no life may come back at any setting.
        is_one = len(settings) == 1 and all(lives.values())
        setting = next(iter(settings)) if is_one else Setting()
        given = self._given(group, seen, members, setting, rejections, restart) if is_one else None
        decision = decide(
            Question(
                group=group, setting=setting, window=window, given=given, now=now,
                lives={name: tuple(LifeId(life.id) for life in found) for name, found in lives.items() if found},
                outcomes=seen.tunes[group.name], firings=seen.firings.get(group.name, ()),
                decision_id=DecisionId(f"d-{secrets.token_hex(3)}"),
            )
        )
        advice = self._schedules.news(group, setting, given, now) if given is not None else None
        if advice is not None:
            with self._store.write() as unit:
                unit.evidence.add(advice)
        newest = latest[0] if latest else None
        if newest is not None and is_same(newest, decision):
            self._again(group, newest, decision)
            return None
        if answer_for(decision, past) is not None:
            return None
        return self._settle(group, decision, newest, revivable(decision, past))

    def _is_unseen(self, name: ServerName, starts: Sequence[Restart]) -> bool:
        """Whether the server was started after the newest page that told something of it."""
        end = self._history.last_end(name)
        return bool(starts) and end is not None and starts[-1].at > end

    def _given(
        self, group: Group, seen: Evaluated, members: Sequence[ServerName], setting: Setting,
        rejections: Sequence[Rejection], restart: float,
    ) -> TuneInput:
        """What the tuner is told."""
        basis = seen.bases[group.name]
        failed = any(seen.servers[name].value("probe_failed") == 1.0 for name in members)
        adapts = any(life.adapts for name in members for life in self._history.newest_lives(name))
        draft = self._draft(members, setting)
        return tune_input(
            [self._history.coarse_track(name) for name in members], basis.window, setting=setting, limits=group.limits,
            rejections=rejections, restart_seconds=restart, replicas=len(members), now=seen.now,
            elsewhere=self._elsewhere.costs(group, setting, seen.now),
            trained_depth=draft.trained_depth, draft_ratio=draft.weight_ratio,
            known_facts=facts(
                basis.window, setting, basis.flags, probe_failed=failed, adapts=adapts,
                fell=_is_told(seen, group, _COLLAPSED, _AT_ONCE),
                decays=_is_told(seen, group, _DECAYS, (AlertState.FIRING,)),
            ),
        )

    def _draft(self, members: Sequence[ServerName], setting: Setting) -> DraftFacts:
        """What the files of the draft say where servers of this host agree on it; nothing of another method's draft."""
        known = {self._fleet.managed[name].draft() for name in members if name in self._fleet.managed}
        found = known.pop() if len(known) == 1 else DraftFacts()
        return found if found.method is not None and found.method == canonical_method(setting.method) else DraftFacts()

    def _settle(
        self, group: Group, decision: Decision, newest: Decision | None, revived: Decision | None
    ) -> Decision:
        """Store a new conclusion in place of the standing one, and act on it where that is the group's mode."""
        now, mode = decision.made_at, self._mode(group, decision)
        stored = replace(
            decision, id=revived.id if revived is not None else decision.id,
            state=_STATES[mode] if decision.changes_setting else DecisionState.STANDING,
        )
        # Before the transaction: servers and host are asked for it.
        plan = self._plan(stored) if revived is None else None
        with self._store.write() as unit:
            if newest is not None and newest.state in OPEN and newest.id != stored.id:
                unit.decisions.update(replace(newest, state=DecisionState.SUPERSEDED))
            if revived is not None:
                unit.decisions.update(stored)
            else:
                unit.decisions.add(stored)
                if plan is not None:
                    unit.evidence.add(plan)
                self._tell(unit, stored, mode)
        log.info("decision id=%s group=%s action=%s reason=%s: %s", stored.id, stored.group, stored.action.value,
                 stored.reason.value, stored.sentence)
        if mode is Mode.AUTO and stored.changes_setting:
            self._try(stored, now)
        return stored

    def _tell(self, unit: Unit, decision: Decision, mode: Mode) -> None:
        if not decision.changes_setting or mode is Mode.OBSERVE:
            return
        notice = decision_notice(
            decision, mode, decision.made_at, is_managed=self._is_managed(decision), simulated=self._simulated
        )
        unit.outbox.queue(notice, self._receivers(notice), decision.made_at)

    def _again(self, group: Group, standing: Decision, new: Decision) -> None:
        """The same conclusion once more: try again what was only put off, renew what is running out."""
        now = new.made_at
        if self._mode(group, standing) is Mode.AUTO and standing.changes_setting and standing.expires_at > now:
            self._try(standing, now)
        elif now - standing.made_at >= _RENEWED_AFTER or _says_more(standing, new):
            renewed = replace(new, id=standing.id, state=standing.state, note=standing.note)
            with self._store.write() as unit:
                unit.decisions.update(renewed)

    def _try(self, decision: Decision, now: datetime) -> None:
        """Begin the rollout; what may not begin now is tried again, what may never is refused."""
        try:
            self._begin(decision, f"rule {decision.rule}", now)
        except ActionError as error:
            is_final = not (error.retryable or error.reason in _PATIENT)
            state, note = DecisionState.REFUSED if is_final else decision.state, f"not done: {error}"
            if (state, note) == (decision.state, decision.note):
                return
            log.info("decision not acted on id=%s reason=%s: %s", decision.id, error.reason, error)
            refused = replace(decision, state=state, note=note)
            with self._store.write() as unit:
                unit.decisions.update(refused)
                if is_final or error.reason == "drift":
                    # Somebody's hand stays acceptd's: they should hear of it, and who can end that.
                    notice = refused_notice(refused, now, simulated=self._simulated)
                    unit.outbox.queue(notice, self._receivers(notice), now)

    def _mode(self, group: Group, decision: Decision) -> Mode:
        """How far acceptd may go with this decision: servers without a driver can only be spoken of.

        Restarting to cure a fault is proposed to a person: what broke acceptance may break it again, and nobody but a
        person can tell a cure from a loop.
        """
        if decision.action is Action.RESTART and group.mode is Mode.AUTO:
            return Mode.RECOMMEND
        is_bounded = group.mode in (Mode.APPROVE, Mode.AUTO) and not self._is_managed(decision)
        return Mode.RECOMMEND if is_bounded else group.mode

    def _is_managed(self, decision: Decision) -> bool:
        return bool(decision.servers) and all(name in self._fleet.managed for name in decision.servers)

    def _plan(self, decision: Decision) -> Evidence | None:
        """What acting on the decision would do, for whoever looks at it; None where there is nothing to do."""
        if not decision.changes_setting or not self._is_managed(decision):
            return None
        try:
            plan = self._planner.plan(decision, decision.made_at)
        except ActionError as error:
            log.debug("no plan decision=%s: %s", decision.id, error)
            return None
        return Evidence(f"plan:{decision.id}", decision.servers[0], decision.made_at, "plan", plan_parts(plan))


#: Refusals that time lifts by itself: the decision stays and is tried again.
_PATIENT = frozenset({"cooldown", "changes_per_day", "paused", "busy", "active_rollout", "not_coordinator", "budget",
                      "window", "drift", "fleet_store_away"})


def _says_more(standing: Decision, new: Decision) -> bool:
    """Whether a conclusion to keep has newer numbers in its sentence: people read them as those of now."""
    return new.action is Action.KEEP and new.sentence != standing.sentence


def _is_told(seen: Evaluated, group: Group, names: frozenset[str], states: Collection[AlertState]) -> bool:
    """Whether one of these alerts about the group's servers is in one of `states`."""
    return any(
        alert.name in names and alert.state in states and alert.labels.get("server") in group.servers
        for alert in seen.alerts
    )
