"""Metric names as data: what a name is called, which versions print it, and what acceptd makes of it.

It owns how names are spelled differently (Ray's prefix, `:` or `_`, missing `_total`), not what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from monitor.model.server import Engine

_PREFIX = re.compile(r"(ray_)?(vllm|sglang|llamacpp)([:_])(.+)", re.DOTALL)


class Kind(StrEnum):
    """What sort of metric a name is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Role(StrEnum):
    """Which of a metric's samples a sample name stands for."""

    VALUE = "value"
    CREATED = "created"
    BUCKET = "bucket"
    SUM = "sum"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Known:
    """A metric that an engine prints: its name without prefix (counters also without `_total`) and its versions.

    `reads` names what acceptd takes it for, None where it only knows it. Of two that are read as the same, the one with
    the lower `rank` counts where a page has both (renamed metrics). `first` "": never looked up; `last` None: still in
    the newest release that was read.
    """

    name: str
    kind: Kind
    reads: str | None
    first: str
    last: str | None = None
    generation: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Spelling:
    """A sample name taken apart: whose it is, its bare name, and how far its spelling is from the engine's own."""

    engine: Engine
    bare: str
    distance: int


@lru_cache(maxsize=20_000)
def spell(name: str) -> Spelling | None:
    """Engine and bare name of a sample name; None where it is no engine's.

    Ray Serve prints `ray_vllm:x`, from 2.53 `ray_vllm_x` (ray-project/ray#52719); OpenTelemetry prints `vllm_x`.
    """
    match = _PREFIX.fullmatch(name)
    if match is None:
        return None
    ray, engine, separator, bare = match.groups()
    return Spelling(Engine(engine), bare, (4 if ray else 0) + (2 if separator == "_" else 0))


def is_rays(name: str) -> bool:
    """Whether a sample name is printed by Ray for the engine in it."""
    return name.startswith("ray_")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a sample stands for: the metric, which of its samples, and its distance from the preferred spelling."""

    known: Known
    role: Role
    distance: int


class Names:
    """All names of one engine, found by their samples."""

    def __init__(self, table: Iterable[Known]) -> None:
        self.table = tuple(table)
        self._by_sample: dict[str, tuple[Known, Role, int]] = {}
        for known in self.table:
            for sample, role, distance in _samples(known):
                self._by_sample.setdefault(sample, (known, role, distance))

    def meaning(self, spelling: Spelling) -> Meaning | None:
        """What a sample of that name stands for; None where the name is unknown."""
        found = self._by_sample.get(spelling.bare)
        if found is None:
            return None
        known, role, distance = found
        return Meaning(known, role, 16 * known.rank + spelling.distance + distance)

    def is_read(self, spelling: Spelling) -> bool:
        """Whether acceptd needs samples of that name."""
        meaning = self.meaning(spelling)
        return meaning is not None and meaning.known.reads is not None

    def knows_family(self, spelling: Spelling) -> bool:
        """Whether a family (TYPE line) or sample of that name is in the table."""
        return spelling.bare in self._by_sample or any(
            spelling.bare == known.name or spelling.bare == f"{known.name}_total" for known in self.table
        )


def _samples(known: Known) -> list[tuple[str, Role, int]]:
    name = known.name
    match known.kind:
        case Kind.COUNTER:
            # Some frontends leave `_total` out; where a page has both spellings the suffixed one counts.
            return [(f"{name}_total", Role.VALUE, 0), (name, Role.VALUE, 1), (f"{name}_created", Role.CREATED, 0)]
        case Kind.GAUGE:
            return [(name, Role.VALUE, 0)]
        case Kind.HISTOGRAM:
            return [
                (f"{name}_bucket", Role.BUCKET, 0),
                (f"{name}_sum", Role.SUM, 0),
                (f"{name}_count", Role.COUNT, 0),
                (f"{name}_created", Role.CREATED, 0),
            ]


def version_key(version: str) -> tuple[int, ...]:
    """A version or build as numbers that compare: `0.10.1.1` -> (0, 10, 1, 1), `b11434` -> (11434,); () without any."""
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version.split("+")[0].split("rc")[0].split("dev")[0]))


def names_printed_by(table: Iterable[Known], version: str, generation: str) -> Mapping[str, Known]:
    """The metrics of a table that a version prints, by what they are read as (read ones only)."""
    key = version_key(version)
    printed = (
        known
        for known in table
        if known.reads is not None
        and known.generation in ("", generation)
        and version_key(known.first) <= key
        and (known.last is None or key <= version_key(known.last))
    )
    return {known.reads: known for known in sorted(printed, key=lambda known: -known.rank) if known.reads is not None}
