"""One evaluation: signals, rules, lives of alerts, what to tell. All it goes by is in the store or remembered from it.

The order inside one transaction matters: an alert is marked as told where its notice is queued, so that neither a crash
nor a restart tells twice or forgets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.cycle.contexts import Beginnings, off_step_seconds
from monitor.cycle.facts import changes_of_last_day, daemon_facts, failed_restart, server_facts
from monitor.cycle.history import History
from monitor.cycle.prober import Prober
from monitor.cycle.slos import NoObjectives, Objectives
from monitor.model.alert import Alert, AlertState, Fingerprint
from monitor.model.interval import Interval
from monitor.model.life import LastReading
from monitor.model.notice import NoticeKind
from monitor.model.outcome import RuleOutcome, TuneFiring
from monitor.model.reading import Verdict
from monitor.model.record import Baseline, RuleTimer
from monitor.model.rollout import Change, ChangeState
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.model.signal import SignalSet
from monitor.notify.compose_alerts import alerts_notice, silence_notice
from monitor.notify.routing import Routing
from monitor.policy.alerts import AlertStep, TransitionKind, step_alerts
from monitor.policy.evaluate import Evaluation, TimerKey, evaluate
from monitor.policy.facts import with_facts
from monitor.policy.mute import Muter, ending_silences
from monitor.policy.rule import RuleSet, Scope, scope_of_daemon, scope_of_group, scope_of_server
from monitor.policy.telling import Telling, TellingPolicy, TellReason, tellings
from monitor.signals.baseline import baseline_key, is_settled, update_baseline
from monitor.signals.build import Context, families_of, signals
from monitor.signals.vocabulary import Family
from monitor.signals.window import Pair
from monitor.store import Store
from monitor.store.api import Unit

log = logging.getLogger(__name__)

#: Window that the own metrics page shows and, unless set otherwise, baselines learn from (seconds).
SHORT_WINDOW_SECONDS = 300.0

#: Over how long the load counts as that of now (see `off_step_seconds`).
_LOAD_NOW = timedelta(seconds=SHORT_WINDOW_SECONDS)

#: States of a change during which the server's alerts are ours, not its own.
_ROLLING = frozenset(
    {ChangeState.DRAINING, ChangeState.RESTARTING, ChangeState.WARMING, ChangeState.UNDOING}
)

#: A change that stands still for longer than its step may take mutes nothing any more: the time after its deadline,
#: and the longest that a step without one (the rest between two starts) may last.
_OVERDUE, _LONGEST_STEP = timedelta(minutes=10), timedelta(hours=2)

_KINDS = {
    TellReason.FIRST: NoticeKind.ALERT_FIRING,
    TellReason.CHANGED: NoticeKind.ALERT_FIRING,
    TellReason.REPEAT: NoticeKind.ALERT_REPEAT,
    TellReason.RESOLVED: NoticeKind.ALERT_RESOLVED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What one evaluation brought, for deciding and for the own metrics."""

    now: datetime
    #: Short-window signals of every server, with facts.
    servers: Mapping[ServerName, SignalSet]
    #: What tuning rules said of each group, and which of them fired.
    tunes: Mapping[GroupName, tuple[RuleOutcome, ...]]
    firings: Mapping[GroupName, tuple[TuneFiring, ...]]
    alerts: tuple[Alert, ...]
    told: int
    #: Firing alerts that are not told now: silenced, inhibited, or on a server that a change of ours has in hand.
    muted: frozenset[Fingerprint] = frozenset()


