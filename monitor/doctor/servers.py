"""Each server: whether its page can be had and read, and what would keep acceptd from tuning it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime

from monitor.clock import Clock
from monitor.config.fleet import credentials
from monitor.config.load import metrics_url
from monitor.config.model import Config
from monitor.config.servers import ServerConfig
from monitor.dialects import Dialects
from monitor.doctor.finding import Area, Finding, Subject
from monitor.doctor.host import SKEW_SECONDS
from monitor.errors import ScrapeError
from monitor.launch import redact_url
from monitor.model.counts import SpeculationCounts
from monitor.model.reading import Reading, Verdict
from monitor.model.server import Engine, ServerName
from monitor.scrape.client import ACCEPT_PAGE, Answer, ServerClient
from monitor.targets.local import server_behind
from monitor.targets.told import ask_server
from monitor.watchdog import Watchdog

#: Drafts from which the lifetime's acceptance means something.
_ENOUGH_DRAFTS = 500.0
#: Acceptance below which the pair is suspected (docs/rules.md), and a position that hardly ever pays (both ratios).
_POOR, _WASTED = 0.30, 0.05
_ASK_SECONDS = 5.0
#: Found servers that are asked (count): one that hangs takes a scrape's whole time.
_MOST_FOUND = 50

#: What to do, by why no page was had, by the status that it came with, and by what was read from it.
_AFTER_ERROR = {
    "unreachable": "is it up, and are host and port right? curl {url}",
    "timeout": "look why its page is slow; `scrape.timeout` may be raised up to `scrape.interval`",
    "too_large": "look what fills its page; `scrape.size_limit` can be raised",
    "not_asked": "raise the limit of open files of this user",
}
_AFTER_STATUS = {
    401: "set `auth:` of the server (bearer_token_file)", 403: "set `auth:` of the server (bearer_token_file)",
    404: "the page is elsewhere: set `metrics_url` in full",
}  # fmt: skip
_AFTER_VERDICT = {
    Verdict.SCRAPE_ERROR: "curl -i {url}",
    Verdict.NO_ENGINE_METRICS: "is it a router's page, or was the server started with --disable-log-stats? Give the"
    " engine's own page as `metrics_url`",
    Verdict.NO_SAMPLES_YET: "send it a request",
    Verdict.INCONSISTENT_ENDPOINT: "several API processes share the port without a shared page: set"
    " PROMETHEUS_MULTIPROC_DIR for vLLM, or --api-server-count 1",
}


def check_servers(config: Config, watchdog: Watchdog, clock: Clock, *, found: int = 0) -> Iterator[Finding]:
    """Every configured server, asked now; the last `found` were found by sources, and of those only some are asked."""
    asked = config.servers[: len(config.servers) - max(0, found - _MOST_FOUND)]
    reached = {one.name for one in config.sources if one.prometheus is not None and one.prometheus.ask_servers}
    for one in asked:
        if one.through is not None and one.through not in reached:
            yield Subject(Area.SERVERS, one.name).ok(f"read through source {one.through}, not asked itself")
            continue
        client = ServerClient(watchdog, credentials(one), size_limit=config.scrape.size_limit)
        try:
            yield from _Visit(config, one, client, clock).findings()
        finally:
            client.close()
    if len(asked) < len(config.servers):
        yield Subject(Area.SERVERS, "others").note(
            f"{len(config.servers) - len(asked):,} more were found and not asked", "acceptd servers has what was read"
        )
    if not config.servers and not config.sources:
        yield Subject(Area.SERVERS, "none").note("no server is configured", "acceptd init finds those of this host")


class _Visit:
    """One server, looked at once."""

    def __init__(self, config: Config, one: ServerConfig, client: ServerClient, clock: Clock) -> None:
        self._timeout = config.scrape.timeout
        self._one = one
        self._client = client
        self._clock = clock
        self._url = metrics_url(one)
        self._shown = redact_url(self._url)
        self._of = Subject(Area.SERVERS, one.name)

    def findings(self) -> Iterator[Finding]:
        """What is found of it."""
        began = self._clock.monotonic()
        try:
            answer = self._client.get(self._url, deadline_seconds=self._timeout, accept=ACCEPT_PAGE)
        except ScrapeError as error:
            todo = _AFTER_ERROR.get(error.reason, "curl -i {url}")
            yield self._of.problem(str(error), todo.format(url=self._shown))
            return
        took = self._clock.monotonic() - began
        if took > 0.5 * self._timeout:
            yield self._of.problem(f"its page takes {took:.1f} s of the {self._timeout:g} s it may",
                                   "raise `scrape.interval` and `scrape.timeout`, and look why it is slow")
        yield from self._clocks(answer)
        version = self._version()
        reading = Dialects().reader(ServerName(self._one.name)).read(
            answer.body, scraped_at=self._clock.now(), monotonic=self._clock.monotonic(), status=answer.status,
            content_type=answer.content_type or None, version=version,
        )  # fmt: skip
        yield self._verdict(reading, answer.status, took)
        if reading.engines:
            yield from self._tuning(reading, version)

    def _version(self) -> str | None:
        def document(path: str) -> object:
            import json

            found = self._client.get(f"{self._one.url}{path}", deadline_seconds=_ASK_SECONDS)
            try:
                return json.loads(found.body) if found.status == 200 else None
            except ValueError:
                return None

        try:
            engine = self._one.engine if self._one.engine is not Engine.UNKNOWN else Engine.VLLM
            return ask_server(engine, document).version
        except ScrapeError:
            return None

    def _verdict(self, reading: Reading, status: int, took: float) -> Finding:
        said = f"{reading.dialect}: {reading.reason}" if reading.engines else reading.reason
        if reading.verdict is Verdict.OK:
            return self._of.ok(f"{said} (page in {took * 1000:.0f} ms)")
        if reading.verdict in (Verdict.NO_DRAFTS_YET, Verdict.STARTING):
            return self._of.note(said)
        if reading.verdict is Verdict.NOT_SPEC_DECODE:
            return self._of.note(said, "acceptd advise MODEL says whether speculation would pay")
        if status in _AFTER_STATUS:
            return self._of.problem(said, _AFTER_STATUS[status])
        todo = _AFTER_VERDICT.get(reading.verdict)
        return self._of.problem(said, todo.format(url=self._shown)) if todo else self._of.note(said)

    def _clocks(self, answer: Answer) -> Iterator[Finding]:
        skew = clock_skew(answer.headers.get("Date"), self._clock.now())
        if skew is not None and abs(skew) > SKEW_SECONDS:
            way = "ahead of" if skew > 0 else "behind"
            yield self._of.problem(f"its clock is {abs(skew):.0f} s {way} this host's",
                                   "run NTP on both: start times and restarts are told by them")

    def _tuning(self, reading: Reading, version: str | None) -> Iterator[Finding]:
        speculates = reading.verdict is not Verdict.NOT_SPEC_DECODE
        known = self._one.speculation is not None and self._one.speculation.method is not None
        if speculates and not known and self._one.driver is None and server_behind(self._one.url) is None:
            yield self._of.note("nothing here says which method it speculates with", "set `speculation.method`, or let"
                                " the daemon run as the server's user or root, so that it can read its command line")
        if self._one.driver is not None and version is None and self._one.driver.engine_version is None:
            yield self._of.problem("it does not say its version, so its flags cannot be written",
                                   "set `driver.engine_version`")
        for flag in sorted(reading.flags):
            yield self._of.note(f"its page is flagged {flag.value}", "docs/words.md says what that means")
        for engine in reading.engines:
            yield from self._counts(engine.counts.speculation)

    def _counts(self, counts: SpeculationCounts | None) -> Iterator[Finding]:
        if counts is None or not counts.num_drafts or counts.num_drafts < _ENOUGH_DRAFTS:
            return
        rate = (counts.num_accepted_tokens or 0.0) / counts.num_draft_tokens if counts.num_draft_tokens else None
        if rate is not None and rate < _POOR:
            yield self._of.note(
                f"{rate:.0%} of its draft tokens are accepted since it started: the draft guesses",
                "do target and draft share a tokenizer? `acceptd advise` knows fitting pairs; docs/runbooks/"
                "acceptance-low-from-start.md",
            )
        positions = counts.accepted_per_pos
        if positions and len(positions) > 1 and positions[-1] / counts.num_drafts < _WASTED:
            share = positions[-1] / counts.num_drafts
            yield self._of.note(
                f"the last of its {len(positions)} tokens is accepted in {share:.1%} of drafts: it looks too far ahead",
                "acceptd why GROUP says which number would pay",
            )


def clock_skew(date: str | None, now: datetime) -> float | None:
    """How far the clock behind an HTTP date (whole seconds) is ahead of `now` (seconds); None without a date."""
    if not date:
        return None
    try:
        return (parsedate_to_datetime(date) - now).total_seconds()
    except (ValueError, TypeError):
        return None
