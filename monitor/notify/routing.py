"""Which notice goes to which receivers: the first route whose matchers fit. It delivers nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from monitor.model.alert import Matcher
from monitor.model.notice import Notice, NoticeKind

#: Where a notice is queued: what the parts that queue notices are given.
Routing = Callable[[Notice], Sequence[str]]

#: Receivers that are shown the alerts as they stand (`alertmanager.py`) instead of being sent notices.
ALERTMANAGER = "alertmanager"

#: The alert about receivers that fail: it goes to all of them, since nobody knows which still works.
DELIVERY_ALERT = "DaemonDeliveryFailing"

_ALERTS = frozenset(
    {NoticeKind.ALERT_FIRING, NoticeKind.ALERT_REPEAT, NoticeKind.ALERT_RESOLVED, NoticeKind.ALERT_NOTE}
)


@dataclass(frozen=True, slots=True)
class Route:
    """Notices whose labels satisfy every matcher go to these receivers."""

    matchers: tuple[Matcher, ...]
    to: tuple[str, ...]


class Router:
    """Answers by the labels of a notice, `severity` and `kind` among them.

    `kind` is `alert`, `recommendation`, `rollout`, `report` or `silence`. What no route fits goes to `otherwise`.
    """

    def __init__(self, routes: Sequence[Route], *, otherwise: Sequence[str], fallback: str) -> None:
        """`fallback` takes what only Alertmanager would get and cannot, since it is no alert."""
        self._routes = tuple(routes)
        self._otherwise = tuple(otherwise)
        self._fallback = fallback

    @property
    def receivers(self) -> tuple[str, ...]:
        """Every receiver that something may go to."""
        named = (*(name for route in self._routes for name in route.to), *self._otherwise, self._fallback)
        return tuple(dict.fromkeys(named))

    def __call__(self, notice: Notice) -> tuple[str, ...]:
        """The receivers whose outbox takes the notice."""
        kind = "alert" if notice.kind in _ALERTS else notice.kind.value
        labels = {**notice.labels, "severity": notice.severity.value, "kind": kind}
        named = self._receivers(labels)
        found = tuple(name for name in named if name != ALERTMANAGER)
        return found or (() if kind == "alert" and ALERTMANAGER in named else (self._fallback,))

    def place(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Where an alert with these labels goes, Alertmanager included."""
        return self._receivers({**labels, "kind": "alert"})

    def _receivers(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        if labels.get("alertname") == DELIVERY_ALERT:
            return self.receivers
        for route in self._routes:
            if all(matcher.matches(labels) for matcher in route.matchers):
                return route.to
        return self._otherwise
