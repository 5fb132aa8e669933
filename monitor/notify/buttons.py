"""Buttons of messages: how they look in Block Kit, and a press of one as it comes back. What it does is not here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from monitor.model.notice import Button

#: How long the silence of its button lasts (seconds).
SILENCE_SECONDS = 4 * 3600.0

#: Action ids begin so, to tell our buttons from those of another part of the same app.
_PREFIX = "acceptd_"

_WORDS = {
    Button.APPROVE: ("Approve", "primary"),
    Button.REJECT: ("Reject", "danger"),
    Button.ACKNOWLEDGE: ("Acknowledge", "primary"),
    Button.SILENCE: ("Silence 4 h", None),
}


@dataclass(frozen=True, slots=True)
class Press:
    """Somebody pressed a button. `subject` is the thread of its notice; `key` is the same however often it arrives."""

    button: Button
    subject: str
    user: str
    user_name: str
    channel: str
    key: str

    @property
    def author(self) -> str:
        """Who pressed, as records name them."""
        return f"slack:{self.user} ({self.user_name})" if self.user_name else f"slack:{self.user}"


def actions_block(buttons: Sequence[Button], subject: str) -> dict[str, Any]:
    """The block with these buttons. What restarts servers asks once more before it is taken."""
    return {"type": "actions", "elements": [_element(button, subject) for button in buttons]}


def press_of(payload: dict[str, Any]) -> Press | None:
    """The press in an interactive payload (`block_actions`); None for anything that is no press of ours.

    https://docs.slack.dev/reference/interaction-payloads/block_actions-payload
    """
    actions, user = payload.get("actions"), payload.get("user")
    if payload.get("type") != "block_actions" or not isinstance(actions, list) or not actions:
        return None
    action = actions[0]
    if not isinstance(action, dict) or not isinstance(user, dict) or not isinstance(user.get("id"), str):
        return None
    name = str(action.get("action_id", ""))
    if not name.startswith(_PREFIX) or name.removeprefix(_PREFIX) not in set(Button):
        return None
    container = payload.get("container") or {}
    return Press(
        button=Button(name.removeprefix(_PREFIX)),
        subject=str(action.get("value", "")),
        user=user["id"],
        user_name=str(user.get("username") or user.get("name") or "")[:80],
        channel=str(container.get("channel_id", "")),
        key=f"{user['id']}:{container.get('message_ts', '')}:{name}:{action.get('action_ts', '')}",
    )


def _element(button: Button, subject: str) -> dict[str, Any]:
    words, style = _WORDS[button]
    element: dict[str, Any] = {
        "type": "button",
        "text": {"type": "plain_text", "text": words},
        "action_id": f"{_PREFIX}{button.value}",
        "value": subject,
    }
    if style:
        element["style"] = style
    if button is Button.APPROVE:
        element["confirm"] = {
            "title": {"type": "plain_text", "text": "Act on this?"},
            "text": {"type": "plain_text", "text": "acceptd checks it again, restarts the servers one by one, measures,"
                                                   " and keeps it or goes back."},
            "confirm": {"type": "plain_text", "text": "Approve"},
            "deny": {"type": "plain_text", "text": "Not now"},
        }  # fmt: skip
    return element
