"""What past changes of a server teach: how long its starts take. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.model.rollout import Change

#: Starts that count: the newest ones, since models and disks change.
_NEWEST = 5
#: Starts that must have been seen before a limit is drawn from them: one says nothing of how they differ.
_ENOUGH = 2
#: A start is given this many times the slowest of those seen: a cold page cache was seen to take two to three times as
#: long as a warm one.
_PATIENCE = 3.0
#: No start is given less (seconds): below that a busy host decides, not the server.
_LEAST_SECONDS = 120.0
#: What a start is taken to last before any was seen (seconds).
_USUAL_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts of one server that led to a serving server, newest last (seconds from start to ready)."""

    seconds: tuple[float, ...] = ()

    @property
    def slowest(self) -> float | None:
        """The slowest of the newest starts; None before enough were seen."""
        return max(self.seconds[-_NEWEST:]) if len(self.seconds) >= _ENOUGH else None

    @property
    def usual(self) -> float:
        """How long a start is likely to take at most (seconds)."""
        return max(self.seconds[-_NEWEST:], default=_USUAL_SECONDS)

    def limit(self, most: float) -> float:
        """Longest wait for a start (seconds): several times the slowest seen, never above `most`."""
        slowest = self.slowest
        return most if slowest is None else min(most, max(_LEAST_SECONDS, _PATIENCE * slowest))


def starts_of(past: Sequence[Change]) -> Starts:
    """The starts in past changes of one server, oldest change first; the way back counts like the way there."""
    return Starts(
        tuple(
            (change.ready_at - change.started_at).total_seconds()
            for change in past
            if change.ready_at is not None and change.started_at is not None and change.ready_at > change.started_at
        )
    )
