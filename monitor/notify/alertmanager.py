"""Alerts for Prometheus' Alertmanager (API v2): shown again and again as they stand, as Prometheus does.

Alertmanager groups, silences, tells and repeats by its own rules, so it is no receiver of notices. Every post says how
things are, which makes it safe to repeat and needs no memory: after a restart the next evaluation says it all again.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from monitor.clock import Clock
from monitor.errors import NotifyError
from monitor.model.alert import Alert, AlertState, Fingerprint, Severity
from monitor.notify.exchange import NO_ANSWER, TIMEOUT_SECONDS, ask
from monitor.notify.faults import no_answer
from monitor.notify.routing import ALERTMANAGER
from monitor.notify.words import number_text

log = logging.getLogger(__name__)

#: A resolved alert is shown for so long (seconds), so that one lost post does not leave it firing there
#: (Prometheus: `resolvedRetention`, rules/alerting.go).
RESOLVED_SECONDS = 900.0
#: A firing alert is good for so many evaluations (Prometheus: four times the larger of interval and resend delay): a
#: daemon that is gone for longer lets it end there.
GOOD_FOR = 4.0
#: Alerts in one post (Prometheus: `maxBatchSize`, notifier).
_BATCH = 64
#: Wait after a post that failed (seconds).
_RETRY_SECONDS = 15.0
_NO_LABEL = re.compile(r"[^A-Za-z0-9_]")


class Counters(Protocol):
    """What showing alerts tells of itself."""

    def notice(self, receiver: str, outcome: str) -> None:
        """One post ended as `sent`, or with a reason."""


def shown(
    alerts: Sequence[Alert], muted: Collection[Fingerprint], wants: Callable[[Mapping[str, str]], bool], now: datetime
) -> list[Alert]:
    """The alerts that Alertmanager is shown at `now`: those that fire, and those that did until lately.

    One that is muted here is not shown, unless it was told before: it must not seem to be over while it fires.
    """
    found = []
    for alert in alerts:
        if alert.severity is Severity.INFO or not wants(alert.labels):
            continue
        was_told = alert.notified_at is not None and alert.fired_at is not None and alert.notified_at >= alert.fired_at
        is_news = alert.fingerprint not in muted and alert.clear_since is None
        if alert.state is AlertState.FIRING and (was_told or is_news):
            found.append(alert)
        elif alert.state is AlertState.RESOLVED and was_told and alert.resolved_at is not None:
            if now - alert.resolved_at < timedelta(seconds=RESOLVED_SECONDS):
                found.append(alert)
    return found


def document(alert: Alert, now: datetime, *, good_seconds: float, page_url: str) -> dict[str, Any]:
    """An alert in the form of `POST /api/v2/alerts` (prometheus/alertmanager `api/v2/openapi.yaml`)."""
    ends = alert.resolved_at if alert.state is AlertState.RESOLVED and alert.resolved_at else None
    numbers = {name: number_text(name, value) for name, value in alert.evidence.items() if value is not None}
    annotations = {
        **alert.annotations,
        "numbers": "; ".join(f"{name} {text}" for name, text in numbers.items()),
        "causes": "\n".join(alert.causes),
    }
    return {
        # A name that Alertmanager does not know as one would make it refuse the whole post.
        "labels": {_name(name): value for name, value in alert.labels.items() if value},
        "annotations": {_name(name): value for name, value in annotations.items() if value},
        "startsAt": _moment(alert.fired_at or alert.active_since),
        "endsAt": _moment(ends or now + timedelta(seconds=good_seconds)),
        "generatorURL": page_url,
    }


class Alertmanagers:
    """Shows alerts to every Alertmanager of a cluster (each must be told: they do not tell each other of alerts)."""

    def __init__(
        self, urls: Sequence[str], *, clock: Clock, counters: Counters, wants: Callable[[Mapping[str, str]], bool],
        interval_seconds: float, page_url: str, headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None, ca_file: str | None = None,
    ) -> None:
        """`wants` says by an alert's labels whether it goes there; `interval_seconds` lie between two evaluations."""
        self._posts = [f"{url.rstrip('/')}/api/v2/alerts" for url in urls]
        self._clock = clock
        self._counters = counters
        self._wants = wants
        self._good_seconds = GOOD_FOR * interval_seconds
        self._page_url = page_url
        self._headers = dict(headers or {})
        self._auth = auth
        self._ca_file = ca_file
        self._lock = threading.Condition()
        self._waiting: list[dict[str, Any]] | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None
        #: Since when a post fails everywhere: as long as one takes it, somebody is told.
        self._failing_since: datetime | None = None
        self._said: dict[str, str] = {}

    def start(self) -> None:
        """Start showing."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="alertmanager", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show what waits, then end; bounded by the time limit of a post."""
        with self._lock:
            self._stopping = True
            self._lock.notify()
        if self._thread is not None:
            self._thread.join(timeout=2 * TIMEOUT_SECONDS * len(self._posts))
            self._thread = None

    def show(self, alerts: Sequence[Alert], muted: Collection[Fingerprint], now: datetime) -> None:
        """Show how the alerts stand at `now`, in place of what still waits to be shown."""
        said = [
            document(alert, now, good_seconds=self._good_seconds, page_url=self._page_url)
            for alert in shown(alerts, muted, self._wants, now)
        ]
        with self._lock:
            self._waiting = said
            self._lock.notify()

    def failing_seconds(self, now: datetime) -> float:
        """For how long no Alertmanager has taken what it was shown; 0 while one does."""
        since = self._failing_since
        return 0.0 if since is None else max(0.0, (now - since).total_seconds())

    def _run(self) -> None:
        retry: list[dict[str, Any]] | None = None
        while True:
            with self._lock:
                if self._waiting is None and not self._stopping:
                    self._lock.wait(_RETRY_SECONDS if retry is not None else None)
                said, self._waiting = self._waiting, None
                is_last = self._stopping
            said = retry if said is None else said
            retry = None
            if not said:
                # What is not shown any more ends there by itself: nothing fails to be told.
                self._failing_since = None
            elif not self._post(said) and not is_last:
                retry = said
            if is_last:
                return

    def _post(self, said: list[dict[str, Any]]) -> bool:
        """Whether at least one Alertmanager took it all."""
        taken = [self._post_to(url, said) for url in self._posts]
        if any(taken):
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._clock.now()
        return any(taken)

    def _post_to(self, url: str, said: list[dict[str, Any]]) -> bool:
        try:
            for start in range(0, len(said), _BATCH):
                self._send(url, said[start : start + _BATCH])
        except NotifyError as error:
            self._counters.notice(ALERTMANAGER, error.reason)
            if self._said.get(url) != error.reason:
                log.error("alertmanager does not take alerts url=%s: %s", url, error)
            self._said[url] = error.reason
            return False
        self._counters.notice(ALERTMANAGER, "sent")
        if self._said.pop(url, None):
            log.info("alertmanager takes alerts again url=%s", url)
        return True

    def _send(self, url: str, batch: list[dict[str, Any]]) -> None:
        try:
            answer = ask("POST", url, json=batch, headers=self._headers, auth=self._auth, ca_file=self._ca_file)
        except NO_ANSWER as error:
            raise no_answer("Alertmanager", error) from None
        # As Prometheus sees it (notifier: any 2xx): a proxy or another implementation may say 202 or 204.
        if not 200 <= answer.status < 300:
            text = f"Alertmanager answers {answer.status}: {answer.text[:200].strip()}"
            raise NotifyError(text, reason=f"http_{answer.status}", retryable=answer.status >= 500)


def _name(name: str) -> str:
    clean = _NO_LABEL.sub("_", name)
    return f"_{clean}" if not clean or clean[0].isdigit() else clean


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
