"""Basic auth, bearer tokens and mutual TLS on real servers, with credentials as the configuration gives them."""

from __future__ import annotations

import base64
import os
import shutil
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import SystemClock
from monitor.config.fleet import credentials
from monitor.config.servers import ServerConfig
from monitor.errors import ScrapeError, Unreachable
from monitor.scrape.client import Answer, ServerClient
from monitor.watchdog import Watchdog
from tests.fakes.certificates import Certificates, make_certificates

PAGE = b"vllm:num_requests_running 1\n"


@contextmanager
def guarded(expected: str | None, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str | None]]]:
    """A server that answers with its page to whoever shows `expected`, else 401; and what it was shown."""
    shown: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("Authorization"))
            welcome = expected is None or shown[-1] == expected
            self.send_response(200 if welcome else 401)
            self.send_header("Content-Length", str(len(PAGE) if welcome else 0))
            self.end_headers()
            self.wfile.write(PAGE if welcome else b"")

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def finish_request(self, request: Any, client_address: Any) -> None:
            if tls is not None:
                try:
                    request.do_handshake()
                except OSError:
                    return  # the client did not like us, or has no certificate
            super().finish_request(request, client_address)

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls is not None else 'http'}://127.0.0.1:{server.server_port}", shown
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(url: str, **config: object) -> Answer:
    """One scrape of `url` by a server of that configuration."""
    known = credentials(ServerConfig.model_validate({"name": "s", "url": url, **config}))
    dog = Watchdog(SystemClock())
    dog.start()
    client = ServerClient(dog, known, size_limit=10_000)
    try:
        return client.get(f"{url}/metrics", deadline_seconds=20.0)
    finally:
        client.close()
        dog.stop()


BASIC = "Basic " + base64.b64encode("öp:s3cret:ü".encode()).decode()


@pytest.mark.parametrize(
    ("expected", "auth"),
    [
        ("Bearer s3cret", {"bearer_token": "s3cret"}),
        (BASIC, {"username": "öp", "password": "s3cret:ü"}),
        ("Basic " + base64.b64encode(b"op:").decode(), {"username": "op"}),
    ],
)
def test_credentials_are_shown_as_the_server_wants_them(expected: str, auth: dict[str, str]) -> None:
    with guarded(expected) as (url, shown):
        assert ask(url, auth=auth).body == PAGE
        assert ask(url).status == 401
        assert shown == [expected, None]


@pytest.mark.parametrize(
    "auth", [{"bearer_token": "s3cret\nX: y"}, {"bearer_token": "s3cret€"}, {"username": "op", "password": "s3cret\n€"}]
)
def test_credentials_that_no_header_takes_are_not_in_the_message(auth: dict[str, str]) -> None:
    with guarded("Bearer x") as (url, _):
        try:
            said = str(ask(url, auth=auth).status)
        except ScrapeError as error:
            said = str(error)
        assert said == "401" or "no header takes" in said


def test_secrets_may_lie_in_files(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    with guarded("Bearer s3cret") as (url, _):
        assert ask(url, auth={"bearer_token_file": str(tmp_path / "token")}).status == 200


@pytest.mark.parametrize("auth", [{"bearer_token": "wrong"}, {"username": "op", "password": "wrong"}])
def test_wrong_credentials_are_an_answer(auth: dict[str, str]) -> None:
    with guarded("Bearer s3cret") as (url, _):
        assert ask(url, auth=auth).status == 401


def test_a_netrc_of_the_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login op password s3cret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with guarded(None) as (url, shown):
        assert ask(url).status == 200
        assert shown == [None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        if os.environ.get("CI"):
            pytest.fail("no openssl command")
        pytest.skip("no openssl command")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def mutual(made: Certificates) -> ssl.SSLContext:
    """A server's TLS that wants a certificate of the CA from its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert("server"), made.key("server"))
    context.load_verify_locations(made.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_mutual_tls(made: Certificates, mutual: ssl.SSLContext) -> None:
    tls = {"ca_file": str(made.ca), "cert_file": str(made.cert("client")), "key_file": str(made.key("client"))}
    with guarded("Bearer s3cret", mutual) as (url, _):
        assert ask(url, tls=tls, auth={"bearer_token": "s3cret"}).body == PAGE


def test_a_client_without_a_certificate_is_turned_away(made: Certificates, mutual: ssl.SSLContext) -> None:
    with guarded(None, mutual) as (url, shown):
        with pytest.raises(Unreachable, match=r"TLS failed|broke off|reset|closed"):
            ask(url, tls={"ca_file": str(made.ca)})
        assert shown == []


def test_a_server_whose_certificate_nobody_vouches_for_sees_no_credentials(
    made: Certificates, mutual: ssl.SSLContext
) -> None:
    mutual.verify_mode = ssl.CERT_NONE
    with guarded(None, mutual) as (url, shown):
        with pytest.raises(Unreachable, match=f"{url}/metrics: TLS failed .*certificate"):
            ask(url, auth={"bearer_token": "s3cret"})
        assert shown == []
        assert ask(url, tls={"insecure_skip_verify": True}).body == PAGE


def test_a_certificate_for_another_name_is_not_taken(made: Certificates, mutual: ssl.SSLContext) -> None:
    mutual.verify_mode = ssl.CERT_NONE
    with guarded(None, mutual) as (url, shown):
        with pytest.raises(Unreachable, match="TLS failed"):
            ask(url.replace("127.0.0.1", "localhost"), tls={"ca_file": str(made.ca)})
        assert shown == []
