"""Routes: the first that fits decides; nothing is lost where one goes nowhere."""

from __future__ import annotations

import pytest

from monitor.model.alert import Severity
from monitor.model.notice import NoticeKind
from monitor.notify.routing import ALERTMANAGER, DELIVERY_ALERT, Route, Router
from monitor.policy.matchers import parse_matcher
from tests.unit.notify.test_blocks import notice


def route(to: str, *matchers: str) -> Route:
    return Route(tuple(map(parse_matcher, matchers)), tuple(to.split()))


ROUTER = Router(
    [
        route("slack:#reports", 'kind="report"'),
        route("slack alertmanager", 'severity="page"', 'team="chat"'),
        route("alertmanager", 'team="batch"'),
        route("pager", "severity=page"),
    ],
    otherwise=["slack"], fallback="console",
)  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "severity", "kind", "to"),
    [
        ({"team": "chat"}, Severity.PAGE, NoticeKind.ALERT_FIRING, ("slack",)),
        ({"team": "search"}, Severity.PAGE, NoticeKind.ALERT_FIRING, ("pager",)),
        ({"team": "search"}, Severity.TICKET, NoticeKind.ALERT_FIRING, ("slack",)),
        ({}, Severity.INFO, NoticeKind.REPORT, ("slack:#reports",)),
        ({}, Severity.INFO, NoticeKind.RECOMMENDATION, ("slack",)),
        # Alertmanager takes the alert as it stands, not as a notice; what is no alert must not be lost to it.
        ({"team": "batch"}, Severity.TICKET, NoticeKind.ALERT_FIRING, ()),
        ({"team": "batch"}, Severity.INFO, NoticeKind.ROLLOUT, ("console",)),
    ],
)
def test_the_first_route_that_fits_decides(
    labels: dict[str, str], severity: Severity, kind: NoticeKind, to: tuple[str, ...]
) -> None:
    assert ROUTER(notice(labels=labels, severity=severity, kind=kind)) == to


def test_a_resolve_goes_where_its_alert_went() -> None:
    one = {"labels": {"team": "chat"}, "severity": Severity.PAGE}
    fired, resolved = (notice(kind=kind, **one) for kind in (NoticeKind.ALERT_FIRING, NoticeKind.ALERT_RESOLVED))
    assert ROUTER(fired) == ROUTER(resolved)


def test_an_alert_is_in_alertmanagers_hands_where_its_route_says_so() -> None:
    assert ALERTMANAGER in ROUTER.place({"team": "batch", "severity": "ticket"})
    assert ALERTMANAGER not in ROUTER.place({"team": "search", "severity": "page"})


def test_that_delivering_fails_is_told_everywhere() -> None:
    labels = {"alertname": DELIVERY_ALERT, "host": "h"}
    everywhere = ("slack:#reports", "slack", "pager", "console")
    assert ROUTER(notice(labels=labels, severity=Severity.PAGE)) == everywhere
    assert ALERTMANAGER in ROUTER.place(labels)
