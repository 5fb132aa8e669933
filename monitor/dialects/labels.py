"""What labels mean: which of them name an engine, which repeat one number, which split it. It binds no lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from monitor.dialects.names import Meaning
from monitor.exposition import Series

#: Labels under which every process or rank of one engine repeats the same number: the largest counts.
REPEATING = frozenset(
    {"pid", "tp_rank", "pp_rank", "ep_rank", "cp_rank", "moe_ep_rank", "attn_tp_rank", "attn_cp_rank"}
)
#: SGLang's queues by priority: the total stands beside its parts, with this label empty.
PRIORITY = "priority"
#: Labels that split one engine's number: the parts are added.
SPLITTING = frozenset(
    {"is_streaming", "cache_source", "source", "engine_type", "dp_rank", "lora_name", "lora", PRIORITY}
)
#: Labels whose values are kept apart, with what they are read as.
KEYED = {
    "accepted_per_pos": "position",
    "drafted_per_pos": "position",
    "finished": "finished_reason",
    "sleep_state": "sleep_state",
}
#: Labels that name a replica behind one page; the first that a series has (Ray leaves the replica empty outside Serve)
#: is part of its engine's name.
REPLICA = ("ReplicaId", "WorkerId")
#: More labels of Ray and OpenTelemetry that say where a series comes from, never which engine it is.
ORIGIN = frozenset(
    {"Component", "NodeAddress", "SessionName", "Version", "WorkerId", "otel_scope_name", "otel_scope_version"}
)
#: Labels that may hold these words as a name of the operator's choosing.
_FREE = frozenset({"model_name", "engine", "instance", "job", "pod", "namespace"})
_DRAFT_ROLES = frozenset({"draft", "draft_worker", "draft_model", "drafter"})
_YES = frozenset({"1", "true", "yes"})

Row = tuple[Meaning, Series]


def is_draft_worker(labels: Mapping[str, str]) -> bool:
    """Whether a series belongs to the draft model's own worker, which repeats what its target does (SGLang).

    Builds name the label differently: one says `draft`, or has that word in its name and says yes.
    """
    return any(
        key not in _FREE and (value.lower() in _DRAFT_ROLES or ("draft" in key.lower() and value.lower() in _YES))
        for key, value in labels.items()
    )


def without_parts_of_totals(rows: Iterable[Row]) -> list[Row]:
    """The rows without those that their total, on the same page, has in it."""
    rows = list(rows)
    totals = {series.name for _, series in rows if series.labels.get(PRIORITY) == ""}
    return [row for row in rows if not row[1].labels.get(PRIORITY) or row[1].name not in totals]


def telling_labels(rows: Iterable[Row]) -> list[str]:
    """Unknown labels that tell engines apart: a proxy put several servers on one page.

    Every engine has its own number of running requests, so a label by which those do not differ splits something
    finer (an operator's own label on token counters, say). Without them any label counts by which series differ.
    """
    rows = list(rows)
    running = [row for row in rows if row[0].known.reads == "running"]
    values: dict[tuple[str, frozenset[tuple[str, str]]], dict[str, set[str]]] = {}
    for meaning, series in running or rows:
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


def engine_name(labels: Mapping[str, str], telling: Iterable[str]) -> str:
    """An engine's name by the labels of one of its series: `0`, or `0/replica`, or `0/host:8000`."""
    parts = [labels.get("engine", "0")]
    parts += [name for label in REPLICA if (name := labels.get(label))][:1]
    parts += [labels[label] for label in telling if label in labels]
    return "/".join(parts)


def groups(series: Iterable[Series]) -> list[list[int]]:
    """Lines that repeat one number together; the groups add up."""
    found: dict[frozenset[tuple[str, str]], list[int]] = defaultdict(list)
    for one in series:
        parts = frozenset((key, value) for key, value in one.labels.items() if key not in REPEATING)
        found[parts].append(one.line)
    return list(found.values())
