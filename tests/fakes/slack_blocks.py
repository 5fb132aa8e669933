"""What Slack refuses in a message, by its documentation of Block Kit and of chat.postMessage."""

from __future__ import annotations

from typing import Any

#: https://docs.slack.dev/reference/block-kit/blocks and .../block-elements/button-element
_MOST_BLOCKS, _MOST_ELEMENTS = 50, 25


def message_fault(arguments: dict[str, Any]) -> str | None:
    """The error word for a message that Slack refuses; None where it is fine."""
    if not arguments.get("text") and not arguments.get("blocks"):
        return "no_text"
    if len(str(arguments.get("text", ""))) > 40_000:
        return "msg_too_long"
    blocks = arguments.get("blocks")
    if blocks and not (isinstance(blocks, list) and len(blocks) <= _MOST_BLOCKS and all(map(_is_block, blocks))):
        return "invalid_blocks"
    if blocks and not _are_ids_unique(blocks):
        return "invalid_blocks"
    return None


def _is_block(block: Any) -> bool:
    match block.get("type"):
        case "header":
            return _is_text(block.get("text"), 150, "plain_text")
        case "section":
            text, fields = block.get("text"), block.get("fields")
            if text is None and not fields:
                return False
            if text is not None and not _is_text(text, 3000):
                return False
            return fields is None or (1 <= len(fields) <= 10 and all(_is_text(field, 2000) for field in fields))
        case "context":
            elements = block.get("elements", [])
            return 1 <= len(elements) <= 10 and all(_is_text(element, 3000) for element in elements)
        case "actions":
            elements = block.get("elements", [])
            return 1 <= len(elements) <= _MOST_ELEMENTS and all(map(_is_button, elements))
        case "divider":
            return True
    return False


def _is_button(element: Any) -> bool:
    confirm = element.get("confirm")
    return (
        element.get("type") == "button"
        and _is_text(element.get("text"), 75, "plain_text")
        and 1 <= len(element.get("action_id", "")) <= 255
        and len(element.get("value", "")) <= 2000
        and element.get("style") in (None, "primary", "danger")
        and (confirm is None or _is_confirm(confirm))
    )


def _is_confirm(confirm: Any) -> bool:
    limits = {"title": 100, "text": 300, "confirm": 30, "deny": 30}
    return all(_is_text(confirm.get(part), limit) for part, limit in limits.items())


def _is_text(text: Any, limit: int, kind: str | None = None) -> bool:
    if not isinstance(text, dict) or text.get("type") not in ("plain_text", "mrkdwn"):
        return False
    return (kind is None or text["type"] == kind) and 1 <= len(text.get("text", "")) <= limit


def _are_ids_unique(blocks: list[dict[str, Any]]) -> bool:
    ids = [element.get("action_id") for block in blocks for element in block.get("elements", ())]
    named = [one for one in ids if one]
    return len(named) == len(set(named))
