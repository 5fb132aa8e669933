"""Signed webhooks: the signature that the specification asks for, and what each answer means."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode
from collections.abc import Iterator

import pytest

from monitor.errors import NotifyError
from monitor.model.notice import NoticeKind
from monitor.notify.receiver import Attempt
from monitor.notify.webhook import SignedWebhook, signature, signing_key
from tests.fakes.fake_clock import FakeClock
from tests.integration.notify.collector import Collector
from tests.unit.notify.test_blocks import notice

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as found:
        yield found


def hook(collector: Collector, clock: FakeClock | None = None) -> SignedWebhook:
    return SignedWebhook("pager", f"{collector.url}/in/hunter2", SECRET, clock=clock or FakeClock())


def test_the_signature_is_that_of_the_published_example() -> None:
    """From the tests of the specification's reference libraries."""
    body = b'{"test": 2432232314}'
    made = signature(signing_key(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_receiver_can_check_what_it_got(collector: Collector) -> None:
    clock = FakeClock()
    hook(collector, clock).deliver(notice(), None)
    ((path, headers, body),) = collector.posts
    assert path == "/in/hunter2"
    stamp = headers["webhook-timestamp"]
    assert int(stamp) == int(clock.now().timestamp())
    signed = f"{headers['webhook-id']}.{stamp}.".encode() + body
    expected = hmac.new(b64decode(SECRET.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert hmac.compare_digest(b64decode(headers["webhook-signature"].removeprefix("v1,")), expected)
    (said,) = collector.documents()
    assert said["type"] == "acceptd.alert_firing"
    assert said["data"]["title"] == notice().title and said["data"]["severity"] == "page"
    assert said["data"]["labels"] == dict(notice().labels)


def test_a_second_attempt_has_the_same_id_and_a_signature_of_its_own(collector: Collector) -> None:
    clock = FakeClock()
    receiver = hook(collector, clock)
    collector.answers.append((503, {}))
    with pytest.raises(NotifyError):
        receiver.deliver(notice(), None)
    clock.advance(30)
    receiver.deliver(notice(), None, Attempt(is_unclear=True))
    (_, first, _), (_, second, _) = collector.posts
    assert first["webhook-id"] == second["webhook-id"] == notice().id
    assert first["webhook-signature"] != second["webhook-signature"]


def test_an_update_says_that_it_is_one(collector: Collector) -> None:
    hook(collector).deliver(notice(kind=NoticeKind.ALERT_RESOLVED, edits_root=True), None)
    assert collector.documents()[0]["data"]["is_update"] is True


@pytest.mark.parametrize(
    ("status", "headers", "reason", "retryable", "wait"),
    [
        (429, {"Retry-After": "12"}, "rate_limited", True, 12.0),
        (503, {"Retry-After": "3"}, "server_error", True, 3.0),
        (500, {}, "server_error", True, None),
        (408, {}, "server_error", True, None),
        (400, {}, "http_400", False, None),
        (401, {}, "http_401", False, None),
        (404, {}, "http_404", False, None),
        (410, {}, "http_410", False, None),
    ],
)
def test_what_each_answer_means(
    collector: Collector, status: int, headers: dict[str, str], reason: str, retryable: bool, wait: float | None
) -> None:
    collector.answers.append((status, headers))
    with pytest.raises(NotifyError) as error:
        hook(collector).deliver(notice(), None)
    found = error.value
    assert (found.reason, found.retryable, found.retry_after_seconds) == (reason, retryable, wait)
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(collector: Collector, status: int) -> None:
    with Collector() as stranger:
        collector.answers.append((status, {"Location": f"{stranger.url}/"}))
        with pytest.raises(NotifyError) as error:
            hook(collector).deliver(notice(), None)
        assert not error.value.retryable
        assert stranger.posts == []


def test_nobody_there_is_tried_again_and_the_address_stays_secret() -> None:
    with Collector() as gone:
        receiver = hook(gone)
    with pytest.raises(NotifyError) as error:
        receiver.deliver(notice(), None)
    assert (error.value.reason, error.value.retryable) == ("unreachable", True)
    assert "hunter2" not in repr(error.value) and error.value.__cause__ is None


@pytest.mark.parametrize("secret", ["short", "whsec_", "whsec_not base64!", "whsec_c2hvcnQ="])
def test_a_key_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match=r"base64|at least 16"):
        signing_key(secret)
