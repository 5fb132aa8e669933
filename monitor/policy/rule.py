"""Rules as values: what a checked rule file holds. It owns no evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from monitor.model.alert import Matcher
from monitor.model.outcome import TuneChange
from monitor.model.record import group_scope, server_scope
from monitor.model.server import Group, Server
from monitor.policy.condition import Condition
from monitor.policy.template import Template


class ScopeKind(StrEnum):
    """What a rule is evaluated for."""

    SERVER = "server"
    GROUP = "group"
    #: acceptd itself on this host.
    DAEMON = "daemon"


@dataclass(frozen=True, slots=True)
class Scope:
    """One thing that rules are evaluated for; `labels` go to its alerts."""

    name: str
    kind: ScopeKind
    labels: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Of the name: labels are a mapping, which has none."""
        return hash(self.name)


def scope_of_server(server: Server) -> Scope:
    """The scope of one server, with its own labels (which cannot hide `server` and `group`)."""
    labels = {**server.labels, "server": server.name, "group": server.group}
    return Scope(server_scope(server.name), ScopeKind.SERVER, labels)


def scope_of_group(group: Group) -> Scope:
    """The scope of one group."""
    return Scope(group_scope(group.name), ScopeKind.GROUP, {"group": group.name})


def scope_of_daemon(host: str) -> Scope:
    """The scope of the daemon on `host`."""
    return Scope(f"daemon:{host}", ScopeKind.DAEMON, {"host": host})


@dataclass(frozen=True, slots=True)
class Need:
    """Least value of a signal, or least sample size of it (`SIGNAL.samples`), below which a rule has no data."""

    signal: str
    minimum: float
    of_samples: bool = False

    @property
    def name(self) -> str:
        """The key as written in the file."""
        return f"{self.signal}.samples" if self.of_samples else self.signal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """What alert and tuning rules share. `where` is `file:line`, for messages."""

    name: str
    set_name: str
    where: str
    when: Condition
    scope: ScopeKind
    window_seconds: float
    for_seconds: float = 0.0
    need: tuple[Need, ...] = ()
    #: Signals carried as evidence beside those of the condition: the numbers that speak for a cause.
    show: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, Template] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlertRule(Rule):
    """A rule that raises an alert."""

    keep_firing_for_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TuneRule(Rule):
    """A rule that asks for another setting. `guard` names who must agree first."""

    change: TuneChange
    guard: str | None = None


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While an alert matches `source`, others that match `target` and share its `equal` labels are not told.

    Also while it `pending` waits for its `for`, and for `after_seconds` once it is over: what has a longer memory than
    the source, as a budget has, would page before it and outlast it.
    """

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...] = ()
    pending: bool = False
    after_seconds: float = 0.0

    def mutes(self, target: Mapping[str, str], source: Mapping[str, str]) -> bool:
        """Whether an alert labelled `source` keeps one labelled `target` quiet."""
        return (
            all(m.matches(target) for m in self.target)
            and all(m.matches(source) for m in self.source)
            and all(target.get(name, "") == source.get(name, "") for name in self.equal)
        )


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Every rule of some files."""

    alerts: tuple[AlertRule, ...] = ()
    tunes: tuple[TuneRule, ...] = ()
    inhibitions: tuple[Inhibition, ...] = ()

    def __iter__(self) -> Iterator[Rule]:
        yield from self.tunes
        yield from self.alerts

    @property
    def windows(self) -> frozenset[tuple[ScopeKind, float]]:
        """The windows (seconds) that signals are needed over, by kind of scope."""
        return frozenset((rule.scope, rule.window_seconds) for rule in self)

    @property
    def signals(self) -> frozenset[str]:
        """Every signal that some rule names."""
        return frozenset(
            name for rule in self for name in (*rule.when.names, *(need.signal for need in rule.need), *rule.show)
        )
