"""Latency of a window: mean and quantiles of the histograms, added over intervals and engines first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from monitor.intervals.adding import pool_histograms
from monitor.model.counts import Histogram, LatencyCounts
from monitor.model.signal import NoData
from monitor.signals.material import Material
from monitor.signals.sheet import Sheet, Writer

_PERCENTS = (50, 95, 99)


def _writes(stem: str, get: Callable[[LatencyCounts], Histogram | None]) -> Writer:
    """What writes mean, p50, p95 and p99 of one histogram down (seconds)."""

    def write(sheet: Sheet, material: Material) -> None:
        recent = material.window.recent
        histogram = pool_histograms(get(i.latency) for _, i in recent if i.latency is not None)
        count = histogram.count if histogram else 0.0
        why = NoData.NO_TRAFFIC if histogram else NoData.NOT_EXPORTED if recent else NoData.NO_INTERVALS
        sheet.put(f"{stem}_mean", histogram.mean if histogram else None, count, absent=why)
        for percent in _PERCENTS:
            value = histogram.quantile(percent / 100) if histogram else None
            sheet.put(f"{stem}_p{percent}", value, count, absent=why)

    return write


_HISTOGRAMS: Mapping[str, Callable[[LatencyCounts], Histogram | None]] = {
    "time_to_first_token_seconds": lambda c: c.time_to_first_token,
    "inter_token_latency_seconds": lambda c: c.inter_token,
    "time_per_output_token_seconds": lambda c: c.time_per_output_token,
    "e2e_request_latency_seconds": lambda c: c.e2e_request,
    "queue_time_seconds": lambda c: c.queue,
}

WRITERS: Mapping[Writer, tuple[str, ...]] = {
    _writes(stem, get): (f"{stem}_mean", *(f"{stem}_p{percent}" for percent in _PERCENTS))
    for stem, get in _HISTOGRAMS.items()
}
