"""Slack receivers against a stand-in that refuses what Slack refuses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.errors import NotifyError
from monitor.model.notice import Notice, NoticeId, NoticeKind
from monitor.notify.outbox import UNCLEAR
from monitor.notify.receiver import Attempt, Root
from monitor.notify.slack_bot import SlackBot
from monitor.notify.slack_errors import retry_after
from monitor.notify.slack_webhook import SlackWebhook
from tests.fakes.slack_server import CHANNEL, CHANNEL_NAME, TOKEN, Failure, SlackServer
from tests.unit.notify.test_blocks import notice


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server


def bot(slack: SlackServer, *, token: str = TOKEN, channel: str = CHANNEL_NAME) -> SlackBot:
    return SlackBot(token, channel, api_url=slack.api_url, clock=SystemClock())


def test_a_resolved_alert_edits_its_first_message_and_adds_to_the_thread(slack: SlackServer) -> None:
    receiver = bot(slack)
    firing = notice()
    external_id = receiver.deliver(firing, None)
    assert external_id == f"{CHANNEL}:{slack.messages[0].ts}"
    resolved = replace(firing, kind=NoticeKind.ALERT_RESOLVED, edits_root=True)
    receiver.deliver(resolved, Root(external_id))
    assert [m.thread_ts for m in slack.messages] == [None, slack.messages[0].ts]
    assert "Resolved: Server chat-1 is down" in slack.messages[0].text
    assert slack.messages[0].edits


def test_an_end_closes_every_post_that_says_that_it_fires(slack: SlackServer) -> None:
    receiver = bot(slack)
    posts = [receiver.deliver(notice(id=NoticeId(name)), None) for name in ("first", "more", "repeat")]
    first, *_ = names = [str(post) for post in posts]
    # Somebody deleted one of them, which is no reason to leave the others.
    del slack.messages[1]
    receiver.deliver(notice(kind=NoticeKind.ALERT_RESOLVED, edits_root=True), Root(first, tuple(names)))
    assert [(m.thread_ts is None, "Resolved" in m.text) for m in slack.messages] == [
        (True, True), (True, True), (False, True)
    ]  # fmt: skip
    assert slack.messages[2].thread_ts == first.split(":")[1]


def test_no_more_posts_are_edited_at_once_than_slack_allows_in_a_minute(slack: SlackServer) -> None:
    receiver = bot(slack)
    names = tuple(str(receiver.deliver(notice(id=NoticeId(str(number))), None)) for number in range(60))
    receiver.deliver(notice(kind=NoticeKind.ALERT_RESOLVED, edits_root=True), Root(names[0], names))
    assert [method for method, _ in slack.requests].count("chat.update") == 20
    assert "Resolved" in slack.messages[59].text


def test_a_repeat_is_a_new_post_since_an_edit_notifies_nobody(slack: SlackServer) -> None:
    receiver = bot(slack)
    external_id = receiver.deliver(notice(), None)
    assert external_id
    receiver.deliver(notice(kind=NoticeKind.ALERT_REPEAT), Root(external_id))
    assert [m.thread_ts for m in slack.messages] == [None, None]


def test_rollout_progress_goes_to_the_thread(slack: SlackServer) -> None:
    receiver = bot(slack)
    external_id = receiver.deliver(notice(kind=NoticeKind.RECOMMENDATION), None)
    assert external_id
    receiver.deliver(notice(kind=NoticeKind.ROLLOUT, in_thread=True), Root(external_id))
    assert slack.messages[1].thread_ts == slack.messages[0].ts


def test_the_report_is_attached(slack: SlackServer, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("<p>7 days</p>")
    bot(slack).deliver(notice(kind=NoticeKind.REPORT, attachments=(str(report),)), None)
    assert slack.files == [("report.html", b"<p>7 days</p>")]


@pytest.mark.parametrize(
    ("failure", "reason", "retryable", "wait"),
    [
        (Failure(429, "ratelimited", {"Retry-After": "30"}), "rate_limited", True, 30.0),
        (Failure(429, "ratelimited", {"Retry-After": "1.5"}), "rate_limited", True, 1.5),
        (Failure(500, "internal_error"), "server_error", True, None),
        (Failure(503, ""), "server_error", True, None),
        (Failure(200, "token_revoked"), "token_revoked", False, None),
        (Failure(200, "channel_not_found"), "channel_not_found", False, None),
        (Failure(200, "is_archived"), "is_archived", False, None),
        (Failure(200, "msg_too_long"), "msg_too_long", False, None),
    ],
)
def test_each_error_of_slack_is_retried_or_not(
    slack: SlackServer, failure: Failure, reason: str, retryable: bool, wait: float | None
) -> None:
    slack.fail_next(failure)
    with pytest.raises(NotifyError) as error:
        bot(slack).deliver(notice(), None)
    assert (error.value.reason, error.value.retryable, error.value.retry_after_seconds) == (reason, retryable, wait)
    assert len(slack.requests) == 1


def test_a_page_whose_form_slack_refuses_arrives_as_text(slack: SlackServer, caplog: pytest.LogCaptureFixture) -> None:
    receiver = bot(slack)
    slack.fail_next(Failure(200, "invalid_blocks"))
    external_id = receiver.deliver(notice(), None)
    assert external_id
    slack.fail_next(Failure(200, "invalid_blocks_format"))
    receiver.deliver(notice(kind=NoticeKind.ALERT_RESOLVED, edits_root=True), Root(external_id))
    assert [(m.text.splitlines()[0], m.blocks) for m in slack.messages] == [("Resolved: Server chat-1 is down", [])] * 2
    assert "its text is sent alone" in caplog.text
    slack.fail_next(Failure(400, "invalid_blocks"))
    SlackWebhook(slack.webhook_url, clock=SystemClock()).deliver(notice(), None)
    assert (slack.messages[-1].text, slack.messages[-1].blocks) == (
        "Server chat-1 is down\nNo answer for 2 minutes.", []
    )  # fmt: skip


def test_no_text_of_an_edit_is_read_as_if_a_person_had_typed_it(slack: SlackServer) -> None:
    receiver = bot(slack)
    external_id = receiver.deliver(notice(), None)
    assert external_id
    receiver.deliver(notice(kind=NoticeKind.ALERT_RESOLVED, edits_root=True, text="ask @channel"), Root(external_id))
    assert [arguments["parse"] for method, arguments in slack.requests if method == "chat.update"] == ["none"]


def test_no_error_text_carries_the_token(slack: SlackServer) -> None:
    with SlackServer() as gone:
        receiver = SlackBot("xoxb-sec-ret", CHANNEL_NAME, api_url=gone.api_url, clock=SystemClock())
        with pytest.raises(NotifyError) as refused:
            receiver.deliver(notice(), None)
    with pytest.raises(NotifyError) as unreachable:
        receiver.deliver(notice(), None)
    assert refused.value.reason == "invalid_auth"
    assert unreachable.value.retryable
    for error in (refused.value, unreachable.value):
        assert "xoxb" not in repr(error)
        assert error.__cause__ is None


def test_a_webhook_posts_and_says_that_it_cannot_edit(slack: SlackServer) -> None:
    receiver = SlackWebhook(slack.webhook_url, clock=SystemClock())
    assert receiver.deliver(notice(), None) is None
    receiver.deliver(notice(kind=NoticeKind.ALERT_RESOLVED, edits_root=True), None)
    assert "cannot edit" in slack.messages[1].whole()
    receiver.deliver(notice(kind=NoticeKind.REPORT, attachments=("/var/lib/acceptd/reports/a.html",)), None)
    assert "on the host that sent this, /var/lib/acceptd/reports/a.html" in slack.messages[2].whole()


@pytest.mark.parametrize(
    ("failure", "reason", "retryable"),
    [
        (Failure(404, "no_service"), "no_service", False),
        (Failure(403, "invalid_token"), "invalid_token", False),
        (Failure(302, "", {"Location": "http://127.0.0.1:1/"}), "redirected", False),
        (Failure(429, "rate_limited", {"Retry-After": "2"}), "rate_limited", True),
        (Failure(500, "<html>"), "server_error", True),
    ],
)
def test_each_answer_of_a_webhook(slack: SlackServer, failure: Failure, reason: str, retryable: bool) -> None:
    slack.fail_next(failure)
    with pytest.raises(NotifyError) as error:
        SlackWebhook(slack.webhook_url, clock=SystemClock()).deliver(notice(), None)
    assert (error.value.reason, error.value.retryable) == (reason, retryable)
    assert "secretpart" not in repr(error.value)


def test_retry_after_may_be_a_date() -> None:
    now = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    assert retry_after("Mon, 02 Mar 2026 09:00:30 GMT", now) == 30.0
    assert retry_after("nonsense", now) is None


class Stranger:
    """Another host, that takes whatever comes and says so in Slack's words."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []
        stranger = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stranger.seen.append(dict(self.headers))
                body = b'{"ok": true, "channel": "C0STRANGER", "ts": "1.1"}'
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_gets_neither_the_token_nor_the_message(slack: SlackServer, status: int) -> None:
    stranger = Stranger()
    try:
        slack.fail_next(Failure(status, "", {"Location": stranger.url}))
        with pytest.raises(NotifyError) as error:
            bot(slack).deliver(notice(), None)
        assert (error.value.reason, error.value.retryable) == ("redirected", False)
        assert stranger.seen == []
    finally:
        stranger.close()


