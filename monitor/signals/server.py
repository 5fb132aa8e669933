"""State of the servers of a window: up, sleeping, stuck, how fresh. It reads readings and gauges, not acceptance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from monitor.model.interval import Interval
from monitor.model.reading import State, Verdict
from monitor.model.signal import NoData
from monitor.signals.load import ERROR_REASONS
from monitor.signals.material import Material
from monitor.signals.sheet import Sheet, Writer
from monitor.signals.track import merged

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
#: Words for requests that ended without being served.
_UNSERVED = ERROR_REASONS | {"abort"}


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


def write_servers(sheet: Sheet, material: Material) -> None:
    """How many servers the window is of."""
    servers = {life.server for life in material.window.newest_lives}
    sheet.put("servers", len(servers), len(servers))


def write_states(sheet: Sheet, material: Material) -> None:
    """What the newest pages say of the servers."""
    readings = [context.last.reading for context in material.contexts.values() if context.last is not None]
    count = len(readings)
    answered = sum(reading.verdict is not Verdict.SCRAPE_ERROR for reading in readings)
    sheet.put("up", answered / count if count else None, count, absent=NoData.NOT_KNOWN)
    for name, is_any in (
        ("is_sleeping", any(reading.state is State.SLEEPING for reading in readings)),
        ("needs_probe", any(reading.verdict is Verdict.NEEDS_PROBE for reading in readings)),
        ("is_starting", any(reading.verdict is Verdict.STARTING for reading in readings)),
    ):
        sheet.put(name, float(is_any) if count else None, count, absent=NoData.NOT_KNOWN)


def write_age(sheet: Sheet, material: Material) -> None:
    """How old the newest interval is."""
    window = material.window
    newest: dict[str, datetime] = {
        server: context.watched_since
        for server, context in material.contexts.items()
        if context.watched_since is not None
    }
    for track in window.tracks:
        end = track.last_end(window.at)
        if end is not None:
            server = track.lives[0].server
            newest[server] = max(end, newest.get(server, end))
    ages = [(window.at - end).total_seconds() for end in newest.values()]
    sheet.put("seconds_since_last_sample", max(0.0, *ages) if ages else None, len(ages), absent=NoData.NO_INTERVALS)


def write_uptime(sheet: Sheet, material: Material) -> None:
    """How long the youngest engine process has run."""
    window = material.window
    births = [born for life in window.newest_lives if (born := life.process_start or life.created) is not None]
    uptime = window.at.timestamp() - max(births) if births else None
    sheet.put("uptime_seconds", max(0.0, uptime) if uptime is not None else None, len(births),
              absent=NoData.NOT_KNOWN if window.recent else NoData.NO_INTERVALS)


def write_stuck(sheet: Sheet, material: Material) -> None:
    """How long work has stood still."""
    window = material.window
    blind = {
        server
        for server, context in material.contexts.items()
        if context.last is not None and context.last.reading.state in (State.SLEEPING, State.BUSY_COUNTERS_DEFERRED)
    }
    streams = window.recent_streams
    if any(_is_stuck(interval) for stream in streams for interval in stream[:1]):
        # It may have begun before the window.
        streams = window.streams(merged(window.tracks, _BEGINNING, window.at))
    found = [stuck_seconds(stream) for stream in streams if stream and stream[-1].server not in blind]
    known = [seconds for seconds in found if seconds is not None]
    sheet.put("stuck_seconds", max(known) if known else None, len(known),
              absent=NoData.NOT_KNOWN if window.recent else NoData.NO_INTERVALS)


WRITERS: Mapping[Writer, tuple[str, ...]] = {
    write_servers: ("servers",),
    write_states: ("up", "is_sleeping", "needs_probe", "is_starting"),
    write_age: ("seconds_since_last_sample",),
    write_uptime: ("uptime_seconds",),
    write_stuck: ("stuck_seconds",),
}
