"""Who else has a say before a server is stopped: SLOs that burn, servers without capacity to spare, a peak to carry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from monitor.cycle.experience import SATURATED_SHARE
from monitor.cycle.history import History
from monitor.model.duration import format_duration
from monitor.model.life import Setting
from monitor.model.rollout import Change, ChangeState
from monitor.model.server import Group, GroupName
from monitor.signals.build import signals
from monitor.signals.capacity import Carrying

#: Over how long requests must have queued (seconds): long enough to outlast a burst, short enough to be now.
SATURATED_SECONDS = 600.0
#: How long an answer holds (seconds): the executor asks every second.
_FRESH = timedelta(seconds=15)


class FleetGate:
    """Refuses to begin a change while an SLO of its group burns, its servers are saturated, or its peers are too few.

    A saturated group may still be relieved by fewer speculative tokens or by none, which costs less work a token. What
    is under way when saturation begins goes on: the server that is drained is why its peers are fuller.
    """

    def __init__(
        self, burning: Callable[[GroupName], str], history: History,
        survivors: Callable[[Group, datetime], Carrying | None] = lambda group, now: None,
    ) -> None:
        """`burning` says which SLO of a group burns, empty where none does; `survivors` whether one fewer would do."""
        self._burning = burning
        self._history = history
        self._survivors = survivors
        self._known: dict[GroupName, tuple[datetime, float | None]] = {}

    def refusal(self, group: Group, change: Change, now: datetime) -> str | None:
        """Why the change may not go on now, as a sentence; None where it may."""
        burning = self._burning(group.name)
        if burning:
            return burning
        if change.state is not ChangeState.PLANNED:
            return None
        share = self._waiting_share(group, now)
        if share is None or share <= SATURATED_SHARE:
            carried = self._survivors(group, now)
            return carried.sentence if carried is not None and carried.ok is False else None
        if relieves(change.current, change.proposed):
            return None
        lately = format_duration(SATURATED_SECONDS)
        return (
            f"{group.name} is saturated: requests queued in {share:.0%} of the last {lately}"
            f" (at most {SATURATED_SHARE:.0%}); it needs capacity first"
        )

    def _waiting_share(self, group: Group, now: datetime) -> float | None:
        known = self._known.get(group.name)
        if known is not None and timedelta(0) <= now - known[0] < _FRESH:
            return known[1]
        pairs = self._history.pairs(group.servers, now - timedelta(seconds=SATURATED_SECONDS))
        found = signals(pairs, scope=group.name, at=now, window_seconds=SATURATED_SECONDS)
        share = found.value("waiting_share")
        self._known[group.name] = (now, share)
        return share


def relieves(current: Setting, proposed: Setting) -> bool:
    """Whether a change sheds load: fewer speculative tokens than now, or none."""
    if proposed.is_off:
        return not current.is_off
    now, then = current.num_speculative_tokens, proposed.num_speculative_tokens
    return now is not None and then is not None and then < now
