"""Intervals folded into a few hundred bytes each, for memory alone: the form is this process's own and never stored.

As objects an interval of a page with all its histograms takes 4 kB, and a day of a thousand servers stands in memory.
What looking back asks again and again is kept beside as plain numbers, so that nothing is unfolded for it. The text is
JSON read by pydantic's parser, twice as fast as Python's and as exact.
"""

from __future__ import annotations

import json
import math
import zlib
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from operator import sub
from typing import Any, TypeVar, overload

from pydantic_core import from_json

from monitor.model.counts import Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.life import Life, LifeId
from monitor.model.reading import Flag
from monitor.model.server import ServerName
from monitor.signals.track import Digest, Drafted, Pair

Thing = TypeVar("Thing")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Edges of histograms by number, and their numbers: a few tuples in a fleet.
_EDGES: list[tuple[float, ...]] = []
_NUMBERS: dict[tuple[float, ...], int] = {}
_as_text = json.JSONEncoder(separators=(",", ":")).encode
#: What every text has in common, for zlib to refer to: it takes a fifth off what is kept, at no cost in time.
_COMMON = (
    b'00000,300.0,[0.0,0.0],null],300.0,[.0,null,{"stop":1.0,"length":0.0},{"2xx":1.0},null,0.0,[0,0.0,1.0,6,true,[1]],'
    b'[1,0.0,1.0,3,true,[1]]],15.0,[[1,0.0,1.0,1,true,[1]],[2,0.0,1.0,0,true,[1]],null],15.0,[0.0],15.0,[],false,false]'
)
#: How hard zlib tries: 6 takes 4 % off what 1 leaves, in a tenth more time.
_LEVEL = 6
#: Raw deflate: neither a head nor a sum is of use to one process.
_RAW = -15
#: Numbers that a digest is kept as.
_WIDTH = 7


def fold(interval: Interval) -> bytes:
    """The interval without its life and server, which its keeper knows."""
    speculation, traffic, latency, gauges = interval.speculation, interval.traffic, interval.latency, interval.gauges
    values = (
        microseconds(interval.start), microseconds(interval.end), interval.elapsed_seconds,
        None if speculation is None else (
            speculation.num_drafts, speculation.num_draft_tokens, speculation.num_accepted_tokens,
            speculation.accepted_per_pos, speculation.drafted_per_pos,
        ),
        interval.speculation_seconds,
        None if traffic is None else (
            traffic.generation_tokens, traffic.prompt_tokens, traffic.cached_prompt_tokens, traffic.engine_steps,
            traffic.step_tokens, dict(traffic.finished), dict(traffic.http_responses), traffic.rejections,
            traffic.preemptions, _folded(traffic.prompt_length), _folded(traffic.output_length),
        ),
        interval.traffic_seconds,
        None if latency is None else tuple(map(_folded, (
            latency.time_to_first_token, latency.inter_token, latency.time_per_output_token, latency.e2e_request,
            latency.queue,
        ))),
        interval.latency_seconds,
        (
            gauges.running_mean, gauges.running_max, gauges.waiting_mean, gauges.waiting_max, gauges.kv_usage_mean,
            gauges.kv_usage_max,
        ),
        interval.gauges_seconds,
        tuple(flag.value for flag in interval.flags),
        interval.is_gap,
        interval.partial,
    )  # fmt: skip
    press = zlib.compressobj(_LEVEL, wbits=_RAW, zdict=_COMMON)
    return press.compress(_as_text(values).encode()) + press.flush()


def unfold(folded: bytes, life: LifeId, server: ServerName) -> Interval:
    """The interval of that life again, equal to what was folded."""
    (
        start, end, elapsed, speculation, of_speculation, traffic, of_traffic, latency, of_latency, gauges, of_gauges,
        flags, is_gap, partial,
    ) = from_json(zlib.decompressobj(_RAW, _COMMON).decompress(folded))  # fmt: skip
    return Interval(
        life=life, server=server, start=moment(start), end=moment(end), elapsed_seconds=elapsed,
        speculation=None if speculation is None else _speculation(*speculation),
        speculation_seconds=of_speculation,
        traffic=None if traffic is None else TrafficCounts(*traffic[:-2], *map(_histogram, traffic[-2:])),
        traffic_seconds=of_traffic,
        latency=None if latency is None else LatencyCounts(*map(_histogram, latency)), latency_seconds=of_latency,
        gauges=GaugeSpan(*gauges), gauges_seconds=of_gauges,
        flags=_flags(tuple(flags)), is_gap=is_gap, partial=partial,
    )  # fmt: skip


