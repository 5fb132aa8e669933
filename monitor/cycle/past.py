"""The past of one group as its rules would have seen it: signals of every scope at every moment. It judges nothing.

Facts that are not stored (what a probe said then, how a restart had ended) are absent, so rules that rest on them have
no data. Baselines are learned anew from the beginning of the span.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from monitor.model.life import LastReading, Life
from monitor.model.reading import Reading, Verdict
from monitor.model.record import Baseline, Checks
from monitor.model.server import Group, Server, ServerName
from monitor.model.signal import SignalSet
from monitor.policy.evaluate import Signals
from monitor.policy.facts import FACTS, is_neural_draft, with_facts
from monitor.policy.rule import RuleSet, Scope, ScopeKind, scope_of_group, scope_of_server
from monitor.signals.baseline import baseline_key, update_baseline
from monitor.signals.build import Context, families_of, signals
from monitor.signals.vocabulary import Family
from monitor.signals.window import Pair, cut
from monitor.store.api import Unit
from monitor.store.buckets import STEPS

#: Step from which history is read in sums over five minutes instead of as scraped (seconds).
COARSE_SECONDS = float(STEPS[0])
#: What is given beyond the longest window, for what compares with earlier times (seconds).
_LOOK_BACK = 6 * 3600.0
#: The same for windows that only ask how long nothing moved.
_LOOK_BACK_LITTLE = 900.0

#: Facts that a replay knows.
KNOWN_FACTS = frozenset({"is_neural_draft"})


@dataclass(frozen=True, slots=True)
class Track:
    """One server's past, by end."""

    pairs: Sequence[Pair]
    ends: Sequence[datetime]
    checks: Sequence[Checks] = ()

    def between(self, since: datetime, until: datetime) -> Sequence[Pair]:
        """Pairs whose interval ends in (since, until]."""
        return self.pairs[bisect_right(self.ends, since) : bisect_right(self.ends, until)]

    def last(self, at: datetime) -> LastReading | None:
        """What the newest page said of the server being there; None where checks do not tell."""
        found = bisect_right(self.checks, at, key=lambda one: one.end)
        if not found or at - self.checks[found - 1].end > timedelta(seconds=2 * COARSE_SECONDS):
            return None
        newest = self.checks[found - 1]
        verdict = Verdict.OK if newest.answered else Verdict.SCRAPE_ERROR
        reading = Reading(server=newest.server, scraped_at=newest.end, monotonic=0.0, dialect="none", verdict=verdict,
                          reason="")
        return LastReading(reading, newest.end if newest.answered else None)


@dataclass(frozen=True, slots=True)
class Past:
    """Everything that is replayed of one group."""

    group: Group
    servers: Sequence[Server]
    tracks: Mapping[ServerName, Track]
    since: datetime
    #: Until when history is known in sums over five minutes alone; None where none of it is.
    sums_until: datetime | None = None

    @property
    def begins(self) -> datetime | None:
        """End of the oldest interval; None without any."""
        return min((track.ends[0] for track in self.tracks.values() if track.ends), default=None)

    @property
    def scopes(self) -> list[Scope]:
        """Its servers, and itself."""
        return [*(scope_of_server(server) for server in self.servers), scope_of_group(self.group)]

    def pairs(self, since: datetime, until: datetime) -> list[Pair]:
        """Pairs of all its servers."""
        return [pair for track in self.tracks.values() for pair in track.between(since, until)]

    def newest_lives(self, server: ServerName, at: datetime) -> tuple[Life, ...]:
        """Lives that a server showed at that moment."""
        return cut(self.tracks[server].between(at - timedelta(seconds=_LOOK_BACK_LITTLE), at), at,
                   _LOOK_BACK_LITTLE).newest_lives


def read_past(
    unit: Unit, group: Group, servers: Iterable[Server], since: datetime, until: datetime, *, step_seconds: float,
    longest_window: float,
) -> Past:
    """The past of one group, with a day before it for windows and for the load that the tuner weighs."""
    members = [server for server in servers if server.name in group.servers]
    begin = since - timedelta(seconds=max(longest_window + _LOOK_BACK, 86_400.0))
    tracks, sums_until = {}, None
    for server in members:
        name = server.name
        lives = {life.id: life for life in unit.lives.of(name, begin - timedelta(days=1), until)}
        found = unit.intervals.between([name], begin, until) if step_seconds < COARSE_SECONDS else []
        # What was pruned is known in sums alone.
        older = unit.intervals.between_coarse([name], begin, found[0].start if found else until, STEPS[0])
        if older:
            sums_until = max(older[-1].end, sums_until or older[-1].end)
        found = [*older, *found]
        pairs = [(lives[one.life], one) for one in found if one.life in lives]
        checks = unit.checks.between([name], begin, until)
        tracks[name] = Track(pairs, [interval.end for _, interval in pairs], checks)
    return Past(group, members, tracks, since, sums_until)


