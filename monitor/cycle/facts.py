"""What the daemon knows of a server beside its page: probe answers, refusals, failed restarts. As facts for rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from monitor.cycle.prober import Prober
from monitor.model.life import LastReading, Life
from monitor.model.notice import NO_RECEIVER, DeliveryState
from monitor.model.rollout import Change, ChangeState, Outcome
from monitor.model.server import ServerName
from monitor.policy.facts import is_neural_draft
from monitor.store.api import Unit

#: How long a delivery may wait before it counts as failing (seconds), as the fact's text says.
WAITING_SECONDS = 300.0
#: How far back restarts are looked at (seconds).
_RESTART_SECONDS = 86_400.0
#: How long a failed restart stays a fact once the server serves again (seconds): below the time after which an
#: unacknowledged page is repeated (`TellingPolicy.page_repeat_seconds`, half an hour).
TOLD_SECONDS = 1200.0

_FAILED = frozenset(
    {
        Outcome.STOP_FAILED,
        Outcome.START_FAILED,
        Outcome.START_TIMED_OUT,
        Outcome.NOT_GENERATING,
        Outcome.WRONG_SETTING,
        Outcome.UNDO_FAILED,
        Outcome.SERVER_DIED,
        Outcome.PUT_BACK_FAILED,
    }
)


def server_facts(
    server: ServerName, last: LastReading | None, lives: tuple[Life, ...], changes: list[Change], prober: Prober,
    now: datetime,
) -> dict[str, float | None]:
    """Facts of one server; `changes` are those that ended or moved in the last day, oldest first."""
    probe = prober.result(server)
    failed = probe.failed if probe is not None else None
    methods = {life.setting.method for life in lives if not life.setting.is_off}
    health = prober.health(server)
    return {
        "probe_failed": None if failed is None else float(failed),
        "health_ok": None if health is None else float(health),
        "scrape_unauthorized": None if last is None else float(_is_unauthorized(last)),
        "restart_failed": float(failed_restart(changes, last, now) is not None),
        "is_neural_draft": is_neural_draft(methods.pop()) if len(methods) == 1 else None,
    }


def _is_unauthorized(last: LastReading) -> bool:
    return last.reading.reason.startswith(("HTTP 401", "HTTP 403"))


def failed_restart(changes: list[Change], last: LastReading | None, now: datetime) -> Change | None:
    """The newest restart, where it did not end as meant or is being undone for that; None where it did, or without one.

    A server that serves again on its former setting needs nobody any more: after `TOLD_SECONDS` it is no fact, so that
    the page is told once and not repeated all day. One that nothing is sent to still needs someone.
    """
    begun = [
        c for c in changes
        if (c.state.is_final or c.state is ChangeState.UNDOING) and (c.stop_asked_at or c.started_at) is not None
    ]
    if not begun or begun[-1].state is ChangeState.PROMOTED or begun[-1].outcome not in _FAILED:
        return None
    newest = begun[-1]
    serves = last is not None and bool(last.reading.engines) and not newest.traffic_held
    if newest.state.is_final and serves and (now - newest.entered_at).total_seconds() > TOLD_SECONDS:
        return None
    return newest


def daemon_facts(unit: Unit, now: datetime, *, beside: int = 0) -> dict[str, float | None]:
    """Facts of the daemon itself: deliveries that failed in the last hour or wait too long, and those `beside`."""
    count = beside
    works: set[str] = set()
    for notice, deliveries in unit.outbox.recent(200):
        for delivery in deliveries:
            age = (now - notice.created_at).total_seconds()
            if delivery.state is DeliveryState.SENT:
                works.add(delivery.receiver)
            elif delivery.state is DeliveryState.FAILED:
                # The newest come first: a receiver that took a later one works again.
                is_over = delivery.receiver in works or delivery.reason == NO_RECEIVER
                count += age < 3600.0 and not is_over
            elif delivery.state is DeliveryState.PENDING:
                count += delivery.attempts > 0 and age > WAITING_SECONDS
    return {"deliveries_failed": float(count)}


def changes_of_last_day(
    unit: Unit, servers: Collection[ServerName], now: datetime
) -> Mapping[ServerName, list[Change]]:
    """Changes of each server that moved in the last 24 h, oldest first."""
    found: dict[ServerName, list[Change]] = {server: [] for server in servers}
    for change in unit.changes.of_servers(servers, now - timedelta(seconds=_RESTART_SECONDS)):
        found[change.server].append(change)
    return found
