"""What a report needs, read from the store; and which week it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from monitor.model.record import Watched
from monitor.model.server import Group
from monitor.model.slo import SLICED, Indicator
from monitor.report.build import Inputs, group_report, whole
from monitor.report.content import WeeklyReport
from monitor.report.reading import Read, note, read
from monitor.slo.book import SloBook
from monitor.slo.load import SloPolicy
from monitor.store.api import Unit

#: Days a report covers.
DAYS = 7
#: Objectives that are counted by what is finer than sums; efficiency needs positions, which that does not have.
_BY_FINE = SLICED - {Indicator.EFFICIENCY}
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
    decisions = {}
    for group in groups:
        latest = unit.decisions.latest(group.name)
        decisions[group.name] = latest[0] if latest else None
    names = [name for group in groups for name in group.servers]
    changes = [change for change in unit.changes.of_servers(names, start) if change.entered_at < end]
    alerts = [a for a in unit.alerts.since(start) if a.fired_at is not None and a.fired_at < end]
    inputs = Inputs(
        key=key, start=start, end=end, made_at=now, host=host,
        decisions={str(name): decision for name, decision in decisions.items()}, changes=changes, alerts=alerts,
        target_acceptance=target, simulated=simulated, notes=tuple(filter(None, [note(len(names))])),
    )  # fmt: skip
    book = SloBook(policies, {group.name: group.servers for group in groups})
    parts = []
    lives = {life.id: life for life in unit.lives.of(None, start - timedelta(days=days, hours=1), end)}
    # Group after group: what is read of a whole fleet would not fit into memory.
    for group in sorted(groups, key=lambda group: group.name):
        found = read(unit, group.servers, start, end, timedelta(days=days), among=len(names), lives=lives)
        feed(book, found, start, end)
        parts.append(group_report(inputs, group, found))
    for checks in unit.checks.sums(names, start, end):
        book.add_checks(checks.server, checks.end, answered=checks.answered, missed=checks.missed)
    # An objective without events says nothing here.
    slos = tuple(status for status in book.statuses(end) if status.attainment.valid > 0)
    return whole(replace(inputs, slos=slos), parts)


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


def feed(book: SloBook, found: Read, start: datetime, end: datetime) -> None:
    """Count what was read of the period for objectives; those of time slices by what is finer, if that tells them."""
    for own in found.pairs.values():
        book.learn(life for life, _ in own)
    for pairs, counted in ((found.pairs, frozenset(Indicator) - _BY_FINE), (found.fine, _BY_FINE)):
        for own in pairs.values():
            for _, interval in own:
                if start < interval.end <= end:
                    book.add_interval(interval, only=counted)
