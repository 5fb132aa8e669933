"""Whether to tell people of alerts now, and why: grouping, first, changed, repeated, resolved. It writes no texts.

Everything it goes by is in the alerts (`notified_at`, `incident`), which the store keeps: after a restart of the daemon
the same question gets the same answer, and nobody is paged twice. Defaults: Alertmanager `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from monitor.model.alert import Alert, AlertState, Fingerprint, Severity
from monitor.policy.grouping import AlertGroup, digested, grouped, incident_of, is_to_close, is_told, labels_key
from monitor.policy.mute import Muter


def _anywhere(labels: Mapping[str, str]) -> tuple[str, ...]:
    return ()


class TellReason(StrEnum):
    """Why a group of alerts is told of, or why not; log field and metric label."""

    FIRST = "first"
    CHANGED = "changed"
    REPEAT = "repeat"
    RESOLVED = "resolved"
    NONE = "none"
    #: Something is new, but the group's wait or interval is not over.
    WAITING = "waiting"
    MUTED = "muted"
    #: Severity info: shown, never sent.
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class TellingPolicy:
    """How alerts are put together and how often they are told (seconds).

    A page that nobody has acknowledged is repeated after `page_repeat_seconds`, everything else after `repeat_seconds`.
    Where more than `digest_above` incidents begin within two intervals, what is new is told in one message. `place`
    says by an alert's labels where it is told: alerts of different places never share a message.
    """

    by: tuple[str, ...] = ("alertname", "severity", "group")
    wait_seconds: float = 0.0
    interval_seconds: float = 300.0
    repeat_seconds: float = 4 * 3600.0
    page_repeat_seconds: float = 1800.0
    digest_above: int = 10
    place: Callable[[Mapping[str, str]], tuple[str, ...]] = _anywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What to say of one group of alerts: `new` ones, those `still` firing, those that `ended`.

    `incident` is the thread; `dedupe_key` is the same however often the same moment is decided. `edits` asks to update
    the incident's message in place: nothing in it is worth waking anyone.
    """

    reason: TellReason
    incident: str
    dedupe_key: str
    new: tuple[Alert, ...] = ()
    still: tuple[Alert, ...] = ()
    ended: tuple[Alert, ...] = ()
    muted: tuple[Alert, ...] = ()

    @property
    def is_due(self) -> bool:
        """Whether something is to be sent."""
        return self.reason in (TellReason.FIRST, TellReason.CHANGED, TellReason.REPEAT, TellReason.RESOLVED)

    @property
    def edits(self) -> bool:
        """Whether it only says that things got better."""
        return self.is_due and not self.new and self.reason is not TellReason.REPEAT

    def told(self, now: datetime) -> tuple[Alert, ...]:
        """The alerts it speaks of, marked as told; to be stored in the transaction that queues the notice."""
        return tuple(replace(a, notified_at=now, incident=self.incident) for a in (*self.new, *self.still, *self.ended))


def tellings(alerts: Iterable[Alert], muter: Muter, now: datetime, policy: TellingPolicy) -> tuple[Telling, ...]:
    """One answer for each group of firing or just resolved alerts, with the reason where nothing is sent."""
    rows = []
    for alert in alerts:
        if alert.state in (AlertState.FIRING, AlertState.RESOLVED):
            place = policy.place(alert.labels)
            rows.append(((*labels_key(alert.labels, policy.by), *place), place, alert))
    muted = {alert.fingerprint for *_, alert in rows if alert.state is AlertState.FIRING and muter.mute(alert)}
    groups = grouped(rows)
    first = [_telling(group, muted, now, policy) for group in groups]
    news = {number for number, telling in enumerate(first) if telling.reason is TellReason.FIRST}
    if not news:
        return tuple(first)
    together = digested(groups, news, now, above=policy.digest_above, window_seconds=2 * policy.interval_seconds)
    return tuple(_telling(group, muted, now, policy) for group in together)


def _telling(group: AlertGroup, mute: Collection[Fingerprint], now: datetime, policy: TellingPolicy) -> Telling:
    firing = [alert for alert in group.alerts if alert.state is AlertState.FIRING]
    muted = [alert for alert in firing if alert.fingerprint in mute]
    loud = [alert for alert in firing if alert.fingerprint not in mute]
    # One that is only held (`keep_firing_for`) is no news: it would page for what is over, as at the end of a silence.
    new = [alert for alert in loud if not is_told(alert) and alert.clear_since is None]
    still = [alert for alert in loud if is_told(alert)]
    # What was told must be closed even while muted: a message that says "firing" for ever is a lie.
    ended = [alert for alert in group.alerts if is_to_close(alert)]
    open_elsewhere = any(is_told(alert) for alert in muted)
    reason = _reason(new, still, ended, muted, open_elsewhere, now, policy)
    incident = incident_of(group, new)
    return Telling(
        reason=reason,
        incident=incident,
        dedupe_key=f"{incident}:{reason}:{_moment(reason, new, still, ended)}",
        new=tuple(new),
        still=tuple(still),
        ended=tuple(ended),
        muted=tuple(muted),
    )


def _reason(
    new: list[Alert], still: list[Alert], ended: list[Alert], muted: list[Alert], open_elsewhere: bool,
    now: datetime, policy: TellingPolicy,
) -> TellReason:
    everyone = (*new, *still, *ended)
    if not everyone:
        return TellReason.MUTED if muted else TellReason.NONE
    if all(alert.severity is Severity.INFO for alert in everyone):
        return TellReason.INFO
    last = max((alert.notified_at for alert in (*still, *ended) if alert.notified_at), default=None)
    if new and last is None:
        waited = (now - min(alert.fired_at or alert.active_since for alert in new)).total_seconds()
        return TellReason.FIRST if waited >= policy.wait_seconds else TellReason.WAITING
    if ended and not new and not still and not open_elsewhere:
        return TellReason.RESOLVED
    since = (now - last).total_seconds() if last else 0.0
    if new or ended:
        return TellReason.CHANGED if since >= policy.interval_seconds else TellReason.WAITING
    if not any(_holds(alert, now) for alert in still):
        # Held, not true or not known: it is repeated when it is true again.
        return TellReason.NONE
    is_urgent = any(alert.severity is Severity.PAGE and not alert.acknowledged_by for alert in still)
    repeat = min(policy.page_repeat_seconds, policy.repeat_seconds) if is_urgent else policy.repeat_seconds
    return TellReason.REPEAT if since >= repeat else TellReason.NONE


def _holds(alert: Alert, now: datetime) -> bool:
    """Whether its condition was true at this evaluation: it neither is over and held, nor without data."""
    return alert.clear_since is None and alert.last_true is not None and alert.last_true >= now


def _moment(reason: TellReason, new: list[Alert], still: list[Alert], ended: list[Alert]) -> str:
    """The newest stored moment that led to `reason`: the same until something happens."""
    if reason is TellReason.REPEAT:
        moments = [alert.notified_at for alert in still]
    else:
        moments = [*(alert.fired_at for alert in new), *(alert.resolved_at for alert in ended)]
    return max((moment.isoformat() for moment in moments if moment), default="")
