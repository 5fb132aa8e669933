"""From intervals to a `SignalSet`: which writer writes which signal. It computes nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from monitor.model.server import ServerName
from monitor.model.signal import SignalSet
from monitor.signals import acceptance, change, latency, load, server, steps
from monitor.signals.material import Context, Material
from monitor.signals.sheet import Sheet, Writer
from monitor.signals.track import Pair, Track, tracks_of
from monitor.signals.vocabulary import VOCABULARY, Kind
from monitor.signals.window import Window

__all__ = ["Context", "Pair", "signals", "signals_of"]

#: What writes each signal down.
WRITERS: Mapping[str, Writer] = {
    name: write
    for family in (acceptance, steps, load, latency, change, server)
    for write, names in family.WRITERS.items()
    for name in names
}
_SCALARS = {name: WRITERS[name] for name, spec in VOCABULARY.items() if spec.kind is Kind.SCALAR}
_VECTORS = {name: WRITERS[name] for name, spec in VOCABULARY.items() if spec.kind is Kind.VECTOR}


def signals(
    pairs: Iterable[Pair],
    *,
    scope: str,
    at: datetime,
    window_seconds: float,
    contexts: Mapping[ServerName, Context] | None = None,
) -> SignalSet:
    """Signals of one server, or of the servers of one group, over the window that ends at `at`.

    All of the vocabulary is there, with a value or a reason; each is worked out when it is first asked for.

    Args:
        pairs: lives and intervals, in any order; older ones than the window serve change detection and `stuck_seconds`.
        scope: how the caller calls the subject (`server:NAME`, `group:NAME`).
        at: end of the window; later intervals are ignored, so that the past can be replayed.
        window_seconds: length of the window (> 0).
        contexts: what is known of each server besides its intervals.

    Raises:
        ValueError: when `window_seconds` is not positive.
    """
    return signals_of(tracks_of(pairs), scope=scope, at=at, window_seconds=window_seconds, contexts=contexts)


def signals_of(
    tracks: Sequence[Track],
    *,
    scope: str,
    at: datetime,
    window_seconds: float,
    contexts: Mapping[ServerName, Context] | None = None,
) -> SignalSet:
    """As `signals`, from one track for each server."""
    if window_seconds <= 0:
        raise ValueError(f"window of {window_seconds} s for {scope}: expected more than 0")
    made = partial(_material, tracks, at, window_seconds, contexts or {})
    sheet = Sheet(made, _SCALARS, _VECTORS)
    return SignalSet(scope=scope, at=at, window_seconds=window_seconds, scalars=sheet.scalars, vectors=sheet.vectors)


def _material(
    tracks: Sequence[Track], at: datetime, seconds: float, contexts: Mapping[ServerName, Context]
) -> Material:
    return Material(Window(tracks, at, seconds), contexts)
