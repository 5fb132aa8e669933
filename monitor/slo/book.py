"""All SLOs of a daemon: which events count for which SLO in which scope. It is fed, and asked; it reads nothing.

What is planned is handled so: while a change of ours drains, restarts or warms a server, its latencies, slices and
missed checks do not count, since the change has its own judgement; failed requests always count, since users feel them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId
from monitor.model.outcome import RuleOutcome
from monitor.model.server import GroupName, ServerName
from monitor.model.slo import Indicator
from monitor.slo.burn import SloStatus, burn_outcomes, status_of
from monitor.slo.course import Course, course_of
from monitor.slo.events import events_of
from monitor.slo.ledger import Ledger
from monitor.slo.load import SloPolicy
from monitor.slo.slices import SliceEvent, SliceTally


@dataclass(slots=True)
class _Page:
    """One SLO in one scope."""

    policy: SloPolicy
    scope: Mapping[str, str]
    servers: frozenset[ServerName]
    ledger: Ledger
    tallies: dict[ServerName, SliceTally] = field(default_factory=dict)
    #: Groups whose servers it counts; of a model those that were seen to have it.
    groups: set[GroupName] = field(default_factory=set)

    def add(self, interval: Interval, planned: bool) -> None:
        slo = self.policy.slo
        if planned and slo.indicator is not Indicator.AVAILABILITY:
            return
        if slo.indicator.is_sliced:
            self.add_slice(self._tally(interval.server).add(interval))
            return
        events = events_of(slo, interval)
        if events is not None:
            self.ledger.add(interval.end, events.good, events.valid, since=interval.start)

    def add_slice(self, event: SliceEvent | None) -> None:
        if event is not None:
            valid = event.slices if event.is_valid else 0.0
            since = event.end - timedelta(seconds=event.slices * self.policy.slo.slice_seconds)
            self.ledger.add(event.end, valid if event.is_good else 0.0, valid, since=since)

    def _tally(self, server: ServerName) -> SliceTally:
        tally = self.tallies.get(server)
        if tally is None:
            tally = self.tallies[server] = SliceTally(self.policy.slo)
        return tally


class SloBook:
    """Counts events for every SLO; an SLO that names neither group nor server is kept for each group.

    In memory: after a start it must be fed again with what the store has of the longest period.
    """

    def __init__(self, policies: Iterable[SloPolicy], groups: Mapping[GroupName, Iterable[ServerName]]) -> None:
        members = {group: frozenset(servers) for group, servers in groups.items()}
        self._pages = [page for policy in policies for page in _pages(policy, members)]
        self._by_server: dict[ServerName, list[_Page]] = {}
        self._models: dict[LifeId, str] = {}
        self._group_of = {server: group for group, servers in members.items() for server in servers}
        for page in self._pages:
            for server in page.servers:
                self._by_server.setdefault(server, []).append(page)

    @property
    def longest_seconds(self) -> float:
        """The longest period (seconds): how far back the store must be read at a start; 0 without SLOs."""
        return max((page.policy.slo.period_days * 86400.0 for page in self._pages), default=0.0)

    @property
    def indicators(self) -> frozenset[Indicator]:
        """What is counted: which parts of the store must be read again."""
        return frozenset(page.policy.slo.indicator for page in self._pages)

    def learn(self, lives: Iterable[Life]) -> None:
        """Of which model each life is: an SLO of a model counts no interval of a life that it was not told of."""
        self._models.update({life.id: life.model for life in lives})

    def add_interval(
        self, interval: Interval, *, planned: bool = False, only: Container[Indicator] = tuple(Indicator)
    ) -> None:
        """Count an interval; `planned` when its server is being changed by us.

        `only` for SLOs of these indicators: history that is read again may be coarser for events, which add up, than
        for time slices, which do not.
        """
        for page in self._by_server.get(interval.server, ()):
            slo = page.policy.slo
            if slo.indicator not in only:
                continue
            if slo.model is not None:
                if self._models.get(interval.life) != slo.model:
                    continue
                page.groups.add(self._group_of[interval.server])
            page.add(interval, planned)

    def add_check(self, server: ServerName, at: datetime, ok: bool, *, planned: bool = False) -> None:
        """Count a scrape or a probe, answered or not, for uptime."""
        if ok or not planned:
            self.add_checks(server, at, answered=float(ok), missed=float(not ok))

    def add_checks(self, server: ServerName, at: datetime, *, answered: float, missed: float) -> None:
        """Count checks that ended by `at`, as they were stored."""
        for page in self._by_server.get(server, ()):
            if page.policy.slo.indicator is Indicator.UPTIME:
                page.ledger.add(at, answered, answered + missed)

    def statuses(self, now: datetime) -> tuple[SloStatus, ...]:
        """Every SLO in every scope at `now`, least budget left first, those without events last."""
        for page in self._pages:
            for tally in page.tallies.values():
                page.add_slice(tally.close(now))
        found = [
            status_of(p.policy.slo, p.policy.windows, p.ledger, p.scope, now, frozenset(p.groups)) for p in self._pages
        ]
        return tuple(sorted(found, key=_by_budget))

    def courses(self, statuses: Iterable[SloStatus], now: datetime) -> tuple[Course, ...]:
        """How the SLOs of these statuses have fared until `now`."""
        pages = {(page.policy.slo.name, *sorted(page.scope.items())): page for page in self._pages}
        found = [pages[one.slo.name, *sorted(one.scope.items())] for one in statuses]
        return tuple(course_of(p.policy.slo, p.ledger, p.scope, now, frozenset(p.groups)) for p in found)

    def totals(self) -> list[tuple[str, Mapping[str, str], float, float]]:
        """Everything counted so far: SLO, scope, good events, valid events."""
        return [(p.policy.slo.name, p.scope, p.ledger.good_total, p.ledger.valid_total) for p in self._pages]

    def outcomes(self, statuses: Iterable[SloStatus]) -> tuple[RuleOutcome, ...]:
        """The burn alerts of `statuses`, for `monitor.policy.alerts.step_alerts`."""
        return tuple(outcome for status in statuses for outcome in burn_outcomes(status))


def _by_budget(status: SloStatus) -> float:
    left = status.attainment.error_budget_remaining
    return float("inf") if left is None else left


def _pages(policy: SloPolicy, members: Mapping[GroupName, frozenset[ServerName]]) -> list[_Page]:
    slo = policy.slo

    def page(scope: Mapping[str, str], servers: frozenset[ServerName]) -> _Page:
        groups = {GroupName(scope["group"])} if scope.get("group") else set()
        return _Page(policy, scope, servers, Ledger(slo.period_days * 86400.0), groups=groups)

    if slo.model is not None:
        return [page({"model": slo.model}, frozenset().union(*members.values()))]
    if slo.server is not None:
        name = ServerName(slo.server)
        group = next((group for group, servers in members.items() if name in servers), "")
        return [page({"server": slo.server, "group": str(group)}, frozenset([name]))]
    return [
        page({"group": str(group)}, servers) for group, servers in members.items() if slo.group in (None, str(group))
    ]


#: Indicators whose burning budget forbids changes: what users feel. Acceptance and efficiency never do.
FREEZING = frozenset(
    {
        Indicator.TIME_TO_FIRST_TOKEN,
        Indicator.INTER_TOKEN,
        Indicator.TIME_PER_OUTPUT_TOKEN,
        Indicator.E2E_REQUEST,
        Indicator.AVAILABILITY,
        Indicator.UPTIME,
    }
)


def freezes(statuses: Iterable[SloStatus], group: str) -> str:
    """Why no change of `group` may start now: the SLO that burns; empty where none does.

    Only windows that page count: a slow burn is no incident that a change could disturb.
    """
    for status in statuses:
        is_ours = group in status.groups and status.slo.indicator in FREEZING
        if is_ours and any(burn.is_burning and burn.window.severity == "page" for burn in status.burns):
            return f"SLO {status.slo.name} of {group} burns its error budget"
    return ""
