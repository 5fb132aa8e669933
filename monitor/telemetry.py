"""acceptd's own metrics, and the counters that its parts call. Names live in `names.py`; parts see small protocols."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from monitor import __version__, names

#: Seconds; a page costs milliseconds of CPU and its deadline is seconds.
_SCRAPE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CYCLE_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
#: How cycles and changes end, and where errors may come from beside loops: counted from 0 on, as Prometheus takes the
#: first value that it sees of a series for its beginning and would miss the first of each.
_CYCLES = ("ok", "failed")
_CHANGES = ("promoted", "rolled_back", "abandoned")
_PLACES = ("scrape", "thread")
#: Signals of a server that have a gauge, with its name and meaning.
_SIGNALS = {
    "acceptance_rate": (names.ACCEPTANCE_RATE, "Accepted of draft tokens over 5 minutes."),
    "acceptance_length": (names.ACCEPTANCE_LENGTH, "Tokens a draft over 5 minutes, bonus token included."),
    "goodput": (names.GOODPUT, "Tokens a second for each running request."),
    "efficiency": (names.EFFICIENCY, "Tokens emitted of the most possible."),
    "running": (names.RUNNING, "Requests being served, mean of 5 minutes."),
    "waiting": (names.WAITING, "Requests queued, mean of 5 minutes."),
    "kv_usage": (names.KV_USAGE, "KV cache in use, mean of 5 minutes."),
    "time_to_first_token_seconds_p95": (
        names.FIRST_TOKEN_P95, "Time to first token, 95th percentile of 5 minutes."
    ),
    "time_per_output_token_seconds_p95": (
        names.OUTPUT_TOKEN_P95, "Time per output token, 95th percentile of 5 minutes."
    ),
    "num_speculative_tokens": (names.NUM_SPECULATIVE_TOKENS, "Configured draft tokens a step; 0 is off."),
    "generation_tokens_per_second": (names.GENERATION_THROUGHPUT, "Generated tokens a second over 5 minutes."),
    "step_seconds": (names.STEP_SECONDS, "Mean engine step over 5 minutes (s)."),
}  # fmt: skip
_COLUMNS = {signal: column for column, signal in enumerate(_SIGNALS)}


class _Signals(Collector):
    """Gauges of servers, a row of numbers for each: as a metric of its own every number takes 750 bytes."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], list[float | None]] = {}
        self._positions: dict[tuple[str, str], tuple[float | None, ...]] = {}

    def put(self, signal: str, server: str, group: str, value: float | None) -> None:
        """The value of one signal, or that there is none."""
        self._rows.setdefault((server, group), [None] * len(_SIGNALS))[_COLUMNS[signal]] = value

    def put_positions(self, server: str, group: str, rates: Sequence[float | None]) -> None:
        """Acceptance by position."""
        self._positions[server, group] = tuple(rates)

    def keep_only(self, servers: Collection[str]) -> None:
        """Forget all other servers."""
        for kept in (self._rows, self._positions):
            for key in [key for key in kept if key[0] not in servers]:
                del kept[key]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What the page shows; another thread may put meanwhile."""
        labels, rows = (names.SERVER, names.GROUP), list(self._rows.items())
        for column, (name, text) in enumerate(_SIGNALS.values()):
            family = GaugeMetricFamily(name, text, labels=labels)
            for key, row in rows:
                if (value := row[column]) is not None:
                    family.add_metric(key, value)
            yield family
        family = GaugeMetricFamily(
            names.POSITION_RATE, "Drafts accepted up to the position (1 is the first) over 5 minutes.",
            labels=(*labels, names.POSITION),
        )
        for key, rates in list(self._positions.items()):
            for position, rate in enumerate(rates, start=1):
                if rate is not None:
                    family.add_metric((*key, str(position)), rate)
        yield family


class Telemetry:
    """The registry behind `/metrics`, and one method for each thing worth counting."""

    def __init__(self) -> None:
        # A gauge beside every counter that nobody asked for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        r = self.registry
        ProcessCollector(registry=r)
        build = Gauge(names.BUILD_INFO, "Constant 1; the version is a label.", ["version"], registry=r)
        build.labels(__version__).set(1)
        self._scrapes = Counter(
            names.SCRAPES, "Pages fetched or tried, by verdict.", [names.SERVER, names.VERDICT], registry=r
        )
        self._scrape_seconds = Histogram(
            names.SCRAPE_SECONDS, "Time of one scrape until stored (seconds).", buckets=_SCRAPE_BUCKETS, registry=r
        )
        self._late = Counter(names.SCRAPES_LATE, "Scrapes that began over 1 s late.", [names.SERVER], registry=r)
        self._missed = Counter(names.SCRAPES_MISSED, "Scrapes whose time passed.", [names.SERVER], registry=r)
        self._overlapping = Counter(
            names.SCRAPES_OVERLAPPING, "Scrapes left out, as the last was under way.", [names.SERVER], registry=r
        )
        self._last_success = Gauge(
            names.LAST_SUCCESS, "Unix time of the last page with engine metrics.", [names.SERVER], registry=r
        )
        self._intervals = Counter(names.INTERVALS_STORED, "Intervals stored.", [names.SERVER], registry=r)
        self._unknown = Counter(
            names.UNKNOWN_SERIES, "Names of an engine's series that acceptd does not know, each counted once.",
            [names.SERVER], registry=r,
        )  # fmt: skip
        self._up = Gauge(names.SERVER_UP, "1 if the last page could be read.", [names.SERVER], registry=r)
        self._signals = _Signals()
        r.register(self._signals)
        objective = [names.SLO, names.GROUP, names.SERVER, names.MODEL]
        self._slo_good = Counter(names.SLO_GOOD, "Good events of an objective.", objective, registry=r)
        self._slo_valid = Counter(names.SLO_VALID, "Events that an objective counts.", objective, registry=r)
        self._slo_known = Gauge(
            names.SLO_KNOWN, "How far back its events are known, at most its period (s).", objective, registry=r
        )
        self._cycles = Counter(names.CYCLES, "Evaluations of rules and actions.", [names.OUTCOME], registry=r)
        self._cycle_seconds = Histogram(
            names.CYCLE_SECONDS, "Time of one evaluation (seconds).", buckets=_CYCLE_BUCKETS, registry=r
        )
        self._jobs_missed = Counter(names.JOBS_LATE, "Calendar jobs missed or refused.", [names.JOB], registry=r)
        self._jobs_failed = Counter(names.JOBS_FAILED, "Calendar jobs that raised.", [names.JOB], registry=r)
        self._errors = Counter(names.ERRORS, "Errors nobody foresaw; each is in the log.", ["where"], registry=r)
        self._store_away = Gauge(names.STORE_AWAY, "Since when the store takes no pages (s); else 0.", registry=r)
        self._fleet_store_away = Gauge(
            names.FLEET_STORE_AWAY, "Since when the fleet's database cannot be used (s); else 0.", registry=r
        )
        self._unshipped = Gauge(names.UNSHIPPED, "Intervals that the fleet's database lacks.", registry=r)
        self._given_up = Counter(
            names.GIVEN_UP, "Intervals given up, as another daemon watches their server.", registry=r
        )
        self._given_up_before = 0
        self._spool_pages = Gauge(names.SPOOL_PAGES, "Pages that wait on disk for the store.", registry=r)
        self._spool_fill = Gauge(names.SPOOL_FILL, "Share of the queue on disk that is taken.", registry=r)
        self._spool_lost = Counter(
            names.SPOOL_LOST, "Pages lost since the queue on disk was full or damaged.", registry=r
        )
        self._decisions = Counter(
            names.DECISIONS, "Decisions, by action and reason.", [names.GROUP, names.ACTION, names.REASON], registry=r
        )
        self._changes = Counter(names.CHANGES, "Changes that ended.", [names.GROUP, names.OUTCOME], registry=r)
        self._firing = Gauge(names.ALERTS_FIRING, "Alerts firing now.", [names.SEVERITY], registry=r)
        self._paused = Gauge(names.PAUSED, "1 while a pause covers the scope.", ["scope"], registry=r)
        self._notices = Counter(names.NOTICES, "Attempts to deliver.", [names.RECEIVER, names.OUTCOME], registry=r)
        self._pending = Gauge(names.OUTBOX_PENDING, "Notices not yet delivered.", registry=r)
        self._socket = Gauge(
            names.SLACK_SOCKET, "1 while this daemon listens for presses of Slack's buttons.", registry=r
        )
        for outcome in _CYCLES:
            self._cycles.labels(outcome)
        for place in _PLACES:
            self.loop_exists(place)

    def loop_exists(self, name: str) -> None:
        """Errors of a loop are counted from 0 on."""
        self._errors.labels(name)

    def job_exists(self, job: str) -> None:
        """A calendar job is counted from 0 on."""
        self._jobs_missed.labels(job)
        self._jobs_failed.labels(job)

    def watching(self, servers: Collection[str], groups: Collection[str]) -> None:
        """Which servers and groups are configured: they are counted from 0 on, and those no longer configured leave the
        page, where they would stand still for ever.
        """
        for server in servers:
            for counter in (self._late, self._missed, self._overlapping, self._intervals, self._unknown):
                counter.labels(server)
        for group in groups:
            for outcome in _CHANGES:
                self._changes.labels(group, outcome)
        by_server = (self._scrapes, self._late, self._missed, self._overlapping, self._last_success, self._intervals,
                     self._unknown, self._up)
        self._signals.keep_only(servers)
        # Objectives are counted for a server, a group or a model, and have no value for the others.
        of_slos = (self._slo_good, self._slo_valid, self._slo_known)
        for metrics, label, kept in (
            (by_server, names.SERVER, servers), ((self._decisions, self._changes), names.GROUP, groups),
            (of_slos, names.SERVER, {*servers, ""}), (of_slos, names.GROUP, {*groups, ""}),
        ):  # fmt: skip
            for metric in metrics:
                samples = [sample for family in metric.collect() for sample in family.samples]
                # The labels of a sample stand in the order of its metric's names.
                for values in {tuple(s.labels.values()) for s in samples if s.labels[label] not in kept}:
                    metric.remove(*values)

    def page(self) -> bytes:
        """The exposition of all metrics."""
        return generate_latest(self.registry)

    def scraped(self, server: str, verdict: str, seconds: float) -> None:
        """One scrape ended with `verdict` after `seconds`."""
        self._scrapes.labels(server, verdict).inc()
        self._scrape_seconds.observe(seconds)

    def server_up(self, server: str, up: bool, unix_seconds: float) -> None:
        """Whether the last page of a server could be read, and when."""
        self._up.labels(server).set(1 if up else 0)
        if up:
            self._last_success.labels(server).set(unix_seconds)

    def intervals_stored(self, server: str, count: int) -> None:
        """So many intervals were stored."""
        self._intervals.labels(server).inc(count)

    def unknown_series(self, server: str, count: int) -> None:
        """So many names that no table knows were met for the first time, on this server."""
        self._unknown.labels(server).inc(count)

    def scrape_late(self, server: str, seconds: float) -> None:
        """A scrape began `seconds` late."""
        self._late.labels(server).inc()

    def scrape_missed(self, server: str, count: int) -> None:
        """So many scrapes were left out."""
        self._missed.labels(server).inc(count)

    def scrape_overlapping(self, server: str) -> None:
        """A scrape was due while the one before was under way."""
        self._overlapping.labels(server).inc()

    def unexpected_error(self, where: str) -> None:
        """Something raised what nobody foresaw."""
        self._errors.labels(where).inc()

    def signal(self, name: str, server: str, group: str, value: float | None) -> None:
        """A server's signal; one without a value leaves the page rather than standing at 0 or at its last value."""
        self._signals.put(name, server, group, value)

    def positions(self, server: str, group: str, rates: Sequence[float | None]) -> None:
        """A server's acceptance by position; positions that it no longer has leave the page."""
        self._signals.put_positions(server, group, rates)

    def slo_events(self, slo: str, scope: Mapping[str, str], good: float, valid: float) -> None:
        """So many events of an objective in a scope came; 0 of 0 shows that it is watched."""
        labels = _objective_labels(slo, scope)
        self._slo_good.labels(*labels).inc(good)
        self._slo_valid.labels(*labels).inc(valid)

    def slo_known(self, slo: str, scope: Mapping[str, str], seconds: float) -> None:
        """So far back the events of an objective in a scope are known."""
        self._slo_known.labels(*_objective_labels(slo, scope)).set(seconds)

    @property
    def signal_names(self) -> tuple[str, ...]:
        """Signals that have a gauge."""
        return tuple(_SIGNALS)

    def cycle(self, outcome: str, seconds: float) -> None:
        """One evaluation ended."""
        self._cycles.labels(outcome).inc()
        self._cycle_seconds.observe(seconds)

    def job_missed(self, job: str) -> None:
        """A calendar job was missed or refused."""
        self._jobs_missed.labels(job).inc()

    def job_failed(self, job: str) -> None:
        """A calendar job raised."""
        self._jobs_failed.labels(job).inc()

    def sharing(self, away_seconds: float | None, waiting: int, given_up: int) -> None:
        """How it stands with the fleet's database; `given_up` since the process began."""
        self._fleet_store_away.set(away_seconds or 0.0)
        self._unshipped.set(waiting)
        self._given_up.inc(given_up - self._given_up_before)
        self._given_up_before = given_up

    def spool(self, away_seconds: float | None, waiting: int, fill_ratio: float, lost: int) -> None:
        """How the way into the store stands; `lost` pages since the last call."""
        self._store_away.set(away_seconds or 0.0)
        self._spool_pages.set(waiting)
        self._spool_fill.set(fill_ratio)
        self._spool_lost.inc(lost)

    def decision(self, group: str, action: str, reason: str) -> None:
        """A decision was made."""
        self._decisions.labels(group, action, reason).inc()

    def change_ended(self, group: str, outcome: str) -> None:
        """A change reached its end."""
        self._changes.labels(group, outcome).inc()

    def alerts_firing(self, by_severity: dict[str, int]) -> None:
        """How many alerts fire now, by severity."""
        for severity, count in by_severity.items():
            self._firing.labels(severity).set(count)

    def paused(self, scopes: set[str]) -> None:
        """Which scopes are paused now."""
        self._paused.clear()
        for scope in scopes:
            self._paused.labels(scope).set(1)

    def notice(self, receiver: str, outcome: str) -> None:
        """One attempt to deliver ended."""
        self._notices.labels(receiver, outcome).inc()

    def slack_socket(self, is_up: bool) -> None:
        """Whether this daemon has the connection for Slack's buttons."""
        self._socket.set(1 if is_up else 0)

    def outbox_pending(self, count: int) -> None:
        """So many notices wait."""
        self._pending.set(count)


def _objective_labels(slo: str, scope: Mapping[str, str]) -> tuple[str, ...]:
    return (slo, *(scope.get(name, "") for name in (names.GROUP, names.SERVER, names.MODEL)))
