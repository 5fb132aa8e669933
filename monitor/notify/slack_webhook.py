"""Slack through an incoming webhook: new posts only, since a webhook can neither edit nor thread.

Posted without it: slack_sdk's WebhookClient follows a redirect to any host and logs the secret address when it
fails (seen with 3.48 against a server that answers 302).
"""

from __future__ import annotations

import logging
from typing import Any

from monitor.clock import Clock
from monitor.errors import NotifyError
from monitor.model.notice import Notice
from monitor.notify.blocks import TEXT_LIMIT, cut, render
from monitor.notify.exchange import NO_ANSWER, ask
from monitor.notify.faults import no_answer
from monitor.notify.receiver import FIRST, Attempt, Root
from monitor.notify.slack_errors import FORM_REFUSED, slack_error

log = logging.getLogger(__name__)


class SlackWebhook:
    """Posts to the webhook's channel; what would be an edit is a new post that says so."""

    name = "slack"
    pause_seconds = 1.0

    def __init__(self, url: str, *, clock: Clock, mention: str | None = None) -> None:
        self._url = url
        self._clock = clock
        self._mention = mention

    def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
        """Post the notice; see Receiver. The address is a secret and stands in no error."""
        message = render(notice, mention=self._mention)
        if notice.edits_root or notice.in_thread:
            note = "A webhook cannot edit or thread: this follows an earlier message."
            message["blocks"].append({"type": "context", "elements": [{"type": "mrkdwn", "text": note}]})
        if notice.attachments:
            places = ", ".join(notice.attachments)
            note = cut(f"A webhook cannot attach files: they lie on the host that sent this, {places}", TEXT_LIMIT)
            message["blocks"].append({"type": "context", "elements": [{"type": "mrkdwn", "text": note}]})
        try:
            self._post(message)
        except NotifyError as error:
            if error.reason not in FORM_REFUSED:
                raise
            log.error("slack refuses the blocks of a message, its text is sent alone: %s", error)
            self._post({"text": message["text"]})
        return None

    def _post(self, message: dict[str, Any]) -> None:
        try:
            answer = ask("POST", self._url, json=message)
        except NO_ANSWER as error:
            raise no_answer("the Slack webhook", error) from None
        said = answer.text.strip()
        if answer.status != 200 or said != "ok":
            word = said if len(said) < 60 and "<" not in said else ""
            raise slack_error(answer.status, word, answer.headers, self._clock.now())
