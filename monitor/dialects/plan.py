"""What a layout means, worked out once for all pages that share it. It reads no values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from monitor.dialects.bind import EngineCells, bind_engines
from monitor.dialects.cells import Cell, bind_sum
from monitor.dialects.detect import (
    engines_of,
    generation_by,
    generation_of,
    is_router_name,
    meaning_of,
    shows_v0,
    unknown_names,
)
from monitor.dialects.names import Kind, Meaning, Role, spell
from monitor.exposition import Layout
from monitor.model.server import Engine

#: HTTP paths that serve operators, not users: their answers say nothing about availability.
_OPERATORS_PATHS = ("/metrics", "/health", "/ping", "/load", "/version", "/docs", "/openapi", "/server_info", "none")


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Plan:
    """Which engine a page belongs to and where its numbers stand.

    `declares_engine`: engine families are named on the page, with or without samples. `declares_speculation`: TYPE
    lines of speculation series are there although no sample is.
    """

    layout: Layout
    engine: Engine | None
    has_engine_label: bool
    engines: tuple[EngineCells, ...]
    http: Mapping[str, Cell]
    process_start: int | None
    declares_engine: bool
    declares_speculation: bool
    is_router: bool
    #: TYPE lines name vLLM's counters without `_total` while its samples have it: only OpenMetrics does.
    looks_openmetrics: bool
    unknown: frozenset[str]
    #: Lines of every series that is read, and of the counters among them.
    lines: tuple[int, ...]
    counter_lines: tuple[int, ...]
    #: `V0` or `V1` as the page shows it; None where only the version tells, and for other engines.
    shown_generation: str | None
    #: Whether series that only V0 prints stand beside V1's: the numbers of either may be the other's.
    mixes_generations: bool
    #: Signs, a sentence each, that the page was put together from several.
    joined: tuple[str, ...]

    def generation(self, version: str | None) -> str:
        """`V0` or `V1` for a vLLM page."""
        return self.shown_generation or generation_by(version)


class Plans:
    """Plans by layout, as long as a reader holds them; safe to share between threads: losing one only costs time."""

    def __init__(self) -> None:
        self._plans: WeakValueDictionary[int, Plan] = WeakValueDictionary()

    def plan(self, layout: Layout) -> Plan:
        """The plan of a layout; the same object for the same layout."""
        known = self._plans.get(id(layout))
        if known is not None and known.layout is layout:
            return known
        made = self._plans[id(layout)] = make_plan(layout)
        return made


def make_plan(layout: Layout) -> Plan:
    """Work out what a layout means."""
    sampled = engines_of(series.name for series in layout.series)
    named = sampled or engines_of(layout.types) or engines_of(layout.names)
    engine = named[0] if named else None
    spellings = [spelling for name in layout.names if (spelling := spell(name)) is not None]
    families = [spelling for name in layout.types if (spelling := spell(name)) is not None]
    engines = bind_engines(layout, lambda name: _meaning_in(engine, name))
    has_engine_label = any(cells.has_engine_label for cells in engines)
    shown = generation_of((*layout.names, *layout.types), has_engine_label)
    return Plan(
        layout=layout,
        engine=engine,
        has_engine_label=has_engine_label,
        engines=engines,
        http=_bind_http(layout),
        process_start=_only_line(layout, "process_start_time_seconds"),
        declares_engine=bool(spellings or families),
        declares_speculation=any("spec_" in spelling.bare for spelling in families),
        is_router=any(is_router_name(spelling) for spelling in spellings),
        looks_openmetrics=_looks_openmetrics(layout),
        unknown=unknown_names((*layout.types, *layout.names)),
        lines=tuple(series.line for series in layout.series),
        counter_lines=tuple(series.line for series in layout.series if _is_counter(series.name)),
        shown_generation=shown,
        mixes_generations=shown == "V1" and shows_v0(series.name for series in layout.series),
        joined=_signs_of_joining(layout, sampled),
    )


def _signs_of_joining(layout: Layout, sampled: Sequence[Engine]) -> tuple[str, ...]:
    signs = [
        f"{name} is declared twice: the page was put together from several"
        for name in sorted(layout.redeclared)
        if name == "process_start_time_seconds" or spell(name) is not None
    ][:1]
    if len(sampled) > 1:
        signs.append(f"series of {', '.join(sampled[1:])} are on the page as well and were left out")
    return tuple(signs)


def _is_counter(name: str) -> bool:
    meaning = meaning_of(name)
    return meaning is not None and meaning.known.kind is Kind.COUNTER and meaning.role is Role.VALUE


def _looks_openmetrics(layout: Layout) -> bool:
    return any(
        kind == "counter" and name.startswith("vllm:") and f"{name}_total" in layout.names and name not in layout.names
        for name, kind in layout.types.items()
    )


def _meaning_in(engine: Engine | None, name: str) -> Meaning | None:
    spelling = spell(name)
    return meaning_of(name) if spelling is not None and spelling.engine is engine else None


def _bind_http(layout: Layout) -> Mapping[str, Cell]:
    lines: dict[str, list[list[int]]] = defaultdict(list)
    for series in layout.find("http_requests_total"):
        status, path = series.labels.get("status", ""), series.labels.get("handler", "")
        if status[:1].isdigit() and not path.startswith(_OPERATORS_PATHS):
            lines[f"{status[0]}xx"].append([series.line])
    return {status: bind_sum(groups) for status, groups in lines.items()}


def _only_line(layout: Layout, name: str) -> int | None:
    found = layout.find(name)
    return found[0].line if len(found) == 1 else None
