"""A reading: one page of one server in acceptd's own words. It owns no history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.model.counts import Counts, Gauges, V0Sums
from monitor.model.server import ServerName


class Verdict(StrEnum):
    """What a page, or a run of pages, is good for."""

    OK = "ok"
    NO_DRAFTS_YET = "spec_decode_no_drafts_yet"
    NOT_SPEC_DECODE = "not_spec_decode"
    NO_ENGINE_METRICS = "no_engine_metrics"
    NO_SAMPLES_YET = "no_samples_yet"
    SCRAPE_ERROR = "scrape_error"
    STARTING = "starting"
    RESET_DETECTED = "reset_detected"
    COUNTER_GLITCH = "counter_glitch"
    INCONSISTENT_ENDPOINT = "inconsistent_endpoint"
    NEEDS_PROBE = "needs_probe"


class State(StrEnum):
    """A refinement of the verdict: why nothing moves although nothing is wrong."""

    IDLE = "idle"
    SLEEPING = "sleeping"
    BUSY_COUNTERS_DEFERRED = "busy_counters_deferred"
    SPECULATION_SUSPENDED = "speculation_suspended"


class Flag(StrEnum):
    """Why the numbers deserve less trust."""

    DUPLICATE_SERIES = "duplicate_series"
    QUANTIZED_COUNTERS = "quantized_counters"
    ACCEPTANCE_OUT_OF_RANGE = "acceptance_out_of_range"
    V0_COUNTERS_UNRELIABLE = "v0_counters_unreliable"
    SUSPICIOUS_PERFECT_ACCEPTANCE = "suspicious_perfect_acceptance"
    PER_POSITION_CONFOUNDED = "per_position_confounded"
    #: Counts of one page contradict each other (sums, orders, bounds): none of them is used for tuning.
    IDENTITIES_BROKEN = "identities_broken"
    BAD_SAMPLE = "bad_sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReading:
    """The part of a page that belongs to one (model, engine)."""

    model: str
    engine: str
    counts: Counts
    gauges: Gauges
    #: Number of draft positions the page shows (V1: the configured num_speculative_tokens); None where it shows none.
    num_speculative_tokens: int | None = None
    #: False where a series appears only with its first count above 0 (Ray): `num_speculative_tokens` is then a lower
    #: bound, and what is not on the page was 0.
    prints_zeros: bool = True
    #: Unix seconds at which this engine's counters were born (`_created`); start evidence only.
    created: float | None = None
    #: Whether it is a diffusion language model (vLLM 0.24.0 and newer), which neither speculates nor could.
    is_diffusion: bool = False
    #: What a V0 engine prints of speculation, as printed; None on every other engine.
    v0: V0Sums | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One page of one server, normalised. `engines` is empty unless the verdict says there are engine metrics.

    `scraped_at` is wall time for stamps; `monotonic` is the scraper's monotonic clock (seconds), for durations.
    """

    server: ServerName
    scraped_at: datetime
    monotonic: float
    dialect: str
    verdict: Verdict
    reason: str
    state: State | None = None
    flags: frozenset[Flag] = frozenset()
    engines: tuple[EngineReading, ...] = ()
    #: Unix seconds from `process_start_time_seconds`; None with several API processes.
    process_start: float | None = None
    #: llama-server's header `Process-Start-Time-Unix`: no unix time, but another one means another process.
    start_mark: str | None = None

    @property
    def has_engine(self) -> bool:
        """Whether the page has metrics of at least one engine."""
        return bool(self.engines)
