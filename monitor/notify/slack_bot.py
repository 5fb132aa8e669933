"""Slack through a bot token: posts, edits in place, threads, files. Retrying is left to the outbox."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from monitor.clock import Clock
from monitor.errors import NotifyError
from monitor.model.notice import Notice
from monitor.notify.blocks import escape, headline, render
from monitor.notify.receiver import FIRST, Attempt, Root
from monitor.notify.slack_client import DirectClient, call
from monitor.notify.slack_errors import FORM_REFUSED, GONE

log = logging.getLogger(__name__)

#: Name of the metadata that marks our messages, so that one whose answer was lost can be found again.
EVENT_TYPE = "acceptd_notice"
#: How many messages since a notice was made are looked through for it.
_LOOK_BACK = 100
#: How much earlier than the notice is looked (seconds): the clocks of Slack and of this host differ.
_CLOCKS_DIFFER = 60.0
#: Messages of one incident that are edited at once: Slack allows about fifty edits a minute
#: (https://docs.slack.dev/reference/methods/chat.update), and one that was repeated for days has more.
_MOST_EDITED = 20

#: Channels, private channels and conversations by id; a name (`#oncall`) can be posted to but not read.
_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{7,}")


class SlackBot:
    """Posts to one channel. A message is called `CHANNEL_ID:TS`.

    Slack has no key that makes a post idempotent. So each carries the notice's id as metadata, and where an earlier
    attempt may have arrived the channel is searched for it first, if the app may read it (`channels:history`,
    `groups:history`).
    """

    #: Slack allows about one message a second and channel (https://docs.slack.dev/apis/web-api/rate-limits).
    pause_seconds = 1.0

    def __init__(
        self, token: str, channel: str, *, api_url: str, clock: Clock, mention: str | None = None, name: str = "slack",
        buttons: bool = False,
    ) -> None:
        """`buttons`: whether somebody listens for presses, so that messages may have buttons."""
        self.name = name
        self._client = DirectClient(token, api_url=api_url)
        self._channel = channel
        #: The channel's id, which reading it takes; learned from the first post where only a name is configured.
        self._channel_id = channel if _CHANNEL_ID.fullmatch(channel) else None
        self._clock = clock
        self._mention = mention
        self._buttons = buttons
        self._is_blind = False

    def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
        """Post, edit or reply, as the notice asks; see Receiver."""
        posted = attempt.external_id
        if posted is None and attempt.is_unclear:
            # A post is taken by the channel's name, a search only by its id: after a restart, stored messages tell it.
            if self._channel_id is None and attempt.neighbour is not None:
                self._channel_id = attempt.neighbour.external_id.split(":", 1)[0]
            posted = self._find(notice, root if notice.edits_root or notice.in_thread else None)
        if posted is None and attempt.is_over:
            return None
        if posted is None:
            posted = self._say(notice, root)
        self._attach(notice, posted)
        return posted

    def check(self) -> str:
        """Who the token belongs to, by `auth.test`; raises NotifyError."""
        answer = self._call("auth_test")
        return f"{answer.get('user', '?')} in {answer.get('team', '?')}"

    def whisper(self, channel: str, user: str, text: str) -> None:
        """Tell one person something in a channel; nobody else sees it. Raises NotifyError."""
        self._call("chat_postEphemeral", channel=channel, user=user, text=escape(text))

    def _say(self, notice: Notice, root: Root | None) -> str:
        message = render(notice, mention=self._mention, buttons=self._buttons)
        if root is not None and (notice.edits_root or notice.in_thread):
            channel, ts = root.external_id.split(":", 1)
            try:
                if not notice.edits_root:
                    return self._post(notice, channel, ts, message)
                self._edit(root.open_posts[-_MOST_EDITED:] or (root.external_id,), message)
                # An edit notifies nobody and hides what stood there: the thread keeps the history.
                return self._post(notice, channel, ts, {"text": message["text"]})
            except NotifyError as error:
                if error.reason not in GONE:
                    raise
                log.info("slack message is gone, saying it anew channel=%s ts=%s reason=%s", channel, ts, error.reason)
        # What is new goes where it is configured to go: the thread may have begun in a channel of before.
        return self._post(notice, self._channel, None, message)

    def _edit(self, posts: Sequence[str], message: dict[str, Any]) -> None:
        """Edit messages, the newest first; raises the last refusal where none of them can be edited."""
        refused: NotifyError | None = None
        edited = 0
        for post in reversed(posts):
            channel, ts = post.split(":", 1)
            try:
                # `parse`: an edit would treat the text as if a person had typed it, unlike a post
                # (https://docs.slack.dev/reference/methods/chat.update).
                self._send("chat_update", message, channel=channel, ts=ts, parse="none")
                edited += 1
            except NotifyError as error:
                if error.reason not in GONE:
                    raise
                refused = error
        if refused is not None and not edited:
            raise refused

    def _post(self, notice: Notice, channel: str, thread: str | None, message: dict[str, Any]) -> str:
        metadata = {"event_type": EVENT_TYPE, "event_payload": {"notice": notice.id}}
        answer = self._send(
            "chat_postMessage", message, channel=channel, thread_ts=thread, unfurl_links=False, unfurl_media=False,
            metadata=metadata,
        )  # fmt: skip
        if channel == self._channel:
            self._channel_id = answer["channel"]
        return f"{answer['channel']}:{answer['ts']}"

    def _send(self, method: str, message: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        """Send a message; where Slack refuses its blocks, by a limit that we do not know, its text without them."""
        try:
            return self._call(method, **message, **arguments)
        except NotifyError as error:
            if error.reason not in FORM_REFUSED or not message.get("blocks"):
                raise
            log.error("slack refuses the blocks of a message, its text is sent alone: %s", error)
            return self._call(method, text=message["text"], blocks=[], **arguments)

    def _find(self, notice: Notice, thread: Root | None) -> str | None:
        """The message of `notice` where an earlier attempt did post it; None where it did not, or nobody may look."""
        channel, ts = thread.external_id.split(":", 1) if thread else (self._channel_id, None)
        if channel is None or self._is_blind:
            return None
        since = f"{notice.created_at.timestamp() - _CLOCKS_DIFFER:.6f}"
        look: dict[str, Any] = {
            "channel": channel, "oldest": since, "limit": _LOOK_BACK, "include_all_metadata": True
        }  # fmt: skip
        try:
            if ts is not None:
                answer = self._call("conversations_replies", ts=ts, **look)
            else:
                answer = self._call("conversations_history", **look)
        except NotifyError as error:
            if error.retryable:
                raise
            self._is_blind = error.reason == "missing_scope"
            log.warning("slack cannot be searched for notice=%s, it may be said twice: %s", notice.id, error)
            return None
        for message in answer.get("messages", ()):
            payload = (message.get("metadata") or {}).get("event_payload") or {}
            if payload.get("notice") == notice.id:
                return f"{channel}:{message['ts']}"
        return None

    def _attach(self, notice: Notice, posted: str) -> None:
        """Upload the notice's files to its thread, all or none, so that another attempt brings none of them twice.

        The thread is told of those that can never be uploaded: the words have arrived.
        """
        channel, ts = posted.split(":", 1)
        paths = [path for path in map(Path, notice.attachments) if path.is_file()]
        if not paths:
            return
        uploads = [{"file": str(path), "filename": path.name, "title": headline(notice)} for path in paths]
        try:
            self._call("files_upload_v2", channel=channel, thread_ts=ts, file_uploads=uploads)
        except NotifyError as error:
            if error.retryable:
                error.external_id = posted
                raise
            log.error("files cannot be uploaded to slack files=%s: %s", notice.attachments, error)
            places = ", ".join(map(str, paths))
            note = f"The report cannot be attached ({error.reason}): it lies on the host that sent this, {places}"
            self._post(notice, channel, ts, {"text": escape(note)})

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        return call(self._client, self._clock, method, **arguments)
