"""Buttons: within Slack's limits, and a press read from whatever comes."""

from __future__ import annotations

import pytest

from monitor.model.notice import Button
from monitor.notify.blocks import render
from monitor.notify.buttons import actions_block, press_of
from tests.fakes.slack_blocks import message_fault
from tests.unit.notify.test_blocks import notice


def test_every_button_is_within_the_limits_of_block_kit() -> None:
    message = render(notice(buttons=tuple(Button), thread=f"alert:{'x' * 200}"), buttons=True)
    assert message_fault(message) is None
    (block,) = [block for block in message["blocks"] if block["type"] == "actions"]
    assert [element["action_id"] for element in block["elements"]] == [f"acceptd_{button.value}" for button in Button]


def test_there_are_none_where_nobody_listens() -> None:
    assert "actions" not in {block["type"] for block in render(notice(buttons=tuple(Button)))["blocks"]}


def test_what_restarts_servers_asks_once_more() -> None:
    (approve, silence) = actions_block([Button.APPROVE, Button.SILENCE], "t")["elements"]
    assert "confirm" in approve and "confirm" not in silence


def press(**changes: object) -> dict[str, object]:
    return {
        "type": "block_actions",
        "user": {"id": "U1", "username": "ann"},
        "container": {"channel_id": "C1", "message_ts": "17.5"},
        "actions": [{"action_id": "acceptd_reject", "value": "decision:d-1", "action_ts": "18.0"}],
        **changes,
    }


def test_a_press_says_who_pressed_what_where() -> None:
    found = press_of(press())
    assert found is not None
    assert (found.button, found.subject, found.channel) == (Button.REJECT, "decision:d-1", "C1")
    assert found.author == "slack:U1 (ann)"
    assert found.key == "U1:17.5:acceptd_reject:18.0"


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "view_submission"},
        {"actions": []},
        {"actions": None},
        {"actions": ["acceptd_approve"]},
        {"actions": [{"action_id": "acceptd_launch"}]},
        {"actions": [{"action_id": "other_app"}]},
        {"user": None},
        {"user": {"id": 7}},
    ],
)
def test_what_is_no_press_of_ours(changes: dict[str, object]) -> None:
    assert press_of(press(**changes)) is None


def test_a_press_without_its_place_is_one_all_the_same() -> None:
    found = press_of(press(container=None, user={"id": "U1"}))
    assert found is not None and (found.channel, found.author) == ("", "slack:U1")
