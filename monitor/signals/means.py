"""What a curve shows of a window: the same values as `signals` has, without their certainty, at a third of the cost.

One value it has that `signals` has not: acceptance of servers at several settings, so that a group's curve goes on
while some of its servers are changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from monitor.model.interval import Interval
from monitor.model.life import Setting
from monitor.signals.accepted import Accepted, add_accepted
from monitor.signals.build import signals
from monitor.signals.load import rate
from monitor.signals.material import Material
from monitor.signals.steps import from_inter_token
from monitor.signals.track import Pair, Track
from monitor.signals.window import Window


class Means(NamedTuple):
    """Signals of these names; None where the window does not give them."""

    acceptance_rate: float | None = None
    acceptance_length: float | None = None
    generation_tokens_per_second: float | None = None
    step_seconds: float | None = None
    num_speculative_tokens: float | None = None


def means(pairs: Iterable[Pair], at: datetime, window_seconds: float) -> Means:
    """The values over the window that ends at `at`, of one server or of several together; all None without data."""
    ordered = sorted(pairs, key=lambda pair: pair[1].end)
    if not ordered:
        return Means()
    # Lives and digests of a track serve what looks back; nothing here does.
    window = Window([Track(ordered, (), [interval.end for _, interval in ordered], ())], at, window_seconds)
    material = Material(window, {})
    found = _by_setting(ordered) if window.is_mixed else [material.accepted] if material.accepted is not None else []
    step = from_inter_token(window.intervals)
    seconds = step.seconds if step is not None else None
    if step is None:
        # The other ways to tell a step rest on more than is here.
        seconds = signals(ordered, scope="", at=at, window_seconds=window_seconds).value("step_seconds")
    return Means(
        acceptance_rate=_rate(found),
        acceptance_length=_length(found),
        generation_tokens_per_second=rate(window.recent_streams, lambda counts: counts.generation_tokens)[0],
        step_seconds=seconds,
        num_speculative_tokens=material.tokens,
    )


def _by_setting(pairs: Iterable[Pair]) -> list[Accepted]:
    """Counts of each setting: a draft counts as what it was."""
    intervals: dict[Setting, list[Interval]] = {}
    for life, interval in pairs:
        intervals.setdefault(life.setting, []).append(interval)
    found = (add_accepted(own, setting) for setting, own in intervals.items())
    return [one for one in found if one is not None]


def _rate(found: list[Accepted]) -> float | None:
    """Accepted / draft tokens (0 to 1); None without drafts or where their length is not known."""
    drafted = sum(one.num_draft_tokens or 0.0 for one in found)
    if not drafted or not all(one.num_draft_tokens for one in found):
        return None
    return sum((one.length - 1.0) * one.num_drafts for one in found) / drafted


def _length(found: list[Accepted]) -> float | None:
    """Tokens per draft, bonus included; None without drafts."""
    if len(found) == 1:
        return found[0].length
    drafts = sum(one.num_drafts for one in found)
    return 1.0 + sum(one.num_accepted_tokens for one in found) / drafts if drafts else None
