"""Pages about the store itself, which no alert can do: alerts and their messages are rows of it.

It holds its own receivers and what it told in memory. After a restart of the daemon in the same trouble it tells once
more: better twice than not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.errors import NotifyError
from monitor.model.notice import NoticeKind
from monitor.notify.compose_alerts import store_notice
from monitor.notify.receiver import Receiver, Root

log = logging.getLogger(__name__)

#: A backup that holds the file, or a full disk that a rotation empties, is over by then (seconds).
PATIENCE_SECONDS = 120.0
#: While the trouble lasts it is told again (seconds): as pages that nobody acknowledged.
REPEAT_SECONDS = 1800.0
#: A receiver that did not take the message is tried again (seconds).
_RETRY_SECONDS = 30.0


@dataclass(slots=True)
class _Told:
    """What one receiver knows."""

    next_at: float = 0.0
    told: bool = False
    root: Root | None = None


class StoreAlarm:
    """Watches whether the store takes what it is given; called by one thread."""

    def __init__(self, receivers: Sequence[Receiver], clock: Clock, *, host: str, simulated: bool) -> None:
        self._receivers = tuple(receivers)
        self._clock = clock
        self._host = host
        self._simulated = simulated
        self._since: float | None = None
        self._known: dict[str, _Told] = {}

    def look(self, trouble: str, *, waiting: int, lost: int) -> None:
        """Tell of `trouble` once it lasts, and of its end (empty). `waiting`: pages on disk; `lost`: dropped ones."""
        now = self._clock.monotonic()
        if trouble:
            if self._since is None:
                self._since = now
            if now - self._since >= PATIENCE_SECONDS:
                self._tell_all(NoticeKind.ALERT_FIRING, trouble, waiting, lost)
        elif self._since is not None:
            for known in self._known.values():
                known.next_at = 0.0
            if any(known.told for known in self._known.values()):
                self._tell_all(NoticeKind.ALERT_RESOLVED, "", waiting, lost)
            self._since, self._known = None, {}

    def _tell_all(self, kind: NoticeKind, trouble: str, waiting: int, lost: int) -> None:
        assert self._since is not None
        now = self._clock.monotonic()
        for receiver in self._receivers:
            known = self._known.setdefault(receiver.name, _Told())
            over = kind is NoticeKind.ALERT_RESOLVED
            if now < known.next_at or (over and not known.told):
                continue
            notice = store_notice(
                NoticeKind.ALERT_REPEAT if known.told and not over else kind, host=self._host, trouble=trouble,
                lasted_seconds=now - self._since, waiting=waiting, lost=lost, now=self._clock.now(),
                simulated=self._simulated,
            )
            try:
                name = receiver.deliver(notice, known.root)
            except NotifyError as error:
                log.error("cannot tell of the store's trouble receiver=%s: %s", receiver.name, error)
                known.next_at = now + _RETRY_SECONDS
                continue
            if name:
                first = known.root.external_id if known.root else name
                known.root = Root(first, (*(known.root.open_posts if known.root else ()), name))
            known.told, known.next_at = True, now + REPEAT_SECONDS
