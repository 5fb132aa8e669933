"""Slack through a bot token: posts, edits in place, threads, files. Retrying is left to the outbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from monitor.clock import Clock
from monitor.errors import NotifyError
from monitor.model.notice import Notice
from monitor.notify.blocks import headline, render
from monitor.notify.receiver import Root
from monitor.notify.slack_errors import slack_error

_TIMEOUT_SECONDS = 10


class SlackBot:
    """Posts to one channel. A message is called `CHANNEL_ID:TS`."""

    name = "slack"
    #: Slack allows about one message a second and channel (https://docs.slack.dev/apis/web-api/rate-limits).
    pause_seconds = 1.0

    def __init__(self, token: str, channel: str, *, api_url: str, clock: Clock, mention: str | None = None) -> None:
        self._client = WebClient(
            token=token, base_url=api_url.rstrip("/") + "/", timeout=_TIMEOUT_SECONDS, retry_handlers=[]
        )
        self._channel = channel
        self._clock = clock
        self._mention = mention

    def deliver(self, notice: Notice, root: Root | None) -> str | None:
        """Post, edit or reply, as the notice asks; see Receiver."""
        channel, ts = root.external_id.split(":", 1) if root else (self._channel, None)
        message = render(notice, mention=self._mention)
        if notice.edits_root and ts is not None:
            self._call("chat_update", channel=channel, ts=ts, **message)
            # An edit notifies nobody and hides what stood there: the thread keeps the history.
            return self._post(channel, ts, {"text": message["text"]})
        posted = self._post(channel, ts if notice.in_thread else None, message)
        for path in notice.attachments:
            self._upload(posted, Path(path), headline(notice))
        return posted

    def check(self) -> str:
        """Who the token belongs to, by `auth.test`; raises NotifyError."""
        answer = self._call("auth_test")
        return f"{answer.get('user', '?')} in {answer.get('team', '?')}"

    def _post(self, channel: str, thread: str | None, message: dict[str, Any]) -> str:
        answer = self._call(
            "chat_postMessage", channel=channel, thread_ts=thread, unfurl_links=False, unfurl_media=False, **message
        )
        return f"{answer['channel']}:{answer['ts']}"

    def _upload(self, posted: str, path: Path, title: str) -> None:
        channel, ts = posted.split(":", 1)
        if path.is_file():
            self._call(
                "files_upload_v2", channel=channel, thread_ts=ts, file=str(path), filename=path.name, title=title
            )

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer = getattr(self._client, method)(**arguments)
        except SlackApiError as error:
            response = error.response
            data = response.data if isinstance(response.data, dict) else {}
            word = str(data.get("error", ""))
            raise slack_error(response.status_code, word, response.headers, self._clock.now()) from None
        except (SlackClientError, OSError, ValueError) as error:
            # The SDK's texts can carry the request, and with it the token: only the type is passed on.
            text = f"Slack cannot be reached ({type(error).__name__})"
            raise NotifyError(text, reason="unreachable", retryable=True) from None
        return cast(dict[str, Any], answer.data)
