"""What a curve shows of a window: the same values as `signals` has, without their certainty, at a third of the cost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

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
    accepted, step = material.accepted, from_inter_token(window.intervals)
    per_draft = accepted.num_draft_tokens / accepted.num_drafts if accepted and accepted.num_draft_tokens else None
    seconds = step.seconds if step is not None else None
    if step is None:
        # The other ways to tell a step rest on more than is here.
        seconds = signals(ordered, scope="", at=at, window_seconds=window_seconds).value("step_seconds")
    return Means(
        acceptance_rate=(accepted.length - 1.0) / per_draft if accepted is not None and per_draft else None,
        acceptance_length=accepted.length if accepted is not None else None,
        generation_tokens_per_second=rate(window.recent_streams, lambda counts: counts.generation_tokens)[0],
        step_seconds=seconds,
        num_speculative_tokens=material.tokens,
    )
