"""The `http_*` part of a simulated page: families whose series appear with the first request of a handler."""

from __future__ import annotations

from monitor.simulator.blocks import Block, births, histogram_samples, histogram_values
from monitor.simulator.families import HTTP
from monitor.simulator.http_counts import HttpCounts


def http_text(http: HttpCounts, server_born: float) -> str:
    """The five families as they are now; before the first request four of them have no samples, as on a live page."""
    requests, request_sizes, response_sizes, fine, coarse = HTTP
    parts = []
    series = [dict(zip(("handler", "method", "status"), key, strict=True)) for key in http.requests]
    born = [http.born["/".join(key)] for key in http.requests]
    block = Block(requests, [("", labels) for labels in series], births(requests, series, born))
    parts.append(block.text(http.requests.values()))
    handlers = [{"handler": handler} for handler in http.request_sizes]
    born = [http.born[handler] for handler in http.request_sizes]
    for family, sizes in ((request_sizes, http.request_sizes), (response_sizes, http.response_sizes)):
        samples = [(suffix, labels) for labels in handlers for suffix in ("_count", "_sum")]
        values = [figure for size in sizes.values() for figure in (size.count, size.sum)]
        parts.append(Block(family, samples, births(family, handlers, born)).text(values))
    everything = http.all_seconds
    block = Block(fine, histogram_samples({}, everything.edges), births(fine, [{}], [server_born]))
    parts.append(block.text(histogram_values(everything)))
    series = [{"handler": handler, "method": method} for handler, method in http.seconds]
    born = [http.born[handler] for handler, _method in http.seconds]
    histograms = list(zip(series, http.seconds.values(), strict=True))
    block = Block(
        coarse,
        [line for labels, histogram in histograms for line in histogram_samples(labels, histogram.edges)],
        births(coarse, series, born),
    )
    parts.append(block.text([value for _labels, histogram in histograms for value in histogram_values(histogram)]))
    return "".join(parts)
