"""The difference of two cumulative counts of one engine, family by family. It does not know lives or resets.

A number that fell has no difference: it is None and named, and everything else stays. A number that was not there
before has one only where it can have grown from 0: else a page that lost a line would make the next one count a whole
life.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import lt, sub

from monitor.model.counts import Counts, Histogram, LatencyCounts, SpeculationCounts, TrafficCounts

_LATENCY = tuple(one.name for one in fields(LatencyCounts))
#: Counters that appear by themselves on lazy engines; tokens of prompts and answers come together.
_ALONE = frozenset({"cached_prompt_tokens", "engine_steps", "step_tokens", "rejections", "preemptions"})
_SPECULATION = ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "accepted_per_pos")


@dataclass(slots=True)
class Difference:
    """What was added between two counts; `fallen` names the numbers that were lower at the end."""

    counts: Counts
    fallen: list[str] = field(default_factory=list)


def subtract(
    new: Counts, old: Counts, *, lazy: bool = False, late: bool = False, most: float = math.inf
) -> Difference:
    """What happened between `old` and `new` of one life.

    `lazy` engines print a series only from its first observation on, so what was not there was 0, if it is not above
    `most`: the largest count that the time between can have made. `late` ones do so for speculation alone.
    """
    fallen: list[str] = []
    first = most if lazy else 0.0
    traffic = _traffic(new.traffic, old.traffic, first, most, fallen)
    speculation = _speculation(new, old, traffic, lazy or late, fallen)
    return Difference(Counts(speculation, traffic, _latency(new.latency, old.latency, first, fallen)), fallen)


def has_lost(new: Counts, old: Counts, *, estimated: bool = False) -> bool:
    """Whether a page lacks counters that the life had: generated tokens, or any of speculation.

    `estimated` speculation counts (vLLM V0) come and go with what they are worked out from.
    """
    pairs = [(_generated(new), _generated(old))]
    if old.speculation is not None and not estimated:
        now = new.speculation or SpeculationCounts(None, None, None)
        pairs += [(getattr(now, name), getattr(old.speculation, name)) for name in _SPECULATION]
    return any(now is None and before is not None for now, before in pairs)


def _generated(counts: Counts) -> float | None:
    return counts.traffic.generation_tokens if counts.traffic is not None else None


def _number(name: str, new: float | None, old: float | None, fallen: list[str]) -> float | None:
    if new is None or old is None:
        return None
    if new < old:
        fallen.append(name)
        return None
    return new - old


def _speculation(
    new: Counts, old: Counts, traffic: TrafficCounts | None, late: bool, fallen: list[str]
) -> SpeculationCounts | None:
    now, before = new.speculation, old.speculation
    if now is None:
        return None
    if before is None:
        return now if late and _can_be_new(now, traffic) else None
    own: list[str] = []
    found = SpeculationCounts(
        num_drafts=_number("num_drafts", now.num_drafts, before.num_drafts, own),
        num_draft_tokens=_number("num_draft_tokens", now.num_draft_tokens, before.num_draft_tokens, own),
        num_accepted_tokens=_number("num_accepted_tokens", now.num_accepted_tokens, before.num_accepted_tokens, own),
        accepted_per_pos=_positions(now.accepted_per_pos, before.accepted_per_pos, before.num_accepted_tokens, own),
        drafted_per_pos=_positions(now.drafted_per_pos, before.drafted_per_pos, before.num_draft_tokens, own),
    )
    fallen += own
    return None if own or found == SpeculationCounts(None, None, None) else found


def _can_be_new(now: SpeculationCounts, traffic: TrafficCounts | None) -> bool:
    """Whether all these drafts can be of this interval: they emitted no more tokens than it generated.

    Some frontends print speculation only from the first draft on; on a page that lost the series before, the totals
    of a long life exceed what one interval generated.
    """
    generated = traffic.generation_tokens if traffic is not None else None
    drafts = now.num_drafts if now.num_drafts is not None else now.num_draft_tokens
    if drafts is None:
        return False
    return drafts == 0 or (generated is not None and drafts + (now.num_accepted_tokens or 0.0) <= generated)


def _positions(
    now: tuple[float, ...] | None, before: tuple[float, ...] | None, total_before: float | None, fallen: list[str]
) -> tuple[float, ...] | None:
    if now is None:
        return None
    before = before or ()
    if len(now) < len(before) or (len(now) > len(before) and sum(before) != total_before):
        return None  # positions vanished, or those that are new were not 0 before
    before = before + (0.0,) * (len(now) - len(before))
    if any(map(lt, now, before)):
        fallen.append("accepted_per_pos")
        return None
    return tuple(map(sub, now, before))


def _traffic(
    new: TrafficCounts | None, old: TrafficCounts | None, first: float, most: float, fallen: list[str]
) -> TrafficCounts | None:
    if new is None or (old is None and not first):
        return None
    if old is None:
        # All counters of an engine appear together; its prompts may be longer than what it generated.
        return new if (new.generation_tokens or 0.0) <= first else None

    def grown(name: str) -> float | None:
        now, before = getattr(new, name), getattr(old, name)
        can_be_new = before is None and now is not None and 0 <= now <= first and name in _ALONE
        return now if can_be_new else _number(name, now, before, fallen)

    return TrafficCounts(
        generation_tokens=grown("generation_tokens"),
        prompt_tokens=grown("prompt_tokens"),
        cached_prompt_tokens=grown("cached_prompt_tokens"),
        engine_steps=grown("engine_steps"),
        step_tokens=grown("step_tokens"),
        finished=_by_key("finished", new.finished, old.finished, most, fallen),
        http_responses=_by_key("http_responses", new.http_responses, old.http_responses, most, fallen),
        rejections=grown("rejections"),
        preemptions=grown("preemptions"),
        prompt_length=_histogram("prompt_length", new.prompt_length, old.prompt_length, first, fallen),
        output_length=_histogram("output_length", new.output_length, old.output_length, first, fallen),
    )


def _by_key(
    name: str, new: Mapping[str, float], old: Mapping[str, float], most: float, fallen: list[str]
) -> Mapping[str, float]:
    """Differences per label value; one that is new counts from 0 (labels appear with their first event)."""
    if any(key not in new for key in old) or any(value > most for key, value in new.items() if key not in old):
        return {}
    if any(value < old.get(key, 0.0) for key, value in new.items()):
        fallen.append(name)
        return {}
    return {key: value - old.get(key, 0.0) for key, value in new.items()}


def _latency(
    new: LatencyCounts | None, old: LatencyCounts | None, first: float, fallen: list[str]
) -> LatencyCounts | None:
    if new is None or (old is None and not first):
        return None
    before = old or LatencyCounts()
    return LatencyCounts(
        **{name: _histogram(name, getattr(new, name), getattr(before, name), first, fallen) for name in _LATENCY}
    )


def _histogram(
    name: str, new: Histogram | None, old: Histogram | None, first: float, fallen: list[str]
) -> Histogram | None:
    if new is None:
        return None
    if old is None:
        return new if first and new.count <= first else None
    if new.edges != old.edges:
        return None
    if new.count < old.count or any(map(lt, new.cumulative, old.cumulative)):
        fallen.append(name)
        return None
    cumulative = tuple(map(sub, new.cumulative, old.cumulative))
    if cumulative != tuple(sorted(cumulative)):
        return None
    # A sum of seconds may fall by a rounding error where nothing was observed.
    total = max(0.0, new.total - old.total)
    return Histogram(new.edges, cumulative, total, new.count - old.count)
