"""From intervals to a `SignalSet`: one function that lets each family write its part. It computes nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime

from monitor.model.record import Baseline
from monitor.model.server import ServerName
from monitor.model.signal import SignalSet
from monitor.signals.acceptance import write_acceptance
from monitor.signals.baseline import baseline_key, is_settled
from monitor.signals.change import write_change
from monitor.signals.latency import write_latency
from monitor.signals.load import write_load
from monitor.signals.server import Context, write_server
from monitor.signals.sheet import Sheet
from monitor.signals.steps import write_steps
from monitor.signals.vocabulary import VOCABULARY, Family
from monitor.signals.window import Pair, Window, cut

__all__ = ["Context", "Pair", "families_of", "signals"]

#: Families that read what another one wrote.
_NEEDS: Mapping[Family, Family] = {Family.STEPS: Family.ACCEPTANCE, Family.CHANGE: Family.ACCEPTANCE}


def families_of(names: Iterable[str]) -> frozenset[Family]:
    """Families that must be computed to know the signals `names`; names outside the vocabulary are ignored."""
    wanted = {VOCABULARY[name].family for name in names if name in VOCABULARY}
    return frozenset(wanted | {_NEEDS[family] for family in wanted if family in _NEEDS})


def signals(
    pairs: Iterable[Pair],
    *,
    scope: str,
    at: datetime,
    window_seconds: float,
    contexts: Mapping[ServerName, Context] | None = None,
    families: Collection[Family] | None = None,
) -> SignalSet:
    """Signals of one server, or of the servers of one group, over the window that ends at `at`.

    Args:
        pairs: lives and intervals, in any order; older ones than the window serve change detection and `stuck_seconds`.
        scope: how the caller calls the subject (`server:NAME`, `group:NAME`).
        at: end of the window; later intervals are ignored, so that the past can be replayed.
        window_seconds: length of the window (> 0).
        contexts: what is known of each server besides its intervals.
        families: which families to compute; None for all. A family's signals are all present, with value or reason.

    Raises:
        ValueError: when `window_seconds` is not positive.
    """
    if window_seconds <= 0:
        raise ValueError(f"window of {window_seconds} s for {scope}: expected more than 0")
    known = contexts or {}
    window = cut(pairs, at, window_seconds)
    wanted = frozenset(Family) if families is None else _with_needs(families)
    sheet = Sheet()
    baseline = _only_baseline(window, known)
    writers: dict[Family, Callable[[], None]] = {
        Family.ACCEPTANCE: lambda: write_acceptance(sheet, window, baseline),
        Family.STEPS: lambda: write_steps(sheet, window, _only(c.off_step_seconds for c in known.values())),
        Family.LOAD: lambda: write_load(sheet, window),
        Family.LATENCY: lambda: write_latency(sheet, window),
        Family.CHANGE: lambda: write_change(
            sheet, window, baseline, _only(c.first_hours_length for c in known.values())
        ),
        Family.SERVER: lambda: write_server(sheet, window, known),
    }
    for family, write in writers.items():
        if family in wanted:
            write()
    return SignalSet(
        scope=scope, at=at, window_seconds=window_seconds, scalars=sheet.scalars, vectors=sheet.vectors
    )


def _with_needs(families: Collection[Family]) -> frozenset[Family]:
    """`families` and those they read from."""
    return frozenset(families) | {_NEEDS[family] for family in families if family in _NEEDS}


def _only(values: Iterable[float | None]) -> float | None:
    """Mean of the known values over the servers of the scope; None when none is known."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _only_baseline(window: Window, contexts: Mapping[ServerName, Context]) -> Baseline | None:
    """Of the servers' baselines at the setting in force, the one that rests on most drafts; None without any."""
    if not window.newest_lives or window.setting is None:
        return None
    keys = {(life.server, baseline_key(life.setting, life.engine_version)) for life in window.newest_lives}
    fitting = [
        c.baseline for c in contexts.values()
        if c.baseline is not None and is_settled(c.baseline) and (c.baseline.server, c.baseline.key) in keys
    ]
    return max(fitting, key=lambda baseline: baseline.num_drafts, default=None)
