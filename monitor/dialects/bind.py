"""From a page's layout to "which lines hold which number of which engine", worked out once per layout.

It reads no values; what labels mean is in `labels`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from monitor.dialects.cells import Cell, HistogramCells, bind_histogram, bind_sum
from monitor.dialects.labels import (
    KEYED,
    Row,
    engine_name,
    groups,
    is_draft_worker,
    telling_labels,
    without_parts_of_totals,
)
from monitor.dialects.names import Meaning, Role, is_rays
from monitor.exposition import Layout, Series


@dataclass(frozen=True, slots=True, eq=False)
class EngineCells:
    """Where the numbers of one (model, engine) stand, by what they are read as.

    `numbers` also has `NAME_sum` and `NAME_count` of histograms; `keyed` what has a label each (positions, reasons).
    """

    model: str
    engine: str
    numbers: Mapping[str, Cell]
    keyed: Mapping[str, Mapping[str, Cell]]
    histograms: Mapping[str, HistogramCells]
    created: Mapping[str, Cell]
    #: Whether its series have an `engine` label: how vLLM's generations are told apart.
    has_engine_label: bool = False
    #: Whether its series come through Ray, which prints a counter only from its first increment above 0 on.
    is_rays: bool = False
    #: The values of `is_streaming` by which counters are split (SGLang).
    streaming: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Draft:
    """What is gathered for one engine before it is bound."""

    lines: dict[tuple[str, Role, str], dict[int, list[Series]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    has_engine_label: bool = False
    is_rays: bool = False


def bind_engines(layout: Layout, meaning_of: Callable[[str], Meaning | None]) -> tuple[EngineCells, ...]:
    """The engines of a page, in page order; `meaning_of` says what a sample name stands for, if anything."""
    rows = without_parts_of_totals(
        (meaning, series)
        for series in layout.series
        if (meaning := meaning_of(series.name)) is not None
        and meaning.known.reads is not None
        and not is_draft_worker(series.labels)
    )
    telling = telling_labels(rows)
    drafts: dict[tuple[str, str], _Draft] = {}
    ownerless: dict[str, list[Row]] = defaultdict(list)
    for meaning, series in rows:
        model = series.labels.get("model_name", "")
        if meaning.known.reads == "rejections" and "engine" not in series.labels:
            ownerless[model].append((meaning, series))
            continue
        draft = drafts.setdefault((model, engine_name(series.labels, telling)), _Draft())
        _gather(draft, meaning, series)
    for (model, _), draft in drafts.items():
        # A number of the whole model goes to its first engine, so that adding engines counts it once.
        for meaning, series in ownerless.pop(model, ()):
            _gather(draft, meaning, series)
    return tuple(_bind(model, engine, draft) for (model, engine), draft in drafts.items())


def _gather(draft: _Draft, meaning: Meaning, series: Series) -> None:
    reads = meaning.known.reads
    assert reads is not None
    key = series.labels.get(KEYED[reads], "") if reads in KEYED else ""
    # Of several spellings only the nearest is used, per metric and key: old and new names never add up.
    draft.lines[reads, meaning.role, key][meaning.distance].append(series)
    draft.has_engine_label |= "engine" in series.labels
    draft.is_rays |= is_rays(series.name)


def _bind(model: str, engine: str, draft: _Draft) -> EngineCells:
    numbers: dict[str, Cell] = {}
    keyed: dict[str, dict[str, Cell]] = defaultdict(dict)
    created: dict[str, Cell] = {}
    streaming: dict[str, frozenset[str]] = {}
    buckets: dict[str, dict[Role, list[Series]]] = defaultdict(dict)
    nearest = {reads: min(spelled) for (reads, role, _), spelled in draft.lines.items() if role is Role.BUCKET}
    for (reads, role, key), spelled in draft.lines.items():
        series = spelled.get(nearest.get(reads, min(spelled)), [])
        if not series:
            continue
        if role is Role.CREATED:
            created[reads] = bind_sum([[one.line for one in series]])
        elif role is not Role.VALUE:
            buckets[reads][role] = series
            if role is not Role.BUCKET:
                numbers[f"{reads}_{role}"] = bind_sum(groups(series))
        else:
            (keyed[reads] if reads in KEYED else numbers)[key if reads in KEYED else reads] = bind_sum(groups(series))
            streaming[reads] = frozenset(way for one in series if (way := one.labels.get("is_streaming")))
    histograms = {
        reads: bound for reads, roles in buckets.items() if (bound := bind_histogram(roles)) is not None
    }
    return EngineCells(
        model, engine, numbers, dict(keyed), histograms, created, draft.has_engine_label, draft.is_rays, streaming
    )