def microseconds(at: datetime) -> int:
    """A moment as microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def moment(at: float) -> datetime:
    """Microseconds since 1970 as a moment."""
    return _EPOCH + timedelta(microseconds=at)


class _Made(Sequence[Thing]):
    """Things that are kept as something smaller, made when they are asked for and not kept."""

    __slots__ = ()

    @overload
    def __getitem__(self, place: int) -> Thing: ...
    @overload
    def __getitem__(self, place: slice) -> list[Thing]: ...
    def __getitem__(self, place: int | slice) -> Thing | list[Thing]:
        found = range(len(self))[place]
        return self._at(found) if isinstance(found, int) else list(map(self._at, found))

    @abstractmethod
    def _at(self, place: int) -> Thing:
        """The thing at that place, counted from 0."""


class Pairs(_Made[Pair]):
    """Lives with their intervals, which are folded."""

    __slots__ = ("_intervals", "_lives")

    def __init__(self, lives: Sequence[Life], intervals: Sequence[bytes]) -> None:
        self._lives = lives
        self._intervals = intervals

    def __len__(self) -> int:
        return len(self._lives)

    def __iter__(self) -> Iterator[Pair]:
        return map(_pair, self._lives, self._intervals)

    def _at(self, place: int) -> Pair:
        return _pair(self._lives[place], self._intervals[place])


def _pair(life: Life, folded: bytes) -> Pair:
    return life, _unfolded(folded, life.id, life.server)


#: Kept for a moment: windows of a server, and of its group after it, look at the same intervals.
_unfolded = lru_cache(maxsize=1024)(unfold)


class Digests(_Made[Digest]):
    """Digests kept as numbers."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: array[float]) -> None:
        """`numbers`: what `numbers_of` gave, one after the other."""
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers) // _WIDTH

    def _at(self, place: int) -> Digest:
        begun, seconds, drafts, accepted, first, batch, tokens = self._numbers[place * _WIDTH : (place + 1) * _WIDTH]
        drafted = Drafted(drafts, accepted, _known(first)) if drafts == drafts else None
        return Digest(moment(begun), seconds, drafted, _known(batch), _known(tokens))


class Moments(_Made[datetime]):
    """Moments kept as microseconds since 1970: most readers look at a few."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: array[int]) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def _at(self, place: int) -> datetime:
        return moment(self._numbers[place])


def numbers_of(digests: Iterable[Digest]) -> array[float]:
    """Digests as numbers; what is not known is NaN."""
    found = array("d")
    for one in digests:
        drafts, accepted, first = one.drafted or (math.nan, math.nan, math.nan)
        found.extend((
            microseconds(one.start), one.seconds, drafts, accepted, _or_nan(first), _or_nan(one.batch),
            _or_nan(one.tokens),
        ))  # fmt: skip
    return found


def span_of_numbers(span: slice) -> slice:
    """Where the numbers of a span of digests lie."""
    return slice(span.start * _WIDTH, None if span.stop is None else span.stop * _WIDTH)


def _known(value: float) -> float | None:
    return value if value == value else None


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


@lru_cache(maxsize=256)
def _flags(values: tuple[str, ...]) -> frozenset[Flag]:
    return frozenset(map(Flag, values))


def _folded(histogram: Histogram | None) -> tuple[Any, ...] | None:
    """Number of the edges, total, count, place of the first bucket that is not 0, buckets up to the last that rises.

    Whole buckets as what each adds to the one before, which is shorter.
    """
    if histogram is None:
        return None
    number = _NUMBERS.get(histogram.edges)
    if number is None:
        number = _NUMBERS[histogram.edges] = len(_EDGES)
        _EDGES.append(histogram.edges)
    values = histogram.cumulative
    first, end = 0, len(values)
    while first < end and not values[first]:
        first += 1
    while end > first + 1 and values[end - 1] == values[end - 2]:
        end -= 1
    kept = values[first:end]
    told = number, histogram.total, histogram.count, first
    if not any(value % 1.0 for value in kept):
        whole = tuple(map(int, kept))
        return (*told, True, tuple(map(sub, whole, (0, *whole))))
    return (*told, False, kept)


class _Folded(Histogram):
    """A histogram whose buckets are unfolded when they are asked for: most windows ask for none."""

    __slots__ = ("_kept",)
    _kept: tuple[int, float, float, int, bool, Any]

    def __init__(self, kept: tuple[int, float, float, int, bool, Any]) -> None:
        object.__setattr__(self, "_kept", kept)

    @property
    def edges(self) -> tuple[float, ...]:
        number: int = self._kept[0]
        return _EDGES[number]

    @property
    def cumulative(self) -> tuple[float, ...]:
        number, _, _, first, is_steps, kept = self._kept
        values: tuple[float, ...] = tuple(map(float, accumulate(kept) if is_steps else kept))
        rest = len(_EDGES[number]) - first - len(values)
        return (0.0,) * first + values + values[-1:] * rest if values else (0.0,) * (first + rest)

    @property
    def total(self) -> float:
        total: float = self._kept[1]
        return total

    @property
    def count(self) -> float:
        count: float = self._kept[2]
        return count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        mine = self.edges, self.cumulative, self.total, self.count
        return mine == (other.edges, other.cumulative, other.total, other.count)

    def __hash__(self) -> int:
        return hash((self.edges, self.cumulative, self.total, self.count))


def _histogram(folded: tuple[int, float, float, int, bool, Any] | None) -> Histogram | None:
    return None if folded is None else _Folded(folded)


def _speculation(
    drafts: float | None, draft_tokens: float | None, accepted_tokens: float | None, accepted: list[float] | None,
    drafted: list[float] | None,
) -> SpeculationCounts:
    return SpeculationCounts(
        drafts, draft_tokens, accepted_tokens, None if accepted is None else tuple(accepted),
        None if drafted is None else tuple(drafted),
    )
