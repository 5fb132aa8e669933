"""Slack's answers as our errors: which are worth a retry, and when. One table for bot and webhook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from monitor.errors import NotifyError

#: Errors that pass by themselves (https://docs.slack.dev/reference/methods/chat.postMessage#errors); all others are
#: permanent: the message or the set-up is wrong, and sending it again changes nothing.
PASSING = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "message_limit_exceeded",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
        "external_channel_migrating",
    }
)

#: Answers that mean that a message cannot be edited any more, or that its thread is gone: say it anew
#: (https://docs.slack.dev/reference/methods/chat.update#errors).
GONE = frozenset(
    {
        "message_not_found",
        "cant_update_message",
        "edit_window_closed",
        "thread_not_found",
        "msg_not_found",
        "cannot_reply_to_message",
        # Its channel is gone; where that is the configured one still, saying it anew fails for the same reason.
        "channel_not_found",
        "not_in_channel",
        "is_archived",
        "is_inactive",
    }
)

#: Answers that mean that the form of a message is refused: its text alone still gets through.
FORM_REFUSED = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})

#: What an error of Slack looks like; anything else was not said by Slack (a proxy's page, a captive portal).
_WORD = re.compile(r"[a-z0-9_]{1,60}")

#: What to do about the permanent ones that people meet most.
ADVICE = {
    "invalid_auth": "the bot token is wrong",
    "not_authed": "no bot token was sent",
    "token_revoked": "the bot token was revoked: reinstall the app and set the new token",
    "token_expired": "the bot token has expired",
    "account_inactive": "the bot's account was switched off",
    "missing_scope": "the app lacks a scope: it needs chat:write, and files:write for reports",
    "channel_not_found": "no such channel, or the bot was not invited to it",
    "not_in_channel": "invite the bot to the channel",
    "is_archived": "the channel is archived",
    "no_service": "the webhook was removed or its app uninstalled",
    "invalid_blocks": "the message breaks a Block Kit limit: a fault of acceptd",
}


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds to wait by a Retry-After header, given as (fractional) seconds or as a date; None if there is none."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError):
        return None


def slack_error(status: int, error: str, headers: Mapping[str, str], now: datetime) -> NotifyError:
    """The NotifyError for an answer of Slack with this HTTP status and `error` word."""
    wait = retry_after(headers.get("Retry-After") or headers.get("retry-after"), now)
    if status == 429 or error in ("ratelimited", "rate_limited"):
        return NotifyError("Slack asks to slow down", reason="rate_limited", retryable=True, retry_after_seconds=wait)
    if status >= 500 or error in PASSING:
        word = error or str(status)
        text = f"Slack has a fault of its own ({word})"
        return NotifyError(text, reason="server_error", retryable=True, retry_after_seconds=wait)
    if 300 <= status < 400:
        text = f"the address answers {status} (a redirect): not a Slack endpoint, and not followed"
        return NotifyError(text, reason="redirected", retryable=False)
    if not _WORD.fullmatch(error):
        if status == 200:
            text = "the answer is not Slack's: something on the way (a proxy, a portal) spoke instead"
            return NotifyError(text, reason="not_slack", retryable=True)
        error = str(status)
    advice = ADVICE.get(error, "")
    return NotifyError(f"Slack refuses: {error}" + (f" ({advice})" if advice else ""), reason=error, retryable=False)
