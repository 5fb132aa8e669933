"""How everything stands now, as plain data for terminal, page and JSON: servers, alerts, advice, changes under way.

Made from the store alone, so that it is right with the daemon up or down (and says how old it is); a daemon hands in
the signals that it has computed anyway, since reading an hour of a large fleet takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from monitor.model.alert import AlertState, Severity
from monitor.model.decision import Decision
from monitor.model.life import LastReading, Life
from monitor.model.record import EVERYTHING, Pause, group_scope, server_scope
from monitor.model.rollout import Change, Rollout
from monitor.model.server import Group, Server, ServerName
from monitor.model.signal import SignalSet
from monitor.report.figures import FIGURES
from monitor.report.history import load_pairs
from monitor.report.intent import condition, group_intent, server_intent
from monitor.report.slo_view import slo_view
from monitor.report.views import change_view, decision_view, pause_view, rollout_view, told_alert
from monitor.signals.build import signals
from monitor.slo.burn import SloStatus
from monitor.store.api import Unit

_LOUDEST_FIRST = (Severity.PAGE, Severity.TICKET, Severity.INFO)
#: Default window (seconds): that of the signals.
WINDOW_SECONDS = 300.0
#: Signals of a server that are shown.
_SCALARS, _VECTORS = (*FIGURES, "uptime_seconds"), ("acceptance_rate_at_pos",)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a server's window: its signals, and its newest life (None where there is none)."""

    signals: SignalSet
    life: Life | None

    @classmethod
    def to_keep(cls, signals: SignalSet, life: Life | None) -> Known:
        """With those signals alone that are shown: all of a window hold the past of their server, 16 kB of it."""
        shown = {name: signal for name in _SCALARS if (signal := signals.scalars.get(name)) is not None}
        vectors = {name: vector for name in _VECTORS if (vector := signals.vectors.get(name)) is not None}
        return cls(replace(signals, scalars=shown, vectors=vectors), life)


def overview(
    unit: Unit, groups: Sequence[Group], servers: Sequence[Server], now: datetime, *,
    window_seconds: float = WINDOW_SECONDS, slos: Iterable[SloStatus] | None = None,
    known: Mapping[ServerName, Known] | None = None,
) -> dict[str, Any]:
    """Everything at `now`: `groups` (each with its `servers`), `alerts`, `pauses`, `slos`; unknown numbers are None.

    `slos` is None where nobody has counted them: that takes a month of history. `known` are signals computed already.
    """
    by_name = {server.name: server for server in servers}
    if known is None:
        known = read_known(unit, servers, now, window_seconds)
    readings = {last.reading.server: last for last in unit.readings.all()}
    alerts = [alert for alert in unit.alerts.all() if alert.state in (AlertState.PENDING, AlertState.FIRING)]
    changes = {change.server: change for change in reversed(unit.changes.active())}
    active = {rollout.group: rollout for rollout in reversed(unit.rollouts.active())}
    pauses = unit.pauses.active(now)
    silences = unit.silences.active(now)
    firing = [
        told_alert(alert, silences, now)
        for alert in sorted(alerts, key=lambda alert: (_LOUDEST_FIRST.index(alert.severity), alert.active_since))
    ]
    shown = []
    for group in groups:
        members = [
            server_view(
                by_name[name], known.get(name), readings.get(name), now, change=changes.get(name),
                paused=_pause(pauses, server_scope(name)),
            )
            for name in group.servers
            if name in by_name
        ]
        shown.append(_group_view(unit, group, members, active.get(group.name), _pause(pauses, group_scope(group.name)),
                                 firing))
    return {
        "at": now.isoformat(),
        "window_seconds": window_seconds,
        "figures": together([server for group in shown for server in group["servers"]]),
        "groups": shown,
        "alerts": firing,
        "pauses": [pause_view(pause) for pause in pauses],
        "slos": None if slos is None else [slo_view(status) for status in slos],
    }


def read_known(unit: Unit, servers: Sequence[Server], now: datetime, window_seconds: float) -> dict[ServerName, Known]:
    """Signals and newest lives of `servers`, from what is stored."""
    if not servers:
        return {}
    pairs = load_pairs(unit, None, now - timedelta(seconds=window_seconds), now)
    found = {}
    for server in servers:
        own = pairs.get(server.name, [])
        lives = [max(own, key=lambda pair: pair[1].end)[0]] if own else unit.lives.open_of(server.name)
        made = signals(own, scope=server.name, at=now, window_seconds=window_seconds)
        found[server.name] = Known(made, lives[-1] if lives else None)
    return found


def _group_view(
    unit: Unit, group: Group, members: list[dict[str, Any]], rollout: Rollout | None, paused: str | None,
    alerts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    advice = _advice(unit.decisions.latest(group.name))
    view: dict[str, Any] = {
        "name": group.name,
        "mode": group.mode.value,
        "paused": paused,
        "advice": advice,
        "rollout": rollout_view(rollout) if rollout is not None else None,
        "figures": together(members),
        "settings": sorted({server["setting"] for server in members if server["setting"]}),
        "servers": members,
    }
    view["intent"] = group_intent(view)
    for server in members:
        own = [a for a in alerts if a["labels"].get("server") == server["name"] and a["state"] == "firing"]
        server["condition"], server["level"] = condition(server, own)
        server["intent"] = server_intent(server, view)
    view["up"] = sum(server["verdict"] not in (None, "scrape_error") for server in members)
    return view


def together(servers: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Figures of servers as one: throughput and queues added, the fullest cache, the rest weighted by drafts."""

    def known(name: str) -> list[float]:
        return [value for server in servers if (value := server["figures"][name]) is not None]

    def mean(name: str) -> float | None:
        rows = [
            (value, server["figures"]["num_drafts"] or 0.0)
            for server in servers
            if (value := server["figures"][name]) is not None
        ]
        weight = sum(drafts for _, drafts in rows)
        return sum(value * drafts for value, drafts in rows) / weight if weight > 0 else None

    added = ("generation_tokens_per_second", "running", "waiting", "num_drafts")
    found: dict[str, float | None] = {name: sum(known(name)) if known(name) else None for name in added}
    found["kv_usage"] = max(known("kv_usage"), default=None)
    found |= {name: mean(name) for name in ("acceptance_rate", "acceptance_length", "efficiency", "step_seconds")}
    return found


def server_view(
    server: Server,
    known: Known | None,
    last: LastReading | None,
    now: datetime,
    *,
    change: Change | None = None,
    paused: str | None = None,
) -> dict[str, Any]:
    """One server at `now`."""
    found = known.signals if known else SignalSet(scope=server.name, at=now, window_seconds=WINDOW_SECONDS)
    life = known.life if known else None
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


def _advice(decisions: Sequence[Decision]) -> dict[str, Any] | None:
    return decision_view(decisions[0]) if decisions else None


def _pause(pauses: Sequence[Pause], scope: str) -> str | None:
    """Why a scope is paused, itself or by a pause of everything; None where it is not."""
    found = next((pause for pause in pauses if pause.scope in (scope, EVERYTHING)), None)
    return f"{found.reason} ({found.author})" if found else None
