"""The past of one group as its rules would have seen it: signals of every scope at every moment. It judges nothing.

Facts that are not stored (what a probe said then, how a restart had ended) are absent, so rules that rest on them have
no data. Baselines are learned anew from the beginning of the span.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from monitor.intervals.buckets import STEPS
from monitor.model.life import LastReading, Life
from monitor.model.reading import Reading, Verdict
from monitor.model.record import Baseline, Checks
from monitor.model.server import Group, Server, ServerName
from monitor.model.signal import SignalSet
from monitor.policy.evaluate import Signals
from monitor.policy.facts import FACTS, is_neural_draft, with_facts
from monitor.policy.rule import RuleSet, Scope, ScopeKind, scope_of_group, scope_of_server
from monitor.policy.timeline import Moment
from monitor.signals.baseline import baseline_key, update_baseline
from monitor.signals.build import Context, signals_of
from monitor.signals.change import LOOK_BACK_SECONDS
from monitor.signals.track import Pair, Track, merged
from monitor.signals.window import newest_lives, settled_since
from monitor.store.api import Unit

#: Step from which history is read in sums over five minutes instead of as scraped (seconds).
COARSE_SECONDS = float(STEPS[0])
#: How far back lives are looked for that a server shows now (seconds).
_SHOWN_SECONDS = 900.0

#: Facts that nobody stored: all but the one that a life tells.
UNSTORED_FACTS = frozenset(FACTS) - {"is_neural_draft"}
_UNKNOWN: Mapping[str, float | None] = dict.fromkeys(FACTS)


@dataclass(frozen=True, slots=True)
class Answers:
    """Whether one server answered, by time."""

    checks: Sequence[Checks] = ()

    def last(self, at: datetime) -> LastReading | None:
        """What the newest page said of the server being there; None where checks do not tell."""
        found = bisect_right(self.checks, at, key=lambda one: one.end)
        if not found or at - self.checks[found - 1].end > timedelta(seconds=2 * COARSE_SECONDS):
            return None
        return _page_of(self.checks[found - 1])


@lru_cache(maxsize=4096)
def _page_of(newest: Checks) -> LastReading:
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
    answers: Mapping[ServerName, Answers]
    #: All lives of each server, by their first page.
    lives: Mapping[ServerName, Sequence[Life]]
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
        """Pairs of all its servers, by end."""
        return merged(list(self.tracks.values()), since, until)

    def newest_lives(self, server: ServerName, at: datetime) -> tuple[Life, ...]:
        """Lives that a server showed at that moment."""
        return newest_lives(self.tracks[server].between(at - timedelta(seconds=_SHOWN_SECONDS), at))

    def settled_since(self, server: ServerName, at: datetime) -> datetime | None:
        """Since when a server was at its setting of that moment; None where no other is known."""
        return settled_since(life for life in self.lives[server] if life.first_seen <= at)


def read_past(
    unit: Unit, group: Group, servers: Iterable[Server], since: datetime, until: datetime, *, step_seconds: float,
    longest_window: float,
) -> Past:
    """The past of one group, with a day before it for windows and for the load that the tuner weighs."""
    members = [server for server in servers if server.name in group.servers]
    begin = since - timedelta(seconds=max(longest_window + LOOK_BACK_SECONDS, 86_400.0))
    tracks, answers, every, sums_until = {}, {}, {}, None
    for server in members:
        name = server.name
        every[name] = sorted(unit.lives.of(name, begin - timedelta(days=1), until), key=lambda life: life.first_seen)
        lives = {life.id: life for life in every[name]}
        found = unit.intervals.between([name], begin, until) if step_seconds < COARSE_SECONDS else []
        # What was pruned is known in sums alone.
        older = unit.intervals.between_coarse([name], begin, found[0].start if found else until, STEPS[0])
        if older:
            sums_until = max(older[-1].end, sums_until or older[-1].end)
        found = [*older, *found]
        tracks[name] = Track.of((lives[one.life], one) for one in found if one.life in lives)
        answers[name] = Answers(unit.checks.between([name], begin, until))
    return Past(group, members, tracks, answers, every, since, sums_until)


@dataclass(slots=True)
class Replayer:
    """Walks through the past of one group."""

    past: Past
    rules: RuleSet
    baseline_seconds: float
    _baselines: dict[ServerName, dict[str, Baseline]] = field(default_factory=dict)
    _windows: frozenset[tuple[ScopeKind, float]] = frozenset()

    def __post_init__(self) -> None:
        self._windows = self.rules.windows | {(ScopeKind.SERVER, self.baseline_seconds)}

    def moments(self, until: datetime, step_seconds: float) -> Iterator[Moment]:
        """Signals of every scope and window that the rules ask for, at every step of the span."""
        now = self.past.since
        while now < until:
            now = min(now + timedelta(seconds=step_seconds), until)
            lives = {server.name: self.past.newest_lives(server.name, now) for server in self.past.servers}
            found = self._signals(now, lives)
            yield Moment(now, found, self._settled(now))
            # Afterwards, when the rules have had most of what is learned worked out.
            for server in self.past.servers:
                learned = found[self.baseline_seconds, scope_of_server(server).name]
                self._learn(server.name, lives[server.name], learned, now)

    def _signals(self, now: datetime, lives: Mapping[ServerName, Sequence[Life]]) -> Signals:
        contexts = {
            name: Context(
                last=self.past.answers[name].last(now), baseline=self._baseline(name, found),
                watched_since=self.past.since,
            )
            for name, found in lives.items()
        }
        found: dict[tuple[float, str], SignalSet] = {}
        for kind, window in self._windows:
            if kind is ScopeKind.SERVER:
                for server in self.past.servers:
                    scope = scope_of_server(server).name
                    made = self._made([server.name], scope, now, window, contexts)
                    found[window, scope] = with_facts(made, _facts(lives[server.name]))
            elif kind is ScopeKind.GROUP:
                scope = scope_of_group(self.past.group).name
                found[window, scope] = self._made(list(self.past.tracks), scope, now, window, contexts)
        return found

    def _settled(self, now: datetime) -> dict[str, datetime]:
        known = [moment for server in self.past.servers if (moment := self.past.settled_since(server.name, now))]
        return {scope_of_group(self.past.group).name: max(known)} if known else {}

    def _made(
        self, names: Sequence[ServerName], scope: str, now: datetime, window: float,
        contexts: Mapping[ServerName, Context],
    ) -> SignalSet:
        tracks = [self.past.tracks[name] for name in names]
        known = {name: contexts[name] for name in names}
        return signals_of(tracks, scope=scope, at=now, window_seconds=window, contexts=known)

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


def _facts(lives: Sequence[Life]) -> Mapping[str, float | None]:
    methods = {life.setting.method for life in lives if not life.setting.is_off}
    return _facts_of(methods.pop()) if len(methods) == 1 else _UNKNOWN


@lru_cache(maxsize=64)
def _facts_of(method: str | None) -> Mapping[str, float | None]:
    return {**_UNKNOWN, "is_neural_draft": is_neural_draft(method)}
