"""Beginning and ending rollouts on request: what daemon, CLI and page may ask for. It carries nothing out."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from monitor.actions.admission import admit, check_commands
from monitor.actions.events import EventKind, RolloutEvent
from monitor.actions.fleet import Fleet
from monitor.actions.journal import EventSink, Journal, ignore_event, reject
from monitor.actions.plan import plan_id
from monitor.actions.probe import tokens_of
from monitor.actions.records import lease_name
from monitor.actions.rights import OwnRights, Rights
from monitor.actions.step import Timing
from monitor.actions.terms import ROLLBACK_RULE
from monitor.errors import ActionError
from monitor.model.decision import Action, Decision, DecisionId, DecisionState, Precondition, Reason
from monitor.model.life import Setting
from monitor.model.rollout import Change, ChangeId, ChangeState, Outcome, Rollout, RolloutId, RolloutState
from monitor.model.server import Group, GroupName, ServerName
from monitor.store.api import ActiveRolloutExists, Store, Unit

#: How long a restart or a way back that was asked for may wait for its turn (a pause, a drain).
_ORDER_LIFETIME = timedelta(hours=1)


def _coordinated_by(group: Group, holder: str) -> ActionError:
    return ActionError(f"group {group.name} is coordinated by {holder}", reason="not_coordinator", retryable=True)


def new_id(prefix: str) -> str:
    """A short id that people can type: `r-3fa91c`."""
    return f"{prefix}-{secrets.token_hex(3)}"


class Orders:
    """Takes orders for this daemon's groups; each is refused (ActionError, with a reason word) or stored."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        *,
        holder: str,
        timing: Timing | None = None,
        max_concurrent: int = 1,
        on_event: EventSink = ignore_event,
        make_id: Callable[[str], str] = new_id,
        rights: Rights | None = None,
    ) -> None:
        """`rights`: who may change which group in the fleet; all of them here by default."""
        self._rights = rights or OwnRights()
        self._store = store
        self._fleet = fleet
        self._holder = holder
        self._timing = timing or Timing()
        self._max_concurrent = max_concurrent
        self._journal = Journal(on_event)
        self._make_id = make_id

    def begin(
        self,
        decision: Decision,
        requested_by: str,
        now: datetime,
        *,
        by_operator: bool = False,
        expected_plan: str | None = None,
    ) -> tuple[Rollout, list[RolloutEvent]]:
        """Store a rollout for `decision`; it is carried out by the ticks that follow.

        `expected_plan` is the id of the plan that a person saw: refused (`stale_plan`) where it would be another now.
        """
        group = self._group(decision.group)
        if expected_plan is not None and expected_plan != plan_id(decision, self._fleet.managed):
            raise ActionError(
                f"plan {expected_plan} is stale: command, setting or process changed since; look at it again",
                reason="stale_plan",
            )
        check_commands(decision, self._fleet.managed)
        may = partial(
            admit, decision=decision, group=group, managed=self._fleet.managed, now=now, by_operator=by_operator,
            max_concurrent=self._max_concurrent,
        )  # fmt: skip
        if decision.action is not Action.RESTART:
            # A server that is down is started whoever can be asked. Who may not begin anyway (a cool-down) and asks at
            # each turn must not keep the right from other hosts.
            with self._store.read() as unit:
                held = unit.leases.get(lease_name(group.name))
                if held is not None and held.holder not in ("", self._holder) and held.expires_at > now:
                    raise _coordinated_by(group, held.holder)
                may(unit)
            self._rights.take(group.name, now)
        try:
            with self._store.write() as unit:
                self._take_lease(unit, group, now)
                may(unit)
                return self._store_rollout(unit, decision, requested_by, now)
        except ActiveRolloutExists as error:
            raise ActionError(str(error), reason="active_rollout", retryable=True) from error
        except ActionError as error:
            if error.reason != "active_rollout":
                self._rights.drop(group.name)
            raise

    def restart(
        self, server: ServerName, why: str, now: datetime, *, requested_by: str, reason: Reason, incident: str = ""
    ) -> tuple[Rollout, list[RolloutEvent]]:
        """Store the restart of one server with the setting it should have; also starts one that is down.

        A stuck server (ENGINE_STUCK) is not drained, needs `restart_stuck` unless an operator asks, and is restarted
        once an `incident`.
        """
        group = self._group_of(server)
        by_operator = reason is Reason.REQUESTED_BY_OPERATOR
        if reason is Reason.ENGINE_STUCK and not group.limits.restart_stuck:
            raise ActionError(f"group {group.name} does not allow stuck servers to be restarted", reason="limits")
        setting = self._setting_of(server)
        decision = _order(
            DecisionId(f"restart-{incident}") if incident else DecisionId(self._make_id("d")),
            group, (server,), "restart", Action.RESTART, reason, f"restart of {server}: {why}", setting, setting, now,
        )  # fmt: skip
        with self._store.read() as unit:
            if incident and unit.decisions.get(decision.id) is not None:
                raise ActionError(f"{server} was restarted once for this incident", reason="once_an_incident")
        return self.begin(decision, requested_by, now, by_operator=by_operator)

    def roll_back(
        self, name: GroupName, author: str, now: datetime, *, of: RolloutId | None = None
    ) -> tuple[Rollout, list[RolloutEvent]]:
        """Go back: call the active rollout off; else to the last good setting that servers have left, by whatever hand;
        else undo the last rollout that was kept.

        Raises ActionError where a certain rollout was meant (`of`) and that is neither: another would be undone.
        """
        group = self._group(name)
        with self._store.write() as unit:
            active = unit.rollouts.active(name)
            if of is not None:
                meant = active or _kept_changes(unit, name, now)[-1:]
                if of not in [rollout.id for rollout in meant]:
                    instead = f"`acceptd rollback {name}` goes back from {meant[0].id}" if meant else "nothing is"
                    raise ActionError(f"{of} is not to go back from now: {instead}", reason="nothing_to_do")
            if active:
                return self._call_off(unit, active[0], author, now)
        back = self._to_last_good(group) or self._undo(group, now)
        decision = _order(
            DecisionId(self._make_id("d")), group, back.servers, ROLLBACK_RULE, Action.PROBE,
            Reason.REQUESTED_BY_OPERATOR, f"{author} asked to go back from {back.current.describe()} to "
            f"{back.proposed.describe()} ({back.why})", back.current, back.proposed, now,
        )  # fmt: skip
        rollout, events = self.begin(decision, author, now, by_operator=True)
        with self._store.write() as unit:
            # Whoever went back by hand does not want it proposed again tomorrow.
            reject(unit, name, back.current, decision.sentence, None, now)
        return rollout, events

    def _to_last_good(self, group: Group) -> _Back | None:
        """The servers that run with another number than the one they were last known to be good at."""
        strayed: dict[tuple[Setting, Setting], list[ServerName]] = {}
        for name in group.servers:
            managed = self._fleet.managed.get(name)
            if managed is None:
                continue
            with self._store.read() as unit:
                good = unit.last_good.get(name)
            shown = tokens_of(managed.probe.page())
            if good is None or good.command_hash != managed.driver.launcher.base_hash or shown is None:
                continue
            if shown != good.setting.num_speculative_tokens:
                current = replace(good.setting, num_speculative_tokens=shown, schedule=())
                strayed.setdefault((current, good.setting), []).append(name)
        if not strayed:
            return None
        (current, proposed), servers = max(strayed.items(), key=lambda item: len(item[1]))
        return _Back(tuple(servers), current, proposed, "its last good setting")

    def _undo(self, group: Group, now: datetime) -> _Back:
        with self._store.read() as unit:
            past = _kept_changes(unit, group.name, now)
            if not past:
                raise ActionError(f"group {group.name} has no change to go back from", reason="nothing_to_do")
            last = past[-1]
            if last.outcome is Outcome.RESTORED:
                raise ActionError(f"group {group.name} went back already ({last.id})", reason="nothing_to_do")
            servers = tuple(c.server for c in unit.changes.of_rollout(last.id) if c.state is ChangeState.PROMOTED)
        return _Back(servers, last.proposed, last.current, last.id)

    def _call_off(
        self, unit: Unit, rollout: Rollout, author: str, now: datetime
    ) -> tuple[Rollout, list[RolloutEvent]]:
        if rollout.outcome is not None:
            return rollout, []
        off = replace(rollout, outcome=Outcome.CANCELLED, sentence=f"called off by {author}")
        unit.rollouts.update(off)
        return off, [self._journal.tell(unit, off, EventKind.PROGRESS, off.sentence, now, actor=author)]

    def _store_rollout(
        self, unit: Unit, decision: Decision, requested_by: str, now: datetime
    ) -> tuple[Rollout, list[RolloutEvent]]:
        acted_on = replace(decision, state=DecisionState.ACTED_ON, note=requested_by)
        if unit.decisions.get(decision.id) is None:
            unit.decisions.add(acted_on)
        else:
            unit.decisions.update(acted_on)
        rollout = Rollout(
            id=RolloutId(self._make_id("r")),
            group=decision.group,
            decision=decision.id,
            current=decision.current,
            proposed=decision.proposed,
            created_at=now,
            requested_by=requested_by,
        )
        unit.rollouts.add(rollout)
        unit.changes.add(_changes(rollout, decision.servers, now))
        sentence = f"{decision.group}: {decision.sentence} ({', '.join(decision.servers)})"
        return rollout, [self._journal.tell(unit, rollout, EventKind.STARTED, sentence, now, actor=requested_by)]

    def _take_lease(self, unit: Unit, group: Group, now: datetime) -> None:
        name = lease_name(group.name)
        if unit.leases.acquire(name, self._holder, self._timing.lease_seconds, now) is None:
            held = unit.leases.get(name)
            raise _coordinated_by(group, held.holder if held else "another daemon")

    def _setting_of(self, server: ServerName) -> Setting:
        """What a server should run with: its last good setting, unless the operator edited its command since."""
        launcher = self._fleet.managed[server].driver.launcher
        with self._store.read() as unit:
            good = unit.last_good.get(server)
        return good.setting if good is not None and good.command_hash == launcher.base_hash else launcher.base_setting

    def _group(self, name: GroupName) -> Group:
        group = self._fleet.groups.get(name)
        if group is None:
            raise ActionError(f"there is no group {name!r} here", reason="unknown_group")
        return group

    def _group_of(self, server: ServerName) -> Group:
        for group in self._fleet.groups.values():
            if server in group.servers and server in self._fleet.managed:
                return group
        raise ActionError(f"{server!r} is not a server that acceptd manages here", reason="not_managed")


