"""Socket Mode: one connection where the right is held, presses acknowledged at once and heard once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from monitor.app.presses import SocketRight
from monitor.clock import SystemClock
from monitor.model.notice import Button
from monitor.notify.buttons import Press
from monitor.notify.slack_bot import SlackBot
from monitor.notify.slack_socket import SlackSocket
from tests.fakes.memory_store import MemoryStore
from tests.fakes.slack_server import APP_TOKEN, CHANNEL, TOKEN, SlackServer
from tests.fakes.slack_socket import wait_for
from tests.unit.notify.test_blocks import notice

CLOCK = SystemClock()
BUTTONS = (Button.ACKNOWLEDGE, Button.SILENCE)


class Right:
    """A right that a test gives and takes."""

    def __init__(self, held: bool = True) -> None:
        self.held = held
        self.released = False

    def hold(self) -> bool:
        return self.held

    def release(self) -> None:
        self.released = True


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server


@contextmanager
def listening(
    slack: SlackServer, *, right: Right | SocketRight | None = None, token: str = APP_TOKEN
) -> Iterator[list[Press]]:
    heard: list[Press] = []
    socket = SlackSocket(
        token, api_url=slack.api_url, clock=CLOCK, right=right or Right(), pressed=heard.append, look_seconds=0.05
    )
    socket.start()
    try:
        yield heard
    finally:
        socket.stop()


def post(slack: SlackServer) -> None:
    bot = SlackBot(TOKEN, CHANNEL, api_url=slack.api_url, clock=CLOCK, buttons=True)
    bot.deliver(notice(thread="alert:inc-1", buttons=BUTTONS), None)


def test_a_press_is_acknowledged_and_heard_with_who_pressed_what(slack: SlackServer) -> None:
    post(slack)
    with listening(slack) as heard:
        slack.socket.wait_connected()
        slack.press(slack.messages[0], "acceptd_acknowledge", user="U0ANN", name="ann")
        wait_for(lambda: bool(heard), "the press")
    (press,) = heard
    assert (press.button, press.subject, press.user, press.channel) == (
        Button.ACKNOWLEDGE, "alert:inc-1", "U0ANN", CHANNEL
    )  # fmt: skip
    assert press.author == "slack:U0ANN (ann)"


def test_a_press_that_slack_sends_again_is_heard_once_and_acknowledged_again(slack: SlackServer) -> None:
    post(slack)
    with listening(slack) as heard:
        slack.socket.wait_connected()
        for _ in range(2):
            slack.press(slack.messages[0], "acceptd_silence")
        wait_for(lambda: bool(heard), "the press")
        slack.press(slack.messages[0], "acceptd_acknowledge")
        wait_for(lambda: len(heard) == 2, "the other press")
    assert [press.button for press in heard] == [Button.SILENCE, Button.ACKNOWLEDGE]


def test_what_is_no_press_of_ours_is_acknowledged_and_left_alone(slack: SlackServer) -> None:
    with listening(slack) as heard:
        slack.socket.wait_connected()
        slack.socket.interactive({"type": "view_submission", "user": {"id": "U1"}})
    assert heard == []


def test_slack_may_ask_for_another_connection_and_may_close_the_old_one(slack: SlackServer) -> None:
    post(slack)
    with listening(slack) as heard:
        slack.socket.wait_connected()
        slack.socket.refresh()
        wait_for(lambda: slack.socket.opened == 2 and len(slack.socket.connections) == 1, "another connection")
        slack.press(slack.messages[0], "acceptd_silence")
        slack.socket.connections[0].close()
        wait_for(lambda: slack.socket.opened == 3 and len(slack.socket.connections) == 1, "a third one")
        slack.press(slack.messages[0], "acceptd_acknowledge")
        wait_for(lambda: len(heard) == 2, "both presses")


def test_without_the_right_there_is_no_connection_and_with_its_loss_it_ends(slack: SlackServer) -> None:
    right = Right(held=False)
    with listening(slack, right=right):
        right.held = True
        slack.socket.wait_connected()
        right.held = False
        slack.socket.wait_connected(0)
        right.held = True
        slack.socket.wait_connected()
    slack.socket.wait_connected(0)
    assert right.released


def test_of_two_daemons_on_one_store_one_connects_and_the_other_takes_over(slack: SlackServer) -> None:
    store = MemoryStore()
    rights = [SocketRight(store, CLOCK, holder) for holder in ("host-a", "host-b")]  # type: ignore[arg-type]
    with listening(slack, right=rights[1]):
        slack.socket.wait_connected()
        with listening(slack, right=rights[0]):
            assert not rights[0].hold()
            slack.socket.wait_connected(1)
    with listening(slack, right=rights[0]):
        slack.socket.wait_connected(1)
    assert slack.socket.opened == 2


def test_a_token_that_slack_refuses_is_said_once_and_stands_in_no_log(
    slack: SlackServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with listening(slack, token="xapp-sec-ret"):
        wait_for(lambda: any("buttons do not work" in r.getMessage() for r in caplog.records), "the complaint")
    said = [r.getMessage() for r in caplog.records if "buttons do not work" in r.getMessage()]
    assert said == ["slack buttons do not work, no connection: not_allowed_token_type"]
    assert "sec-ret" not in caplog.text
    assert slack.socket.opened == 0


def test_an_address_that_would_be_connected_to_without_tls_is_not(
    slack: SlackServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = slack.socket.new_url()
    monkeypatch.setattr(slack.socket, "new_url", lambda: url.replace("ws://", "wss://"))
    with listening(slack):
        wait_for(lambda: any("buttons do not work" in r.getMessage() for r in caplog.records), "the complaint")
    assert slack.socket.opened == 0


def test_nobody_there_is_no_reason_to_give_up(slack: SlackServer) -> None:
    with SlackServer() as gone:
        pass
    socket = SlackSocket(
        APP_TOKEN, api_url=gone.api_url, clock=CLOCK, right=Right(), pressed=lambda press: None, look_seconds=0.05
    )
    states: list[bool] = []
    socket._connected = states.append
    socket.start()
    wait_for(lambda: len(states) > 2, "some looks")
    socket.stop()
    assert not any(states)
