"""Servers whose setting somebody else changed: they are left to whoever did it for a while, or until released.

Nothing is kept but the release: a change by hand shows in the lives of a server, and whose it was in our own changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.model.life import Life, Setting
from monitor.model.record import EVERYTHING, AuditEntry, group_scope, server_scope
from monitor.model.rollout import Change
from monitor.model.server import ActionLimits, Group, ServerName
from monitor.store.api import Unit

#: How far back the setting before is looked for.
_LOOKED_BACK = timedelta(days=30)
#: A life may be seen that much before its change says that it was started: pages and records have their own moments.
_SLACK = timedelta(seconds=60)
_RELEASED = "drift.released"


@dataclass(frozen=True, slots=True)
class Drift:
    """A server that came up with another setting, which no change of ours had asked for."""

    server: ServerName
    former: Setting
    found: Setting
    at: datetime
    #: Until when it is left to whoever did it.
    until: datetime

    def describe(self) -> str:
        """What was found, how long that holds, and who can end it."""
        return (
            f"{self.server} was changed by hand at {self.at:%Y-%m-%d %H:%M} UTC ({self.former.describe()} -> "
            f"{self.found.describe()}): left to whoever did it until {self.until:%Y-%m-%d %H:%M} UTC "
            f"(hold_after_drift). `acceptd resume {self.server}` releases it"
        )


def drift_of(unit: Unit, server: ServerName, limits: ActionLimits, now: datetime) -> Drift | None:
    """The change by hand that `server` is left alone for; None where there is none, it was released, or it is over."""
    lives = [life for life in unit.lives.of(server, now - _LOOKED_BACK, now + _SLACK) if _is_told(life)]
    if not lives:
        return None
    newest = lives[-1]
    until = newest.first_seen + timedelta(seconds=limits.drift_hold_seconds)
    if until <= now:
        return None
    before = [life for life in lives if life.first_seen < newest.first_seen and life.engine == newest.engine]
    if not before or _same(before[-1].setting, newest.setting):
        return None
    former = before[-1]
    if any(_asked_for(change, former, newest) for change in unit.changes.of_server(server, former.first_seen)):
        return None
    if any(entry.what == _RELEASED and entry.at >= newest.first_seen for entry in unit.audit.of(_subject(server))):
        return None
    return Drift(server, former.setting, newest.setting, newest.first_seen, until)


def release_all(unit: Unit, groups: Iterable[Group], scope: str, author: str, now: datetime) -> list[Drift]:
    """Release every server of a scope (`*`, `group:NAME`, `server:NAME`) that is left alone now; which they were."""
    held = [
        drift
        for group in groups
        for server in group.servers
        if scope in (EVERYTHING, group_scope(group.name), server_scope(server))
        and (drift := drift_of(unit, server, group.limits, now)) is not None
    ]
    for drift in held:
        release(unit, drift, author, now)
    return held


def release(unit: Unit, drift: Drift, author: str, now: datetime) -> None:
    """Let acceptd tune the server again, with what was found as the setting to start from."""
    sentence = f"{drift.server} is tuned again, from {drift.found.describe()}"
    unit.audit.add(AuditEntry(now, author, _RELEASED, _subject(drift.server), sentence))


def _subject(server: ServerName) -> str:
    return f"drift:{server}"


def _is_told(life: Life) -> bool:
    """Whether the life's setting is known and set: an engine that moves the number itself drifts all the time."""
    return life.setting.num_speculative_tokens is not None and life.adapts is None


def _same(former: Setting, found: Setting) -> bool:
    tokens = former.num_speculative_tokens == found.num_speculative_tokens
    return tokens and (former.is_off or None in (former.method, found.method) or former.method == found.method)


def _asked_for(change: Change, former: Life, newest: Life) -> bool:
    """Whether a change of ours started the newest life with the setting it has."""
    if change.started_at is None or not former.first_seen <= change.started_at <= newest.first_seen + _SLACK:
        return False
    return any(_same(setting, newest.setting) for setting in (change.proposed, change.current))
