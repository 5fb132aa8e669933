"""What stands first in a report: what to do, and the period in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from monitor.model.alert import Severity
from monitor.model.rollout import Ending
from monitor.notify.words import duration_words
from monitor.report.content import AlertReport, GroupReport, Noise, Todo

#: Places that one thing to do names.
_PLACES = 5


def things_to_do(
    groups: Sequence[GroupReport], others: Sequence[AlertReport], *, weeks: float, now: datetime
) -> tuple[Todo, ...]:
    """What to do, the most tokens per second first, then what is silent, then what fires, pages first.

    `others` are alerts of no group, `weeks` the length of the period.
    """
    items = [item for group in groups for item in _advised(group, weeks)]
    items.sort(key=lambda item: -(item.worth if item.worth is not None else -1.0))
    silent = [server.name for group in groups for server in group.servers if server.covered == 0.0]
    if silent:
        items.append(Todo(f"Find out why there is no data of {_places(silent)} in the whole period.", "acceptd doctor"))
    return (*items, *_firing(groups, others, now))


def _advised(group: GroupReport, weeks: float) -> Iterator[Todo]:
    advice, speed = group.advice, group.generation_tokens_per_second
    if advice is None or not advice.is_open or (advice.gain is not None and advice.gain <= 0):
        return
    worth = advice.gain * speed if advice.gain is not None and speed is not None else None
    busy = [server.busy_hours for server in group.servers if server.busy_hours is not None]
    hours = None
    if advice.gain is not None and busy:
        # What is faster by g does the same work in 1 / (1 + g) of the time; an idle server has none to save.
        hours = sum(busy) / weeks * (1.0 - 1.0 / (1.0 + advice.gain))
    yield Todo(f"{group.name}: {advice.words}. {advice.sentence}", advice.command, worth, hours)


def _firing(groups: Sequence[GroupReport], others: Sequence[AlertReport], now: datetime) -> Iterator[Todo]:
    """One for each alert of a group that fires, with all the places where it does."""
    where = [*((group.name, alert) for group in groups for alert in group.alerts), *(("", alert) for alert in others)]
    firing: dict[tuple[int, str, str], list[AlertReport]] = {}
    for name, alert in where:
        if alert.resolved_at is None and alert.severity != Severity.INFO:
            firing.setdefault((list(Severity).index(Severity(alert.severity)), name, alert.name), []).append(alert)
    for (_, name, kind), alerts in sorted(firing.items(), key=lambda one: one[0]):
        since = duration_words((now - min(alert.fired_at for alert in alerts)).total_seconds())
        places = sorted({alert.scope for alert in alerts if alert.scope and alert.scope != name})
        shown = f" ({_places(places)})" if places else ""
        yield Todo(f"{f'{name}: ' if name else ''}{kind} has been firing for {since}{shown}.", "acceptd alerts")


def headline(groups: Sequence[GroupReport], todo: Sequence[Todo], heard: Noise) -> str:
    """The period in a sentence: how many servers, what was changed and earned, how often people were called."""
    servers = [server for group in groups for server in group.servers]
    silent = sum(server.covered == 0.0 for server in servers)
    changes = [change for group in groups for change in group.changes]
    kept = [c for c in changes if c.ending is Ending.KEPT]
    undone = [c for c in changes if c.ending is Ending.UNDONE]
    parts = [f"{_count(len(servers), 'server')} in {_count(len(groups), 'group')}"]
    if silent:
        parts.append(f"no data of {'any' if silent == len(servers) else silent} of them")
    if changes:
        parts.append(f"{_count(len(changes), 'change')}: {len(kept)} kept, {len(undone)} undone")
        gains = [c.gain for c in kept if c.gain is not None]
        if gains:
            parts.append(f"kept changes measured {sum(gains) / len(gains):+.1%} goodput on average")
    else:
        parts.append("no changes")
    parts.append(_count(heard.pages, "page"))
    parts.append(f"{_count(len(todo), 'thing')} to do" if todo else "nothing to do")
    return "; ".join(parts) + "."


def _places(names: Sequence[str]) -> str:
    left_out = len(names) - _PLACES
    return ", ".join(names[:_PLACES]) + (f" and {left_out} more" if left_out > 0 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
