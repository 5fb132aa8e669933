"""Which series acceptd reads, as one pattern for stores that hold many more. It owns no name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from monitor.dialects.detect import NAMES
from monitor.dialects.names import Kind, Known

#: Beside an engine's own series: its start, its answers over HTTP, and whether its page could be had.
_ALSO = ("process_start_time_seconds", "http_requests_total", "up")
_SUFFIXES = {
    Kind.COUNTER: "(_total|_created)?",
    Kind.GAUGE: "",
    Kind.HISTOGRAM: "(_bucket|_sum|_count|_created)",
}


@cache
def name_pattern() -> str:
    """A regular expression (RE2, anchored by whoever uses it) of the names of all series that are read.

    About 3 kB: too long for some proxies' URLs, short enough for a form.
    """
    engines = [f"{engine.value}[:_]({'|'.join(_alternatives(names.table))})" for engine, names in NAMES.items()]
    return f"(ray_)?({'|'.join(engines)})|{'|'.join(_ALSO)}"


def _alternatives(table: Iterable[Known]) -> Iterable[str]:
    for kind, suffix in _SUFFIXES.items():
        found = sorted({known.name for known in table if known.kind is kind and known.reads is not None})
        if found:
            yield f"({'|'.join(found)}){suffix}"
