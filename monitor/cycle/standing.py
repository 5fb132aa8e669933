"""Which of the decisions already made still answers for a new one. Pure; it stores nothing and tells nobody."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from monitor.model.decision import Action, Decision, DecisionState

#: How long a "no" holds, a person's or that of a limit (a day), and a restart that was tried: what one restart did not
#: cure, the next will not.
DAY = timedelta(days=1)
#: A change that was asked for this long ago or less and is asked for again is the same recommendation, under the same
#: id: a rate that swings about its threshold tells people once.
REVIVED_WITHIN = timedelta(hours=4)

#: States in which a decision is the standing conclusion of its group.
OPEN = frozenset({DecisionState.STANDING, DecisionState.RECOMMENDED, DecisionState.AWAITING_APPROVAL})


def is_same(old: Decision, new: Decision) -> bool:
    """Whether an open decision is the same conclusion from the same: nothing is to be stored or told."""
    if old.state not in OPEN:
        return False
    if (old.reason, old.rule) != (new.reason, new.rule) or not _asks_the_same(old, new):
        return False
    return not new.changes_setting or old.precondition.lives == new.precondition.lives


def answer_for(new: Decision, past: Iterable[Decision]) -> Decision | None:
    """The decision of the past that bars this change from being asked for again; None where it may be asked for.

    A person declined it, a limit refused it, or it was carried out lately and things are as they were before.
    """
    if not new.changes_setting:
        return None
    return next((old for old in past if _bars(old, new)), None)


def revivable(new: Decision, past: Iterable[Decision]) -> Decision | None:
    """The decision that asked for the same a short while ago, standing or overtaken; None where there is none."""
    if not new.changes_setting:
        return None
    return next(
        (
            old
            for old in past
            if (old.state in OPEN or old.state is DecisionState.SUPERSEDED)
            and _asks_the_same(old, new)
            and new.made_at - old.made_at <= REVIVED_WITHIN
        ),
        None,
    )


def _asks_the_same(old: Decision, new: Decision) -> bool:
    return (old.action, old.current, old.proposed) == (new.action, new.current, new.proposed)


def _bars(old: Decision, new: Decision) -> bool:
    now = new.made_at
    match old.state:
        case DecisionState.REJECTED:
            return old.proposed == new.proposed and old.action is new.action and now < old.expires_at
        case DecisionState.REFUSED:
            return _asks_the_same(old, new) and now - old.made_at < DAY
        case DecisionState.ACTED_ON:
            until = old.made_at + DAY if old.action is Action.RESTART else old.expires_at
            return _asks_the_same(old, new) and now < until
    return False
