"""One evaluation: signals, rules, lives of alerts, what to tell. All it goes by is in the store or remembered from it.

The order inside one transaction matters: an alert is marked as told where its notice is queued, so that neither a crash
nor a restart tells twice or forgets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.cycle.contexts import Beginnings
from monitor.cycle.diagnose import Diagnoser
from monitor.cycle.experience import Basis, basis
from monitor.cycle.facts import failed_restart
from monitor.cycle.history import History
from monitor.cycle.learning import learned
from monitor.cycle.objectives import NoObjectives, Objectives
from monitor.cycle.prober import Prober
from monitor.cycle.sight import SHORT_WINDOW_SECONDS, Seen, Sight
from monitor.model.alert import Alert, AlertState, Fingerprint, Silence, SilenceId
from monitor.model.notice import NoticeKind
from monitor.model.outcome import RuleOutcome, TuneFiring
from monitor.model.reading import Verdict
from monitor.model.record import RuleTimer
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.model.signal import SignalSet
from monitor.notify.compose_alerts import RUNBOOKS, alerts_notice, silence_notice
from monitor.notify.routing import Routing
from monitor.policy.alerts import AlertStep, TransitionKind, step_alerts, with_causes
from monitor.policy.evaluate import Evaluation, TimerKey, evaluate
from monitor.policy.mute import Muter, ending_silences
from monitor.policy.rule import RuleSet, Scope, ScopeKind, scope_of_daemon, scope_of_group, scope_of_server
from monitor.policy.telling import Telling, TellingPolicy, TellReason, tellings
from monitor.store import Store
from monitor.store.api import Unit

log = logging.getLogger(__name__)

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
    #: What is decided by, of each group that has tuning rules.
    bases: Mapping[GroupName, Basis]
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
        peers: Callable[[datetime], Iterable[RuleOutcome]] | None = None,
        runbooks: str = RUNBOOKS,
    ) -> None:
        """`baseline_seconds`: length of the windows that baselines learn from. `starting`: servers that we started
        and that may still take their time; their silence is not told. `undelivered`: what fails to be told beside the
        outbox. `daemon`: facts of the daemon beside the store's. `peers`: what is to be told
        of other daemons. `runbooks`: where they are read, with `{runbook}`.
        """
        self._slos = slos or NoObjectives()
        self._baseline_seconds = baseline_seconds
        self._store = store
        self._history = history
        self._prober = prober
        self._servers = {server.name: server for server in servers}
        self._groups = tuple(groups)
        self._alert_rules = alert_rules
        self._tuning_rules = dict(tuning_rules)
        #: Made once: what is remembered of a scope is then found by itself, without looking through its labels. A group
        #: comes right after its servers, whose past it shares.
        self._scopes: list[tuple[Group | None, tuple[Scope, ...]]] = [
            (group, (*(scope_of_server(self._servers[name]) for name in group.servers if name in self._servers),
                     scope_of_group(group)))
            for group in self._groups
        ]
        grouped = {name for group in self._groups for name in group.servers}
        alone = (scope_of_server(server) for server in servers if server.name not in grouped)
        self._scopes.append((None, (*alone, scope_of_daemon(host))))
        self._receivers = receivers
        self._telling = telling
        self._peers = peers or (lambda now: ())
        self._simulated = simulated
        self._runbooks = runbooks
        self._credit = credit_seconds
        self._said_refused: frozenset[SilenceId] = frozenset()
        short = {(ScopeKind.SERVER, SHORT_WINDOW_SECONDS), (ScopeKind.SERVER, baseline_seconds)}
        self._diagnoser = Diagnoser(store, history, groups)
        self._sight = Sight(
            history, prober, Beginnings(store), servers=servers, groups=groups, host=host, watched_since=watched_since,
            windows=short.union(alert_rules.windows, *(rules.windows for rules in tuning_rules.values())),
            starting=starting, undelivered=undelivered, daemon=daemon,
        )

    def run(self, now: datetime) -> Evaluated:
        """Evaluate at `now`, store what changed and queue what is to be told. Raises StoreError."""
        with self._store.read() as unit:
            seen = self._sight.read(unit, now)
        found = self._sight.signals(seen, now)
        shorts = self._of_servers(found, SHORT_WINDOW_SECONDS)
        outcomes, tuned, bases = self._evaluate(found, seen.timers, now)
        self._look(seen, shorts)
        outcomes += [*self._slos.look(now).outcomes, *self._peers(now)]
        step = step_alerts(seen.alerts, outcomes, now, credit_seconds=self._credit)
        fired = [t.alert for t in step.transitions if t.kind is TransitionKind.FIRING]
        step = with_causes(step, self._diagnoser.causes(fired, seen, shorts, now))
        told, muted = self._keep(step, seen, found, tuned, now)
        for transition in step.transitions:
            if transition.kind in (TransitionKind.FIRING, TransitionKind.RESOLVED):
                alert = transition.alert
                log.info("alert %s alert=%s labels=%s", transition.kind.value, alert.name, dict(alert.labels))
        return Evaluated(
            now=now,
            servers=shorts,
            tunes={group: evaluation.tunes for group, evaluation in tuned.items()},
            firings={group: evaluation.firings for group, evaluation in tuned.items()},
            bases=bases,
            alerts=step.alerts,
            told=told,
            muted=muted,
        )

    def _of_servers(
        self, found: Mapping[tuple[float, str], SignalSet], seconds: float
    ) -> dict[ServerName, SignalSet]:
        return {name: found[seconds, scope_of_server(server).name] for name, server in self._servers.items()}

    def _look(self, seen: Seen, shorts: Mapping[ServerName, SignalSet]) -> None:
        """Have servers asked that look stuck, or whose page cannot be had."""
        for name, short in shorts.items():
            if name not in seen.rolling:
                # While we restart it its silence proves nothing, and what was seen before must stay the newest.
                self._prober.look(name, short.value("stuck_seconds"), bool(short.value("is_sleeping")))
            last = seen.readings.get(name)
            self._prober.look_health(name, last is not None and last.reading.verdict is Verdict.SCRAPE_ERROR)

    def _evaluate(
        self, found: Mapping[tuple[float, str], SignalSet], timers: Mapping[TimerKey, RuleTimer], now: datetime
    ) -> tuple[list[RuleOutcome], dict[GroupName, Evaluation], dict[GroupName, Basis]]:
        """What alert rules say, what tuning rules of each group, and what is decided by."""
        settled = self._sight.settled()
        outcomes: list[RuleOutcome] = []
        tuned, bases = {}, {}
        for group, scopes in self._scopes:
            outcomes += evaluate(self._alert_rules, found, scopes, timers, now, credit_seconds=self._credit).outcomes
            if group is not None and group.name in self._tuning_rules:
                tuned[group.name] = evaluate(
                    self._tuning_rules[group.name], found, scopes[-1:], timers, now, credit_seconds=self._credit,
                    settled=settled,
                )
                tracks = [self._history.track(name) for name in group.servers if name in self._servers]
                bases[group.name] = basis(tracks, scopes[-1].name, tuned[group.name].firings, now)
        return outcomes, tuned, bases

    def _keep(
        self,
        step: AlertStep,
        seen: Seen,
        found: Mapping[tuple[float, str], SignalSet],
        tuned: Mapping[GroupName, Evaluation],
        now: datetime,
    ) -> tuple[int, frozenset[Fingerprint]]:
        """Store alerts, timers and baselines, and queue notices, in one transaction; how many, and who is muted."""
        told, checks = 0, self._slos.checks()
        with self._store.write() as unit:
            silences = unit.silences.active(now)
            self._say_refused(silences)
            muter = Muter(step.alerts, self._alert_rules.inhibitions, silences, seen.rolling, now)
            changed = {(a.fingerprint, a.active_since): a for a in step.changed}
            for telling in tellings(step.alerts, muter, now, self._telling):
                if telling.is_due:
                    self._queue(unit, telling, seen, now)
                    told += 1
                    changed.update({(a.fingerprint, a.active_since): a for a in telling.told(now)})
            for silence, muted in ending_silences(silences, step.alerts, muter, now):
                ending = silence_notice(silence, muted, now, simulated=self._simulated)
                unit.outbox.queue(ending, self._receivers(ending), now)
            unit.alerts.put(_with_acknowledgements(changed.values(), unit, now))
            unit.timers.put([timer for evaluation in tuned.values() for timer in evaluation.changed])
            for baseline in learned(seen, self._of_servers(found, self._baseline_seconds), now):
                unit.baselines.put(baseline)
            unit.checks.add(checks)
        self._slos.stored(checks)
        firing = (alert for alert in step.alerts if alert.state is AlertState.FIRING)
        return told, frozenset(alert.fingerprint for alert in firing if muter.mute(alert))

    def _say_refused(self, silences: Iterable[Silence]) -> None:
        """An older acceptd may have stored expressions that RE2 refuses: better one alert too many than none."""
        refused = {silence.id: silence.refusal for silence in silences if silence.refusal}
        for name in refused.keys() - self._said_refused:
            log.error("silence hides nothing, make it anew silence=%s: %s", name, refused[name])
        self._said_refused = frozenset(refused)

    def _queue(self, unit: Unit, telling: Telling, seen: Seen, now: datetime) -> None:
        notice = alerts_notice(
            _KINDS[telling.reason], key=telling.dedupe_key, thread=telling.incident, new=telling.new,
            still=telling.still, ended=telling.ended, edits=telling.edits, now=now, simulated=self._simulated,
            extra={a.fingerprint: self._found_beside(a, seen, now) for a in (*telling.new, *telling.still)},
            runbooks=self._runbooks,
        )
        unit.outbox.queue(notice, self._receivers(notice), now)

    def _found_beside(self, alert: Alert, seen: Seen, now: datetime) -> str:
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


def _with_acknowledgements(alerts: Iterable[Alert], unit: Unit, now: datetime) -> list[Alert]:
    """Alerts to be stored, with what somebody acknowledged since this evaluation read them."""
    stored = {(a.fingerprint, a.active_since): a.acknowledged_by for a in unit.alerts.since(now - timedelta(days=1))}
    return [
        replace(alert, acknowledged_by=alert.acknowledged_by or stored.get((alert.fingerprint, alert.active_since)))
        for alert in alerts
    ]
