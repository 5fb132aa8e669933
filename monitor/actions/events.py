"""What happened to a rollout, as values for notices, log and progress shown to people. It owns no wording of chats."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.model.rollout import ChangeId, RolloutId
from monitor.model.server import GroupName, ServerName


class EventKind(StrEnum):
    """What kind of thing happened."""

    STARTED = "started"
    PROGRESS = "progress"
    #: A change waits for something that a person can lift (a pause).
    HELD = "held"
    #: A server did not come up with the new setting: someone must know, once.
    START_FAILED = "start_failed"
    #: acceptd can do no more by itself: someone must act.
    MANUAL_ACTION = "manual_action"
    CHANGE_PROMOTED = "change_promoted"
    CHANGE_ROLLED_BACK = "change_rolled_back"
    CHANGE_ABANDONED = "change_abandoned"
    FINISHED = "finished"

    @property
    def is_page(self) -> bool:
        """Whether it should wake someone."""
        return self in (EventKind.START_FAILED, EventKind.MANUAL_ACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutEvent:
    """One event; `sentence` is for people, `detail` holds the log's last lines (secrets redacted) where they matter."""

    rollout: RolloutId
    group: GroupName
    kind: EventKind
    sentence: str
    at: datetime
    change: ChangeId | None = None
    server: ServerName | None = None
    detail: str = ""
