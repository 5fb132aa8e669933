"""A store in memory with the behaviour of the real one: the same contract tests run on both.

A unit that raises is undone, a unit of `read()` cannot write, keys are unique, what refers to nothing is refused. Time
is what the caller says. Nothing is encoded, so it is fast.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Generic, TypeVar

from monitor.errors import StoreError
from monitor.intervals.buckets import HOUR, STEPS, by_bucket
from monitor.intervals.loads import Loads, by_load
from monitor.intervals.parts import by_part
from monitor.model.alert import Alert, AlertState, Fingerprint, Silence, SilenceId
from monitor.model.decision import Action, Decision, DecisionId, DecisionState
from monitor.model.interval import Interval
from monitor.model.life import Head, LastReading, Life, LifeId
from monitor.model.notice import Delivery, DeliveryState, Notice, NoticeId
from monitor.model.record import (
    AuditEntry,
    Baseline,
    Checks,
    Command,
    Evidence,
    LastGood,
    Pause,
    Rejection,
    ReportRecord,
    Restart,
    RuleTimer,
    Watched,
)
from monitor.model.rollout import Change, ChangeId, Lease, Rollout, RolloutId, RolloutState
from monitor.model.server import GroupName, ServerName
from monitor.store import ActiveRolloutExists, LifeTotals, Retention, Sizes, TableSize, Unit
from monitor.store.api import Unshipped
from monitor.store.retention import OVERDUE

Value = TypeVar("Value")
Result = TypeVar("Result")
Key = Callable[[Any], Any]

#: Numbers of queued rows, which never come back.
_NUMBERS = count(1)
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_GOING_ON = (AlertState.PENDING, AlertState.FIRING)


class Table(Generic[Value]):
    """Rows by key, in the order they were added."""

    def __init__(self, name: str, key: Callable[[Value], Any]) -> None:
        self.name = name
        self.key = key
        self.rows: dict[Any, Value] = {}
        self.writable = False

    def _open(self) -> None:
        if not self.writable:
            raise StoreError(f"{self.name}: the unit is for reading only")

    def add(self, value: Value) -> None:
        self._open()
        if self.key(value) in self.rows:
            raise StoreError(f"{self.name}: {self.key(value)} is known already")
        self.rows[self.key(value)] = value

    def put(self, value: Value) -> None:
        self._open()
        self.rows[self.key(value)] = value

    def replace(self, value: Value) -> None:
        self._open()
        if self.key(value) not in self.rows:
            raise StoreError(f"{self.name}: cannot update {self.key(value)}: it is not in the store")
        self.rows[self.key(value)] = value

    def remove(self, keep: Callable[[Value], bool]) -> int:
        self._open()
        before = len(self.rows)
        self.rows = {key: value for key, value in self.rows.items() if keep(value)}
        return before - len(self.rows)

    def get(self, key: Any) -> Value | None:
        return self.rows.get(key)

    def where(self, wanted: Callable[[Value], bool], order: Key | None = None) -> list[Value]:
        found = [value for value in self.rows.values() if wanted(value)]
        return sorted(found, key=order) if order else found


class Log(Table[Value]):
    """Rows without a key of their own, numbered as they come."""

    def __init__(self, name: str) -> None:
        super().__init__(name, lambda value: None)

    def add(self, value: Value) -> None:
        self._open()
        self.rows[max(self.rows, default=0) + 1] = value


class Tables:
    """All tables of one store."""

    def __init__(self) -> None:
        self.lives: Table[Life] = Table("lives", lambda it: it.id)
        self.heads: Table[Head] = Table("heads", lambda it: it.life)
        self.intervals: Table[Interval] = Table("intervals", lambda it: (it.life, it.end))
        #: Intervals that were pruned, for rollups, which outlive them: nobody counts rows here.
        self.pruned: Table[Interval] = Table("rollups", lambda it: (it.life, it.end))
        #: Until when they are rolled up: one row.
        self.rolled_up: Table[datetime] = Table("rollup_progress", lambda it: "until")
        self.checks: Table[Checks] = Table("checks", lambda it: (it.server, it.end))
        self.readings: Table[LastReading] = Table("readings", lambda it: it.reading.server)
        self.decisions: Table[Decision] = Table("decisions", lambda it: it.id)
        self.rollouts: Table[Rollout] = Table("rollouts", lambda it: it.id)
        self.changes: Table[Change] = Table("changes", lambda it: it.id)
        self.leases: Table[Lease] = Table("leases", lambda it: it.name)
        self.alerts: Table[Alert] = Table("alerts", lambda it: (it.fingerprint, it.active_since))
        self.silences: Table[Silence] = Table("silences", lambda it: it.id)
        self.notices: Table[Notice] = Table("notices", lambda it: it.id)
        self.deliveries: Table[Delivery] = Table("deliveries", lambda it: (it.notice, it.receiver))
        self.unshipped: Table[Unshipped] = Table("unshipped", lambda it: it.number)
        self.servers: Table[Watched] = Table("servers", lambda it: it.server)
        self.pauses: Table[Pause] = Table("pauses", lambda it: it.scope)
        self.commands: Table[Command] = Table("commands", lambda it: it.id)
        self.rejections: Table[Rejection] = Log("rejections")
        self.rule_timers: Table[RuleTimer] = Table("rule_timers", lambda it: (it.rule, it.scope))
        self.baselines: Table[Baseline] = Table("baselines", lambda it: (it.server, it.key))
        self.restarts: Table[Restart] = Log("restarts")
        self.last_good: Table[LastGood] = Table("last_good", lambda it: it.server)
        self.audit: Table[AuditEntry] = Log("audit")
        self.reports: Table[ReportRecord] = Table("reports", lambda it: it.key)
        self.evidence: Table[Evidence] = Table("evidence", lambda it: it.id)

    def each(self) -> list[Table[Any]]:
        return list(vars(self).values())

    def copy(self) -> dict[str, dict[Any, Any]]:
        return {table.name: dict(table.rows) for table in self.each()}

    def restore(self, copy: dict[str, dict[Any, Any]]) -> None:
        for table in self.each():
            table.rows = copy[table.name]


class Lives:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.lives

    def add(self, life: Life) -> None:
        self._rows.add(life)

    def update(self, life: Life) -> None:
        self._rows.replace(life)

    def put(self, lives: Iterable[Life]) -> None:
        for life in lives:
            self._rows.put(life)

    def get(self, life: LifeId) -> Life | None:
        return self._rows.get(life)

    def open_of(self, server: ServerName) -> list[Life]:
        return self._rows.where(lambda it: it.server == server and it.ended is None, _by_first_seen)

    def of(self, server: ServerName | None, since: datetime, until: datetime) -> list[Life]:
        def wanted(life: Life) -> bool:
            overlaps = life.first_seen < until and (life.ended is None or life.ended > since)
            return overlaps and server in (None, life.server)

        return self._rows.where(wanted, _by_first_seen)


class Heads:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, life: LifeId) -> Head | None:
        return self._tables.heads.get(life)

    def put(self, heads: Iterable[Head]) -> None:
        for head in heads:
            if head.life not in self._tables.lives.rows:
                raise StoreError(f"heads: life {head.life} is not in the store")
            self._tables.heads.put(head)

    def remove(self, lives: Iterable[LifeId]) -> None:
        gone = set(lives)
        self._tables.heads.remove(lambda it: it.life not in gone)

    def of_server(self, server: ServerName) -> dict[LifeId, Head]:
        lives = Lives(self._tables).open_of(server)
        found = {life.id: self._tables.heads.get(life.id) for life in sorted(lives, key=lambda it: it.id)}
        return {life: head for life, head in found.items() if head is not None}


class Intervals:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def add(self, intervals: Iterable[Interval], *, skip_known: bool = False) -> int:
        stored = 0
        for interval in intervals:
            life = self._tables.lives.get(interval.life)
            if life is None or life.server != interval.server:
                raise StoreError(f"intervals: life {interval.life} of {interval.server} is not in the store")
            if skip_known and (interval.life, interval.end) in self._tables.intervals.rows:
                continue
            self._tables.intervals.add(interval)
            stored += 1
        return stored

    def between(
        self,
        servers: Sequence[ServerName] | None,
        since: datetime,
        until: datetime,
        *,
        details: bool = True,
        limit: int | None = None,
    ) -> list[Interval]:
        found = self._tables.intervals.where(_in_span(servers, since, until), _by_end)[:limit]
        return found if details else [_without_details(interval) for interval in found]

    def of_keys(self, keys: Sequence[tuple[ServerName, LifeId, datetime]]) -> list[Interval]:
        wanted = set(keys)
        return self._tables.intervals.where(lambda it: (it.server, it.life, it.end) in wanted, _by_end)

    def between_coarse(
        self,
        servers: Sequence[ServerName] | None,
        since: datetime,
        until: datetime,
        step_seconds: int,
        *,
        details: bool = True,
    ) -> list[Interval]:
        if step_seconds not in STEPS:
            raise StoreError(f"no rollups of {step_seconds} s are kept")
        wanted = _in_span(servers, since, until)
        found = by_bucket(
            [*self._tables.pruned.where(wanted, _by_end), *self._tables.intervals.where(wanted, _by_end)], step_seconds
        )
        return sorted((it if details else _without_details(it) for it in found.values()), key=_by_end)

    def in_parts(
        self, servers: Sequence[ServerName], since: datetime, until: datetime, origin: datetime, length: timedelta
    ) -> list[Interval]:
        found = by_part(self.between_coarse(servers, since, until, HOUR), origin, length)
        return sorted(found, key=_by_end)

    def by_load(
        self, servers: Sequence[ServerName], since: datetime, until: datetime, edges: Sequence[float]
    ) -> dict[ServerName, Loads]:
        return by_load(self.between_coarse(servers, since, until, HOUR), edges)

    def last_end(self, server: ServerName) -> datetime | None:
        return max((it.end for it in self._tables.intervals.rows.values() if it.server == server), default=None)

    def totals(self, life: LifeId) -> LifeTotals:
        found = self._tables.intervals.where(lambda it: it.life == life)
        speculation = [it.speculation for it in found if it.speculation is not None]
        traffic = [it.traffic for it in found if it.traffic is not None]
        return LifeTotals(
            intervals=len(found),
            first_start=min((it.start for it in found), default=None),
            last_end=max((it.end for it in found), default=None),
            num_drafts=_sum(it.num_drafts for it in speculation),
            num_draft_tokens=_sum(it.num_draft_tokens for it in speculation),
            num_accepted_tokens=_sum(it.num_accepted_tokens for it in speculation),
            generation_tokens=_sum(it.generation_tokens for it in traffic),
            prompt_tokens=_sum(it.prompt_tokens for it in traffic),
        )


class UnshippedRows:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.unshipped
        self._intervals = tables.intervals

    def add(self, rows: Iterable[Unshipped]) -> None:
        for row in rows:
            self._rows.add(replace(row, number=next(_NUMBERS)))

    def waiting(self) -> dict[ServerName, int]:
        found: dict[ServerName, int] = {}
        for row in self._rows.where(lambda it: True, lambda it: it.number):
            found[row.server] = found.get(row.server, 0) + 1
        return found

    def of(self, servers: Iterable[ServerName]) -> list[Unshipped]:
        wanted = set(servers)
        return self._rows.where(lambda it: it.server in wanted, lambda it: it.number)

    def remove(self, rows: Iterable[Unshipped]) -> None:
        gone = {row.number for row in rows}
        self._rows.remove(lambda it: it.number not in gone)

    def void(self, rows: Iterable[Unshipped]) -> None:
        found = list(rows)
        self.remove(found)
        gone = {(row.life, row.end) for row in found}
        self._intervals.remove(lambda it: (it.life, it.end) not in gone)

    def count(self) -> int:
        return len(self._rows.rows)


class ChecksRows:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.checks

    def add(self, checks: Iterable[Checks]) -> None:
        for more in checks:
            kept = self._rows.get((more.server, more.end)) or Checks(more.server, more.end, 0, 0)
            answered, missed = kept.answered + more.answered, kept.missed + more.missed
            self._rows.put(replace(kept, answered=answered, missed=missed))

    def between(self, servers: Sequence[ServerName] | None, since: datetime, until: datetime) -> list[Checks]:
        return self._rows.where(
            lambda it: since < it.end <= until and (servers is None or it.server in servers),
            lambda it: (it.end, it.server),
        )

    def sums(self, servers: Sequence[ServerName], since: datetime, until: datetime) -> list[Checks]:
        found: dict[ServerName, Checks] = {}
        for one in self.between(servers, since, until):
            old = found.get(one.server, Checks(one.server, one.end, 0, 0))
            found[one.server] = Checks(
                one.server, one.end, old.answered + one.answered, old.missed + one.missed
            )
        return [found[name] for name in sorted(found)]


class Readings:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.readings

    def put(self, reading: LastReading) -> None:
        self._rows.put(reading)

    def get(self, server: ServerName) -> LastReading | None:
        return self._rows.get(server)

    def all(self) -> list[LastReading]:
        return self._rows.where(lambda it: True, lambda it: it.reading.server)


class Decisions:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.decisions

    def add(self, decision: Decision) -> None:
        self._rows.add(decision)

    def update(self, decision: Decision) -> None:
        self._rows.replace(decision)

    def get(self, decision: DecisionId) -> Decision | None:
        return self._rows.get(decision)

    def latest(self, group: GroupName, limit: int = 1) -> list[Decision]:
        return self._rows.where(lambda it: it.group == group, _by_made_at)[::-1][:limit]

    def since(self, group: GroupName | None, since: datetime) -> list[Decision]:
        return self._rows.where(lambda it: it.made_at >= since and group in (None, it.group), _by_made_at)

    def in_state(self, *states: DecisionState) -> list[Decision]:
        return self._rows.where(lambda it: it.state in states, _by_made_at)


class Rollouts:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.rollouts

    def add(self, rollout: Rollout) -> None:
        if rollout.state is RolloutState.ACTIVE:
            self._refuse_second(rollout)
        self._rows.add(rollout)

    def update(self, rollout: Rollout) -> None:
        if rollout.state is RolloutState.ACTIVE and rollout.id in self._rows.rows:
            self._refuse_second(rollout)
        self._rows.replace(rollout)

    def get(self, rollout: RolloutId) -> Rollout | None:
        return self._rows.get(rollout)

    def active(self, group: GroupName | None = None) -> list[Rollout]:
        return self._rows.where(
            lambda it: it.state is RolloutState.ACTIVE and group in (None, it.group), _by_created_at
        )

    def since(self, group: GroupName | None, since: datetime) -> list[Rollout]:
        return self._rows.where(lambda it: it.created_at >= since and group in (None, it.group), _by_created_at)

    def _refuse_second(self, rollout: Rollout) -> None:
        for existing in self.active(rollout.group):
            if existing.id != rollout.id:
                raise ActiveRolloutExists(existing)


class Changes:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def add(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.rollout not in self._tables.rollouts.rows:
                raise StoreError(f"changes: rollout {change.rollout} is not in the store")
            self._tables.changes.add(change)

    def update(self, change: Change) -> None:
        self._tables.changes.replace(change)

    def get(self, change: ChangeId) -> Change | None:
        return self._tables.changes.get(change)

    def of_rollout(self, rollout: RolloutId) -> list[Change]:
        return self._tables.changes.where(lambda it: it.rollout == rollout, lambda it: (it.position, it.id))

    def active(self) -> list[Change]:
        return self._tables.changes.where(
            lambda it: not it.state.is_final, lambda it: (it.rollout, it.position, it.id)
        )

    def of_server(self, server: ServerName, since: datetime) -> list[Change]:
        return self.of_servers([server], since)

    def of_servers(self, servers: Collection[ServerName], since: datetime) -> list[Change]:
        return self._tables.changes.where(
            lambda it: it.server in servers and it.entered_at >= since, lambda it: (it.entered_at, it.id)
        )


class Leases:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.leases

    def acquire(self, name: str, holder: str, ttl_seconds: float, now: datetime) -> Lease | None:
        if not holder or ttl_seconds <= 0:
            raise StoreError(f"lease {name}: holder {holder!r}, {ttl_seconds} s")
        last = self._rows.get(name)
        fence = 1
        if last is not None:
            held = last.holder != "" and last.expires_at > now
            if held and last.holder != holder:
                return None
            fence = last.fence if held else last.fence + 1
        return self._put(Lease(name, holder, fence, now + timedelta(seconds=ttl_seconds)))

    def release(self, lease: Lease) -> None:
        last = self._rows.get(lease.name)
        if last is not None and (last.holder, last.fence) == (lease.holder, lease.fence):
            self._put(replace(last, holder=""))

    def get(self, name: str) -> Lease | None:
        last = self._rows.get(name)
        return last if last is not None and last.holder else None

    def hold(self, names: Iterable[str], holder: str, ttl_seconds: float, now: datetime) -> dict[str, Lease]:
        taken = {name: self.acquire(name, holder, ttl_seconds, now) for name in names}
        return {name: lease for name, lease in taken.items() if lease is not None}

    def standing(self, prefix: str, now: datetime) -> list[tuple[Lease, bool]]:
        found = self._rows.where(lambda it: it.name.startswith(prefix) and it.holder != "", lambda it: it.name)
        return [(lease, lease.expires_at > now) for lease in found]

    def confirm(self, leases: Iterable[Lease], now: datetime) -> set[str]:
        def is_ours(lease: Lease) -> bool:
            last = self._rows.get(lease.name)
            same = last is not None and (last.holder, last.fence) == (lease.holder, lease.fence)
            return same and last is not None and last.expires_at > now

        return {lease.name for lease in leases if is_ours(lease)}

    def _put(self, lease: Lease) -> Lease:
        self._rows.put(lease)
        return lease


class Alerts:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.alerts

    def all(self, resolved_since: datetime | None = None) -> list[Alert]:
        newest: dict[Fingerprint, Alert] = {}
        for alert in self._rows.where(lambda it: True, _by_active_since):
            newest[alert.fingerprint] = alert

        def wanted(alert: Alert) -> bool:
            if alert.state is not AlertState.RESOLVED or resolved_since is None:
                return alert.state is not AlertState.INACTIVE
            return alert.resolved_at is not None and alert.resolved_at >= resolved_since

        return sorted(filter(wanted, newest.values()), key=_by_active_since)

    def put(self, alerts: Iterable[Alert]) -> None:
        for alert in alerts:
            if alert.state is AlertState.INACTIVE and alert.fired_at is None:
                self._forget(self._rows.key(alert))
            else:
                self._rows.put(alert)

    def _forget(self, key: Any) -> None:
        self._rows.remove(lambda it: self._rows.key(it) != key)

    def get(self, fingerprint: Fingerprint) -> Alert | None:
        found = self._rows.where(lambda it: it.fingerprint == fingerprint, _by_active_since)
        return found[-1] if found else None

    def since(self, since: datetime) -> list[Alert]:
        return self._rows.where(
            lambda it: it.state in _GOING_ON or (it.resolved_at is not None and it.resolved_at >= since),
            _by_active_since,
        )


class Silences:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.silences

    def add(self, silence: Silence) -> None:
        self._rows.add(silence)

    def expire(self, silence: SilenceId, now: datetime) -> bool:
        found = self._rows.get(silence)
        if found is None or found.ends_at <= now:
            return False
        self._rows.replace(replace(found, ends_at=now))
        return True

    def active(self, now: datetime) -> list[Silence]:
        return self._rows.where(lambda it: it.starts_at <= now < it.ends_at, lambda it: (it.starts_at, it.id))

    def all(self) -> list[Silence]:
        return self._rows.where(lambda it: True, lambda it: (it.starts_at, it.id))


class Outbox:
    def __init__(self, tables: Tables) -> None:
        self._notices = tables.notices
        self._deliveries = tables.deliveries

    def queue(self, notice: Notice, receivers: Sequence[str], now: datetime) -> bool:
        if any(notice.dedupe_key == it.dedupe_key or notice.id == it.id for it in self._notices.rows.values()):
            return False
        self._notices.add(notice)
        for receiver in dict.fromkeys(receivers):
            self._deliveries.add(_pending(notice.id, receiver, now))
        return True

    def forward(self, notice: NoticeId, receiver: str, now: datetime) -> bool:
        if notice not in self._notices.rows:
            raise StoreError(f"deliveries: notice {notice} is not in the store")
        if (notice, receiver) in self._deliveries.rows:
            return False
        self._deliveries.add(_pending(notice, receiver, now))
        return True

    def due(self, now: datetime, limit: int) -> list[tuple[Notice, Delivery]]:
        found = self._pairs(lambda notice, it: it.state is DeliveryState.PENDING and it.next_attempt_at <= now)
        return sorted(found, key=lambda pair: pair[1].next_attempt_at)[:limit]

    def waiting(self, receiver: str, limit: int) -> list[tuple[Notice, Delivery]]:
        return self._pairs(lambda notice, it: it.state is DeliveryState.PENDING and it.receiver == receiver)[:limit]

    def update(self, delivery: Delivery) -> None:
        self._deliveries.replace(delivery)

    def sent_in(self, thread: str, receiver: str) -> list[tuple[Notice, Delivery]]:
        wanted = (thread, receiver, DeliveryState.SENT)
        found = self._pairs(
            lambda notice, it: (notice.thread, it.receiver, it.state) == wanted and it.external_id is not None
        )
        return sorted(found, key=lambda pair: pair[1].sent_at or _EARLIEST)

    def newest(self, receiver: str) -> Delivery | None:
        found = self._deliveries.where(lambda it: (it.receiver, it.state) == (receiver, DeliveryState.SENT))
        return max(found, key=lambda it: it.sent_at or _EARLIEST) if found else None

    def recent(self, limit: int) -> list[tuple[Notice, list[Delivery]]]:
        newest = list(self._notices.rows.values())[::-1][:limit]
        by_receiver: Key = lambda it: it.receiver  # noqa: E731
        return [(notice, self._deliveries.where(_of(notice), by_receiver)) for notice in newest]

    def pending_receivers(self) -> list[str]:
        return sorted({it.receiver for it in self._deliveries.where(lambda it: it.state is DeliveryState.PENDING)})

    def pending_count(self) -> int:
        return len(self._deliveries.where(lambda it: it.state is DeliveryState.PENDING))

    def _pairs(self, wanted: Callable[[Notice, Delivery], bool]) -> list[tuple[Notice, Delivery]]:
        return [
            (notice, delivery)
            for notice in self._notices.rows.values()
            for delivery in self._deliveries.where(_of(notice))
            if wanted(notice, delivery)
        ]


class WatchedServers:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.servers

    def put(self, servers: Iterable[Watched]) -> None:
        for server in servers:
            self._rows.put(server)

    def all(self, retired_since: datetime) -> list[Watched]:
        return self._rows.where(
            lambda it: it.retired_at is None or it.retired_at >= retired_since, lambda it: it.server
        )


class Pauses:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.pauses

    def set(self, pause: Pause) -> None:
        self._rows.put(pause)

    def clear(self, scope: str) -> bool:
        return self._rows.remove(lambda it: it.scope != scope) > 0

    def active(self, now: datetime) -> list[Pause]:
        return self._rows.where(lambda it: it.until is None or it.until > now, lambda it: it.scope)


class Commands:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.commands

    def add(self, command: Command) -> None:
        self._rows.add(command)

    def pending(self) -> list[Command]:
        return self._rows.where(lambda it: it.done_at is None, lambda it: (it.asked_at, it.id))

    def finish(self, command: str, at: datetime, outcome: str) -> None:
        found = self._rows.get(command)
        if found is None:
            raise StoreError(f"cannot finish command {command}: it is not in the store")
        self._rows.replace(replace(found, done_at=at, outcome=outcome))

    def get(self, command: str) -> Command | None:
        return self._rows.get(command)


class Rejections:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.rejections

    def add(self, rejection: Rejection) -> None:
        self._rows.add(rejection)

    def of(self, group: GroupName) -> list[Rejection]:
        return self._rows.where(lambda it: it.group == group, lambda it: it.at)


class Timers:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.rule_timers

    def all(self) -> list[RuleTimer]:
        return self._rows.where(lambda it: True, self._rows.key)

    def put(self, timers: Iterable[RuleTimer]) -> None:
        for timer in timers:
            self._rows.put(timer)


class Baselines:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.baselines

    def of_servers(self, servers: Collection[ServerName]) -> list[Baseline]:
        return self._rows.where(lambda it: it.server in servers, lambda it: (it.server, it.key))

    def put(self, baseline: Baseline) -> None:
        self._rows.put(baseline)


class Restarts:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.restarts

    def add(self, restart: Restart) -> None:
        self._rows.add(restart)

    def since(self, server: ServerName, since: datetime) -> list[Restart]:
        return self.of_servers([server], since)

    def of_servers(self, servers: Collection[ServerName], since: datetime) -> list[Restart]:
        return self._rows.where(lambda it: it.server in servers and it.at >= since, lambda it: it.at)


class LastGoods:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.last_good

    def get(self, server: ServerName) -> LastGood | None:
        return self._rows.get(server)

    def put(self, last_good: LastGood) -> None:
        self._rows.put(last_good)


class Audit:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.audit

    def add(self, entry: AuditEntry) -> None:
        self._rows.add(entry)

    def of(self, subject: str) -> list[AuditEntry]:
        return self._rows.where(lambda it: it.subject == subject, lambda it: it.at)

    def recent(self, limit: int) -> list[AuditEntry]:
        return self._rows.where(lambda it: True, lambda it: it.at)[::-1][:limit]


class Reports:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.reports

    def put(self, report: ReportRecord) -> bool:
        if report.key in self._rows.rows:
            return False
        self._rows.add(report)
        return True

    def get(self, key: str) -> ReportRecord | None:
        return self._rows.get(key)

    def latest(self) -> ReportRecord | None:
        found = self.all()
        return found[-1] if found else None

    def all(self) -> list[ReportRecord]:
        return self._rows.where(lambda it: True, lambda it: (it.made_at, it.key))


class EvidenceRows:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.evidence

    def add(self, evidence: Evidence) -> None:
        self._rows.add(evidence)

    def get(self, evidence: str) -> Evidence | None:
        return self._rows.get(evidence)

    def of(self, server: ServerName, since: datetime) -> list[Evidence]:
        return self._rows.where(lambda it: it.server == server and it.at >= since, lambda it: (it.at, it.id))


class MemoryUnit:
    """One unit of work over the tables."""

    def __init__(self, tables: Tables) -> None:
        self.lives = Lives(tables)
        self.heads = Heads(tables)
        self.intervals = Intervals(tables)
        self.checks = ChecksRows(tables)
        self.unshipped = UnshippedRows(tables)
        self.servers = WatchedServers(tables)
        self.readings = Readings(tables)
        self.decisions = Decisions(tables)
        self.rollouts = Rollouts(tables)
        self.changes = Changes(tables)
        self.leases = Leases(tables)
        self.alerts = Alerts(tables)
        self.silences = Silences(tables)
        self.outbox = Outbox(tables)
        self.pauses = Pauses(tables)
        self.commands = Commands(tables)
        self.rejections = Rejections(tables)
        self.timers = Timers(tables)
        self.baselines = Baselines(tables)
        self.restarts = Restarts(tables)
        self.last_good = LastGoods(tables)
        self.audit = Audit(tables)
        self.reports = Reports(tables)
        self.evidence = EvidenceRows(tables)


class MemoryStore:
    """A store that lives as long as the object."""

    name = "memory"

    def __init__(self) -> None:
        self.tables = Tables()
        #: Set to make every unit fail, as if the database were away.
        self.away: StoreError | None = None
        self._turn = threading.RLock()
        self._busy = False

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[MemoryUnit]:
        with self._turn:
            if self._busy:
                raise StoreError("memory: a unit was opened within one that writes")
            before = self.tables.copy()
            try:
                with self._unit(writable=True) as unit:
                    yield unit
            except BaseException:
                self.tables.restore(before)
                raise

    @contextmanager
    def read(self) -> Iterator[MemoryUnit]:
        with self._turn, self._unit(writable=False) as unit:
            yield unit

    @contextmanager
    def _unit(self, *, writable: bool) -> Iterator[MemoryUnit]:
        if self.away is not None:
            raise self.away
        last = [table.writable for table in self.tables.each()]
        was_busy, self._busy = self._busy, self._busy or writable
        for table in self.tables.each():
            table.writable = writable
        try:
            yield MemoryUnit(self.tables)
        finally:
            self._busy = was_busy
            for table, flag in zip(self.tables.each(), last, strict=True):
                table.writable = flag

    def transact(self, work: Callable[[Unit], Result], *, durable: bool = True) -> Result:
        with self.write(durable=durable) as unit:
            return work(unit)

    def upgrade(self) -> list[str]:
        return []

    def revision(self) -> str | None:
        return "memory"

    def check(self) -> None:
        if self.away is not None:
            raise self.away

    def sizes(self) -> Sizes:
        tables = [TableSize(name=it.name, rows=len(it.rows), bytes=None) for it in self.tables.each()]
        return Sizes(total_bytes=0, tables=tuple(sorted(tables, key=lambda it: (-it.rows, it.name))))

    def roll_up(self, now: datetime) -> int:
        with self.write():
            self.tables.rolled_up.put(now)
        return 0

    def is_overdue(self, now: datetime, keep: Retention) -> bool:
        cut = now - timedelta(hours=keep.raw_hours) - OVERDUE
        return bool(self.tables.intervals.where(lambda it: it.end < cut))

    def prune(self, now: datetime, keep: Retention) -> dict[str, int]:
        cut = now - timedelta(hours=keep.raw_hours)
        with self.write():
            for interval in self.tables.intervals.where(lambda it: it.end < cut):
                self.tables.pruned.put(interval)
            deleted = {table.name: table.remove(kept) for table, kept in _kept(self.tables, now, keep)}
        return {name: rows for name, rows in deleted.items() if rows}

    def close(self) -> None:
        pass


def _kept(tables: Tables, now: datetime, keep: Retention) -> Iterator[tuple[Table[Any], Callable[[Any], bool]]]:
    """What stays of each table."""

    def ago(**span: float) -> datetime:
        return now - timedelta(**span)

    def not_before(moment: datetime | None, cut: datetime) -> bool:
        return moment is None or moment >= cut

    raw, history, notices = ago(hours=keep.raw_hours), ago(days=keep.history_days), ago(days=keep.notices_days)
    yield tables.intervals, lambda it: it.end >= raw
    ended = {it.id for it in tables.lives.rows.values() if it.ended is not None and it.ended < ago(days=1)}
    yield tables.heads, lambda it: it.life not in ended
    coarsest = ago(days=max(keep.hours_days, keep.days_days))
    yield tables.pruned, lambda it: it.end >= coarsest
    measured = {it.life for it in tables.intervals.rows.values() if it.end >= raw}
    measured |= {it.life for it in tables.pruned.rows.values() if it.end >= coarsest}
    yield tables.lives, lambda it: it.id in measured or not_before(it.ended, history)
    yield tables.servers, lambda it: not_before(it.retired_at, history)
    yield tables.readings, lambda it: it.reading.scraped_at >= raw
    yield tables.checks, lambda it: it.end >= ago(days=keep.five_minutes_days)
    newest = {it.group: it.made_at for it in tables.decisions.where(lambda it: True, _by_made_at)}
    waits = (DecisionState.AWAITING_APPROVAL, DecisionState.APPROVED)
    keeps = ago(days=keep.keep_decisions_days)
    yield (
        tables.decisions,
        lambda it: it.state in waits
        or it.made_at == newest[it.group]
        or (it.made_at >= history and not (it.action is Action.KEEP and it.made_at < keeps)),
    )
    yield tables.rejections, lambda it: it.until >= history
    yield tables.restarts, lambda it: it.at >= history
    yield tables.baselines, lambda it: it.updated_at >= history
    yield (
        tables.alerts,
        lambda it: it.state in _GOING_ON or (it.resolved_at or it.last_true or it.active_since) >= history,
    )
    pending = {it.notice for it in tables.deliveries.rows.values() if it.state is DeliveryState.PENDING}
    yield tables.notices, lambda it: it.created_at >= notices or it.id in pending
    yield tables.commands, lambda it: not_before(it.done_at, notices)
    yield tables.evidence, lambda it: it.at >= ago(
        days=keep.history_days if it.what == "benchmark" else keep.evidence_days
    )
    yield tables.audit, lambda it: it.at >= history
    yield tables.silences, lambda it: it.ends_at >= history
    yield tables.pauses, lambda it: not_before(it.until, history)
    known = set(tables.notices.rows)
    yield tables.deliveries, lambda it: it.notice in known


def _in_span(
    servers: Sequence[ServerName] | None, since: datetime, until: datetime
) -> Callable[[Interval], bool]:
    return lambda it: since < it.end <= until and (servers is None or it.server in servers)


def _without_details(interval: Interval) -> Interval:
    speculation, traffic, latency = interval.speculation, interval.traffic, interval.latency
    return replace(
        interval,
        speculation=speculation and replace(speculation, accepted_per_pos=None, drafted_per_pos=None),
        traffic=traffic
        and replace(traffic, finished={}, http_responses={}, prompt_length=None, output_length=None),
        latency=latency and type(latency)(),
    )


def _pending(notice: NoticeId, receiver: str, now: datetime) -> Delivery:
    return Delivery(notice=notice, receiver=receiver, state=DeliveryState.PENDING, next_attempt_at=now)


def _of(notice: Notice) -> Callable[[Delivery], bool]:
    return lambda delivery: delivery.notice == notice.id


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _by_end(interval: Interval) -> Any:
    return interval.end, interval.server, interval.life


def _by_first_seen(life: Life) -> Any:
    return life.first_seen, life.id


def _by_made_at(decision: Decision) -> Any:
    return decision.made_at, decision.id


def _by_created_at(rollout: Rollout) -> Any:
    return rollout.created_at, rollout.id


def _by_active_since(alert: Alert) -> Any:
    return alert.active_since, alert.fingerprint
