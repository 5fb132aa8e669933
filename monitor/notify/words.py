"""Numbers and lengths of time as people read them, texts that no terminal obeys, and ids of notices."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping

from monitor.model.notice import NoticeId

#: Signals shown as percent; everything else is shown as a number with its unit.
_SHARES = frozenset({"rate", "share", "efficiency", "coverage", "usage", "alpha", "ratio", "disagreement"})


#: Signals that are yes or no: an alert's own words say what they mean, and a number beside them says nothing.
_FLAGS = frozenset(
    {
        "up", "health_ok", "is_neural_draft", "is_sleeping", "is_starting", "needs_probe", "probe_failed",
        "restart_failed", "scrape_unauthorized",
    }
)


def number_text(name: str, value: float | None) -> str:
    """A signal's value for people: shares in percent, seconds with a unit, counts whole; `no data` for None."""
    if value is None or not math.isfinite(value):
        return "no data"
    if name.startswith("burn_rate"):
        return f"{value:.1f} times the rate that spends the budget in its period"
    # Whole words: `generation` is no ratio.
    if _SHARES & set(name.partition("[")[0].split("_")):
        return f"{value:.1%}"
    if "seconds" in name and "per_second" not in name:
        if abs(value) < 10:
            return f"{value * 1000:.1f} ms" if abs(value) < 1 else f"{value:.1f} s"
        return duration_words(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}"


def evidence_fields(evidence: Mapping[str, float | None], limit: int = 10) -> tuple[tuple[str, str], ...]:
    """Numbers as fields of a notice; those without data and those that are yes or no are left out."""
    known = [
        (name, number_text(name, value))
        for name, value in evidence.items()
        if value is not None and name not in _FLAGS
    ]
    return tuple(known[:limit])


def duration_words(seconds: float) -> str:
    """A length of time as people say it: `45 s`, `12 min`, `3 h 5 min`, `2 d 4 h`."""
    whole = int(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def printable(text: str) -> str:
    """The text with control characters written out: what a server calls itself must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


def new_id() -> NoticeId:
    """An id that no other notice has."""
    return NoticeId(uuid.uuid4().hex[:12])