@dataclass(slots=True)
class Replayer:
    """Walks through the past of one group."""

    past: Past
    rules: RuleSet
    baseline_seconds: float
    _baselines: dict[ServerName, dict[str, Baseline]] = field(default_factory=dict)
    _needed: Mapping[tuple[ScopeKind, float], frozenset[Family]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._needed = _families(self.rules, self.baseline_seconds)

    def moments(self, until: datetime, step_seconds: float) -> Iterator[tuple[datetime, Signals]]:
        """Signals of every scope and window that the rules ask for, at every step of the span."""
        now = self.past.since
        while now < until:
            now = min(now + timedelta(seconds=step_seconds), until)
            yield now, self._signals(now)

    def _signals(self, now: datetime) -> Signals:
        lives = {server.name: self.past.newest_lives(server.name, now) for server in self.past.servers}
        contexts = {
            name: Context(
                last=self.past.tracks[name].last(now), baseline=self._baseline(name, found),
                watched_since=self.past.since,
            )
            for name, found in lives.items()
        }
        found: dict[tuple[float, str], SignalSet] = {}
        for (kind, window), families in self._needed.items():
            if kind is ScopeKind.SERVER:
                for server in self.past.servers:
                    scope = scope_of_server(server).name
                    made = self._made([server.name], scope, now, window, families, contexts)
                    found[window, scope] = with_facts(made, _facts(lives[server.name]))
            elif kind is ScopeKind.GROUP:
                scope = scope_of_group(self.past.group).name
                found[window, scope] = self._made(list(self.past.tracks), scope, now, window, families, contexts)
        for server in self.past.servers:
            learned = found[self.baseline_seconds, scope_of_server(server).name]
            self._learn(server.name, lives[server.name], learned, now)
        return found

    def _made(
        self, names: Sequence[ServerName], scope: str, now: datetime, window: float, families: frozenset[Family],
        contexts: Mapping[ServerName, Context],
    ) -> SignalSet:
        back = window + (_LOOK_BACK if Family.CHANGE in families else _LOOK_BACK_LITTLE)
        since = now - timedelta(seconds=back)
        pairs = [pair for name in names for pair in self.past.tracks[name].between(since, now)]
        known = {name: contexts[name] for name in names}
        return signals(pairs, scope=scope, at=now, window_seconds=window, contexts=known, families=families)

    def _baseline(self, name: ServerName, lives: Sequence[Life]) -> Baseline | None:
        return self._baselines.get(name, {}).get(_key(lives)) if lives else None

    def _learn(self, name: ServerName, lives: Sequence[Life], window: SignalSet, now: datetime) -> None:
        if not lives:
            return
        key, own = _key(lives), self._baselines.setdefault(name, {})
        old = own.get(key)
        if old is not None and (now - old.updated_at).total_seconds() < self.baseline_seconds:
            return
        new = update_baseline(old, window, name, key, now=now)
        if new is not None:
            own[key] = new


def _key(lives: Sequence[Life]) -> str:
    return baseline_key(lives[-1].setting, lives[-1].engine_version)


def _facts(lives: Sequence[Life]) -> dict[str, float | None]:
    methods = {life.setting.method for life in lives if not life.setting.is_off}
    return {**dict.fromkeys(FACTS), "is_neural_draft": is_neural_draft(methods.pop()) if len(methods) == 1 else None}


def _families(rules: RuleSet, baseline_seconds: float) -> dict[tuple[ScopeKind, float], frozenset[Family]]:
    """Families to be computed for each kind of scope and window: those that some rule reads, and the baseline's."""
    needed: dict[tuple[ScopeKind, float], frozenset[Family]] = {
        (ScopeKind.SERVER, baseline_seconds): frozenset({Family.ACCEPTANCE})
    }
    for rule in rules:
        names = (*rule.when.names, *(need.signal for need in rule.need), *rule.show)
        key = (rule.scope, rule.window_seconds)
        needed[key] = needed.get(key, frozenset()) | families_of(names)
    return needed
