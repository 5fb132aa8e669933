"""From a page's layout to "which lines hold which number of which engine", worked out once per layout.

It owns labels: which of them name an engine, which repeat one value, which are added up. It reads no values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from monitor.dialects.cells import Cell, HistogramCells, bind_histogram, bind_sum
from monitor.dialects.names import Meaning, Role
from monitor.exposition import Layout, Series

#: Labels under which every process or rank of one engine repeats the same number: the largest counts.
REPEATING = frozenset(
    {"pid", "tp_rank", "pp_rank", "ep_rank", "cp_rank", "moe_ep_rank", "attn_tp_rank", "attn_cp_rank"}
)
#: Labels that split one engine's number: the parts are added.
SPLITTING = frozenset({"is_streaming", "cache_source", "source", "engine_type", "dp_rank", "lora_name", "lora"})
#: Labels whose values are kept apart, with what they are read as.
KEYED = {
    "accepted_per_pos": "position",
    "drafted_per_pos": "position",
    "finished": "finished_reason",
    "sleep_state": "sleep_state",
}
#: Labels that name a replica behind one page; the first that a series has is part of its engine's name.
REPLICA = ("ReplicaId", "WorkerId")
#: More labels of Ray and OpenTelemetry that say where a series comes from, never which engine it is.
ORIGIN = frozenset(
    {"Component", "NodeAddress", "SessionName", "Version", "WorkerId", "otel_scope_name", "otel_scope_version"}
)
_ROLE_LABELS = frozenset({"engine_type", "worker", "worker_type", "worker_role", "role", "model_role"})
_DRAFT_ROLES = frozenset({"draft", "draft_worker", "drafter"})
_DRAFT_MARKS = frozenset({"is_draft", "is_draft_worker", "draft_worker"})

Sorted = tuple[Meaning, Series]


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


@dataclass(slots=True)
class _Draft:
    """What is gathered for one engine before it is bound."""

    lines: dict[tuple[str, Role, str], dict[int, list[Series]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    has_engine_label: bool = False


def is_draft_worker(labels: Mapping[str, str]) -> bool:
    """Whether a series belongs to the draft model's own worker, which repeats what its target does (SGLang)."""
    return any(
        (key in _ROLE_LABELS and value in _DRAFT_ROLES) or (key in _DRAFT_MARKS and value.lower() in ("1", "true"))
        for key, value in labels.items()
    )


def bind_engines(layout: Layout, meaning_of: Callable[[str], Meaning | None]) -> tuple[EngineCells, ...]:
    """The engines of a page, in page order; `meaning_of` says what a sample name stands for, if anything."""
    rows = [
        (meaning, series)
        for series in layout.series
        if (meaning := meaning_of(series.name)) is not None
        and meaning.known.reads is not None
        and not is_draft_worker(series.labels)
    ]
    telling = _telling_labels(rows)
    drafts: dict[tuple[str, str], _Draft] = {}
    ownerless: dict[str, list[Sorted]] = defaultdict(list)
    for meaning, series in rows:
        model = series.labels.get("model_name", "")
        if meaning.known.reads == "rejections" and "engine" not in series.labels:
            ownerless[model].append((meaning, series))
            continue
        draft = drafts.setdefault((model, _engine_name(series.labels, telling)), _Draft())
        _gather(draft, meaning, series)
    for (model, _), draft in drafts.items():
        # A number of the whole model goes to its first engine, so that adding engines counts it once.
        for meaning, series in ownerless.pop(model, ()):
            _gather(draft, meaning, series)
    return tuple(_bind(model, engine, draft) for (model, engine), draft in drafts.items())


def _engine_name(labels: Mapping[str, str], telling: Iterable[str]) -> str:
    parts = [labels.get("engine", "0")]
    parts += [labels[label] for label in REPLICA if label in labels][:1]
    parts += [labels[label] for label in telling if label in labels]
    return "/".join(parts)


def _telling_labels(rows: Iterable[Sorted]) -> list[str]:
    """Unknown labels by which series of one name and engine differ: a proxy put several servers on one page."""
    values: dict[tuple[str, frozenset[tuple[str, str]]], dict[str, set[str]]] = {}
    for meaning, series in rows:
        keyed = KEYED.get(meaning.known.reads or "")
        ours, other = [], []
        for label, value in series.labels.items():
            if label in ("model_name", "engine", "le", "reason", "status", keyed) or label in REPLICA:
                ours.append((label, value))
            elif label not in REPEATING and label not in SPLITTING and label not in ORIGIN:
                other.append((label, value))
        found = values.setdefault((series.name, frozenset(ours)), {})
        for label, value in other:
            found.setdefault(label, set()).add(value)
    return sorted({label for found in values.values() for label, seen in found.items() if len(seen) > 1})


def _gather(draft: _Draft, meaning: Meaning, series: Series) -> None:
    reads = meaning.known.reads
    assert reads is not None
    key = series.labels.get(KEYED[reads], "") if reads in KEYED else ""
    # Of several spellings only the nearest is used, per metric and key: old and new names never add up.
    draft.lines[reads, meaning.role, key][meaning.distance].append(series)
    draft.has_engine_label |= "engine" in series.labels


def _bind(model: str, engine: str, draft: _Draft) -> EngineCells:
    numbers: dict[str, Cell] = {}
    keyed: dict[str, dict[str, Cell]] = defaultdict(dict)
    created: dict[str, Cell] = {}
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
                numbers[f"{reads}_{role}"] = bind_sum(_groups(series))
        elif reads in KEYED:
            keyed[reads][key] = bind_sum(_groups(series))
        else:
            numbers[reads] = bind_sum(_groups(series))
    histograms = {
        reads: bound for reads, roles in buckets.items() if (bound := bind_histogram(roles)) is not None
    }
    return EngineCells(model, engine, numbers, dict(keyed), histograms, created, draft.has_engine_label)


def _groups(series: Iterable[Series]) -> list[list[int]]:
    """Lines that repeat one number together; the groups add up."""
    groups: dict[frozenset[tuple[str, str]], list[int]] = defaultdict(list)
    for one in series:
        parts = frozenset((key, value) for key, value in one.labels.items() if key not in REPEATING)
        groups[parts].append(one.line)
    return list(groups.values())
