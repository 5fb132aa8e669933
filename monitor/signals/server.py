"""State of the servers of a window: up, sleeping, stuck, how fresh. It reads readings and gauges, not acceptance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.model.interval import Interval
from monitor.model.life import LastReading
from monitor.model.reading import State, Verdict
from monitor.model.record import Baseline
from monitor.model.server import ServerName
from monitor.model.signal import NoData
from monitor.signals.load import ERROR_REASONS
from monitor.signals.sheet import Sheet
from monitor.signals.window import Window

#: Words for requests that ended without being served.
_UNSERVED = ERROR_REASONS | {"abort"}


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of one server besides its intervals; every part may be missing.

    `off_step_seconds`: step time without speculation at a comparable batch. `first_hours_length`: acceptance length of
    the first hours of the process that runs now. `watched_since`: when acceptd began to watch.
    """

    last: LastReading | None = None
    baseline: Baseline | None = None
    off_step_seconds: float | None = None
    first_hours_length: float | None = None
    watched_since: datetime | None = None


def stuck_seconds(stream: Sequence[Interval]) -> float | None:
    """Seconds up to the newest interval in which work ran or waited while no counter moved; None where not countable.

    Prompt, generation and step counters must all be flat: a long prefill moves the prompt or step counter, a long queue
    moves generation. Engines that export no generation counter or no gauges cannot be judged.
    """
    if not stream:
        return None
    newest = stream[-1]
    known = newest.traffic is not None and newest.traffic.generation_tokens is not None
    if not known or (newest.gauges.running_mean is None and newest.gauges.waiting_mean is None):
        return None
    seconds = 0.0
    for interval in reversed(stream):
        if interval.life != newest.life or not _is_stuck(interval):
            break
        seconds += interval.elapsed_seconds
    return seconds


def _is_stuck(interval: Interval) -> bool:
    traffic, gauges = interval.traffic, interval.gauges
    has_work = (gauges.running_mean or 0.0) > 0 or (gauges.waiting_mean or 0.0) > 0
    if not has_work or traffic is None or traffic.generation_tokens is None:
        return False
    # A client that gives up (a probe of ours too) ends a request without any work of the engine.
    served = sum(count for reason, count in traffic.finished.items() if reason not in _UNSERVED)
    return not any((traffic.generation_tokens, traffic.prompt_tokens, traffic.engine_steps, served))


def write_server(sheet: Sheet, window: Window, contexts: Mapping[ServerName, Context]) -> None:
    """Write every signal of the server family down."""
    servers = {life.server for life in window.newest_lives}
    sheet.put("servers", len(servers), len(servers))
    readings = [context.last.reading for context in contexts.values() if context.last is not None]
    count = len(readings)

    def put_share(name: str, hits: int) -> None:
        sheet.put(name, hits / count if count else None, count, absent=NoData.NOT_KNOWN)

    put_share("up", sum(reading.verdict is not Verdict.SCRAPE_ERROR for reading in readings))
    for name, is_any in (
        ("is_sleeping", any(reading.state is State.SLEEPING for reading in readings)),
        ("needs_probe", any(reading.verdict is Verdict.NEEDS_PROBE for reading in readings)),
        ("is_starting", any(reading.verdict is Verdict.STARTING for reading in readings)),
    ):
        sheet.put(name, float(is_any) if count else None, count, absent=NoData.NOT_KNOWN)
    _write_ages(sheet, window, contexts)
    _write_stuck(sheet, window, contexts)


def _write_ages(sheet: Sheet, window: Window, contexts: Mapping[ServerName, Context]) -> None:
    newest: dict[str, datetime] = {
        server: context.watched_since for server, context in contexts.items() if context.watched_since is not None
    }
    for life, interval in window.history:
        newest[life.server] = max(interval.end, newest.get(life.server, interval.end))
    ages = [(window.at - end).total_seconds() for end in newest.values()]
    sheet.put("seconds_since_last_sample", max(0.0, *ages) if ages else None, len(ages), absent=NoData.NO_INTERVALS)
    births = [born for life in window.newest_lives if (born := life.process_start or life.created) is not None]
    uptime = window.at.timestamp() - max(births) if births else None
    sheet.put("uptime_seconds", max(0.0, uptime) if uptime is not None else None, len(births),
              absent=NoData.NOT_KNOWN if window.recent else NoData.NO_INTERVALS)


def _write_stuck(sheet: Sheet, window: Window, contexts: Mapping[ServerName, Context]) -> None:
    blind = {
        server
        for server, context in contexts.items()
        if context.last is not None and context.last.reading.state in (State.SLEEPING, State.BUSY_COUNTERS_DEFERRED)
    }
    found = [
        stuck_seconds(stream)
        for stream in window.streams(window.history)
        if stream and stream[-1].server not in blind
    ]
    known = [seconds for seconds in found if seconds is not None]
    sheet.put("stuck_seconds", max(known) if known else None, len(known),
              absent=NoData.NOT_KNOWN if window.recent else NoData.NO_INTERVALS)
