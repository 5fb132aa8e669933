"""What a report needs, read from the store; and which week it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from monitor.model.record import Watched
from monitor.model.server import Group, ServerName
from monitor.report.build import Inputs, build
from monitor.report.content import WeeklyReport
from monitor.report.history import load_pairs
from monitor.signals.track import Pair
from monitor.slo.book import SloBook
from monitor.slo.burn import SloStatus
from monitor.slo.load import SloPolicy
from monitor.store.api import Unit

#: Days a report covers.
DAYS = 7
_DAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def week_key(end: datetime, zone: str) -> str:
    """The ISO week that most of the seven days before `end` belong to, in local time: `2026-W10`."""
    middle = end.astimezone(ZoneInfo(zone)) - timedelta(days=DAYS / 2)
    year, week, _ = middle.isocalendar()
    return f"{year}-W{week:02d}"


def last_due(now: datetime, day: str, at: time, zone: str) -> datetime:
    """The newest moment at or before `now` at which the weekly report was due.

    A local time that a clock change skips counts as the moment after the gap; one that comes twice, the first.
    """
    local = now.astimezone(ZoneInfo(zone))
    back = (local.weekday() - _DAY_NAMES.index(day)) % 7
    for days in (back, back + 7):
        date = local.date() - timedelta(days=days)
        due = datetime.combine(date, at, ZoneInfo(zone)).astimezone(now.tzinfo)
        if due <= now:
            return due
    raise AssertionError("a week back is always past")


def assemble(
    unit: Unit, groups: Sequence[Group], *, end: datetime, now: datetime, key: str, host: str, target: float,
    simulated: bool, policies: Sequence[SloPolicy] = (), days: float = DAYS,
) -> WeeklyReport:
    """The report on the days before `end`, from what is stored; objectives are counted over those days."""
    start = end - timedelta(days=days)
    groups = with_known(groups, unit.servers.all(start))
    pairs: dict[ServerName, list[Pair]] = {}
    for group in groups:
        for name in group.servers:
            pairs.update(load_pairs(unit, [name], start - timedelta(days=days), end))
    decisions = {}
    for group in groups:
        latest = unit.decisions.latest(group.name)
        decisions[group.name] = latest[0] if latest else None
    names = [name for group in groups for name in group.servers]
    changes = [change for name in names for change in unit.changes.of_server(name, start) if change.entered_at < end]
    alerts = [a for a in unit.alerts.since(start) if a.fired_at is not None and a.fired_at < end]
    return build(
        Inputs(
            key=key, start=start, end=end, made_at=now, host=host, groups=groups, pairs=pairs,
            decisions={str(name): decision for name, decision in decisions.items()}, changes=changes, alerts=alerts,
            slos=_slos(unit, policies, groups, pairs, start, end), target_acceptance=target, simulated=simulated,
        )
    )


def with_known(groups: Sequence[Group], watched: Iterable[Watched]) -> tuple[Group, ...]:
    """`groups` with servers that have left meanwhile, or that others watch: what they did counts too."""
    members = {group.name: dict.fromkeys(group.servers) for group in groups}
    known = {name for group in groups for name in group.servers}
    found = {group.name: group for group in groups}
    for one in watched:
        if one.server not in known:
            members.setdefault(one.group, {})[one.server] = None
            found.setdefault(one.group, Group(name=one.group, servers=(), mode=one.mode))
    return tuple(replace(group, servers=tuple(members[name])) for name, group in found.items())


def _slos(
    unit: Unit, policies: Sequence[SloPolicy], groups: Sequence[Group], pairs: Mapping[ServerName, Sequence[Pair]],
    start: datetime, end: datetime,
) -> tuple[SloStatus, ...]:
    """Every objective of every group over the report's days, from the intervals that were read for it anyway."""
    book = SloBook(policies, {group.name: group.servers for group in groups})
    for own in pairs.values():
        book.learn(life for life, _ in own)
        for _, interval in own:
            if start < interval.end <= end:
                book.add_interval(interval)
    for checks in unit.checks.between([name for group in groups for name in group.servers], start, end):
        book.add_checks(checks.server, checks.end, answered=checks.answered, missed=checks.missed)
    found = book.statuses(end)
    # An objective without events says nothing here.
    return tuple(status for status in found if status.attainment.valid > 0)
