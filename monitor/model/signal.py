"""Signals: numbers over a window, with sample size, an interval of confidence, or the reason for their absence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class NoData(StrEnum):
    """Why a signal has no value."""

    NO_INTERVALS = "no intervals in the window"
    NO_DRAFTS = "no drafts in the window"
    NO_TRAFFIC = "no traffic in the window"
    NOT_EXPORTED = "the page does not export it"
    SPECULATION_OFF = "speculation is off"
    NO_BASELINE = "no baseline yet"
    UNRELIABLE = "the counters contradict each other"
    MIXED_SETTINGS = "the window spans several settings"
    NOT_KNOWN = "not known"


class Signal(NamedTuple):
    """One number over a window. `value` None comes with a `reason`; `low`/`high` bound it at 95 % where that is known.

    `sample_size` counts what the number rests on (drafts, requests, steps, seconds: see the vocabulary). A tuple: an
    evaluation of a fleet makes tens of thousands, and a frozen dataclass takes five times as long to make.
    """

    name: str
    value: float | None
    sample_size: float = 0.0
    low: float | None = None
    high: float | None = None
    reason: NoData | None = None


class VectorSignal(NamedTuple):
    """One number per draft position (index 0 first); an empty tuple comes with a `reason`.

    `lows`/`highs` bound the values at 95 %, position by position, where that is known; else they are empty.
    """

    name: str
    values: tuple[float | None, ...]
    sample_size: float = 0.0
    reason: NoData | None = None
    lows: tuple[float | None, ...] = ()
    highs: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSet:
    """The signals of one scope (a server, or a group) over one window ending at `at`."""

    scope: str
    at: datetime
    window_seconds: float
    scalars: Mapping[str, Signal] = field(default_factory=dict)
    vectors: Mapping[str, VectorSignal] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Signal]:
        return iter(self.scalars.values())

    def value(self, name: str) -> float | None:
        """Value of the scalar signal `name`; None where it is absent or unknown to this set."""
        signal = self.scalars.get(name)
        return signal.value if signal else None
