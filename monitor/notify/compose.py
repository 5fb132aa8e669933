"""What is said of alerts, decisions and reports: the words, before any receiver's form.

Every notice says what happened, how bad, why (the numbers), and what to do next, with a command to paste.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime

from monitor.model.alert import Alert, Severity
from monitor.model.decision import Action, Decision, DecisionState
from monitor.model.notice import Notice, NoticeId, NoticeKind
from monitor.model.record import ReportRecord
from monitor.model.server import Mode

#: Signals shown as percent; everything else is shown as a number with its unit.
_SHARES = frozenset({"rate", "share", "efficiency", "coverage", "usage", "alpha", "ratio", "disagreement"})


def number_text(name: str, value: float | None) -> str:
    """A signal's value for people: shares in percent, seconds with a unit, counts whole; `no data` for None."""
    if value is None or not math.isfinite(value):
        return "no data"
    if name.startswith("burn_rate"):
        return f"{value:.1f} times the rate that spends the budget in its period"
    # Whole words: `generation` is no ratio.
    if _SHARES & set(name.partition("[")[0].split("_")):
        return f"{value:.1%}"
    if "seconds" in name and "per_second" not in name:
        if abs(value) < 10:
            return f"{value * 1000:.1f} ms" if abs(value) < 1 else f"{value:.1f} s"
        return duration_words(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}"


def evidence_fields(evidence: Mapping[str, float | None], limit: int = 10) -> tuple[tuple[str, str], ...]:
    """Numbers as fields of a notice, those without data left out."""
    known = [(name, number_text(name, value)) for name, value in evidence.items() if value is not None]
    return tuple(known[:limit])


def alerts_notice(
    kind: NoticeKind,
    *,
    key: str,
    thread: str,
    new: Sequence[Alert],
    still: Sequence[Alert] = (),
    ended: Sequence[Alert] = (),
    edits: bool = False,
    now: datetime,
    simulated: bool = False,
    extra: Mapping[str, str] | None = None,
) -> Notice:
    """What is said of one group of alerts: `new` ones, those `still` firing, those that `ended`.

    `extra` holds what was found beside the rules, by fingerprint (a probe's answer, where evidence is kept).
    """
    firing = [*new, *still]
    shown = firing or list(ended)
    first = shown[0]
    title = first.annotations.get("summary", first.name)
    if len(shown) > 1:
        title = f"{first.name}: {len(shown)} of them ({', '.join(sorted({_place(a) for a in shown}))})"
    lines = [line for alert in new for line in _alert_lines(alert, len(shown) > 1, extra or {})]
    for alert in still:
        lasting = duration_words((now - (alert.fired_at or alert.active_since)).total_seconds())
        acknowledged = f", acknowledged by {alert.acknowledged_by}" if alert.acknowledged_by else ""
        lines.append(f"Still firing for {lasting}{acknowledged}: {alert.annotations.get('summary', alert.name)}")
    for alert in ended:
        began, end = alert.fired_at or alert.active_since, alert.resolved_at or now
        lines.append(f"Over after {duration_words((end - began).total_seconds())}: "
                     f"{alert.annotations.get('summary', alert.name)}")
    runbook = first.annotations.get("runbook")
    if firing and runbook:
        lines.append(f"Runbook: {runbook}")
    return Notice(
        id=_new_id(),
        kind=kind,
        dedupe_key=f"alert:{key}",
        thread=f"alert:{thread}",
        severity=min((alert.severity for alert in shown), key=list(Severity).index),
        title=title,
        text="\n".join(lines),
        fields=evidence_fields(new[0].evidence) if len(new) == 1 else (),
        created_at=now,
        labels=first.labels,
        annotations=first.annotations,
        edits_root=edits,
        simulated=simulated,
    )


def _alert_lines(alert: Alert, several: bool, extra: Mapping[str, str]) -> list[str]:
    lines = [alert.annotations.get("summary", alert.name)] if several else []
    lines.append(alert.annotations.get("description", ""))
    lines.append(extra.get(alert.fingerprint, ""))
    return [line for line in lines if line]


def _place(alert: Alert) -> str:
    return alert.labels.get("server") or alert.labels.get("group") or alert.labels.get("host", "")


_NEXT = {
    Mode.OBSERVE: "This group is only observed: nothing will be done.",
    Mode.RECOMMEND: "This group is in recommend mode: look with `acceptd plan {id}`, do it with `acceptd apply {id}`.",
    Mode.APPROVE: "Waiting for your approval: `acceptd apply {id}`.",
    Mode.AUTO: "acceptd does it as soon as limits and pauses allow, and measures whether it paid.",
}
_NEXT_WATCHED = "acceptd only watches these servers: to follow the advice, change their command line and restart them."


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


def decision_notice(
    decision: Decision, mode: Mode, now: datetime, *, is_managed: bool = True, simulated: bool = False
) -> Notice:
    """The notice of a decision that would change a setting; `is_managed`: whether acceptd could carry it out."""
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
    lines.append(_NEXT[mode].format(id=decision.id) if is_managed else _NEXT_WATCHED)
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


def refused_notice(decision: Decision, now: datetime, *, simulated: bool = False) -> Notice:
    """That a decision will not be carried out by acceptd itself, and why, in the thread of its recommendation."""
    why = decision.note.removeprefix("not done: ")
    rest = "It rests for a day; " if decision.state is DecisionState.REFUSED else ""
    return rollout_notice(
        thread=f"decision:{decision.id}", key=f"decision:{decision.id}:refused", group=decision.group, now=now,
        title=f"{decision.group}: not done: {change_words(decision)}",
        text=f"{why.removesuffix('.')}.\n{rest}`acceptd apply {decision.id}` asks again at once.",
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


def store_notice(
    kind: NoticeKind, *, host: str, trouble: str, lasted_seconds: float, waiting: int, lost: int, now: datetime,
    simulated: bool = False,
) -> Notice:
    """The store of a daemon does not take what it is given, or (resolved) takes it again."""
    lasted = duration_words(lasted_seconds)
    gone = f" {lost} pages were lost meanwhile: the queue was full." if lost else ""
    if kind is NoticeKind.ALERT_RESOLVED:
        title = f"acceptd on {host}: the store works again after {lasted}"
        text = f"Pages that waited on disk go in now.{gone}"
    else:
        title = f"acceptd on {host}: the store has not worked for {lasted}"
        text = "\n".join((
            trouble,
            f"Servers are still read; {waiting} pages wait on disk.{gone}",
            "No alert is evaluated and no change is begun meanwhile.",
            "Look with `acceptd db check` and `df -h`. Runbook: store-away",
        ))  # fmt: skip
    return Notice(
        id=_new_id(), kind=kind, dedupe_key=f"store:{host}:{kind.value}:{now:%Y%m%dT%H%M%S}", thread=f"store:{host}",
        severity=Severity.PAGE, title=title, text=text, created_at=now, labels={"host": host, "alertname": "StoreAway"},
        annotations={"summary": title, "runbook": "store-away"}, edits_root=kind is NoticeKind.ALERT_RESOLVED,
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
