"""What is said of decisions, rollouts and reports: the words, before any receiver's form.

Every notice says what happened, how bad, why (the numbers), and what to do next, with a command to paste.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from monitor.model.alert import Severity
from monitor.model.decision import Action, Decision, DecisionState
from monitor.model.notice import Button, Notice, NoticeKind
from monitor.model.record import Command, CommandKind, ReportRecord
from monitor.model.server import Mode
from monitor.notify.words import evidence_fields, new_id

_NEXT = {
    Mode.OBSERVE: "This group is only observed: nothing will be done.",
    Mode.RECOMMEND: "This group is in recommend mode: `acceptd plan {id}` shows the plan and how to apply it.",
    Mode.APPROVE: "Waiting for your approval: `acceptd plan {id}` shows the plan and how to apply it.",
    Mode.AUTO: "acceptd does it as soon as limits and pauses allow, and measures whether it paid.",
}
#: Modes in which a person decides.
_ASKS = frozenset({Mode.RECOMMEND, Mode.APPROVE})
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
        id=new_id(),
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
        buttons=(Button.APPROVE, Button.REJECT) if is_managed and mode in _ASKS else (),
    )


def answered_notice(
    decision: Decision, command: Command, outcome: str, now: datetime, *, is_taken: bool, simulated: bool = False
) -> Notice:
    """What came of a request about a decision: in place of the recommendation where it was taken, else below it."""
    if not is_taken:
        return rollout_notice(
            thread=f"decision:{decision.id}", key=f"command:{command.id}", group=decision.group, now=now,
            title=f"{decision.group}: not done: {change_words(decision)}",
            text=f"Asked for by {command.author}. {outcome}", simulated=simulated,
        )
    word = "rejected" if command.kind is CommandKind.REJECT else "approved"
    return Notice(
        id=new_id(),
        kind=NoticeKind.RECOMMENDATION,
        dedupe_key=f"command:{command.id}",
        thread=f"decision:{decision.id}",
        severity=Severity.INFO,
        title=f"{decision.group}: {word}: {change_words(decision)}",
        text=f"{decision.sentence}\n{word.capitalize()} by {command.author}: {outcome}",
        created_at=now,
        labels={"group": decision.group},
        edits_root=True,
        simulated=simulated,
    )


def refused_notice(decision: Decision, now: datetime, *, simulated: bool = False) -> Notice:
    """That a decision will not be carried out by acceptd itself, and why, in the thread of its recommendation."""
    why = decision.note.removeprefix("not done: ")
    rest = "It rests for a day; " if decision.state is DecisionState.REFUSED else ""
    return rollout_notice(
        thread=f"decision:{decision.id}", key=f"decision:{decision.id}:refused", group=decision.group, now=now,
        title=f"{decision.group}: not done: {change_words(decision)}",
        text=f"{why.removesuffix('.')}.\n{rest}`acceptd plan {decision.id}` shows how to do it all the same.",
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
        id=new_id(),
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


def report_notice(
    report: ReportRecord, now: datetime, *, todo: Sequence[tuple[str, str]] = (), simulated: bool = False
) -> Notice:
    """The weekly report in short: its headline, the first things to do (text, command); one picture and the page."""
    lines = [report.headline, *(f"{text}{f' `{command}`' if command else ''}" for text, command in todo)]
    return Notice(
        id=new_id(),
        kind=NoticeKind.REPORT,
        dedupe_key=f"report:{report.key}",
        thread=f"report:{report.key}",
        severity=Severity.INFO,
        title=f"Weekly tuning report {report.key}",
        text="\n".join(lines),
        created_at=now,
        attachments=tuple(path for ending in (".png", ".html") for path in report.files if path.endswith(ending)),
        simulated=simulated,
    )
