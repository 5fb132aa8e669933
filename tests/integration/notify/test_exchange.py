"""Receivers that answer without end, hosts with a `.netrc`, and hosts behind a proxy."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import requests

from monitor.clock import SystemClock
from monitor.config.model import Config
from monitor.doctor.finding import State
from monitor.doctor.receivers import check_receivers
from monitor.errors import NotifyError
from monitor.notify import exchange
from monitor.notify.alertmanager import Alertmanagers
from monitor.notify.deadman import DeadMansSwitch
from monitor.notify.exchange import ANSWER_LIMIT, ask
from monitor.notify.slack_bot import SlackBot
from monitor.notify.slack_webhook import SlackWebhook
from monitor.notify.webhook import SignedWebhook
from tests.fakes.certificates import make_certificates
from tests.fakes.fake_clock import FakeClock
from tests.integration.notify.collector import Collector
from tests.integration.notify.test_alertmanager import Counted, firing
from tests.unit.notify.test_blocks import notice

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
#: Longer than any of these tests may take (seconds); what never ends would take for ever.
PATIENCE = 60.0


@contextmanager
def speaking(first: bytes, then: bytes, pause: float) -> Iterator[str]:
    """A server that says `first`, and then `then` again and again, until it is hung up on."""
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(first)
            while not over.wait(pause):
                connection.sendall(then)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)


ENDLESS = (HEAD + b"\r\n", b"x" * 65536, 0.0)
CHUNKED = (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + b"x" * 0x8000 + b"\r\n", 0.0)
DRIPPING = (HEAD + b"\r\n", b"x", 0.05)
DRIPPING_HEAD = (HEAD, b"x", 0.05)
DRIPPING_STATUS = (b"HTTP/1.1 200", b" ", 0.05)


@pytest.mark.parametrize("server", [ENDLESS, CHUNKED])
def test_of_an_answer_without_end_its_beginning_is_read(server: tuple[bytes, bytes, float]) -> None:
    with speaking(*server) as url:
        reply = ask("GET", url, timeout_seconds=PATIENCE)
    assert (reply.status, len(reply.text)) == (200, ANSWER_LIMIT)


def test_an_answer_that_drips_counts_by_its_status() -> None:
    with speaking(*DRIPPING) as url:
        reply = ask("GET", url, timeout_seconds=0.5)
    assert (reply.status, reply.text) == (200, "")


def test_a_body_that_breaks_off_is_none() -> None:
    with speaking(HEAD + b"Content-Length: 2\r\n\r\no", b"", 0.05) as url:
        reply = ask("GET", url, timeout_seconds=0.5)
    assert (reply.status, reply.text) == (200, "")


@pytest.mark.parametrize("server", [DRIPPING_HEAD, DRIPPING_STATUS])
def test_a_head_that_drips_is_no_answer(server: tuple[bytes, bytes, float]) -> None:
    with speaking(*server) as url, pytest.raises(requests.ReadTimeout):
        ask("GET", url, timeout_seconds=0.5)


def test_the_deadline_holds_through_a_proxy_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with speaking(*DRIPPING_HEAD) as proxy, monkeypatch.context() as patched:
        behind_proxy(patched, proxy)
        with pytest.raises(requests.ReadTimeout):
            ask("GET", "http://receiver.invalid/", timeout_seconds=0.5)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ask.__kwdefaults__, "timeout_seconds", 0.5)


def told_webhook(url: str) -> None:
    SignedWebhook("pager", url, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", clock=FakeClock()).deliver(notice(), None)


def told_slack(url: str) -> None:
    SlackWebhook(url, clock=FakeClock()).deliver(notice(), None)


def alertmanagers(url: str, counted: Counted, **more: object) -> Alertmanagers:
    return Alertmanagers(
        (url,), clock=SystemClock(), counters=counted, wants=lambda labels: True, interval_seconds=60.0, page_url="",
        **more,  # type: ignore[arg-type]
    )


def shown(url: str, **more: object) -> list[str]:
    counted = Counted()
    shows = alertmanagers(url, counted, **more)
    now = SystemClock().now()
    shows.start()
    shows.show([firing("a", now=now)], (), now)
    shows.stop()
    return counted.outcomes


@pytest.mark.parametrize("server", [ENDLESS, CHUNKED, DRIPPING])
def test_no_receiver_is_held_by_an_answer_without_end(
    hurried: None, caplog: pytest.LogCaptureFixture, server: tuple[bytes, bytes, float]
) -> None:
    with speaking(*server) as url:
        told_webhook(url)
        assert shown(url) == ["alertmanager sent"]
        switch = DeadMansSwitch(url, FakeClock())
        switch.alive()
        switch.wait(PATIENCE)
        assert "dead man's switch" not in caplog.text
        with pytest.raises(NotifyError) as error:
            told_slack(url)
        assert (error.value.reason, error.value.retryable) == ("not_slack", True)


@pytest.mark.parametrize("server", [ENDLESS, CHUNKED, DRIPPING, DRIPPING_HEAD, DRIPPING_STATUS])
def test_a_slack_bot_is_held_by_nothing_either(
    monkeypatch: pytest.MonkeyPatch, server: tuple[bytes, bytes, float]
) -> None:
    monkeypatch.setattr("monitor.notify.slack_client._TIMEOUT_SECONDS", 1)
    with speaking(*server) as url:
        bot = SlackBot("xoxb-sec-ret", "#llm", api_url=f"{url}api", clock=SystemClock())
        with pytest.raises(NotifyError) as error:
            bot.deliver(notice(), None)
    assert error.value.retryable and error.value.reason in ("no_answer", "not_slack")


def test_a_head_that_drips_is_tried_again_by_every_receiver(hurried: None, caplog: pytest.LogCaptureFixture) -> None:
    with speaking(*DRIPPING_HEAD) as url:
        for tell in (told_webhook, told_slack):
            with pytest.raises(NotifyError) as error:
                tell(url)
            assert (error.value.reason, error.value.retryable) == ("no_answer", True)
        assert set(shown(url)) == {"alertmanager no_answer"}
        switch = DeadMansSwitch(url, FakeClock())
        switch.alive()
        switch.wait(PATIENCE)
        assert "dead man's switch cannot be reached: ReadTimeout" in caplog.text


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\ndefault login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def asks_switch(url: str) -> None:
    switch = DeadMansSwitch(url, FakeClock())
    switch.alive()
    switch.wait(PATIENCE)


@pytest.mark.parametrize("tell", [told_webhook, asks_switch, shown, told_slack])
def test_no_receiver_is_shown_a_netrc(netrc: None, tell: Callable[[str], object]) -> None:
    with Collector() as collector:
        with suppress(NotifyError):
            tell(collector.url)
    assert collector.posts and all("Authorization" not in headers for _, headers, _ in collector.posts)


def test_a_netrc_takes_the_place_of_no_credentials(netrc: None) -> None:
    with Collector() as collector:
        shown(collector.url, headers={"Authorization": "Bearer s3cret"})
        shown(collector.url, auth=("op", "gehäim"))
        ask("GET", collector.url.replace("//", "//op:pw@"))
        config = Config.model_validate({"alertmanager": {"urls": [collector.url], "bearer_token": "s3cret"}})
        states = [one.state for one in check_receivers(config, SystemClock()) if "Alertmanager" in one.subject]
    assert states == [State.OK]
    found = [headers["Authorization"] for _, headers, _ in collector.posts]
    assert found == ["Bearer s3cret", "Basic b3A6Z2Vow6RpbQ==", "Basic b3A6cHc=", "Bearer s3cret"]


def behind_proxy(monkeypatch: pytest.MonkeyPatch, proxy: str, none_for: str = "") -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", none_for)


def test_the_proxy_of_the_environment_is_used_except_where_it_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as proxy, Collector() as near:
        behind_proxy(monkeypatch, proxy.url, "127.0.0.1")
        told_webhook("http://receiver.invalid/in")
        told_webhook(near.url)
    assert [path for path, _, _ in proxy.posts] == ["http://receiver.invalid/in"]
    assert len(near.posts) == 1


def test_a_configured_ca_goes_before_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command")
    made = make_certificates(tmp_path)
    with Collector() as collector:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.cert("server"), made.key("server"))
        collector._server.socket = context.wrap_socket(collector._server.socket, server_side=True)
        url = collector.url.replace("http:", "https:")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "nowhere.pem"))
        assert ask("GET", url, ca_file=str(made.ca)).status == 200
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(made.ca))
        assert ask("GET", url).status == 200


def test_without_a_thread_for_its_deadline_nothing_is_sent_and_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Collector() as collector:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Timer, "start", full)
            with pytest.raises(exchange.NO_ANSWER):
                ask("GET", collector.url)
        assert collector.posts == []
