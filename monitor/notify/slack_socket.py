"""Socket Mode: presses of buttons over a WebSocket that we open, so that Slack need not reach us.

Slack sends each press to one of an app's connections, whichever it likes. So that it reaches a daemon that knows the
alert, a fleet keeps one connection, held by whoever has the lease (`Right`).
https://docs.slack.dev/apis/events-api/using-socket-mode
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from socket import SHUT_RDWR
from typing import Protocol
from urllib.parse import urlsplit

from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from monitor.clock import Clock
from monitor.notify.buttons import Press, press_of
from monitor.notify.slack_client import NO_ANSWER, DirectClient, sdk_log

log = logging.getLogger(__name__)

#: How often right and connection are looked at (seconds): a third of the lease.
LOOK_SECONDS = 10.0
#: Wait after a connection that failed (seconds), doubled each time up to the limit.
_FIRST_WAIT, _LONGEST_WAIT = 5.0, 300.0
#: Presses that are known by their keys: Slack sends one again that was not acknowledged in time.
_REMEMBERED = 500


class Right(Protocol):
    """The right to be the fleet's one connection."""

    def hold(self) -> bool:
        """Take it, or keep it; False where another has it or nobody can say."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


class _Client(SocketModeClient):
    """The SDK's client, with an eye on where it is sent.

    It opens a plain connection for every port but 443, whatever the address says (3.48, "only for library testing").
    """

    def issue_new_wss_url(self) -> str:
        url = super().issue_new_wss_url()
        parts = urlsplit(url)
        is_private = parts.scheme == "wss" and parts.port in (None, 443)
        if not is_private and (parts.scheme == "wss" or self.web_client.base_url.startswith("https:")):
            raise ValueError("Slack names an address that would be connected to without TLS")
        return url


class SlackSocket:
    """Keeps the connection while the right is held. `pressed` is called in a thread of the connection."""

    def __init__(
        self, app_token: str, *, api_url: str, clock: Clock, right: Right, pressed: Callable[[Press], None],
        connected: Callable[[bool], None] = lambda is_up: None, look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`connected` is told whether the connection stands, after each look."""
        self._app_token = app_token
        self._api_url = api_url
        self._clock = clock
        self._right = right
        self._pressed = pressed
        self._connected = connected
        self._look = look_seconds
        self._client: SocketModeClient | None = None
        self._wait = 0.0
        self._next_try = 0.0
        self._complained = False
        self._known: deque[str] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start keeping the connection."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="slack-socket", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the connection and give the right back."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=30)
            self._thread = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception:
                log.exception("slack socket failed unexpectedly")
            self._stopping.wait(self._look)
        self._close()
        self._right.release()

    def _turn(self) -> None:
        if not self._right.hold():
            self._close()
            self._connected(False)
            return
        if (self._client is None or not self._client.is_connected()) and self._clock.monotonic() >= self._next_try:
            self._connect()
        self._connected(self._client is not None and self._client.is_connected())

    def _connect(self) -> None:
        if self._client is None:
            self._client = _Client(
                app_token=self._app_token, web_client=DirectClient(None, api_url=self._api_url), logger=sdk_log,
                auto_reconnect_enabled=False, concurrency=2,
            )
            self._client.socket_mode_request_listeners.append(self._received)
        try:
            self._client.connect_to_new_endpoint()
        except (SlackApiError, *NO_ANSWER) as error:
            # The SDK's texts may carry what was sent: Slack's word alone is passed on.
            word = error.response.get("error", "") if isinstance(error, SlackApiError) else ""
            self._put_off(str(word) or type(error).__name__)
            return
        if not self._client.is_connected():
            self._put_off("the connection was refused")
            return
        log.info("slack socket connected")
        self._wait, self._complained = 0.0, False

    def _put_off(self, why: str) -> None:
        self._wait = min(_LONGEST_WAIT, self._wait * 2 or _FIRST_WAIT)
        self._next_try = self._clock.monotonic() + self._wait
        if not self._complained:
            log.error("slack buttons do not work, no connection: %s", why)
        self._complained = True

    def _close(self) -> None:
        if self._client is None:
            return
        session = self._client.current_session
        if session is not None and session.sock is not None:
            try:
                # Wakes the SDK's reader, which else holds up the end until its next time-out.
                session.sock.shutdown(SHUT_RDWR)
            except OSError:
                log.debug("slack socket was closed already")
        self._client.close()
        self._client = None

    def _received(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        # Acknowledged first: Slack waits three seconds, and shows whoever pressed an error after that.
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        press = press_of(request.payload) if request.type == "interactive" else None
        if press is None:
            return
        with self._lock:
            if press.key in self._known:
                return
            self._known.append(press.key)
        self._pressed(press)
