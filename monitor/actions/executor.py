"""Carries rollouts out: looks, asks the machine, writes down, acts. The way into `monitor/actions/`.

It never waits: `tick` advances each rollout as far as it goes without waiting and returns. After our death the next
`tick` of the next daemon goes on from what is written, since every step looks at the world first.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.actions.course import CourseStep, close, front, next_in_rollout
from monitor.actions.events import EventKind, RolloutEvent
from monitor.actions.fleet import Fleet, Gate, OpenGate
from monitor.actions.hands import Hands
from monitor.actions.journal import EventSink, Journal, ignore_event
from monitor.actions.judge import Judge
from monitor.actions.looking import Case, Lookout
from monitor.actions.machine import next_step
from monitor.actions.memory import Memory
from monitor.actions.records import is_in_force, lease_name, pause_of, refusal_of_records, starts_left
from monitor.actions.rights import OwnRights, Rights
from monitor.actions.steady import SteadyTime
from monitor.actions.step import Seen, Step, Timing
from monitor.actions.steps import moved
from monitor.actions.terms import grace_of, terms_of
from monitor.clock import Clock
from monitor.errors import ActionError, StoreError
from monitor.model.decision import Decision
from monitor.model.rollout import Change, ChangeId, Lease, Rollout, RolloutId, RolloutState
from monitor.store.api import Store, Unit

logger = logging.getLogger(__name__)

#: Steps of one change in one tick: enough to pass through states that wait for nothing, never a loop.
_STEPS_A_TICK = 8
#: A step that was entered further in the future than this was entered by another clock.
_CLOCK_SLACK = timedelta(seconds=5)


class Executor:
    """The one that acts on this daemon's servers. `holder` names the daemon in leases, the same after its restart."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        fleet: Fleet,
        judge: Judge,
        *,
        holder: str,
        gate: Gate | None = None,
        timing: Timing | None = None,
        on_event: EventSink = ignore_event,
        rights: Rights | None = None,
    ) -> None:
        self._rights = rights or OwnRights()
        self._store = store
        self._fleet = fleet
        self._holder = holder
        self._timing = timing or Timing()
        self._steady = SteadyTime(clock)
        self._journal = Journal(on_event)
        self._lookout = Lookout(clock, fleet.all_probes, judge, gate or OpenGate(), self._timing)
        self._hands = Hands(clock)
        self._clock = clock
        self._leases: dict[str, Lease | None] = {}
        self._memories: dict[ChangeId, Memory] = {}

    def tick(self, now: datetime) -> list[RolloutEvent]:
        """Advance every active rollout as far as it goes without waiting; what happened.

        Raises StoreError where nothing can be written down: nothing is done then. What else a rollout breaks on is
        raised after all others had their turn.
        """
        with self._store.read() as unit:
            rollouts = unit.rollouts.active()
        steady = self._steady.now(now, busy=bool(rollouts))
        self._rights.keep({rollout.group for rollout in rollouts if rollout.group in self._fleet.groups}, now)
        events: list[RolloutEvent] = []
        broken: list[Exception] = []
        for rollout in rollouts:
            try:
                if rollout.group in self._fleet.groups:
                    events += self._advance(rollout, now, steady)
                events += self._close_if_orphaned(rollout, now)
            except StoreError:
                raise
            except Exception as error:
                # One rollout that breaks us must not keep the others from being finished.
                broken.append(error)
        if broken:
            raise broken[0]
        return events

    def end(self) -> None:
        """The daemon stops: rights under which nothing goes on are given back. Raises StoreError."""
        with self._store.read() as unit:
            self._rights.end({rollout.group for rollout in unit.rollouts.active()})

    def _advance(self, rollout: Rollout, now: datetime, steady: datetime) -> list[RolloutEvent]:
        events: list[RolloutEvent] = []
        for _ in range(_STEPS_A_TICK):
            work = self._work(rollout.id)
            if work is None:
                break
            happened: list[RolloutEvent] = []
            again = False
            change = front(work.changes)
            self._hold(lease_name(rollout.group), now)
            if change is not None and change.server in self._fleet.managed:
                # Two daemons that manage one server by mistake do not both act on it.
                if self._hold(f"server:{change.server}", now) is not None:
                    happened, again = self._carry(change, work, now, steady)
            steered, moved = self._steer(rollout, now)
            events += happened + steered
            if not (again or moved):
                break
        return events

    def _close_if_orphaned(self, rollout: Rollout, now: datetime) -> list[RolloutEvent]:
        """End a rollout whose group or next server no daemon has in its configuration any more; tell someone.

        Otherwise it would stay open for ever and keep all others waiting. Whether a daemon works on it shows in leases.
        """
        work = self._work(rollout.id)
        change = front(work.changes) if work is not None else None
        if work is None or change is None:
            return []
        is_known = rollout.group in self._fleet.groups
        if is_known and change.server in self._fleet.managed:
            return []
        # Who works on it holds a lease: whoever carries the server, or, of a group unknown here, who coordinates it.
        with self._store.read() as unit:
            lease = unit.leases.get(f"server:{change.server}" if is_known else lease_name(rollout.group))
        last_sign = max([c.entered_at for c in work.changes] + ([lease.expires_at] if lease is not None else []))
        if now < last_sign + timedelta(seconds=self._timing.orphan_seconds):
            return []
        with self._store.write() as unit:
            if unit.rollouts.get(rollout.id) != work.rollout or unit.changes.get(change.id) != change:
                return []
            closed, changes = close(work.rollout, work.changes, change, now)
            for one in changes:
                unit.changes.update(one)
            unit.rollouts.update(closed)
            return [self._journal.tell(unit, closed, EventKind.MANUAL_ACTION, closed.sentence, now)]

    def _work(self, rollout_id: RolloutId) -> _Work | None:
        """The rollout as stored, while it is active."""
        with self._store.read() as unit:
            rollout = unit.rollouts.get(rollout_id)
            if rollout is None or rollout.state is not RolloutState.ACTIVE:
                return None
            return _Work(rollout, unit.changes.of_rollout(rollout_id), unit.decisions.get(rollout.decision))

    def _carry(
        self, change: Change, work: _Work, now: datetime, steady: datetime
    ) -> tuple[list[RolloutEvent], bool]:
        """One step of one change: what happened, and whether another may follow at once."""
        case = self._case(change, work, now, steady)
        if change.entered_at > steady + _CLOCK_SLACK:
            return self._rebase(change, work.rollout, steady, now), True
        try:
            seen = self._lookout.look(case)
        except ActionError as error:
            return self._blind(case, work.rollout, error, now), False
        case.memory.blind_since = None
        with self._store.read() as unit:
            same = unit.changes.get(change.id) == change
            step = self._ask(unit, case, seen, work, now) if same else None
        if step is None:
            return [], False
        if step.is_stored_in(change):
            # Asked for again, or stored by the step before: nothing lies between the look and the act.
            self._hands.perform(step, case)
            return [], step.again
        if step.act_first and not self._hands.perform(step, case):
            return [], False
        with self._store.write() as unit:
            # Asked again in the transaction that stores the answer: nothing that was stored before is overlooked.
            same = unit.changes.get(change.id) == change
            stored = self._ask(unit, case, seen, work, now) if same else None
            if stored is None or (stored.act, stored.change.state) != (step.act, step.change.state):
                return [], False
            base_hash = case.managed.driver.launcher.base_hash
            done, events = self._journal.write(unit, stored, work.rollout, work.decision, base_hash, now)
        if stored.sentence:
            logger.info("change=%s server=%s state=%s %s", done.id, done.server, done.state, stored.sentence)
        self._remember(change, done, case.memory)
        if not stored.act_first:
            self._hands.perform(stored, case)
        return events, stored.again

    def _rebase(self, change: Change, rollout: Rollout, steady: datetime, now: datetime) -> list[RolloutEvent]:
        """Bring the times of a change back into the past: the clock was set back while nobody looked."""
        shifted = moved(change, steady - change.entered_at)
        sentence = f"{change.server}: the clock was set back, times of this change moved with it"
        with self._store.write() as unit:
            if unit.changes.get(change.id) != change:
                return []
            _, events = self._journal.write(unit, Step(change=shifted, sentence=sentence), rollout, None, "", now)
        return events

    def _case(self, change: Change, work: _Work, now: datetime, steady: datetime) -> Case:
        managed = self._fleet.managed[change.server]
        group = self._fleet.groups[work.rollout.group]
        memory = self._memories.setdefault(change.id, Memory())
        if memory.grace_seconds is None:
            memory.grace_seconds = grace_of(managed.driver.launcher)
        with self._store.read() as unit:
            terms = terms_of(
                unit, change, work.rollout, work.decision, work.changes, managed, group, self._timing,
                memory.grace_seconds, now,
            )  # fmt: skip
        return Case(change, managed, group, terms, memory, steady)

    def _ask(self, unit: Unit, case: Case, seen: Seen, work: _Work, now: datetime) -> Step | None:
        limits, server = case.group.limits, case.change.server
        here = self._fleet.managed.keys()
        refusal = refusal_of_records(unit, case.change, work.rollout, work.decision, case.group, here, now)
        # A lasting reason is worth more than one that may pass.
        if refusal is None or (seen.refusal is not None and seen.refusal.lasting):
            refusal = seen.refusal or refusal
        called_off = unit.rollouts.get(work.rollout.id) != work.rollout
        if called_off:
            return None
        full = replace(
            seen,
            refusal=refusal,
            is_paused=pause_of(unit, work.rollout.group, (server,), now) is not None,
            starts_left=starts_left(unit, server, limits, now),
        )
        return next_step(case.change, full, case.terms, case.now)

    def _steer(self, rollout: Rollout, now: datetime) -> tuple[list[RolloutEvent], bool]:
        """One step of the rollout as a whole, where this daemon coordinates it."""
        name = lease_name(rollout.group)
        with self._store.read() as unit:
            # Nearly always there is nothing to do: no need to take the writers' lock for that.
            if self._course(unit, rollout.id, name, now) is None:
                return [], False
        with self._store.write() as unit:
            step = self._course(unit, rollout.id, name, now)
            if step is None:
                return [], False
            for change in step.update:
                unit.changes.update(change)
            if step.add:
                unit.changes.add(step.add)
            unit.rollouts.update(step.rollout)
            events = []
            if step.event is not None:
                events = [self._journal.tell(unit, step.rollout, step.event, step.sentence, now)]
            if step.rollout.state is not RolloutState.ACTIVE:
                self._let_go(unit, name, *(f"server:{c.server}" for c in unit.changes.of_rollout(rollout.id)))
        return events, True

    def _course(self, unit: Unit, rollout: RolloutId, name: str, now: datetime) -> CourseStep | None:
        current = unit.rollouts.get(rollout)
        if current is None or not is_in_force(unit.leases.get(name), self._leases.get(name), now):
            return None
        return next_in_rollout(current, unit.changes.of_rollout(rollout), now)

    def _hold(self, name: str, now: datetime) -> Lease | None:
        """Our lease of that name, prolonged when half of it is over; None where another daemon holds it."""
        lease = self._leases.get(name)
        half = timedelta(seconds=self._timing.lease_seconds / 2)
        if lease is not None and timedelta() < lease.expires_at - now and lease.expires_at - now > half:
            return lease
        with self._store.read() as unit:
            stored = unit.leases.get(name)
        if stored is not None and stored.holder not in ("", self._holder) and stored.expires_at > now:
            self._leases[name] = None
            return None
        with self._store.write() as unit:
            lease = unit.leases.acquire(name, self._holder, self._timing.lease_seconds, now)
        self._leases[name] = lease
        return lease

    def _let_go(self, unit: Unit, *names: str) -> None:
        for name in names:
            lease = self._leases.pop(name, None)
            if lease is not None:
                unit.leases.release(lease)

    def _remember(self, before: Change, after: Change, memory: Memory) -> None:
        if after.state.is_final:
            self._memories.pop(before.id, None)
            return
        if after.attempts != before.attempts or after.state is not before.state:
            memory.forget_process()
        if after.traffic_held != before.traffic_held:
            memory.forget_balancer()

    def _blind(self, case: Case, rollout: Rollout, error: ActionError, now: datetime) -> list[RolloutEvent]:
        """The driver cannot say how its server is: nothing is done, and someone is told once it lasts."""
        memory, moment = case.memory, self._clock.monotonic()
        if memory.blind_since is None:
            memory.blind_since = moment
            logger.warning("change=%s server=%s cannot be looked at: %s", case.change.id, case.change.server, error)
        if memory.blind_told or moment - memory.blind_since < self._timing.blind_seconds:
            return []
        memory.blind_told = True
        sentence = f"{case.change.server} cannot be looked at, its change stands still: {error}"
        with self._store.write() as unit:
            return [self._journal.tell(unit, rollout, EventKind.MANUAL_ACTION, sentence, now)]


@dataclass(frozen=True, slots=True)
class _Work:
    """One active rollout as stored."""

    rollout: Rollout
    changes: list[Change]
    decision: Decision | None
