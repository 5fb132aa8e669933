"""Good and valid events of one interval, and what it adds to a time slice. It owns no time.

Aborted requests are in no latency histogram (vllm-project/vllm#55634), so a latency SLO does not see them.
"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model.counts import Histogram, TrafficCounts
from monitor.model.interval import Interval
from monitor.model.slo import Indicator, Slo
from monitor.signals.load import ERROR_REASONS

#: Drafts below which a slice says nothing of acceptance or efficiency: at 100 the rate is known to +-0.1 at best.
MIN_SLICE_DRAFTS = 100.0

#: Running requests (time-weighted mean) from which a server counts as having work, for a throughput floor.
MIN_RUNNING = 1.0


@dataclass(frozen=True, slots=True)
class Events:
    """Good of valid events."""

    good: float
    valid: float


@dataclass(frozen=True, slots=True)
class Share:
    """What an interval adds to a slice, whose number is the sum of numerators over that of denominators.

    `weight` is what the minimum of traffic is counted in (drafts). A throughput's denominator is None: time, which the
    engines of one server share, so that it is not added but covered.
    """

    numerator: float
    denominator: float | None
    weight: float = 0.0


def events_of(slo: Slo, interval: Interval) -> Events | None:
    """Events of an interval for an event-based SLO; None where the server does not count them.

    An interval without traffic has 0 of 0 events: it is watched, and it is not bad.
    """
    if slo.indicator.is_latency:
        histogram = _histogram(slo.indicator, interval)
        if histogram is None or slo.threshold is None or not histogram.edges:
            return None
        return Events(histogram.at_most(slo.threshold), histogram.cumulative[-1])
    if slo.indicator is Indicator.AVAILABILITY:
        return _answers(interval.traffic)
    return None


def _histogram(indicator: Indicator, interval: Interval) -> Histogram | None:
    latency = interval.latency
    if latency is None:
        return None
    match indicator:
        case Indicator.TIME_TO_FIRST_TOKEN:
            return latency.time_to_first_token
        case Indicator.INTER_TOKEN:
            return latency.inter_token
        case Indicator.TIME_PER_OUTPUT_TOKEN:
            return latency.time_per_output_token
        case Indicator.E2E_REQUEST:
            return latency.e2e_request
    return None


def _answers(traffic: TrafficCounts | None) -> Events | None:
    if traffic is None:
        return None
    rejected = traffic.rejections or 0.0
    if traffic.http_responses:
        answers = sum(traffic.http_responses.values())
        bad = sum(count for status, count in traffic.http_responses.items() if status.startswith("5"))
        # Rejections are answers too, with 503 in some versions and 429 in others: the larger number, never both.
        return Events(answers - min(answers, max(bad, rejected)), answers)
    if traffic.finished or rejected:
        ended = sum(traffic.finished.values())
        bad = sum(count for reason, count in traffic.finished.items() if reason in ERROR_REASONS)
        return Events(ended - bad, ended + rejected)
    return None


def share_of(slo: Slo, interval: Interval) -> Share | None:
    """What an interval adds to a slice of a sliced SLO; None where it cannot say, or has no traffic."""
    match slo.indicator:
        case Indicator.ACCEPTANCE:
            return _acceptance(interval)
        case Indicator.EFFICIENCY:
            return _efficiency(interval)
        case Indicator.THROUGHPUT:
            return _throughput(interval)
    return None


def _acceptance(interval: Interval) -> Share | None:
    counts = interval.speculation
    if counts is None or not counts.num_draft_tokens or counts.num_accepted_tokens is None:
        return None
    return Share(counts.num_accepted_tokens, counts.num_draft_tokens, counts.num_drafts or counts.num_draft_tokens)


def _efficiency(interval: Interval) -> Share | None:
    """Tokens emitted over the most possible; decode steps without a draft count where the histogram shows them."""
    counts = interval.speculation
    if counts is None or not counts.num_drafts or counts.num_accepted_tokens is None or interval.is_gap:
        return None
    steps = interval.latency.inter_token if interval.latency else None
    if steps is not None and counts.accepted_per_pos:
        emitted = steps.count + counts.num_accepted_tokens
        return Share(emitted, steps.count * (len(counts.accepted_per_pos) + 1), counts.num_drafts)
    if counts.num_draft_tokens is None:
        return None
    return Share(counts.num_drafts + counts.num_accepted_tokens, counts.num_drafts + counts.num_draft_tokens,
                 counts.num_drafts)


def _throughput(interval: Interval) -> Share | None:
    traffic, running = interval.traffic, interval.gauges.running_mean
    if traffic is None or traffic.generation_tokens is None or interval.is_gap or interval.traffic_seconds <= 0:
        return None
    if running is None or running < MIN_RUNNING:
        return None
    return Share(traffic.generation_tokens, None)
