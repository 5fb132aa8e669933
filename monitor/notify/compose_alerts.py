"""What is said of alerts, of silences over them, and of the store that holds them.

Every notice says what happened, how bad, why (the numbers), and what to do next, with a command to paste.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from monitor.model.alert import Alert, Severity, Silence
from monitor.model.notice import Button, Notice, NoticeKind
from monitor.notify.words import duration_words, evidence_fields, new_id

#: Most alerts that a message names one by one.
_SHOWN = 10


#: Where runbooks are read, unless a site has them elsewhere.
RUNBOOKS = "`acceptd runbook {runbook}`"


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
    runbooks: str = RUNBOOKS,
) -> Notice:
    """What is said of one group of alerts: `new` ones, those `still` firing, those that `ended`.

    `extra` holds what was found beside the rules, by fingerprint (a probe's answer, where evidence is kept). `runbooks`
    says where a runbook is, with `{runbook}` for its name.
    """
    new, still, ended = (sorted(alerts, key=_order) for alerts in (new, still, ended))
    firing = [*new, *still]
    shown = firing or ended
    first = shown[0]
    is_many = len(new) > _SHOWN
    # A repeat is all that many people read of an incident: what is said of one alert is said again.
    again = still if not new and len(still) == 1 and kind is NoticeKind.ALERT_REPEAT else []
    details = [_alert_lines(alert, len(shown) > 1, is_many, extra or {}) for alert in new]
    lines = [line for one in _few(details, "new") for line in one]
    lines += [line for line, in _few([[_still(alert, now, bool(again))] for alert in still], "that fire on")]
    lines += [line for alert in again for line in _alert_lines(alert, False, False, extra or {})]
    lines += [line for line, in _few([[_ended(alert, now)] for alert in ended], "that are over")]
    if firing:
        books = dict.fromkeys(alert.annotations["runbook"] for alert in firing if "runbook" in alert.annotations)
        places = [runbooks.replace("{runbook}", book) for book in list(books)[:_SHOWN]]
        lines += [f"What to do: {', '.join(places)}"] if places else []
    return Notice(
        id=new_id(),
        kind=kind,
        dedupe_key=f"alert:{key}",
        thread=f"alert:{thread}",
        severity=min((alert.severity for alert in shown), key=list(Severity).index),
        title=_title(shown),
        text="\n".join(lines),
        fields=evidence_fields((*new, *again)[0].evidence) if len(new) + len(again) == 1 else (),
        created_at=now,
        labels=first.labels,
        annotations=first.annotations,
        edits_root=edits,
        simulated=simulated,
        buttons=_buttons(firing),
    )


def note_notice(
    thread: str, key: str, alerts: Sequence[Alert], text: str, now: datetime, *, simulated: bool = False
) -> Notice:
    """What somebody did about alerts, in the thread of their incident."""
    return Notice(
        id=new_id(),
        kind=NoticeKind.ALERT_NOTE,
        dedupe_key=f"note:{key}",
        thread=thread,
        severity=min((alert.severity for alert in alerts), key=list(Severity).index),
        title=_title(alerts),
        text=text,
        created_at=now,
        labels=alerts[0].labels,
        in_thread=True,
        simulated=simulated,
    )


def _buttons(firing: Sequence[Alert]) -> tuple[Button, ...]:
    if not firing:
        return ()
    is_known = all(alert.acknowledged_by for alert in firing)
    return (Button.SILENCE,) if is_known else (Button.ACKNOWLEDGE, Button.SILENCE)


def _title(alerts: Sequence[Alert]) -> str:
    """One alert's summary; of several their names, and the places where they are of one name."""
    if len(alerts) == 1:
        return _summary(alerts[0])
    names = Counter(alert.name for alert in alerts)
    if len(names) > 1:
        return f"{len(alerts)} alerts at once: {', '.join(f'{name} {count}' for name, count in names.most_common())}"
    places = sorted({_place(alert) for alert in alerts})
    left_out = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return f"{alerts[0].name}: {len(alerts)} of them ({', '.join(places[:_SHOWN])}{left_out})"


def _few(items: Sequence[list[str]], which: str) -> list[list[str]]:
    """The first of many, and how many more there are."""
    left_out = len(items) - _SHOWN
    return [*items[:_SHOWN], *([[f"and {left_out} more {which} (`acceptd alerts`)"]] if left_out > 0 else [])]


def _still(alert: Alert, now: datetime, alone: bool) -> str:
    """How long it has lasted and who is on it; with its summary unless that is the title."""
    lasting = duration_words((now - (alert.fired_at or alert.active_since)).total_seconds())
    by = f"acknowledged by {alert.acknowledged_by}" if alert.acknowledged_by else "nobody has acknowledged it"
    held = f", better for {_since(alert.clear_since, now)} and held" if alert.clear_since else ""
    return f"For {lasting}{held}, {by}." if alone else f"Still firing for {lasting}{held}, {by}: {_summary(alert)}"


def _since(moment: datetime, now: datetime) -> str:
    return duration_words((now - moment).total_seconds())


def _order(alert: Alert) -> tuple[int, str, str]:
    return list(Severity).index(alert.severity), alert.name, _summary(alert)


def _ended(alert: Alert, now: datetime) -> str:
    lasted = (alert.resolved_at or now) - (alert.fired_at or alert.active_since)
    return f"Over after {duration_words(lasted.total_seconds())}: {_summary(alert)}"


def _summary(alert: Alert) -> str:
    return alert.annotations.get("summary", alert.name)


def _alert_lines(alert: Alert, several: bool, is_many: bool, extra: Mapping[str, str]) -> list[str]:
    """An alert's own words: among several with its summary, among many with nothing else."""
    lines = [_summary(alert)] if several else []
    if is_many:
        return lines
    lines.append(alert.annotations.get("description", ""))
    if alert.refired:
        times = "once" if alert.refired == 1 else "twice" if alert.refired == 2 else f"{alert.refired} times"
        lines.append(f"It comes and goes: it fired again {times} soon after it was over, and is held longer each time.")
    lines.append(extra.get(alert.fingerprint, ""))
    if several:
        lines += [f"Probably: {cause}" for cause in alert.causes[:1]]
    elif len(alert.causes) == 1:
        lines.append(f"Probable cause: {alert.causes[0]}")
    elif alert.causes:
        lines += ["Probable causes:", *(f"{number}. {cause}" for number, cause in enumerate(alert.causes, 1))]
    return [line for line in lines if line]


def _place(alert: Alert) -> str:
    return alert.labels.get("server") or alert.labels.get("group") or alert.labels.get("host", "")


def silence_notice(silence: Silence, muted: Sequence[Alert], now: datetime, *, simulated: bool = False) -> Notice:
    """That a silence ends soon while what it hides still fires; told once for each end that it has."""
    left = duration_words((silence.ends_at - now).total_seconds())
    matchers = " ".join(shlex.quote(str(matcher)) for matcher in silence.matchers)
    lines = [f"Set by {silence.author}: {silence.reason}", f"Still firing below it: {len(muted)}"]
    lines += [f"- {line}" for line, in _few([[_summary(alert)] for alert in muted], "alerts")]
    lines.append(f"They will be told from {silence.ends_at:%H:%M} UTC on.")
    lines.append(f"To go on: `acceptd silence {matchers} --for 4h`")
    return Notice(
        id=new_id(),
        kind=NoticeKind.SILENCE,
        dedupe_key=f"silence:{silence.id}:{silence.ends_at.isoformat()}",
        thread=f"silence:{silence.id}",
        severity=Severity.TICKET,
        title=f"Silence {silence.id} ends in {left}",
        text="\n".join(lines),
        created_at=now,
        labels=_in_common(muted),
        simulated=simulated,
    )


def _in_common(alerts: Sequence[Alert]) -> dict[str, str]:
    """The labels that all of the alerts have with the same value: what a route may go by."""
    first, *others = alerts
    return {name: value for name, value in first.labels.items() if all(a.labels.get(name) == value for a in others)}


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
            "Look with `acceptd db check` and `df -h`. What to do: `acceptd runbook store-away`",
        ))  # fmt: skip
    return Notice(
        id=new_id(), kind=kind, dedupe_key=f"store:{host}:{kind.value}:{now:%Y%m%dT%H%M%S}", thread=f"store:{host}",
        severity=Severity.PAGE, title=title, text=text, created_at=now, labels={"host": host, "alertname": "StoreAway"},
        annotations={"summary": title, "runbook": "store-away"}, edits_root=kind is NoticeKind.ALERT_RESOLVED,
        simulated=simulated,
    )
