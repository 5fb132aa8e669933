"""One daemon, every kind of bad neighbour at once: no good server suffers and nothing grows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from monitor.model.life import StartEvidence
from monitor.store import Store
from tests.faults.counted import CountedServer, answer, serving
from tests.faults.daemon import FaultyDaemon, check_whole, head_of, lives_of

#: Memory that a daemon with these twelve servers stays below (bytes); about 110 MB are its libraries.
MEMORY = 300 * 1024**2
OVER = threading.Event()


def hang(server: CountedServer, handler: BaseHTTPRequestHandler) -> None:
    OVER.wait(120.0)


def drip(server: CountedServer, handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then: a timeout per read never ends this."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b"#")
        handler.wfile.flush()
        if OVER.wait(0.05):
            return


def flood(server: CountedServer, handler: BaseHTTPRequestHandler) -> None:
    """A page without end."""
    handler.send_response(200)
    handler.end_headers()
    block = b"# nothing of use here\n" * 5000
    while not OVER.is_set():
        handler.wfile.write(block)


def reborn(server: CountedServer, handler: BaseHTTPRequestHandler) -> None:
    """Another process for every page."""
    answer(handler, server.page())
    server.restart()


def wide_page() -> str:
    """Ten thousand series of adapters and of names that nobody knows."""
    known = (
        f'vllm:lora_requests_info{{max_lora="4",running_lora_adapters="a{n}",waiting_lora_adapters=""}} {n}.0\n'
        for n in range(5000)
    )
    unknown = (f'vllm:made_up_{n}_total{{engine="0"}} {n}.0\n' for n in range(5000))
    return "".join((*known, *unknown))


def reason_of(store: Store, name: str) -> str:
    """Why the server's latest page could not be used."""
    with store.read() as unit:
        return next(one.reading.reason or "" for one in unit.readings.all() if one.reading.server == name)


def test_bad_servers_harm_no_good_one(watching: Callable[..., FaultyDaemon]) -> None:
    OVER.clear()
    good = [CountedServer(f"good-{number}") for number in range(6)]
    bad = {one: CountedServer(one.__name__) for one in (hang, drip, flood, reborn)}
    for behaviour, server in bad.items():
        server.answer = behaviour
    wide = CountedServer("wide")
    wide.more = wide_page()
    with serving(*good, *bad.values(), wide):
        daemon = watching(*good, *bad.values(), wide, limits={"RLIMIT_NOFILE": (40, 4096)})
        daemon.settings["scrape"] = {"interval": "250ms", "timeout": "250ms", "size_limit": "2MiB"}
        daemon.settings["rules"]["interval"] = "500ms"
        daemon.write()
        try:
            daemon.start()
            daemon.wait(lambda: all(len(one.asked) > 8 for one in good) or None, "the good ones are read on and on")
            daemon.wait(lambda: (len(wide.asked) > 5 and len(bad[reborn].asked) > 6) or None, "the odd ones as well")
            daemon.wait(lambda: len(bad[hang].asked) >= 2 or None, "one that hangs is given up and asked again")
            for server in good:
                server.restart()
            stopped = [len(one.asked) for one in good]
            daemon.suspend(1.2)
            daemon.wait(
                lambda: all(len(one.asked) > was + 4 for one, was in zip(good, stopped, strict=True)) or None,
                "the good ones are read after the pause",
            )
            daemon.cycles()
            assert daemon.metric("acceptd_scrapes_missed_total") > 0
            assert daemon.metric("acceptd_unexpected_errors_total") == 0
            assert daemon.memory_bytes() < MEMORY
            truth = {server.name: server.freeze() for server in (*good, wide)}
            with daemon.store() as store:
                daemon.wait(
                    lambda: all(head_of(store, one) == truth[one.name] for one in (*good, wide)) or None,
                    "what is stored is what they count",
                )
                for server in good:
                    check_whole(store, server, truth[server.name])
                    # The pause is in one interval each: nothing was doubled, and no restart seen where there was none.
                    assert len(lives_of(store, server)) == 2
                assert len(lives_of(store, wide)) == 1
                evidence = {life.evidence for life in lives_of(store, bad[reborn])[1:]}
                assert evidence == {StartEvidence.PROCESS_START}
                late, large = "no whole answer within 0.25 s", "more than 2097152 bytes"
                for name, reason in (("hang", late), ("drip", late), ("flood", large)):
                    # A busy machine may take too long for two megabytes now and then.
                    daemon.wait(lambda one=name, why=reason: why in reason_of(store, one) or None, reason)  # type: ignore[misc]
            assert "Traceback" not in daemon.said()
            # Five thousand names are reported as a few.
            assert len(max(daemon.said().splitlines(), key=len)) < 2000
        finally:
            OVER.set()