@dataclass(frozen=True, slots=True)
class _Back:
    """A way back: which servers, from what to what, and why."""

    servers: tuple[ServerName, ...]
    current: Setting
    proposed: Setting
    why: str


def _kept_changes(unit: Unit, group: GroupName, now: datetime) -> list[Rollout]:
    """Rollouts of the last 90 days that changed the setting for good, the newest last."""
    return [
        rollout for rollout in unit.rollouts.since(group, now - timedelta(days=90))
        if rollout.state is RolloutState.PROMOTED and rollout.current != rollout.proposed
    ]


def _order(
    decision: DecisionId, group: Group, servers: Sequence[ServerName], rule: str, action: Action, reason: Reason,
    sentence: str, current: Setting, proposed: Setting, now: datetime,
) -> Decision:  # fmt: skip
    return Decision(
        id=decision,
        group=group.name,
        servers=tuple(servers),
        rule=rule,
        action=action,
        reason=reason,
        sentence=sentence,
        current=current,
        proposed=proposed,
        precondition=Precondition(lives={}, setting=current),
        made_at=now,
        expires_at=now + _ORDER_LIFETIME,
    )


def _changes(rollout: Rollout, servers: Sequence[ServerName], now: datetime) -> list[Change]:
    return [
        Change(
            id=ChangeId(f"{rollout.id}-{position + 1}"),
            rollout=rollout.id,
            server=server,
            position=position,
            state=ChangeState.PLANNED,
            current=rollout.current,
            proposed=rollout.proposed,
            entered_at=now,
            is_canary=position == 0 and len(servers) > 1,
        )
        for position, server in enumerate(servers)
    ]
