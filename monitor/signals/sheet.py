"""A sheet of signals that are worked out when they are first asked for, each a value or the reason for its absence.

Rules read a few of a hundred signals. Each part of the vocabulary has one writer, which writes all signals of its part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from monitor.model.signal import NoData, Signal, VectorSignal
from monitor.signals.material import Material
from monitor.signals.uncertainty import Estimate

Found = TypeVar("Found")


#: Materials kept ready: an evaluation asks one scope after the other, each over a few windows.
_READY = 8


@lru_cache(maxsize=_READY)
def _made(make: Callable[[], Material]) -> Material:
    """The material, made again where others were asked for since: all of a fleet's at once would fill the memory."""
    return make()


class Sheet:
    """Signals of one material by name, scalars and vectors; numbers that are not finite become absent."""

    def __init__(
        self, make: Callable[[], Material], scalars: Mapping[str, Writer], vectors: Mapping[str, Writer]
    ) -> None:
        """`make` makes the material, the same each time; `scalars` and `vectors` map every name there is to what writes
        it down.
        """
        self._make = make
        self._scalars: dict[str, Signal] = {}
        self._vectors: dict[str, VectorSignal] = {}
        self._writers = scalars, vectors

    @property
    def material(self) -> Material:
        """What the signals are made from."""
        return _made(self._make)

    # Made anew each time: a sheet that held them would be a cycle, of which an evaluation makes thousands.

    @property
    def scalars(self) -> Mapping[str, Signal]:
        """The scalars by name."""
        return _Written(self, self._scalars, self._writers[0])

    @property
    def vectors(self) -> Mapping[str, VectorSignal]:
        """The vectors by name."""
        return _Written(self, self._vectors, self._writers[1])

    def value(self, name: str) -> float | None:
        """The scalar `name`; None where it is absent."""
        return self.scalars[name].value

    def put(
        self, name: str, value: float | None, sample: float = 0.0, *, absent: NoData = NoData.NOT_EXPORTED,
        low: float | None = None, high: float | None = None,
    ) -> None:
        """Write a number down, or `absent` as the reason when it is None or not finite."""
        # Without names of arguments: a fleet's evaluation makes hundreds of thousands, and names double the time.
        if value is None or not math.isfinite(value):
            self._scalars[name] = Signal(name, None, sample, None, None, absent)
        else:
            self._scalars[name] = Signal(name, float(value), sample, low, high)

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
            self._vectors[name] = VectorSignal(name, (), sample, reason=absent)
        else:
            self._vectors[name] = VectorSignal(
                name, tuple(values), sample, lows=tuple(lows), highs=tuple(highs)
            )


#: Writes one part of the vocabulary down.
Writer = Callable[[Sheet, Material], None]


class _Written(Mapping[str, Found]):
    """Signals of one kind by name; asking for one has its part written."""

    def __init__(self, sheet: Sheet, done: dict[str, Found], writers: Mapping[str, Writer]) -> None:
        self._sheet = sheet
        self._done = done
        self._writers = writers

    def __getitem__(self, name: str) -> Found:
        found = self._done.get(name)
        if found is None:
            self._writers[name](self._sheet, self._sheet.material)
            found = self._done[name]
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """As of any mapping, without its detour over an exception."""
        found = self._done.get(name)
        if found is None and name in self._writers:
            return self[name]
        return default if found is None else found

    def __contains__(self, name: object) -> bool:
        return name in self._writers

    def __iter__(self) -> Iterator[str]:
        return iter(self._writers)

    def __len__(self) -> int:
        return len(self._writers)
