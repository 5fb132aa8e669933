"""What is said of alerts, decisions and reports: the words, before any receiver's form.

Every notice says what happened, how bad, why (the numbers), and what to do next, with a command to paste.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime

from monitor.model.alert import Alert, Severity
from monitor.model.decision import Action, Decision
from monitor.model.notice import Notice, NoticeId, NoticeKind
from monitor.model.record import ReportRecord
from monitor.model.server import Mode

_ALERT_KINDS = {
    "first": NoticeKind.ALERT_FIRING,
    "changed": NoticeKind.ALERT_FIRING,
    "repeat": NoticeKind.ALERT_REPEAT,
    "resolved": NoticeKind.ALERT_RESOLVED,
}

#: Signals shown as percent; everything else is shown as a number with its unit.
_SHARES = ("rate", "share", "efficiency", "coverage", "usage", "alpha", "ratio")


def number_text(name: str, value: float | None) -> str:
    """A signal's value for people: shares in percent, seconds with a unit, counts whole; `no data` for None."""
    if value is None:
        return "no data"
    if any(word in name for word in _SHARES):
        return f"{value:.1%}"
    if "seconds" in name and "per_second" not in name:
        return f"{value * 1000:.1f} ms" if abs(value) < 1 else f"{value:.0f} s"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}"


def evidence_fields(evidence: Mapping[str, float | None], limit: int = 10) -> tuple[tuple[str, str], ...]:
    """Numbers as fields of a notice, those without data left out."""
    known = [(name, number_text(name, value)) for name, value in evidence.items() if value is not None]
    return tuple(known[:limit])


def alert_notice(
    alert: Alert, why: str, now: datetime, *, simulated: bool = False, extra: str = "", runbook_base: str = ""
) -> Notice:
    """The notice of an alert; `why` is `first`, `changed`, `repeat` or `resolved` (see the policy's dedup).

    `extra` is what was found beside the rule (a probe's answer, where evidence is kept).
    """
    kind = _ALERT_KINDS[why]
    since = alert.fired_at or alert.active_since
    lines = [alert.annotations.get("description", "")]
    if kind is NoticeKind.ALERT_RESOLVED:
        ended = alert.resolved_at or now
        lines = [f"It lasted {duration_words((ended - since).total_seconds())}."]
    elif kind is NoticeKind.ALERT_REPEAT:
        lines.insert(0, f"Firing for {duration_words((now - since).total_seconds())} and nobody has acknowledged it.")
    if extra:
        lines.append(extra)
    runbook = alert.annotations.get("runbook", "")
    if runbook and kind is not NoticeKind.ALERT_RESOLVED:
        lines.append(f"Runbook: {runbook_base}{runbook}")
    stamp = now.isoformat()
    # An incident is one firing: the same alert firing again later is another thread.
    thread = f"alert:{alert.fingerprint}:{since.isoformat()}"
    return Notice(
        id=_new_id(),
        kind=kind,
        dedupe_key=f"{thread}:{why}" if why in ("first", "resolved") else f"{thread}:{why}:{stamp}",
        thread=thread,
        severity=alert.severity,
        title=alert.annotations.get("summary", alert.name),
        text="\n".join(line for line in lines if line),
        fields=() if kind is NoticeKind.ALERT_RESOLVED else evidence_fields(alert.evidence),
        created_at=now,
        labels=alert.labels,
        annotations=alert.annotations,
        edits_root=kind is NoticeKind.ALERT_RESOLVED,
        simulated=simulated,
    )


_NEXT = {
    Mode.OBSERVE: "This group is only observed: nothing will be done.",
    Mode.RECOMMEND: "This group is in recommend mode: look with `acceptd plan {id}`, do it with `acceptd apply {id}`.",
    Mode.APPROVE: "Waiting for your approval: `acceptd apply {id}`.",
    Mode.AUTO: "acceptd will do it now and measure whether it paid.",
}


def change_words(decision: Decision) -> str:
    """What a decision asks for, in a few words: `raise num_speculative_tokens 2 -> 3`."""
    old, new = decision.current.num_speculative_tokens, decision.proposed.num_speculative_tokens
    if decision.action is Action.OFF:
        return f"switch speculation off (now {decision.current.describe()})"
    if decision.action is Action.RESTART:
        return "restart with the same setting"
    return f"{decision.action.value} num_speculative_tokens {old} -> {new}"


def gain_words(decision: Decision) -> str:
    """The predicted gain with its interval, or that there is no prediction."""
    if decision.gain is None:
        return "not predicted: it will be measured"
    text = f"{decision.gain:+.1%}"
    if decision.gain_low is not None and decision.gain_high is not None:
        text += f" ({decision.gain_low:+.1%} to {decision.gain_high:+.1%})"
    return text


def decision_notice(decision: Decision, mode: Mode, now: datetime, *, simulated: bool = False) -> Notice:
    """The notice of a decision that would change a setting."""
    lines = [decision.sentence]
    fields: list[tuple[str, str]] = [
        ("servers", ", ".join(decision.servers)),
        ("now", decision.current.describe()),
        ("proposed", decision.proposed.describe()),
        ("predicted goodput", gain_words(decision)),
        ("rule", decision.rule),
    ]
    if decision.threshold is not None and decision.threshold.sentence:
        fields.append(("70/50 rule", decision.threshold.sentence))
    lines.append(_NEXT[mode].format(id=decision.id))
    return Notice(
        id=_new_id(),
        kind=NoticeKind.RECOMMENDATION,
        dedupe_key=f"decision:{decision.id}",
        thread=f"decision:{decision.id}",
        severity=Severity.INFO,
        title=f"{decision.group}: {change_words(decision)}",
        text="\n".join(lines),
        fields=tuple(fields) + evidence_fields(decision.evidence, 10 - len(fields)),
        created_at=now,
        labels={"group": decision.group},
        simulated=simulated,
    )


def rollout_notice(
    *,
    thread: str,
    key: str,
    title: str,
    text: str,
    now: datetime,
    group: str,
    severity: Severity = Severity.INFO,
    fields: Sequence[tuple[str, str]] = (),
    in_thread: bool = True,
    simulated: bool = False,
) -> Notice:
    """A step of a rollout, told in the thread of the decision that began it."""
    return Notice(
        id=_new_id(),
        kind=NoticeKind.ROLLOUT,
        dedupe_key=key,
        thread=thread,
        severity=severity,
        title=title,
        text=text,
        fields=tuple(fields),
        created_at=now,
        labels={"group": group},
        in_thread=in_thread,
        simulated=simulated,
    )


def report_notice(report: ReportRecord, now: datetime, *, simulated: bool = False) -> Notice:
    """The weekly report: its headline as text, its files attached where the receiver can."""
    return Notice(
        id=_new_id(),
        kind=NoticeKind.REPORT,
        dedupe_key=f"report:{report.key}",
        thread=f"report:{report.key}",
        severity=Severity.INFO,
        title=f"Weekly tuning report {report.key}",
        text=report.headline,
        created_at=now,
        attachments=report.files,
        simulated=simulated,
    )


def duration_words(seconds: float) -> str:
    """A length of time as people say it: `45 s`, `12 min`, `3 h 5 min`, `2 d 4 h`."""
    whole = int(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _new_id() -> NoticeId:
    return NoticeId(uuid.uuid4().hex[:12])
