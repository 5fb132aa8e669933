"""Latency of a window: mean and quantiles of the histograms, added over intervals and engines first."""

from __future__ import annotations

from monitor.intervals.adding import KNOWN, add_latency
from monitor.model.signal import NoData
from monitor.signals.sheet import Sheet
from monitor.signals.window import Window


def write_latency(sheet: Sheet, window: Window) -> None:
    """Write mean, p50, p95 and p99 of every latency histogram down (seconds)."""
    pooled = add_latency([i.latency for _, i in window.recent if i.latency is not None], KNOWN)
    absent = NoData.NOT_EXPORTED if window.recent else NoData.NO_INTERVALS
    for stem, histogram in (
        ("time_to_first_token_seconds", pooled.time_to_first_token if pooled else None),
        ("inter_token_latency_seconds", pooled.inter_token if pooled else None),
        ("time_per_output_token_seconds", pooled.time_per_output_token if pooled else None),
        ("e2e_request_latency_seconds", pooled.e2e_request if pooled else None),
        ("queue_time_seconds", pooled.queue if pooled else None),
    ):
        count = histogram.count if histogram else 0.0
        why = absent if histogram is None else NoData.NO_TRAFFIC
        sheet.put(f"{stem}_mean", histogram.mean if histogram else None, count, absent=why)
        for percent in (50, 95, 99):
            value = histogram.quantile(percent / 100) if histogram else None
            sheet.put(f"{stem}_p{percent}", value, count, absent=why)
