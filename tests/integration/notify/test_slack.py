"""Slack receivers against a stand-in that refuses what Slack refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.errors import NotifyError
from monitor.model.notice import NoticeKind
from monitor.notify.receiver import Root
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
        (Failure(200, "invalid_blocks"), "invalid_blocks", False, None),
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