class Evaluator:
    """Evaluates everything at one moment; called by one thread."""

    def __init__(
        self,
        store: Store,
        history: History,
        prober: Prober,
        *,
        servers: Sequence[Server],
        groups: Sequence[Group],
        alert_rules: RuleSet,
        tuning_rules: Mapping[GroupName, RuleSet],
        host: str,
        receivers: Routing,
        telling: TellingPolicy,
        watched_since: datetime,
        simulated: bool,
        credit_seconds: float,
        baseline_seconds: float = SHORT_WINDOW_SECONDS,
        starting: Callable[[datetime], set[ServerName]] = lambda now: set(),
        slos: Objectives | None = None,
        undelivered: Callable[[datetime], int] = lambda now: 0,
        daemon: Callable[[], Mapping[str, float | None]] = dict,
    ) -> None:
        """`baseline_seconds`: length of the windows that baselines learn from. `starting`: servers that we started
        and that may still take their time; their silence is not told. `undelivered`: what fails to be told beside the
        outbox. `daemon`: facts of the daemon beside the store's.
        """
        self._daemon = daemon
        self._starting = starting
        self._slos = slos or NoObjectives()
        self._baseline_seconds = baseline_seconds
        self._store = store
        self._beginnings = Beginnings(store)
        self._history = history
        self._prober = prober
        self._servers = {server.name: server for server in servers}
        self._groups = tuple(groups)
        self._alert_rules = alert_rules
        self._tuning_rules = dict(tuning_rules)
        self._host = host
        self._receivers = receivers
        self._undelivered = undelivered
        self._telling = telling
        self._watched_since = watched_since
        self._simulated = simulated
        self._credit = credit_seconds
        self._families = families_of(
            name for rules in (alert_rules, *self._tuning_rules.values()) for name in rules.signals
        )
        self._windows = sorted(
            {window for rules in (alert_rules, *self._tuning_rules.values()) for _, window in rules.windows}
            | {SHORT_WINDOW_SECONDS, baseline_seconds}
        )

    def run(self, now: datetime) -> Evaluated:
        """Evaluate at `now`, store what changed and queue what is to be told. Raises StoreError."""
        with self._store.read() as unit:
            seen = self._read(unit, now)
        found = self._signals(seen, now)
        for name in self._servers:
            short = found[SHORT_WINDOW_SECONDS, scope_of_server(self._servers[name]).name]
            sleeping = bool(short.value("is_sleeping"))
            if name not in seen.rolling:
                # While we restart it its silence proves nothing, and what was seen before must stay the newest.
                self._prober.look(name, short.value("stuck_seconds"), sleeping)
            last = seen.readings.get(name)
            self._prober.look_health(name, last is not None and last.reading.verdict is Verdict.SCRAPE_ERROR)
        alert_side = evaluate(self._alert_rules, found, self._scopes(), seen.timers, now, credit_seconds=self._credit)
        outcomes = (*alert_side.outcomes, *self._slos.look(now).outcomes)
        step = step_alerts(seen.alerts, outcomes, now, credit_seconds=self._credit)
        tuned = self._evaluate_tuning(found, seen.timers, now)
        told, muted = self._keep(step, seen, found, tuned, now)
        for transition in step.transitions:
            if transition.kind in (TransitionKind.FIRING, TransitionKind.RESOLVED):
                alert = transition.alert
                log.info("alert %s alert=%s labels=%s", transition.kind.value, alert.name, dict(alert.labels))
        return Evaluated(
            now=now,
            servers={
                name: found[SHORT_WINDOW_SECONDS, scope_of_server(server).name]
                for name, server in self._servers.items()
            },
            tunes={group: evaluation.tunes for group, evaluation in tuned.items()},
            firings={group: evaluation.firings for group, evaluation in tuned.items()},
            alerts=step.alerts,
            told=told,
            muted=muted,
        )

    def _scopes(self) -> list[Scope]:
        return [
            *(scope_of_server(server) for server in self._servers.values()),
            *(scope_of_group(group) for group in self._groups),
            scope_of_daemon(self._host),
        ]

    def _evaluate_tuning(
        self, found: Mapping[tuple[float, str], SignalSet], timers: Mapping[TimerKey, RuleTimer], now: datetime
    ) -> dict[GroupName, Evaluation]:
        return {
            group.name: evaluate(
                self._tuning_rules[group.name], found, [scope_of_group(group)], timers, now,
                credit_seconds=self._credit,
            )
            for group in self._groups
            if group.name in self._tuning_rules
        }

    def _read(self, unit: Unit, now: datetime) -> _Seen:
        readings = {last.reading.server: last for last in unit.readings.all()}
        changes = {name: changes_of_last_day(unit, name, now) for name in self._servers}
        baselines: dict[ServerName, Baseline | None] = {}
        for name in self._servers:
            lives = self._history.newest_lives(name)
            key = baseline_key(lives[-1].setting, lives[-1].engine_version) if lives else ""
            baselines[name] = unit.baselines.get(name, key) if lives else None
        return _Seen(
            readings=readings,
            changes=changes,
            rolling=rolling(unit, now) | self._starting(now),
            alerts=unit.alerts.all(resolved_since=now - timedelta(days=1)),
            timers={(timer.rule, timer.scope): timer for timer in unit.timers.all()},
            baselines=baselines,
            daemon={**daemon_facts(unit, now, beside=self._undelivered(now)), **self._daemon()},
        )

    def _signals(self, seen: _Seen, now: datetime) -> dict[tuple[float, str], SignalSet]:
        """Signals of every scope over every window that some rule asks for, with the facts."""
        pairs = {name: self._history.pairs([name]) for name in self._servers}
        contexts = {
            name: Context(
                last=seen.readings.get(name), baseline=seen.baselines.get(name), watched_since=self._watched_since,
                first_hours_length=self._beginnings.length(name, self._history.newest_lives(name), now),
                off_step_seconds=off_step_seconds(pairs[name], _since(pairs[name], now - _LOAD_NOW)),
            )
            for name in self._servers
        }
        facts = {
            name: server_facts(
                name, seen.readings.get(name), self._history.newest_lives(name), seen.changes[name], self._prober, now
            )
            for name in self._servers
        }
        found: dict[tuple[float, str], SignalSet] = {}
        always = (SHORT_WINDOW_SECONDS, self._baseline_seconds)
        for window in self._windows:
            for name, server in self._servers.items():
                scope = scope_of_server(server).name
                families = set(Family) if window in always else self._families
                made = signals(
                    pairs[name], scope=scope, at=now, window_seconds=window, contexts={name: contexts[name]},
                    families=families,
                )
                found[window, scope] = with_facts(made, facts[name])
            for group in self._groups:
                members = [name for name in group.servers if name in self._servers]
                found[window, scope_of_group(group).name] = signals(
                    [pair for name in members for pair in pairs[name]], scope=scope_of_group(group).name, at=now,
                    window_seconds=window, contexts={name: contexts[name] for name in members},
                    families=self._families,
                )
            daemon = scope_of_daemon(self._host).name
            empty = SignalSet(scope=daemon, at=now, window_seconds=window)
            found[window, daemon] = with_facts(empty, seen.daemon)
        return found

    def _keep(
        self,
        step: AlertStep,
        seen: _Seen,
        found: Mapping[tuple[float, str], SignalSet],
        tuned: Mapping[GroupName, Evaluation],
        now: datetime,
    ) -> tuple[int, frozenset[Fingerprint]]:
        """Store alerts, timers and baselines, and queue notices, in one transaction; how many, and who is muted."""
        told, checks = 0, self._slos.checks()
        with self._store.write() as unit:
            silences = unit.silences.active(now)
            muter = Muter(step.alerts, self._alert_rules.inhibitions, silences, seen.rolling, now)
            changed = {(a.fingerprint, a.active_since): a for a in step.changed}
            for telling in tellings(step.alerts, muter, now, self._telling):
                if telling.is_due:
                    self._queue(unit, telling, seen, now)
                    told += 1
                    changed.update({(a.fingerprint, a.active_since): a for a in telling.told(now)})
            for silence, muted in ending_silences(silences, step.alerts, now):
                ending = silence_notice(silence, muted, now, simulated=self._simulated)
                unit.outbox.queue(ending, self._receivers(ending), now)
            unit.alerts.put(_with_acknowledgements(changed.values(), unit, now))
            unit.timers.put([timer for evaluation in tuned.values() for timer in evaluation.changed])
            for baseline in self._baselines(seen, found, now):
                unit.baselines.put(baseline)
            unit.checks.add(checks)
        self._slos.stored(checks)
        firing = (alert for alert in step.alerts if alert.state is AlertState.FIRING)
        return told, frozenset(alert.fingerprint for alert in firing if muter.mute(alert))

    def _queue(self, unit: Unit, telling: Telling, seen: _Seen, now: datetime) -> None:
        notice = alerts_notice(
            _KINDS[telling.reason], key=telling.dedupe_key, thread=telling.incident, new=telling.new,
            still=telling.still, ended=telling.ended, edits=telling.edits, now=now, simulated=self._simulated,
            extra={alert.fingerprint: self._found_beside(alert, seen, now) for alert in telling.new},
        )
        unit.outbox.queue(notice, self._receivers(notice), now)

    def _found_beside(self, alert: Alert, seen: _Seen, now: datetime) -> str:
        """What is known beside the rule's numbers: what a probe answered, how a restart failed."""
        server = ServerName(alert.labels.get("server", ""))
        if "restart_failed" in alert.evidence:
            failed = failed_restart(list(seen.changes.get(server, ())), seen.readings.get(server), now)
            return failed.sentence if failed is not None else ""
        result = self._prober.result(server)
        if result is None or not result.failed:
            return ""
        kept = f" Evidence kept: `acceptd evidence {result.evidence}`." if result.evidence else ""
        return f"Probe: {result.sentence}.{kept}"

    def _baselines(
        self, seen: _Seen, found: Mapping[tuple[float, str], SignalSet], now: datetime
    ) -> list[Baseline]:
        """Baselines that learned something: not while a change of ours is under way, and a window at a time."""
        learned = []
        for name, server in self._servers.items():
            lives = self._history.newest_lives(name)
            if not lives or name in seen.rolling:
                continue
            old = seen.baselines.get(name)
            if old is not None and (now - old.updated_at).total_seconds() < self._baseline_seconds:
                continue
            window = found[self._baseline_seconds, scope_of_server(server).name]
            key = baseline_key(lives[-1].setting, lives[-1].engine_version)
            new = update_baseline(old, window, name, key, now=now)
            if new is not None and new != old:
                learned.append(new)
                if is_settled(new) and not is_settled(old):
                    log.info("baseline settled server=%s length=%.3f key=%s", name, new.acceptance_length, key)
        return learned


