"""Notices: what people are told, before it is known how each receiver says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from monitor.model.alert import Severity

NoticeId = NewType("NoticeId", str)


class NoticeKind(StrEnum):
    """What a notice is about."""

    ALERT_FIRING = "alert_firing"
    ALERT_REPEAT = "alert_repeat"
    ALERT_RESOLVED = "alert_resolved"
    RECOMMENDATION = "recommendation"
    ROLLOUT = "rollout"
    REPORT = "report"
    SILENCE = "silence"
    #: What somebody did about an alert: acknowledged or silenced it.
    ALERT_NOTE = "alert_note"


class Button(StrEnum):
    """What a button of a message asks for."""

    APPROVE = "approve"
    REJECT = "reject"
    ACKNOWLEDGE = "acknowledge"
    SILENCE = "silence"


class DeliveryState(StrEnum):
    """Where a delivery to one receiver stands."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"
    #: Not said, since what it says was over before it could be.
    DROPPED = "dropped"


#: Reason of a delivery whose receiver is no longer configured.
NO_RECEIVER = "no_receiver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to tell. Notices of one `thread` (an incident, a rollout) belong together in a chat.

    `edits_root` asks to update the thread's first message in place (resolved) instead of a new post; receivers that
    cannot edit post anew. `dedupe_key` is unique: queueing the same key twice queues it once.
    """

    id: NoticeId
    kind: NoticeKind
    dedupe_key: str
    thread: str
    severity: Severity
    title: str
    text: str
    fields: tuple[tuple[str, str], ...] = ()
    created_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    edits_root: bool = False
    #: A post in the thread rather than to the channel (rollout progress).
    in_thread: bool = False
    #: Files to attach where the receiver can, e.g. the report.
    attachments: tuple[str, ...] = ()
    simulated: bool = False
    #: What may be asked of acceptd by a button below it, where the receiver has buttons.
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One notice on its way to one receiver: the outbox row."""

    notice: NoticeId
    receiver: str
    state: DeliveryState
    attempts: int = 0
    next_attempt_at: datetime
    #: What the receiver calls the message (Slack: `channel:ts`), for edits and threads.
    external_id: str | None = None
    reason: str = ""
    sent_at: datetime | None = None
    #: An attempt ended without an answer (or in our own death): the message may have arrived.
    is_unclear: bool = False