def test_a_page_of_a_portal_on_the_way_does_not_count_as_delivered_and_is_tried_again(slack: SlackServer) -> None:
    """Webhooks answer in plain text, so the stand-in's webhook is such a page to the bot."""
    receiver = SlackBot(TOKEN, CHANNEL_NAME, api_url=slack.webhook_url + "/api", clock=SystemClock())
    slack.fail_next(Failure(200, "<html>Sign in to the network</html>"))
    with pytest.raises(NotifyError) as error:
        receiver.deliver(notice(), None)
    assert (error.value.reason, error.value.retryable) == ("not_slack", True)
    assert "Sign in" not in str(error.value)


#: JSON that is no object.
BARE = (b"12", b"0", b"[1]", b'"ok"', b"true", b"null")


@pytest.mark.parametrize(
    "said",
    [
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 900\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=none\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"[" * 50_000,
        *(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(one), one) for one in BARE),
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n12",
    ],
    ids=["no HTTP", "breaks off", "long header", "error breaks off", "no such charset", "nested without end",
         *(f"bare {one.decode()}" for one in BARE), "an error with a bare number"],
)
def test_an_answer_that_is_none_is_tried_again_for_as_long_as_it_takes(said: bytes) -> None:
    """Not as a fault of ours, after which a message is given up: networks break in the middle of answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(said)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        receiver = SlackBot(
            TOKEN, CHANNEL, api_url=f"http://127.0.0.1:{listener.getsockname()[1]}/api", clock=SystemClock()
        )
        with pytest.raises(NotifyError) as error:
            receiver.deliver(notice(), None)
        thread.join()
    assert error.value.retryable and error.value.reason in ("no_answer", "not_slack", "server_error")
    assert TOKEN not in str(error.value)


class TestWhatIsGone:
    def test_an_edit_of_a_message_that_somebody_deleted_is_a_new_post(self, slack: SlackServer) -> None:
        receiver = bot(slack)
        external_id = receiver.deliver(notice(), None)
        assert external_id
        slack.messages.clear()
        receiver.deliver(notice(kind=NoticeKind.ALERT_RESOLVED, edits_root=True), Root(external_id))
        assert [(m.thread_ts, "Resolved" in m.text) for m in slack.messages] == [(None, True)]

    def test_a_reply_in_a_thread_that_is_gone_is_a_new_post(self, slack: SlackServer) -> None:
        receiver = bot(slack)
        external_id = receiver.deliver(notice(kind=NoticeKind.RECOMMENDATION), None)
        assert external_id
        slack.messages.clear()
        receiver.deliver(notice(kind=NoticeKind.ROLLOUT, in_thread=True), Root(external_id))
        assert [m.thread_ts for m in slack.messages] == [None]

    def test_a_message_that_may_be_edited_no_longer_is_said_anew(self, slack: SlackServer) -> None:
        receiver = bot(slack)
        external_id = receiver.deliver(notice(), None)
        assert external_id
        slack.fail_next(Failure(200, "edit_window_closed"))
        receiver.deliver(notice(kind=NoticeKind.ALERT_RESOLVED, edits_root=True), Root(external_id))
        assert [m.thread_ts for m in slack.messages] == [None, None]

    def test_an_incident_whose_channel_was_deleted_goes_on_in_the_one_that_is_configured_now(
        self, slack: SlackServer
    ) -> None:
        slack.channels["C0NEWPLACE"] = "#new-oncall"
        external_id = bot(slack).deliver(notice(), None)
        assert external_id
        del slack.channels[CHANNEL]
        receiver = bot(slack, channel="#new-oncall")
        receiver.deliver(notice(id=NoticeId("repeat"), kind=NoticeKind.ALERT_REPEAT), Root(external_id))
        over = notice(id=NoticeId("over"), kind=NoticeKind.ALERT_RESOLVED, edits_root=True)
        receiver.deliver(over, Root(external_id))
        assert [(m.channel, m.thread_ts) for m in slack.messages[1:]] == [("C0NEWPLACE", None)] * 2

    def test_a_channel_that_was_deleted_is_no_reason_to_post_elsewhere(self, slack: SlackServer) -> None:
        receiver = bot(slack)
        external_id = receiver.deliver(notice(), None)
        assert external_id
        slack.channels.clear()
        with pytest.raises(NotifyError) as error:
            receiver.deliver(notice(kind=NoticeKind.ALERT_RESOLVED, edits_root=True), Root(external_id))
        assert (error.value.reason, error.value.retryable) == ("channel_not_found", False)


class TestAnswersThatWereLost:
    #: The message is taken and the answer never comes, or says that Slack failed.
    LOST = (Failure(hangs_up=True, accepts=True), Failure(503, "", accepts=True))

    @pytest.mark.parametrize("lost", LOST)
    @pytest.mark.parametrize("channel", [CHANNEL, CHANNEL_NAME])
    def test_the_message_is_found_again_and_not_doubled(self, slack: SlackServer, lost: Failure, channel: str) -> None:
        receiver = bot(slack, channel=channel)
        receiver.deliver(notice(id=NoticeId("before")), None)
        slack.fail_next(lost)
        with pytest.raises(NotifyError) as error:
            receiver.deliver(notice(), None)
        assert error.value.reason in UNCLEAR
        assert receiver.deliver(notice(), None, Attempt(is_unclear=True)) == f"{CHANNEL}:{slack.messages[1].ts}"
        assert len(slack.messages) == 2

    def test_a_daemon_that_begins_anew_knows_by_a_stored_message_where_to_look(self, slack: SlackServer) -> None:
        """A channel that is configured by its name can be posted to, and searched only by an id."""
        before = bot(slack, channel=CHANNEL_NAME).deliver(notice(id=NoticeId("before")), None)
        assert before
        said = bot(slack, channel=CHANNEL_NAME).deliver(notice(), None)
        anew = bot(slack, channel=CHANNEL_NAME)
        assert anew.deliver(notice(), None, Attempt(is_unclear=True, neighbour=Root(before))) == said
        assert len(slack.messages) == 2

    def test_a_reply_is_looked_for_in_its_thread(self, slack: SlackServer) -> None:
        receiver = bot(slack)
        external_id = receiver.deliver(notice(id=NoticeId("root")), None)
        assert external_id
        said = notice(id=NoticeId("reply"), kind=NoticeKind.ALERT_RESOLVED, edits_root=True)
        slack.fail_next(Failure(method="chat.postMessage", hangs_up=True, accepts=True))
        with pytest.raises(NotifyError):
            receiver.deliver(said, Root(external_id))
        again = receiver.deliver(said, Root(external_id), Attempt(is_unclear=True))
        assert again == f"{CHANNEL}:{slack.messages[1].ts}"
        assert len(slack.messages) == 2

    def test_what_did_not_arrive_is_said(self, slack: SlackServer) -> None:
        receiver = bot(slack, channel=CHANNEL)
        receiver.deliver(notice(), None, Attempt(is_unclear=True))
        assert len(slack.messages) == 1

    def test_what_is_over_is_looked_for_and_not_said(self, slack: SlackServer) -> None:
        receiver = bot(slack, channel=CHANNEL)
        assert receiver.deliver(notice(), None, Attempt(is_unclear=True, is_over=True)) is None
        assert slack.messages == []
        known = receiver.deliver(notice(), None)
        assert receiver.deliver(notice(), None, Attempt(is_unclear=True, is_over=True)) == known

    def test_an_app_that_may_not_read_says_it_again_and_asks_once(
        self, slack: SlackServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        slack.scopes = frozenset({"chat:write"})
        receiver = bot(slack, channel=CHANNEL)
        for _ in range(2):
            receiver.deliver(notice(), None, Attempt(is_unclear=True))
        assert [m for m, _ in slack.requests].count("conversations.history") == 1
        assert "may be said twice" in caplog.text

    def test_it_does_not_guess_while_slack_asks_to_wait(self, slack: SlackServer) -> None:
        slack.fail_next(Failure(429, "ratelimited", {"Retry-After": "7"}))
        with pytest.raises(NotifyError) as error:
            bot(slack, channel=CHANNEL).deliver(notice(), None, Attempt(is_unclear=True))
        assert error.value.retry_after_seconds == 7.0
        assert slack.messages == []


class TestFiles:
    def report(self, folder: Path) -> Notice:
        path = folder / "report.html"
        path.write_text("<p>7 days</p>")
        return notice(kind=NoticeKind.REPORT, attachments=(str(path),))

    def test_one_that_fails_for_now_is_tried_again_without_its_message(
        self, slack: SlackServer, tmp_path: Path
    ) -> None:
        said, receiver = self.report(tmp_path), bot(slack)
        slack.fail_next(Failure(503, method="files.completeUploadExternal"))
        with pytest.raises(NotifyError) as error:
            receiver.deliver(said, None)
        assert error.value.retryable and error.value.external_id == f"{CHANNEL}:{slack.messages[0].ts}"
        receiver.deliver(said, None, Attempt(external_id=error.value.external_id))
        assert len(slack.messages) == 1
        assert [name for name, _ in slack.files] == ["report.html"]

    def test_of_several_none_is_there_twice_though_one_had_to_be_tried_again(
        self, slack: SlackServer, tmp_path: Path
    ) -> None:
        paths = [tmp_path / "report.png", tmp_path / "report.html"]
        for path in paths:
            path.write_text("x")
        said, receiver = notice(kind=NoticeKind.REPORT, attachments=tuple(map(str, paths))), bot(slack)
        slack.fail_next(Failure(503, method="files.completeUploadExternal"))
        with pytest.raises(NotifyError) as error:
            receiver.deliver(said, None)
        assert slack.files == []
        receiver.deliver(said, None, Attempt(external_id=error.value.external_id))
        # Both become visible by one call: there is no moment with one of them.
        assert [method for method, _ in slack.requests].count("files.completeUploadExternal") == 2
        assert [name for name, _ in slack.files] == ["report.png", "report.html"]

    def test_one_that_may_never_be_uploaded_is_said_in_the_thread(self, slack: SlackServer, tmp_path: Path) -> None:
        slack.scopes = frozenset({"chat:write"})
        external_id = bot(slack).deliver(self.report(tmp_path), None)
        first, second = slack.messages
        assert external_id == f"{CHANNEL}:{first.ts}"
        assert second.thread_ts == first.ts and "The report cannot be attached (missing_scope)" in second.text
        assert str(tmp_path / "report.html") in second.text

    def test_one_that_has_gone_keeps_no_message_back(self, slack: SlackServer, tmp_path: Path) -> None:
        bot(slack).deliver(notice(kind=NoticeKind.REPORT, attachments=(str(tmp_path / "gone.html"),)), None)
        assert len(slack.messages) == 1
