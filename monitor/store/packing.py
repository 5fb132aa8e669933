"""Arrays, maps and histograms of an interval as one short text: its side row. It owns the form, not the row.

The text is JSON with one-letter keys for what is there:

    a, d     accepted and drafted per position
    f, w     finished requests by reason, HTTP responses by class
    p, o     histograms of prompt and output length
    t i x e q   histograms of time to first token, inter-token, per output token, end to end, queue

A histogram is `[edges, total, count, first, value, …]`: `edges` is the number of its row in `histogram_edges` (edges
are alike in every interval of a life and would be two thirds of the text); the cumulative counts are 0 before the
bucket `first`, then the values, and go on as the last of them. Whole numbers are written without a point; every number
comes back exactly. It is read by pydantic's parser, three times as fast as Python's: a report reads a hundred thousand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from monitor.model.counts import Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import Interval
from monitor.store.codec import to_json

Edges = tuple[float, ...]

_LATENCIES = (
    ("t", "time_to_first_token"),
    ("i", "inter_token"),
    ("x", "time_per_output_token"),
    ("e", "e2e_request"),
    ("q", "queue"),
)
#: One for all intervals that are read without their side rows.
_NO_LATENCY = LatencyCounts()
_HISTOGRAMS = ("p", "o", *(key for key, _ in _LATENCIES))


def pack(interval: Interval, edges_number: Callable[[Edges], int]) -> str | None:
    """The side row of `interval`; None where it has nothing to hold. `edges_number` numbers the edges of histograms."""
    tree: dict[str, Any] = {}
    speculation, traffic, latency = interval.speculation, interval.traffic, interval.latency
    if speculation is not None:
        _put_array(tree, "a", speculation.accepted_per_pos)
        _put_array(tree, "d", speculation.drafted_per_pos)
    if traffic is not None:
        _put_map(tree, "f", traffic.finished)
        _put_map(tree, "w", traffic.http_responses)
        _put_histogram(tree, "p", traffic.prompt_length, edges_number)
        _put_histogram(tree, "o", traffic.output_length, edges_number)
    if latency is not None:
        for key, name in _LATENCIES:
            _put_histogram(tree, key, getattr(latency, name), edges_number)
    return to_json(tree) if tree else None


class Unpacked:
    """A side row, read: what `pack` wrote. Without a text everything is absent. Raises ValueError on a broken text."""

    __slots__ = ("_edges_of", "_tree")

    def __init__(self, text: str | None, edges_of: Callable[[int], Edges]) -> None:
        self._tree: dict[str, Any] = from_json(text) if text else {}
        self._edges_of = edges_of

    def speculation(
        self, drafts: float | None, draft_tokens: float | None, accepted: float | None
    ) -> SpeculationCounts:
        """The family with its arrays."""
        return SpeculationCounts(drafts, draft_tokens, accepted, self._array("a"), self._array("d"))

    def traffic(
        self,
        generation_tokens: float | None,
        prompt_tokens: float | None,
        cached_prompt_tokens: float | None,
        engine_steps: float | None,
        step_tokens: float | None,
        rejections: float | None,
        preemptions: float | None,
    ) -> TrafficCounts:
        """The family with its maps and length histograms."""
        counts = generation_tokens, prompt_tokens, cached_prompt_tokens, engine_steps, step_tokens
        if not self._tree:
            return TrafficCounts(*counts, {}, {}, rejections, preemptions)
        return TrafficCounts(
            *counts,
            self._map("f"),
            self._map("w"),
            rejections,
            preemptions,
            self._histogram("p"),
            self._histogram("o"),
        )

    def latency(self) -> LatencyCounts:
        """The family of latency histograms."""
        if not self._tree:
            return _NO_LATENCY
        return LatencyCounts(*(self._histogram(key) for key, _ in _LATENCIES))

    def _array(self, key: str) -> tuple[float, ...] | None:
        values = self._tree.get(key)
        return None if values is None else tuple(map(float, values))

    def _map(self, key: str) -> dict[str, float]:
        return {name: float(value) for name, value in self._tree.get(key, {}).items()}

    def _histogram(self, key: str) -> Histogram | None:
        packed = self._tree.get(key)
        if packed is None:
            return None
        number, total, count, first, *values = packed
        edges = self._edges_of(number)
        kept = tuple(map(float, values))
        cumulative = (0.0,) * first + kept + (kept[-1:] or (0.0,)) * (len(edges) - first - len(kept))
        return Histogram(edges, cumulative, float(total), float(count))


def renumbered(text: str | None, numbers: Mapping[int, int]) -> str | None:
    """A side row whose histograms refer to edges by other numbers: for another database. KeyError where one lacks."""
    if text is None or all(old == new for old, new in numbers.items()):
        return text
    tree = json.loads(text)
    for key in _HISTOGRAMS:
        if key in tree:
            tree[key][0] = numbers[tree[key][0]]
    return to_json(tree)


def _short(value: float) -> float | int:
    """A whole number without its point; -0.0 keeps it, for its sign."""
    return int(value) if value.is_integer() and (value or str(value) == "0.0") else value


def _put_array(tree: dict[str, Any], key: str, values: tuple[float, ...] | None) -> None:
    if values is not None:
        tree[key] = [_short(float(value)) for value in values]


def _put_map(tree: dict[str, Any], key: str, values: Mapping[str, float]) -> None:
    if values:
        tree[key] = {name: _short(float(value)) for name, value in values.items()}


def _put_histogram(
    tree: dict[str, Any], key: str, histogram: Histogram | None, edges_number: Callable[[Edges], int]
) -> None:
    if histogram is None:
        return
    values = histogram.cumulative
    first, end = 0, len(values)
    while first < end and values[first] == 0.0:
        first += 1
    while end > first + 1 and values[end - 1] == values[end - 2]:
        end -= 1
    number = edges_number(histogram.edges)
    total, count = _short(float(histogram.total)), _short(float(histogram.count))
    tree[key] = (number, total, count, first, *(_short(float(value)) for value in values[first:end]))
