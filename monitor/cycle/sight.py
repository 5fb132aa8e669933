"""What one evaluation goes by: what it reads from the store, and the signals of every scope. It judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.cycle.contexts import Beginnings, off_step_seconds
from monitor.cycle.facts import changes_of_last_day, daemon_facts, server_facts
from monitor.cycle.history import History
from monitor.cycle.prober import Prober
from monitor.cycle.rolling import rolling
from monitor.model.alert import Alert
from monitor.model.life import LastReading, Life
from monitor.model.record import Baseline, RuleTimer
from monitor.model.rollout import Change
from monitor.model.server import Group, Server, ServerName
from monitor.model.signal import SignalSet
from monitor.policy.evaluate import TimerKey
from monitor.policy.facts import with_facts
from monitor.policy.rule import ScopeKind, scope_of_daemon, scope_of_group, scope_of_server
from monitor.signals.baseline import baseline_key
from monitor.signals.build import Context, signals_of
from monitor.store.api import Unit

#: Window that the own metrics page shows and, unless set otherwise, baselines learn from (seconds).
SHORT_WINDOW_SECONDS = 300.0
#: Over how long the load counts as that of now (see `off_step_seconds`).
_LOAD_NOW = timedelta(seconds=SHORT_WINDOW_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one evaluation reads from the store, and the lives of each server that go on."""

    lives: Mapping[ServerName, tuple[Life, ...]]
    readings: Mapping[ServerName, LastReading]
    changes: Mapping[ServerName, list[Change]]
    rolling: set[ServerName]
    alerts: list[Alert]
    timers: Mapping[TimerKey, RuleTimer]
    baselines: Mapping[ServerName, Baseline | None]
    daemon: Mapping[str, float | None]


class Sight:
    """Looks at everything at one moment; used by one thread."""

    def __init__(
        self, history: History, prober: Prober, beginnings: Beginnings, *, servers: Sequence[Server],
        groups: Sequence[Group], windows: Collection[tuple[ScopeKind, float]], host: str, watched_since: datetime,
        starting: Callable[[datetime], set[ServerName]], undelivered: Callable[[datetime], int],
        daemon: Callable[[], Mapping[str, float | None]],
    ) -> None:
        """`windows`: those that signals are wanted over (seconds), by kind of scope."""
        self._history = history
        self._prober = prober
        self._beginnings = beginnings
        self._servers = tuple(servers)
        self._groups = tuple(groups)
        self._windows = frozenset(windows)
        self._host = host
        self._watched_since = watched_since
        self._starting = starting
        self._undelivered = undelivered
        self._daemon = daemon

    def read(self, unit: Unit, now: datetime) -> Seen:
        """What is stored."""
        names = [server.name for server in self._servers]
        lives = {name: self._history.newest_lives(name) for name in names}
        known = {(one.server, one.key): one for one in unit.baselines.of_servers(names)}
        return Seen(
            lives=lives,
            readings={last.reading.server: last for last in unit.readings.all()},
            changes=changes_of_last_day(unit, names, now),
            rolling=rolling(unit, now) | self._starting(now),
            alerts=unit.alerts.all(resolved_since=now - timedelta(days=1)),
            timers={(timer.rule, timer.scope): timer for timer in unit.timers.all()},
            baselines={name: known.get((name, key_of(lives[name]))) if lives[name] else None for name in names},
            daemon={**daemon_facts(unit, now, beside=self._undelivered(now)), **self._daemon()},
        )

    def signals(self, seen: Seen, now: datetime) -> dict[tuple[float, str], SignalSet]:
        """Signals of every scope over every window wanted, with the facts."""
        tracks = {server.name: self._history.track(server.name) for server in self._servers}
        contexts = {
            name: Context(
                last=seen.readings.get(name), baseline=seen.baselines.get(name), watched_since=self._watched_since,
                first_hours_length=self._beginnings.length(name, seen.lives[name], now),
                off_step_seconds=off_step_seconds(track, now, _LOAD_NOW),
            )
            for name, track in tracks.items()
        }
        found: dict[tuple[float, str], SignalSet] = {}
        for server in self._servers:
            name, scope = server.name, scope_of_server(server).name
            facts = server_facts(
                name, seen.readings.get(name), seen.lives[name], seen.changes[name], self._prober, now
            )
            for window in self._of(ScopeKind.SERVER):
                made = signals_of(
                    [tracks[name]], scope=scope, at=now, window_seconds=window, contexts={name: contexts[name]}
                )
                found[window, scope] = with_facts(made, facts)
        for group in self._groups:
            members, scope = [name for name in group.servers if name in tracks], scope_of_group(group).name
            for window in self._of(ScopeKind.GROUP):
                found[window, scope] = signals_of(
                    [tracks[name] for name in members], scope=scope, at=now, window_seconds=window,
                    contexts={name: contexts[name] for name in members},
                )
        daemon = scope_of_daemon(self._host).name
        for window in self._of(ScopeKind.DAEMON):
            found[window, daemon] = with_facts(SignalSet(scope=daemon, at=now, window_seconds=window), seen.daemon)
        return found

    def settled(self) -> dict[str, datetime]:
        """Since when each group's servers are all at the setting they are at, by scope; none that changed none lately.
        """
        found = {}
        for group in self._groups:
            moments = [self._history.settled_since(name) for name in group.servers]
            known = [moment for moment in moments if moment is not None]
            if known:
                found[scope_of_group(group).name] = max(known)
        return found

    def _of(self, kind: ScopeKind) -> list[float]:
        return [seconds for of, seconds in self._windows if of is kind]


def key_of(lives: Sequence[Life]) -> str:
    """Key of the baseline of the newest of these lives."""
    return baseline_key(lives[-1].setting, lives[-1].engine_version)
