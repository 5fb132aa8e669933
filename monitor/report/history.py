"""What happened over time: the intervals of a span, cut into steps, with what was changed and what fired in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from monitor.model.alert import Alert
from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId
from monitor.model.server import ServerName
from monitor.report.figures import HISTORY_FIGURES
from monitor.report.views import alert_view, change_began, change_view
from monitor.signals.build import signals
from monitor.signals.track import Pair
from monitor.store.api import Unit

#: How far back intervals are read as scraped (hours), and the length of those before (seconds).
_FINE_HOURS, _COARSE_SECONDS, _COARSEST_SECONDS = 48.0, 300, 3600


@dataclass(frozen=True, slots=True)
class Span:
    """A span that charts show (seconds), cut into steps of `step` seconds; 100 to 200 of them."""

    name: str
    seconds: float
    step: float


#: Spans by name, shortest first. Steps from ten minutes on are whole buckets of the rollups.
SPANS = {
    span.name: span
    for span in (
        Span("1h", 3600.0, 30.0),
        Span("6h", 6 * 3600.0, 120.0),
        Span("24h", 86_400.0, 600.0),
        Span("7d", 7 * 86_400.0, 3600.0),
        Span("30d", 30 * 86_400.0, 4 * 3600.0),
        Span("90d", 90 * 86_400.0, 12 * 3600.0),
    )
}
#: Latencies are read of so much time of servers (seconds): half a second of the processor for eight over 30 days. Of
#: more, histograms would be read for long, for a few curves.
_DETAILED_SECONDS = 8 * SPANS["30d"].seconds


def load_pairs(
    unit: Unit, servers: Sequence[ServerName] | None, since: datetime, until: datetime, *, coarse: int | None = None,
    details: bool = True, known: Mapping[LifeId, Life] | None = None,
) -> dict[ServerName, list[Pair]]:
    """Lives and intervals of (since, until] by server, ready for `signals`.

    As scraped for the newest two days and by five minutes before that; `coarse` reads all of it by so many seconds.
    Without `details` there are no positions and no histograms. `known` are the lives of that time, where they have been
    read before.
    """
    lives: dict[LifeId, Life] = dict(known or {})
    for server in (servers if servers is not None else [None]) if known is None else ():
        # A life that ended just before `since` may still close an interval in it.
        lives.update({life.id: life for life in unit.lives.of(server, since - timedelta(hours=1), until)})
    found: dict[ServerName, list[Pair]] = {}
    for interval in _intervals(unit, servers, since, until, coarse, details):
        life = lives.get(interval.life) or unit.lives.get(interval.life)
        if life is not None:
            lives[life.id] = life
            found.setdefault(interval.server, []).append((life, interval))
    return found


def _intervals(
    unit: Unit, servers: Sequence[ServerName] | None, since: datetime, until: datetime, coarse: int | None,
    details: bool,
) -> Iterator[Interval]:
    """Intervals of (since, until]. Sums are the same in coarse steps; a week as scraped is twenty times the rows."""
    if coarse is not None:
        yield from unit.intervals.between_coarse(servers, since, until, coarse, details=details)
        return
    fine = until - timedelta(hours=_FINE_HOURS)
    fine -= timedelta(seconds=fine.timestamp() % _COARSE_SECONDS)
    if since < fine:
        yield from unit.intervals.between_coarse(servers, since, fine, _COARSE_SECONDS, details=details)
    yield from unit.intervals.between(servers, max(since, fine), until, details=details)


def history(unit: Unit, servers: Sequence[ServerName], span: Span, now: datetime) -> dict[str, Any]:
    """The history of one server, or of the servers of a group together, over `span` until `now`, as plain data.

    It begins with the first data where that is later than the span's beginning.

    `rows` are steps, oldest first, None where there is no data; `settings` says which setting was in force when;
    `changes` and `alerts` are those of the span.
    """
    start = now - timedelta(seconds=span.seconds)
    # A life that ended just before may still close an interval of the span.
    lives = {life.id: life for name in servers for life in unit.lives.of(name, start - timedelta(hours=1), now)}
    # What began within the span fills it, in steps that fit.
    begun = (life.first_seen for life in lives.values() if life.ended is None or life.ended > start)
    start = max(start, min(begun, default=start))
    shown = next(one for one in SPANS.values() if one.seconds >= (now - start).total_seconds() - 1.0)
    coarse = next((step for step in (_COARSEST_SECONDS, _COARSE_SECONDS) if step <= shown.step), None)
    details = len(servers) * shown.seconds <= _DETAILED_SECONDS
    found = load_pairs(unit, servers, start, now, coarse=coarse, details=details, known=lives)
    pairs = [pair for own in found.values() for pair in own]
    start = max(start, min((interval.start for _, interval in pairs), default=start))
    step = shown.step if coarse is not None else _fine_step(pairs, (now - start).total_seconds())
    names = frozenset(servers)
    changes = unit.changes.of_servers(servers, start)
    alerts = [a for a in unit.alerts.since(start) if a.fired_at is not None and a.labels.get("server") in names]
    return {
        "since": start.isoformat(),
        "until": now.isoformat(),
        "span": span.name,
        "step_seconds": step,
        "has_latencies": details,
        "rows": history_rows(pairs, start, now, step),
        "settings": settings_over_time(pairs),
        "changes": [change_view(change) for change in sorted(changes, key=change_began)],
        "alerts": [alert_view(alert) for alert in sorted(alerts, key=_fired)],
    }


def _fired(alert: Alert) -> datetime:
    return alert.fired_at or alert.active_since


def _fine_step(pairs: Sequence[Pair], seconds: float) -> float:
    """Steps of intervals as scraped: 120 of them, but none so short that it might hold no page.

    Intervals in which most of the time went by decide, since pages may have been read more often for a while.
    """
    lengths = sorted(interval.elapsed_seconds for _, interval in pairs)
    half, usual = sum(lengths) / 2, 0.0
    for usual in lengths:
        half -= usual
        if half <= 0:
            break
    return max(seconds / 120, 2 * usual, 1.0)


def history_rows(pairs: Sequence[Pair], start: datetime, end: datetime, step_seconds: float) -> list[dict[str, Any]]:
    """A history in steps that end at `end`, oldest first; steps without data have None."""
    count = math.ceil((end - start).total_seconds() / step_seconds - 1e-9)
    # The first step may reach back beyond `start`: what is newest must not be the part that is left out.
    start = end - timedelta(seconds=count * step_seconds)
    buckets: dict[int, list[Pair]] = {}
    for pair in pairs:
        interval = pair[1]
        if start < interval.end <= end:
            buckets.setdefault(int(((interval.end - start).total_seconds() - 1e-6) // step_seconds), []).append(pair)
    rows = []
    for index in range(count):
        at = start + timedelta(seconds=(index + 1) * step_seconds)
        found = signals(buckets.get(index, ()), scope="history", at=at, window_seconds=step_seconds + 1.0)
        rows.append({"at": at.isoformat(), **{name: found.value(name) for name in HISTORY_FIGURES}})
    return rows


def settings_over_time(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Stretches of time by the setting in force, in words; settings of several servers at once stand together."""
    spans: dict[LifeId, tuple[str, datetime, datetime]] = {}
    for life, interval in pairs:
        _, begun, ended = spans.get(life.id, ("", interval.start, interval.end))
        spans[life.id] = (life.setting.describe(), min(begun, interval.start), max(ended, interval.end))
    moments = sorted({moment for _, begun, ended in spans.values() for moment in (begun, ended)})
    found: list[dict[str, Any]] = []
    for begun, ended in pairwise(moments):
        words = " / ".join(sorted({said for said, since, until in spans.values() if since <= begun and ended <= until}))
        if not words:
            continue
        if found and found[-1]["setting"] == words and found[-1]["until"] == begun:
            found[-1]["until"] = ended
        else:
            found.append({"from": begun, "until": ended, "setting": words})
    return [{**one, "from": one["from"].isoformat(), "until": one["until"].isoformat()} for one in found]
