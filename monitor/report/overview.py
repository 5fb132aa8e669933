"""How everything stands now, as plain data for terminal, page and JSON: servers, alerts, advice, changes under way.

Made from the store alone, so that it is right with the daemon up or down (and says how old it is).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from monitor.model.alert import Alert, AlertState
from monitor.model.decision import Decision
from monitor.model.interval import Interval
from monitor.model.life import LastReading, Life, LifeId
from monitor.model.record import EVERYTHING, Pause, group_scope, server_scope
from monitor.model.rollout import Change, Rollout
from monitor.model.server import Group, Server, ServerName
from monitor.model.signal import SignalSet
from monitor.report.slo_view import slo_view
from monitor.signals.build import signals
from monitor.signals.track import Pair
from monitor.slo.burn import SloStatus
from monitor.store.api import Unit

#: Signals of the overview, in reading order; all over the same window.
FIGURES = (
    "acceptance_rate",
    "acceptance_length",
    "acceptance_alpha",
    "efficiency",
    "generation_tokens_per_second",
    "step_seconds",
    "goodput",
    "running",
    "waiting",
    "kv_usage",
    "num_drafts",
    "time_to_first_token_seconds_p95",
    "time_per_output_token_seconds_p95",
)
#: How far back intervals are read as scraped (hours), and the length of those before (seconds).
_FINE_HOURS, _COARSE_SECONDS = 48.0, 300
#: Default window (seconds), as DESIGN's default for signals.
WINDOW_SECONDS = 300.0


def load_pairs(
    unit: Unit, servers: Sequence[ServerName] | None, since: datetime, until: datetime
) -> dict[ServerName, list[Pair]]:
    """Lives and intervals of (since, until] by server, ready for `signals`."""
    lives: dict[LifeId, Life] = {}
    for server in servers if servers is not None else [None]:
        # A life that ended just before `since` may still close an interval in it.
        lives.update({life.id: life for life in unit.lives.of(server, since - timedelta(hours=1), until)})
    found: dict[ServerName, list[Pair]] = {}
    for interval in _intervals(unit, servers, since, until):
        life = lives.get(interval.life) or unit.lives.get(interval.life)
        if life is not None:
            lives[life.id] = life
            found.setdefault(interval.server, []).append((life, interval))
    return found


def _intervals(
    unit: Unit, servers: Sequence[ServerName] | None, since: datetime, until: datetime
) -> Iterator[Interval]:
    """Intervals of (since, until]: as scraped for the newest two days, five minutes each before that.

    Sums are the same either way; a week as scraped is twenty times the rows.
    """
    fine = until - timedelta(hours=_FINE_HOURS)
    fine -= timedelta(seconds=fine.timestamp() % _COARSE_SECONDS)
    if since < fine:
        yield from unit.intervals.between_coarse(servers, since, fine, _COARSE_SECONDS)
    yield from unit.intervals.between(servers, max(since, fine), until)


def overview(
    unit: Unit, groups: Sequence[Group], servers: Sequence[Server], now: datetime, *,
    window_seconds: float = WINDOW_SECONDS, slos: Iterable[SloStatus] | None = None,
) -> dict[str, Any]:
    """Everything at `now`: `groups` (each with its `servers`), `alerts`, `pauses`, `slos`; unknown numbers are None.

    `slos` is None where nobody has counted them: that takes a month of history.
    """
    by_name = {server.name: server for server in servers}
    pairs = load_pairs(unit, None, now - timedelta(seconds=window_seconds + 3600), now) if servers else {}
    readings = {last.reading.server: last for last in unit.readings.all()}
    alerts = [alert for alert in unit.alerts.all() if alert.state in (AlertState.PENDING, AlertState.FIRING)]
    changes = unit.changes.active()
    pauses = unit.pauses.active(now)
    return {
        "at": now.isoformat(),
        "window_seconds": window_seconds,
        "groups": [
            {
                "name": group.name,
                "mode": group.mode.value,
                "paused": _pause(pauses, group_scope(group.name)),
                "advice": _advice(unit.decisions.latest(group.name)),
                "rollout": _rollout(unit.rollouts.active(group.name)),
                "servers": [
                    server_view(
                        by_name[name], pairs.get(name, []), readings.get(name), now, window_seconds,
                        change=next((c for c in changes if c.server == name), None),
                        paused=_pause(pauses, server_scope(name)),
                    )
                    for name in group.servers
                    if name in by_name
                ],
            }
            for group in groups
        ],
        "alerts": [alert_view(alert) for alert in alerts],
        "pauses": [_pause_view(pause) for pause in pauses],
        "slos": None if slos is None else [slo_view(status) for status in slos],
    }


def server_view(
    server: Server,
    pairs: Sequence[Pair],
    last: LastReading | None,
    now: datetime,
    window_seconds: float,
    *,
    change: Change | None = None,
    paused: str | None = None,
) -> dict[str, Any]:
    """One server at `now`."""
    found = signals(pairs, scope=server.name, at=now, window_seconds=window_seconds)
    life = max(pairs, key=lambda pair: pair[1].end)[0] if pairs else None
    reading = last.reading if last else None
    setting = life.setting if life else None
    vector = found.vectors.get("acceptance_rate_at_pos")
    return {
        "name": server.name,
        "group": server.group,
        "engine": server.engine.value,
        "managed": server.managed,
        "simulated": server.simulated,
        "verdict": reading.verdict.value if reading else None,
        "reason": reading.reason if reading else "not read yet",
        "state": reading.state.value if reading and reading.state else None,
        "flags": sorted(flag.value for flag in reading.flags) if reading else [],
        "read_at": reading.scraped_at.isoformat() if reading else None,
        "last_ok": last.last_ok.isoformat() if last and last.last_ok else None,
        "age_seconds": (now - reading.scraped_at).total_seconds() if reading else None,
        "model": life.model if life else None,
        "engine_version": life.engine_version if life else None,
        "method": setting.method if setting else None,
        "num_speculative_tokens": setting.num_speculative_tokens if setting else None,
        "setting": setting.describe() if setting else None,
        "sources": {key: source.value for key, source in life.sources.items()} if life else {},
        "setting_notes": list(life.setting_notes) if life else [],
        "adapts": life.adapts if life else None,
        "uptime_seconds": found.value("uptime_seconds"),
        "figures": {name: found.value(name) for name in FIGURES},
        "reasons": _reasons(found),
        "acceptance_rate_per_position": list(vector.values) if vector else [],
        "change": change_view(change) if change else None,
        "paused": paused,
    }


def _reasons(found: SignalSet) -> Mapping[str, str]:
    return {
        name: signal.reason.value
        for name in FIGURES
        if (signal := found.scalars.get(name)) is not None and signal.reason is not None
    }


def alert_view(alert: Alert) -> dict[str, Any]:
    """An alert as plain data."""
    return {
        "fingerprint": alert.fingerprint,
        "name": alert.name,
        "severity": alert.severity.value,
        "state": alert.state.value,
        "labels": dict(alert.labels),
        "summary": alert.annotations.get("summary", alert.name),
        "since": (alert.fired_at or alert.active_since).isoformat(),
        "resolved_at": alert.resolved_at.isoformat() if alert.resolved_at else None,
        "acknowledged_by": alert.acknowledged_by,
        "evidence": dict(alert.evidence),
    }


def change_view(change: Change) -> dict[str, Any]:
    """A change as plain data."""
    measured = change.measured
    return {
        "id": change.id,
        "rollout": change.rollout,
        "server": change.server,
        "state": change.state.value,
        "from": change.current.describe(),
        "to": change.proposed.describe(),
        "since": change.entered_at.isoformat(),
        "deadline": change.deadline.isoformat() if change.deadline else None,
        "outcome": change.outcome.value if change.outcome else None,
        "sentence": change.sentence,
        "gain": measured.gain if measured else None,
        "gain_low": measured.gain_low if measured else None,
        "gain_high": measured.gain_high if measured else None,
    }


def decision_view(decision: Decision) -> dict[str, Any]:
    """A decision as plain data."""
    threshold = decision.threshold
    return {
        "id": decision.id,
        "group": decision.group,
        "servers": list(decision.servers),
        "rule": decision.rule,
        "action": decision.action.value,
        "reason": decision.reason.value,
        "sentence": decision.sentence,
        "from": decision.current.describe(),
        "to": decision.proposed.describe(),
        "num_speculative_tokens": decision.proposed.num_speculative_tokens,
        "gain": decision.gain,
        "gain_low": decision.gain_low,
        "gain_high": decision.gain_high,
        "state": decision.state.value,
        "note": decision.note,
        "made_at": decision.made_at.isoformat(),
        "expires_at": decision.expires_at.isoformat(),
        "window_seconds": decision.window_seconds,
        "evidence": dict(decision.evidence),
        "threshold_rule": {
            "action": threshold.action.value,
            "num_speculative_tokens": threshold.num_speculative_tokens,
            "sentence": threshold.sentence,
        }
        if threshold
        else None,
        "changes_setting": decision.changes_setting,
    }


def rollout_view(rollout: Rollout) -> dict[str, Any]:
    """A rollout as plain data."""
    measured = rollout.measured
    return {
        "id": rollout.id,
        "group": rollout.group,
        "decision": rollout.decision,
        "state": rollout.state.value,
        "from": rollout.current.describe(),
        "to": rollout.proposed.describe(),
        "created_at": rollout.created_at.isoformat(),
        "finished_at": rollout.finished_at.isoformat() if rollout.finished_at else None,
        "requested_by": rollout.requested_by,
        "outcome": rollout.outcome.value if rollout.outcome else None,
        "sentence": rollout.sentence,
        "gain": measured.gain if measured else None,
        "gain_low": measured.gain_low if measured else None,
        "gain_high": measured.gain_high if measured else None,
    }


def _advice(decisions: Sequence[Decision]) -> dict[str, Any] | None:
    return decision_view(decisions[0]) if decisions else None


def _rollout(rollouts: Sequence[Rollout]) -> dict[str, Any] | None:
    return rollout_view(rollouts[0]) if rollouts else None


def _pause(pauses: Sequence[Pause], scope: str) -> str | None:
    """Why a scope is paused, itself or by a pause of everything; None where it is not."""
    found = next((pause for pause in pauses if pause.scope in (scope, EVERYTHING)), None)
    return f"{found.reason} ({found.author})" if found else None


def _pause_view(pause: Pause) -> dict[str, Any]:
    return {
        "scope": pause.scope,
        "author": pause.author,
        "reason": pause.reason,
        "since": pause.since.isoformat(),
        "until": pause.until.isoformat() if pause.until else None,
    }


def history_rows(
    pairs: Sequence[Pair], name: ServerName, start: datetime, end: datetime, step_seconds: float
) -> list[dict[str, Any]]:
    """A server's history in steps that end at `end`, oldest first; steps without data have None."""
    count = math.ceil((end - start).total_seconds() / step_seconds - 1e-9)
    # The first step may reach back beyond `start`: what is newest must not be the part that is left out.
    start = end - timedelta(seconds=count * step_seconds)
    buckets: dict[int, list[Pair]] = {}
    for pair in pairs:
        interval: Interval = pair[1]
        if start < interval.end <= end:
            buckets.setdefault(int(((interval.end - start).total_seconds() - 1e-6) // step_seconds), []).append(pair)
    rows = []
    for index in range(count):
        at = start + timedelta(seconds=(index + 1) * step_seconds)
        found = signals(
            buckets.get(index, ()), scope=name, at=at, window_seconds=step_seconds + 1.0,
        )
        names = ("num_speculative_tokens", *FIGURES[:11])
        rows.append({"at": at.isoformat(), **{n: found.value(n) for n in names}})
    return rows