def rolling(unit: Unit, now: datetime) -> set[ServerName]:
    """Servers that a change of ours is draining, restarting or warming now."""
    return {c.server for c in unit.changes.active() if c.state in _ROLLING and not _is_overdue(c, now)}


def _since(pairs: Sequence[Pair], since: datetime) -> list[Interval]:
    return [interval for _, interval in pairs if interval.end > since]


def _is_overdue(change: Change, now: datetime) -> bool:
    return now > (change.deadline or change.entered_at + _LONGEST_STEP) + _OVERDUE


def _with_acknowledgements(alerts: Iterable[Alert], unit: Unit, now: datetime) -> list[Alert]:
    """Alerts to be stored, with what somebody acknowledged since this evaluation read them."""
    stored = {(a.fingerprint, a.active_since): a.acknowledged_by for a in unit.alerts.since(now - timedelta(days=1))}
    return [
        replace(alert, acknowledged_by=alert.acknowledged_by or stored.get((alert.fingerprint, alert.active_since)))
        for alert in alerts
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What one evaluation reads from the store."""

    readings: Mapping[ServerName, LastReading]
    changes: Mapping[ServerName, list[Change]]
    rolling: set[ServerName]
    alerts: list[Alert]
    timers: Mapping[TimerKey, RuleTimer]
    baselines: Mapping[ServerName, Baseline | None]
    daemon: Mapping[str, float | None]
