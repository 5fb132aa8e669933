"""What the signals of one window are made from: the window, sums that several of them share, what else is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from monitor.model.life import LastReading
from monitor.model.record import Baseline
from monitor.model.server import ServerName
from monitor.signals.accepted import Accepted, add_accepted
from monitor.signals.baseline import baseline_key, is_settled
from monitor.signals.window import Window


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of one server besides its intervals; every part may be missing.

    `off_step_seconds`: step time without speculation at a comparable batch. `first_hours_length`: acceptance length of
    the first hours of the process that runs now. `watched_since`: when acceptd began to watch.
    """

    last: LastReading | None = None
    baseline: Baseline | None = None
    off_step_seconds: float | None = None
    first_hours_length: float | None = None
    watched_since: datetime | None = None


class Material:
    """One window and everything that its signals share, worked out when it is first asked for."""

    def __init__(self, window: Window, contexts: Mapping[ServerName, Context]) -> None:
        self.window = window
        self.contexts = contexts

    @cached_property
    def accepted(self) -> Accepted | None:
        """Speculation counts at the setting, added."""
        return add_accepted(self.window.intervals, self.window.setting)

    @cached_property
    def tokens(self) -> int | None:
        """The setting in force; without one the number of positions that the page shows."""
        setting = self.window.setting
        if setting is not None and setting.num_speculative_tokens is not None:
            return setting.num_speculative_tokens
        return len(self.accepted.survival) if self.accepted is not None and self.accepted.survival else None

    @cached_property
    def baseline(self) -> Baseline | None:
        """Of the servers' settled baselines at the setting in force the one that rests on most drafts."""
        if not self.window.newest_lives or self.window.setting is None:
            return None
        keys = {(life.server, baseline_key(life.setting, life.engine_version)) for life in self.window.newest_lives}
        fitting = [
            c.baseline for c in self.contexts.values()
            if c.baseline is not None and is_settled(c.baseline) and (c.baseline.server, c.baseline.key) in keys
        ]
        return max(fitting, key=lambda baseline: baseline.num_drafts, default=None)

    @property
    def off_step_seconds(self) -> float | None:
        """Step time without speculation, the mean of the servers that know theirs (seconds)."""
        return _mean(context.off_step_seconds for context in self.contexts.values())

    @property
    def first_hours_length(self) -> float | None:
        """Acceptance length of the first hours, the mean of the servers that know theirs."""
        return _mean(context.first_hours_length for context in self.contexts.values())


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None
