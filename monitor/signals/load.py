"""Load of a window: throughput, queue, cache, errors. Whole window, whatever the setting; rates add over engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from monitor.intervals.adding import add_keys, pool_histograms
from monitor.model.counts import Histogram, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.signal import NoData
from monitor.signals.material import Material
from monitor.signals.sheet import Sheet, Writer
from monitor.signals.track import is_rateable

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


def _writes_rate(name: str, get: Callable[[TrafficCounts], float | None], per: float = 1.0) -> Writer:
    def write(sheet: Sheet, material: Material) -> None:
        value, seconds = rate(material.window.recent_streams, get)
        sheet.put(name, value * per if value is not None else None, seconds, absent=_absent(material))

    return write


def _writes_gauge(
    name: str, get: Callable[[GaugeSpan], float | None], top: Callable[[GaugeSpan], float | None], *, is_mean: bool
) -> Writer:
    """`is_mean`: engines are averaged, not added."""

    def write(sheet: Sheet, material: Material) -> None:
        streams = material.window.recent_streams
        means = [mean_gauge(stream, get) for stream in streams]
        known = [value for value, _ in means if value is not None]
        seconds = max((covered for _, covered in means), default=0.0)
        total = sum(known) / (len(known) if is_mean else 1) if known else None
        sheet.put(name, total, seconds, absent=_absent(material))
        sheet.put(f"{name}_max", max_gauge(streams, top), seconds, absent=_absent(material))

    return write


def write_queue(sheet: Sheet, material: Material) -> None:
    """How often requests queue."""
    streams = material.window.recent_streams
    queues = [found for stream in streams for i in stream if (found := has_queue(i.gauges)) is not None]
    sheet.put("waiting_share", sum(queues) / len(queues) if queues else None, len(queues), absent=_absent(material))


def _writes_length(name: str, get: Callable[[TrafficCounts], Histogram | None]) -> Writer:
    def write(sheet: Sheet, material: Material) -> None:
        histogram = pool_histograms(get(i.traffic) for _, i in material.window.recent if i.traffic is not None)
        sheet.put(name, histogram.mean if histogram else None, histogram.count if histogram else 0.0,
                  absent=NoData.NO_TRAFFIC if histogram else _absent(material))

    return write


def write_errors(sheet: Sheet, material: Material) -> None:
    """Answers that failed."""
    value, sample, exported = error_ratio(answers_of(i.traffic for _, i in material.window.recent))
    sheet.put("error_ratio", value, sample, absent=NoData.NO_TRAFFIC if exported else _absent(material))


def _absent(material: Material) -> NoData:
    return NoData.NOT_EXPORTED if material.window.recent else NoData.NO_INTERVALS


def answers_of(counts: Iterable[TrafficCounts | None]) -> TrafficCounts | None:
    """Finished requests and HTTP answers of many intervals, added; None without any."""
    known = [count for count in counts if count is not None]
    if not known:
        return None
    return TrafficCounts(
        finished=add_keys(c.finished for c in known), http_responses=add_keys(c.http_responses for c in known)
    )


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


WRITERS: Mapping[Writer, tuple[str, ...]] = {
    _writes_rate("generation_tokens_per_second", lambda c: c.generation_tokens): ("generation_tokens_per_second",),
    _writes_rate("prompt_tokens_per_second", lambda c: c.prompt_tokens): ("prompt_tokens_per_second",),
    _writes_rate("requests_per_second", lambda c: c.finished_requests): ("requests_per_second",),
    _writes_rate("preemptions_per_minute", lambda c: c.preemptions, 60.0): ("preemptions_per_minute",),
    _writes_rate("rejections_per_minute", lambda c: c.rejections, 60.0): ("rejections_per_minute",),
    _writes_gauge("running", lambda g: g.running_mean, lambda g: g.running_max, is_mean=False):
        ("running", "running_max"),
    _writes_gauge("waiting", lambda g: g.waiting_mean, lambda g: g.waiting_max, is_mean=False):
        ("waiting", "waiting_max"),
    _writes_gauge("kv_usage", lambda g: g.kv_usage_mean, lambda g: g.kv_usage_max, is_mean=True):
        ("kv_usage", "kv_usage_max"),
    write_queue: ("waiting_share",),
    _writes_length("mean_prompt_tokens", lambda c: c.prompt_length): ("mean_prompt_tokens",),
    _writes_length("mean_output_tokens", lambda c: c.output_length): ("mean_output_tokens",),
    write_errors: ("error_ratio",),
}  # fmt: skip
