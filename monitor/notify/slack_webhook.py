"""Slack through an incoming webhook: new posts only, since a webhook can neither edit nor thread."""

from __future__ import annotations

from slack_sdk.errors import SlackClientError
from slack_sdk.webhook import WebhookClient

from monitor.clock import Clock
from monitor.errors import NotifyError
from monitor.model.notice import Notice
from monitor.notify.blocks import render
from monitor.notify.receiver import Root
from monitor.notify.slack_errors import slack_error

_TIMEOUT_SECONDS = 10


class SlackWebhook:
    """Posts to the webhook's channel; what would be an edit is a new post that says so."""

    name = "slack"
    pause_seconds = 1.0

    def __init__(self, url: str, *, clock: Clock, mention: str | None = None) -> None:
        self._client = WebhookClient(url, timeout=_TIMEOUT_SECONDS, retry_handlers=[])
        self._clock = clock
        self._mention = mention

    def deliver(self, notice: Notice, root: Root | None) -> str | None:
        """Post the notice; see Receiver. The address is a secret and stands in no error."""
        message = render(notice, mention=self._mention)
        if notice.edits_root or notice.in_thread:
            note = "A webhook cannot edit or thread: this follows an earlier message."
            message["blocks"].append({"type": "context", "elements": [{"type": "mrkdwn", "text": note}]})
        if notice.attachments:
            note = "A webhook cannot attach files: the report lies on the host that sent this."
            message["blocks"].append({"type": "context", "elements": [{"type": "mrkdwn", "text": note}]})
        try:
            answer = self._client.send(**message)
        except (SlackClientError, OSError, ValueError) as error:
            text = f"the Slack webhook cannot be reached ({type(error).__name__})"
            raise NotifyError(text, reason="unreachable", retryable=True) from None
        if answer.status_code != 200 or answer.body.strip() != "ok":
            word = answer.body.strip() if len(answer.body) < 60 and "<" not in answer.body else ""
            raise slack_error(answer.status_code, word, answer.headers, self._clock.now())
        return None
