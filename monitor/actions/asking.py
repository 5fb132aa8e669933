"""What people ask for, whichever way they ask: silences, pauses, acknowledgements, requests to the daemon.

Command line, page and chat write the same rows through these functions, each with its line in the audit trail. Nothing
is carried out here: the daemon that owns the server does that, with all its checks.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.errors import ConfigError, Problem
from monitor.model.alert import Alert, AlertState, Matcher, Silence, SilenceId
from monitor.model.record import AuditEntry, Command, CommandKind, Pause
from monitor.store.api import Unit

#: Longest reason that is kept (characters).
_REASON_LIMIT = 500


def matcher(text: str) -> Matcher:
    """A matcher from its text, e.g. `server=chat-1`. Raises ConfigError naming what is wrong with it."""
    for operator in ("=~", "!~", "!=", "="):
        label, found, value = text.partition(operator)
        if found and label.strip() and not set(label) & set("=!~"):
            made = Matcher(label.strip(), operator, value.strip().strip('"'))
            if made.refusal:
                expected = f"a regular expression that RE2 can read ({made.refusal})"
                raise ConfigError([Problem("matcher", repr(text), expected)])
            return made
    raise ConfigError([Problem("matcher", repr(text), "LABEL=VALUE, LABEL!=VALUE, LABEL=~REGEX or LABEL!~REGEX")])


def silence(
    unit: Unit, matchers: Sequence[Matcher], author: str, reason: str, now: datetime, seconds: float
) -> Silence:
    """Store a silence of so many seconds from now."""
    if not matchers:
        raise ConfigError([Problem("matchers", "none", "at least one, or everything would be silent")])
    made = Silence(
        id=SilenceId(uuid.uuid4().hex[:8]), matchers=tuple(matchers), author=author, reason=_reason(reason),
        starts_at=now, ends_at=now + timedelta(seconds=seconds),
    )  # fmt: skip
    unit.silences.add(made)
    words = ", ".join(f"{m.label}{m.operator}{m.value}" for m in matchers)
    _audit(unit, author, "silence", made.id, f"silenced {words} until {_stamp(made.ends_at)}: {made.reason}", now)
    return made


def silence_alert(unit: Unit, alert: Alert, author: str, reason: str, now: datetime, seconds: float) -> Silence:
    """Silence exactly one alert: every label of it, whatever its severity becomes."""
    exact = [Matcher(label, "=", value) for label, value in sorted(alert.labels.items()) if label != "severity"]
    return silence(unit, exact, author, reason, now, seconds)


def end_silence(unit: Unit, name: SilenceId, author: str, now: datetime) -> bool:
    """End a silence now; False where it is unknown or over."""
    ended = unit.silences.expire(name, now)
    if ended:
        _audit(unit, author, "silence.end", name, f"ended silence {name}", now)
    return ended


def pause(unit: Unit, scope: str, author: str, reason: str, now: datetime, seconds: float | None) -> Pause:
    """Store a pause of a scope, until it is lifted where `seconds` is None."""
    until = None if seconds is None else now + timedelta(seconds=seconds)
    made = Pause(scope, author, _reason(reason), now, until)
    unit.pauses.set(made)
    _audit(unit, author, "pause", scope, f"paused {scope}{f' until {_stamp(until)}' if until else ''}: {made.reason}",
           now)
    return made


def resume(unit: Unit, scope: str, author: str, now: datetime) -> bool:
    """Lift the pause of a scope; False where there was none."""
    lifted = unit.pauses.clear(scope)
    if lifted:
        _audit(unit, author, "resume", scope, f"lifted the pause of {scope}", now)
    return lifted


def acknowledge(unit: Unit, subject: str, author: str, now: datetime) -> list[Alert]:
    """Acknowledge firing alerts of a name, fingerprint, server or group; those that were."""
    found = [
        replace(alert, acknowledged_by=author)
        for alert in unit.alerts.since(now)
        if alert.state is AlertState.FIRING
        and subject in (alert.name, alert.fingerprint, alert.labels.get("server"), alert.labels.get("group"))
    ]
    unit.alerts.put(found)
    for alert in found:
        _audit(unit, author, "acknowledge", alert.fingerprint, f"acknowledged {alert.name}", now)
    return found


def ask(unit: Unit, kind: CommandKind, subject: str, author: str, now: datetime) -> Command:
    """Store a request to the daemon, which writes the audit line with the outcome."""
    made = Command(uuid.uuid4().hex[:12], kind, subject, author, now)
    unit.commands.add(made)
    return made


def _reason(text: str) -> str:
    return " ".join(text.split())[:_REASON_LIMIT] or "no reason given"


def _audit(unit: Unit, actor: str, what: str, subject: str, sentence: str, now: datetime) -> None:
    unit.audit.add(AuditEntry(now, actor, what, subject, sentence))


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
