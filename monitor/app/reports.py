"""Makes the weekly report: once a local week however often it is asked for, and after downtime too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from monitor.app.sharing import Sharing
from monitor.clock import Clock
from monitor.config.model import Report
from monitor.model.record import ReportRecord
from monitor.model.server import Group
from monitor.notify.compose import report_notice
from monitor.notify.routing import Routing
from monitor.report.assemble import assemble, last_due, week_key, with_known
from monitor.report.content import WeeklyReport
from monitor.report.render import summary_picture, to_html, to_json, to_markdown
from monitor.slo.load import SloPolicy
from monitor.store import Store
from monitor.store.api import Unit

log = logging.getLogger(__name__)

#: A report that fell due longer ago than this (days) while the daemon was down is not made any more.
_CATCH_UP_DAYS = 6
#: How long the right to make the fleet's report is held (seconds): longer than making it takes.
_ROLE_SECONDS = 1800.0


class Reports:
    """The weekly reports of one daemon."""

    def __init__(
        self, store: Store, groups: Sequence[Group], settings: Report, folder: Path, *, host: str, simulated: bool,
        receivers: Routing, clock: Clock, told: Callable[[], None], policies: Sequence[SloPolicy] = (),
        sharing: Sharing | None = None,
    ) -> None:
        """With `sharing` reports are on the whole fleet, from its database, and one daemon makes the weekly one."""
        self._sharing = sharing
        self._policies = tuple(policies)
        self._store = store
        self._groups = tuple(groups)
        self._settings = settings
        self._folder = folder
        self._host = host
        self._simulated = simulated
        self._receivers = receivers
        self._clock = clock
        self._told = told

    def scheduled(self) -> None:
        """Make the report that is due, unless its week is done."""
        now = self._clock.now()
        due = last_due(now, self._settings.day, self._settings.at, self._settings.timezone)
        if now - due > timedelta(days=_CATCH_UP_DAYS):
            return
        key = week_key(due, self._settings.timezone)
        if self._sharing is not None and not self._sharing.role("report", _ROLE_SECONDS):
            return
        with self._history().read() as unit:
            if unit.reports.get(key) is not None or not self._was_watched(unit, due - timedelta(days=7), due):
                return
        self._make(key, due, now)

    def _was_watched(self, unit: Unit, start: datetime, end: datetime) -> bool:
        """Whether a daemon looked at the servers in the period: one in which none answered is the worst of all."""
        if unit.intervals.between(None, start, end, details=False, limit=1):
            return True
        names = [name for group in with_known(self._groups, unit.servers.all(start)) for name in group.servers]
        return any(checks.answered or checks.missed for checks in unit.checks.sums(names, start, end))

    def now(self, author: str) -> str:
        """Make a report on the seven days until now, beside the weekly ones; says where it lies."""
        now = self._clock.now()
        record = self._make(f"{now.astimezone():%Y-%m-%dT%H%M%S}", now, now)
        return f"report {record.key}: {record.files[0]}"

    def live(self) -> str:
        """The HTML of a report on the seven days until now; nothing is stored or sent."""
        now = self._clock.now()
        with self._history().read() as unit:
            report = assemble(
                unit, self._groups, end=now, now=now, key=f"{now:%Y-%m-%d %H:%M} so far", host=self._host,
                target=self._settings.target_acceptance, simulated=self._simulated, policies=self._policies,
            )
        return to_html(report)

    def file(self, key: str | None, ending: str = "html") -> Path | None:
        """A file of a stored report, of the newest for None; None where there is none."""
        with self._store.read() as unit:
            record = unit.reports.latest() if key is None else unit.reports.get(key)
        if record is None:
            return None
        path = Path(next((name for name in record.files if name.endswith(f".{ending}")), ""))
        return path if path.is_file() else None

    def _history(self) -> Store:
        """Where the history lies: in the fleet's database, while that is there."""
        sharing = self._sharing
        return self._store if sharing is None or sharing.state().trouble else sharing.store

    def _make(self, key: str, end: datetime, now: datetime) -> ReportRecord:
        with self._history().read() as unit:
            report = assemble(
                unit, self._groups, end=end, now=now, key=key, host=self._host,
                target=self._settings.target_acceptance, simulated=self._simulated, policies=self._policies,
            )
        files = write_report(report, self._folder)
        record = ReportRecord(
            key=key, made_at=now, period_start=report.start, period_end=report.end, headline=report.headline,
            body=to_markdown(report), files=tuple(str(path) for path in files),
        )
        with self._store.write() as unit:
            # Another daemon, or another call, may have been faster: then it was told by that one.
            if unit.reports.put(record):
                first = [(todo.text, todo.command) for todo in report.todo[:3]]
                notice = report_notice(record, now, todo=first, simulated=self._simulated)
                unit.outbox.queue(notice, self._receivers(notice), now)
        if self._sharing is not None and not self._sharing.state().trouble:
            with self._sharing.store.write() as unit:
                unit.reports.put(record)
        self._told()
        log.info("report made key=%s file=%s", key, files[0])
        return record


def write_report(report: WeeklyReport, folder: Path) -> list[Path]:
    """Write HTML, Markdown, JSON and a picture of a report into `folder`; the HTML first."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    written = []
    for ending, render in (("html", to_html), ("md", to_markdown), ("json", to_json)):
        path = folder / f"acceptd-{report.key}.{ending}"
        partial = path.with_suffix(f".{ending}.part")
        partial.write_text(render(report), encoding="utf-8")
        partial.replace(path)
        written.append(path)
    drawn = summary_picture(report)
    if drawn is not None:
        path = folder / f"acceptd-{report.key}.png"
        path.write_bytes(drawn)
        written.append(path)
    return written
