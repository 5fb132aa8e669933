"""A sheet on which signals are written down, each with a value or with the reason for its absence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from monitor.model.signal import NoData, Signal, VectorSignal
from monitor.signals.uncertainty import Estimate


class Sheet:
    """Collects signals by name; a later entry replaces an earlier one, numbers that are not finite become absent."""

    def __init__(self) -> None:
        self.scalars: dict[str, Signal] = {}
        self.vectors: dict[str, VectorSignal] = {}

    def put(
        self, name: str, value: float | None, sample: float = 0.0, *, absent: NoData = NoData.NOT_EXPORTED,
        low: float | None = None, high: float | None = None,
    ) -> None:
        """Write a number down, or `absent` as the reason when it is None or not finite."""
        if value is None or not math.isfinite(value):
            self.scalars[name] = Signal(name, None, sample, reason=absent)
        else:
            self.scalars[name] = Signal(name, float(value), sample, low=low, high=high)

    def put_estimate(self, name: str, estimate: Estimate | None, sample: float, *, absent: NoData) -> None:
        """Write an estimate with its interval down."""
        if estimate is None:
            self.put(name, None, sample, absent=absent)
        else:
            self.put(name, estimate.value, sample, low=estimate.low, high=estimate.high)

    def put_vector(
        self, name: str, values: Sequence[float | None], sample: float = 0.0, *, absent: NoData = NoData.NOT_EXPORTED,
        lows: Sequence[float | None] = (), highs: Sequence[float | None] = (),
    ) -> None:
        """Write one number per position down, or `absent` as the reason when there is none."""
        if not values:
            self.vectors[name] = VectorSignal(name, (), sample, reason=absent)
        else:
            self.vectors[name] = VectorSignal(
                name, tuple(values), sample, lows=tuple(lows), highs=tuple(highs)
            )
