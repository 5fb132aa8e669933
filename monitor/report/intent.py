"""In a few words: how a server is, and what acceptd would do with it. It decides nothing; it reads what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monitor.show.figures import signed

#: Verdicts of a server that is as it should be.
_WELL = frozenset({"ok", "not_spec_decode", "spec_decode_no_drafts_yet"})


def condition(server: Mapping[str, Any], alerts: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """A word for how a server is, and its level: `ok`, `warn` or `bad`.

    `alerts` are those that fire for it: a page or a ticket says more than the state of the page that was read.
    """
    if server["change"]:
        return str(server["change"]["state"]), "warn"
    for severity, level in (("page", "bad"), ("ticket", "warn")):
        loud = next((alert for alert in alerts if alert["severity"] == severity), None)
        if loud is not None:
            return str(loud["name"]), level
    word = str(server["state"] or server["verdict"] or "not read yet")
    return word, "ok" if server["verdict"] in _WELL else "bad" if server["verdict"] == "scrape_error" else "warn"


def group_intent(group: Mapping[str, Any]) -> str:
    """What acceptd would do with a group, or is doing."""
    if group["rollout"]:
        return f"changing to {group['rollout']['to']}"
    advice = group["advice"]
    if advice is None:
        return "too early to say"
    if advice["action"] == "keep":
        return f"keep: {advice['reason'].replace('_', ' ')}"
    what = _what(advice)
    if group["paused"]:
        return f"paused; would {what}"
    match advice["state"]:
        case "awaiting_approval":
            return f"waits for approval: {what}"
        case "rejected":
            return f"declined: {what}"
        case "refused":
            return f"not done: {what}"
        case "acted_on":
            return f"did: {what}"
        case "expired" | "superseded":
            return "too early to say"
    # A restart to cure a fault is proposed to a person in every mode.
    is_coming = group["mode"] == "auto" and advice["action"] != "restart" and not advice["note"]
    return f"{'will' if is_coming else 'would'} {what}"


def _what(advice: Mapping[str, Any]) -> str:
    tokens = advice["num_speculative_tokens"]
    words = {
        "off": "switch speculation off", "restart": "restart it as it is", "probe": f"try {tokens} tokens",
        "raise": f"raise to {tokens}", "lower": f"lower to {tokens}",
    }[advice["action"]]  # fmt: skip
    return words if advice["gain"] is None else f"{words} ({signed(advice['gain'])})"


def server_intent(server: Mapping[str, Any], group: Mapping[str, Any]) -> str:
    """What acceptd would do with one server of a group, or is doing."""
    change = server["change"]
    if change:
        return f"{change['state']}: {change['to']}"
    if server["paused"] and not group["paused"]:
        return "paused"
    return str(group["intent"])
