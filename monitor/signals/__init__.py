"""Signals: from the intervals of a window to numbers with sample size and uncertainty. Pure; no store, no clock."""

from monitor.signals.baseline import baseline_key, update_baseline
from monitor.signals.build import Context, Pair, signals
from monitor.signals.vocabulary import VOCABULARY, Kind, SignalSpec

__all__ = [
    "VOCABULARY",
    "Context",
    "Kind",
    "Pair",
    "SignalSpec",
    "baseline_key",
    "signals",
    "update_baseline",
]
