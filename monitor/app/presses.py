"""What a press of a button does: the rows that command line and page write, with who pressed. It restarts nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import timedelta

from monitor.actions import asking
from monitor.clock import Clock
from monitor.errors import MonitorError, NotifyError, StoreError
from monitor.model.alert import Alert, AlertState, Matcher
from monitor.model.notice import Button
from monitor.model.record import AuditEntry, CommandKind
from monitor.model.rollout import Lease
from monitor.notify.buttons import SILENCE_SECONDS, Press
from monitor.notify.compose_alerts import note_notice
from monitor.notify.routing import Routing
from monitor.store import Store
from monitor.store.api import Unit

log = logging.getLogger(__name__)

#: Name of the lease of the fleet's one connection, and how long it holds without being renewed (seconds).
SOCKET_LEASE, _LEASE_SECONDS = "slack-socket", 30.0

#: Tells one person something in a channel: channel, user, text.
Whisper = Callable[[str, str, str], None]


class SocketRight:
    """The right to Slack's one connection, as a lease in the store."""

    def __init__(self, store: Store, clock: Clock, holder: str) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._lease: Lease | None = None

    def hold(self) -> bool:
        """Take the lease, or keep it; without the store nobody may."""
        try:
            with self._store.write() as unit:
                self._lease = unit.leases.acquire(SOCKET_LEASE, self._holder, _LEASE_SECONDS, self._clock.now())
        except StoreError as error:
            log.warning("right to the slack socket not known: %s", error)
            self._lease = None
        return self._lease is not None

    def release(self) -> None:
        """Give it back, so that another daemon need not wait."""
        if self._lease is None:
            return
        try:
            with self._store.write() as unit:
                unit.leases.release(self._lease)
        except StoreError as error:
            log.warning("right to the slack socket not given back: %s", error)
        self._lease = None


class Presses:
    """Carries presses into the store; called by the threads of the connection."""

    def __init__(
        self, store: Store, clock: Clock, *, users: Collection[str], receivers: Routing, whisper: Whisper,
        wake: Callable[[], None], simulated: bool,
    ) -> None:
        """`users` are the ids of those who may press; `wake` says that something was queued."""
        self._store = store
        self._clock = clock
        self._users = frozenset(users)
        self._receivers = receivers
        self._whisper = whisper
        self._wake = wake
        self._simulated = simulated

    def pressed(self, press: Press) -> None:
        """Do what the button asks, or say to who pressed why not."""
        log.info("button=%s subject=%s author=%s", press.button.value, press.subject, press.author)
        try:
            with self._store.write() as unit:
                said = self._carry(unit, press)
        except MonitorError as error:
            log.error("button not carried out button=%s subject=%s: %s", press.button.value, press.subject, error)
            said = f"That could not be done: {error}"
        self._wake()
        if not said:
            return
        try:
            self._whisper(press.channel, press.user, said)
        except NotifyError as error:
            log.warning("whoever pressed cannot be told user=%s: %s", press.user, error)

    def _carry(self, unit: Unit, press: Press) -> str:
        """Write it down; what only the person who pressed is told, empty where everybody sees it."""
        now = self._clock.now()
        if press.user not in self._users:
            sentence = f"{press.author} pressed {press.button.value} and is not on the list (slack.users)"
            unit.audit.add(AuditEntry(now, press.author, "slack.refused", press.subject, sentence))
            return "You are not on the list of those who may do that (`slack.users` in acceptd's configuration)."
        about, _, name = press.subject.partition(":")
        if press.button in (Button.APPROVE, Button.REJECT):
            if about != "decision" or unit.decisions.get(name) is None:  # type: ignore[arg-type]
                return f"There is no decision {name!r} here any more: look at the newest one."
            kind = CommandKind.APPROVE if press.button is Button.APPROVE else CommandKind.REJECT
            asking.ask(unit, kind, name, press.author, now)
            return ""
        known = unit.alerts.since(now) if about == "alert" and name else []
        firing = [alert for alert in known if alert.state is AlertState.FIRING and alert.incident == name]
        if not firing:
            return "Nothing of this fires any more."
        if press.button is Button.ACKNOWLEDGE:
            return self._acknowledge(unit, press, firing)
        return self._silence(unit, press, firing)

    def _acknowledge(self, unit: Unit, press: Press, firing: list[Alert]) -> str:
        now = self._clock.now()
        for alert in firing:
            asking.acknowledge(unit, alert.fingerprint, press.author, now)
        self._answer(unit, press, firing, f"Acknowledged by {press.user_name or press.user}: it is not repeated every"
                                          " half hour any more.")
        return ""

    def _silence(self, unit: Unit, press: Press, firing: list[Alert]) -> str:
        now = self._clock.now()
        matchers = common_matchers(firing)
        silence = asking.silence(unit, matchers, press.author, "button in Slack", now, SILENCE_SECONDS)
        words = " ".join(map(str, matchers))
        until = now + timedelta(seconds=SILENCE_SECONDS)
        self._answer(unit, press, firing, f"Silenced until {until:%H:%M} UTC by {press.user_name or press.user}:"
                                          f" {words} (silence {silence.id})")
        return ""

    def _answer(self, unit: Unit, press: Press, firing: list[Alert], text: str) -> None:
        notice = note_notice(press.subject, press.key, firing, text, self._clock.now(), simulated=self._simulated)
        unit.outbox.queue(notice, self._receivers(notice), self._clock.now())


def common_matchers(alerts: list[Alert]) -> list[Matcher]:
    """Matchers that fit these alerts and no other of their names: for each label its value, or one of its values."""
    found = []
    for label in ("alertname", "group", "server", "slo", "host"):
        values = sorted({alert.labels.get(label, "") for alert in alerts})
        if values == [""]:
            continue
        is_one = len(values) == 1
        found.append(Matcher(label, "=" if is_one else "=~", values[0] if is_one else "|".join(map(_literal, values))))
    return found


def _literal(value: str) -> str:
    """A value in a regular expression, escaped no more than it needs."""
    return "".join(f"\\{c}" if c in r".^$*+?{}[]\|()" else c for c in value)
