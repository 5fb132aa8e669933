"""A server process that prints the page of a busy vLLM to whoever asks, each time a little further. Run by `scrape.py`.

    python -m tests.bench.page_server PORT

Any path is a server of its own: its pages go on from where the last one stopped. `/hang…` never answers. `/counts` says
how many pages each client (by the first word of its User-Agent) has been sent.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path

_GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "exposition" / "vllm-0.32.0"
#: Two pages of a real vLLM 0.32.0 with a draft model (637 lines, 50 kB), taken under load.
_PAIR = "draft_model_k3_pair"
_HEAD = re.compile(rb"(GET) (\S+) HTTP/1\.1\r\n")
_AGENT = re.compile(rb"(?im)^user-agent: ([^/\s]+)")


class Pages:
    """Page number `n` is the first page of the pair with what happened in the pair added `n` times."""

    def __init__(self) -> None:
        before = (_GOLDEN / f"{_PAIR}.t0.prom").read_text().splitlines()
        after = (_GOLDEN / f"{_PAIR}.t1.prom").read_text().splitlines()
        assert len(before) == len(after)
        self._lines = [(one, *_growth(one, other)) for one, other in zip(before, after, strict=True)]
        self.page = lru_cache(maxsize=64)(self._page)

    def _page(self, number: int) -> bytes:
        lines = [f"{head}{start + number * step!r}" if step else line for line, head, start, step in self._lines]
        return ("\n".join(lines) + "\n").encode()


def _growth(one: str, other: str) -> tuple[str, float, float]:
    """What stands before the value of a line, its value, and what is added from page to page (gauges swing)."""
    if one == other or one.startswith("#"):
        return "", 0.0, 0.0
    head, _, value = one.rpartition(" ")
    return f"{head} ", float(value), float(other.rpartition(" ")[2]) - float(value)


class Server:
    """Keep-alive HTTP, as little as a scraper needs."""

    def __init__(self) -> None:
        self._pages = Pages()
        self._next: Counter[bytes] = Counter()
        self._sent: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                if b" /hang" in request[:12]:
                    continue
                writer.write(self._answer(request))
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    def _answer(self, request: bytes) -> bytes:
        found = _HEAD.match(request)
        assert found is not None, request
        path = found[2]
        if path == b"/counts":
            return _http(b"application/json", json.dumps(self._sent).encode())
        agent = _AGENT.search(request)
        self._sent[agent[1].decode() if agent else "?"] += 1
        self._next[path] += 1
        return _http(b"text/plain; version=0.0.4; charset=utf-8", self._pages.page(self._next[path]))


def _http(kind: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)


async def main(port: int) -> None:
    server = await asyncio.start_server(Server().serve, "127.0.0.1", port, limit=1 << 20, backlog=512)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
