"""Load of a window: throughput, queue, cache, errors. Whole window, whatever the setting; rates add over engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from monitor.intervals.adding import KNOWN, add_traffic
from monitor.model.counts import TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.signal import NoData
from monitor.signals.sheet import Sheet
from monitor.signals.window import Window, is_rateable

#: Words that engines use for a request that ended by a fault of the server.
ERROR_REASONS = frozenset({"error", "failed", "internal_error"})

Streams = Sequence[Sequence[Interval]]

#: Waiting requests from which an interval counts as one with a queue: one, and a tenth of those running, at both looks.
#: Arrivals wait for the next step to admit them however free the engine is: at 77 requests a second, half of all pages
#: of a server with room to spare show one to three waiting.
LEAST_QUEUE, QUEUE_SHARE = 1.0, 0.10


def rate(streams: Streams, get: Callable[[TrafficCounts], float | None]) -> tuple[float | None, float]:
    """Count per second added over streams, and the seconds it rests on; None where no stream counts it.

    Within a stream counts and seconds add; gaps and half-seen intervals give no rate.
    """
    total, longest = None, 0.0
    for stream in streams:
        count = seconds = 0.0
        for interval in stream:
            value = get(interval.traffic) if interval.traffic is not None and is_rateable(interval) else None
            if value is not None:
                count += value
                seconds += interval.traffic_seconds
        if seconds > 0:
            total = (total or 0.0) + count / seconds
            longest = max(longest, seconds)
    return total, longest


def mean_gauge(stream: Sequence[Interval], get: Callable[[GaugeSpan], float | None]) -> tuple[float | None, float]:
    """Time-weighted mean of a gauge in one stream and the seconds it rests on."""
    work = seconds = 0.0
    for interval in stream:
        value = get(interval.gauges)
        if value is not None:
            work += value * interval.gauges_seconds
            seconds += interval.gauges_seconds
    return (work / seconds, seconds) if seconds > 0 else (None, 0.0)


def max_gauge(streams: Streams, get: Callable[[GaugeSpan], float | None]) -> float | None:
    """Largest known value of a gauge over all intervals."""
    return max((v for stream in streams for i in stream if (v := get(i.gauges)) is not None), default=None)


def has_queue(gauges: GaugeSpan) -> bool | None:
    """Whether requests queued for want of room, and not only for the next step; None where the page does not say.

    A queue is there at both looks: what one page shows and the next does not had come for the next step, in whatever
    number. The lesser of two looks follows from their mean and the greater.
    """
    if gauges.waiting_mean is None:
        return None
    least = gauges.waiting_mean
    if gauges.waiting_max is not None:
        least = 2.0 * gauges.waiting_mean - gauges.waiting_max
    return least >= max(LEAST_QUEUE, QUEUE_SHARE * (gauges.running_mean or 0.0))


def write_load(sheet: Sheet, window: Window) -> None:
    """Write every signal of the load family down."""
    streams = window.streams()
    absent = NoData.NOT_EXPORTED if window.recent else NoData.NO_INTERVALS

    def put_rate(name: str, get: Callable[[TrafficCounts], float | None], per: float = 1.0) -> None:
        value, seconds = rate(streams, get)
        sheet.put(name, value * per if value is not None else None, seconds, absent=absent)

    put_rate("generation_tokens_per_second", lambda c: c.generation_tokens)
    put_rate("prompt_tokens_per_second", lambda c: c.prompt_tokens)
    put_rate("requests_per_second", lambda c: c.finished_requests)
    put_rate("preemptions_per_minute", lambda c: c.preemptions, 60.0)
    put_rate("rejections_per_minute", lambda c: c.rejections, 60.0)
    _write_gauges(sheet, streams, absent)
    _write_requests(sheet, window, absent)


def _write_gauges(sheet: Sheet, streams: Streams, absent: NoData) -> None:
    for name, get, top in (
        ("running", lambda g: g.running_mean, lambda g: g.running_max),
        ("waiting", lambda g: g.waiting_mean, lambda g: g.waiting_max),
        ("kv_usage", lambda g: g.kv_usage_mean, lambda g: g.kv_usage_max),
    ):  # type: tuple[str, Callable[[GaugeSpan], float | None], Callable[[GaugeSpan], float | None]]
        means = [mean_gauge(stream, get) for stream in streams]
        known = [value for value, _ in means if value is not None]
        seconds = max((covered for _, covered in means), default=0.0)
        total = sum(known) if known else None
        if total is not None and name == "kv_usage":
            total /= len(known)
        sheet.put(name, total, seconds, absent=absent)
        sheet.put(f"{name}_max", max_gauge(streams, top), seconds, absent=absent)
    queues = [found for stream in streams for i in stream if (found := has_queue(i.gauges)) is not None]
    sheet.put("waiting_share", sum(queues) / len(queues) if queues else None, len(queues), absent=absent)


def _write_requests(sheet: Sheet, window: Window, absent: NoData) -> None:
    traffic = add_traffic([i.traffic for _, i in window.recent if i.traffic is not None], KNOWN)
    prompts = traffic.prompt_length if traffic else None
    outputs = traffic.output_length if traffic else None
    for name, histogram in (("mean_prompt_tokens", prompts), ("mean_output_tokens", outputs)):
        count = histogram.count if histogram else 0.0
        sheet.put(name, histogram.mean if histogram else None, count,
                  absent=NoData.NO_TRAFFIC if histogram else absent)
    value, sample, exported = error_ratio(traffic)
    sheet.put("error_ratio", value, sample, absent=NoData.NO_TRAFFIC if exported else absent)


def error_ratio(traffic: TrafficCounts | None) -> tuple[float | None, float, bool]:
    """Share of 5xx among HTTP answers (else of requests ended by error), its sample, and whether it is counted."""
    if traffic is None:
        return None, 0.0, False
    if traffic.http_responses:
        answers = sum(traffic.http_responses.values())
        bad = sum(count for status, count in traffic.http_responses.items() if status.startswith("5"))
    elif traffic.finished:
        answers = sum(traffic.finished.values())
        bad = sum(count for reason, count in traffic.finished.items() if reason in ERROR_REASONS)
    else:
        return None, 0.0, False
    return (bad / answers if answers > 0 else None), answers, True

