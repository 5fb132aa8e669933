"""What `acceptd read URL` has of a server: two pages, what it tells of itself, what its process on this host says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from urllib.parse import urlsplit

from monitor.cli.output import errors
from monitor.clock import SystemClock
from monitor.dialects.llamacpp import START_HEADER
from monitor.errors import MonitorError, ScrapeError
from monitor.intervals.pages import PageInput
from monitor.launch.redact import redact_text
from monitor.model.life import Said
from monitor.model.server import Engine
from monitor.scrape.client import ACCEPT_PAGE, Answer, Credentials, ServerClient
from monitor.scrape.probe import ServerProbe
from monitor.targets.local import server_behind
from monitor.targets.told import Told, ask_server
from monitor.watchdog import Watchdog

_FETCH_SECONDS = 10.0
_LARGEST_PAGE = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Fetched:
    """Pages of one server with the seconds between them and their unix times; `lost` is why a second one is missing."""

    pages: list[PageInput] = field(default_factory=list)
    elapsed: list[float] = field(default_factory=list)
    scraped_at: list[float] = field(default_factory=list)
    lost: str | None = None


class Asking:
    """One server, asked with these credentials until the block ends."""

    def __init__(self, client: ServerClient, url: str, clock: SystemClock) -> None:
        self._client, self._page, self._clock = client, page_of(url), clock

    def fetch(self, between: float) -> Fetched:
        """One page, or two `between` seconds apart. Raises MonitorError where not even the first can be had."""
        pages: list[PageInput] = []
        moments: list[float] = []
        stamps: list[float] = []
        lost = None
        try:
            for index in range(2 if between > 0 else 1):
                if index:
                    errors.print(f"waiting {between:g} s for a second page …", style="dim")
                    self._clock.sleep(between)
                answer = self._ask()
                mark = answer.headers.get(START_HEADER)
                pages.append(PageInput(answer.body, answer.content_type, answer.status, mark))
                moments.append(self._clock.monotonic())
                stamps.append(self._clock.now().timestamp())
                if answer.status != 200:
                    break
        except ScrapeError as error:
            if not pages:
                raise MonitorError(str(error)) from error
            lost = str(error)
        return Fetched(pages, [later - earlier for earlier, later in pairwise(moments)], stamps, lost)

    def _ask(self) -> Answer:
        """The page. A path that is not there may be the base of a server behind a gateway: /metrics is below it."""
        answer = self._client.get(self._page, deadline_seconds=_FETCH_SECONDS, accept=ACCEPT_PAGE)
        if answer.status != 404 or "?" in self._page or "/metrics" in urlsplit(self._page).path:
            return answer
        below = f"{self._page.rstrip('/')}/metrics"
        found = self._client.get(below, deadline_seconds=_FETCH_SECONDS, accept=ACCEPT_PAGE)
        if found.status != 200:
            return answer
        self._page = below
        return found

    def told(self, engine: Engine) -> Told:
        """What the server tells of itself."""
        return ask_server(engine, ServerProbe(self._client, base_of(self._page)).document)

    def local(self) -> Said | None:
        """What its process says, where it runs on this host and may be looked at."""
        try:
            found = server_behind(base_of(self._page))
        except OSError:
            return None
        return found.said if found is not None else None


@contextmanager
def asking(url: str, known: Credentials) -> Iterator[Asking]:
    """Ask the server at `url`, with what it wants to be shown."""
    clock = SystemClock()
    dog = Watchdog(clock)
    dog.start()
    client = ServerClient(dog, known, size_limit=_LARGEST_PAGE)
    try:
        yield Asking(client, url, clock)
    finally:
        client.close()
        dog.stop()


def page_of(url: str) -> str:
    """The metrics URL: one with a path or a query is taken as it is, a server's own is completed with /metrics."""
    parts = urlsplit(url)
    return url if parts.path.strip("/") or parts.query else f"{parts.scheme}://{parts.netloc}/metrics"


def base_of(url: str) -> str:
    """Where the server's other answers are: what stands before /metrics, or before the page's own name."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    before = path.partition("/metrics")[0] if "/metrics" in path else path.rpartition("/")[0]
    return f"{parts.scheme}://{parts.netloc}{before}"


def shown(url: str) -> str:
    """The URL without a password in it."""
    return redact_text(url)
