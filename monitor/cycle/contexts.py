"""What is known of a server besides the window that is looked at: how its process began, what its steps take when off.

Both are read from what is stored or remembered, never guessed: without them their signals stay without value.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from monitor.model.life import Life, LifeId
from monitor.model.server import ServerName
from monitor.signals.build import signals
from monitor.signals.steps import decode_batch, step_time
from monitor.signals.track import Track, is_rateable
from monitor.store import Store

#: How long the first hours of a process last: acceptance was seen to fall over 48 h, so that a quarter of a day is
#: long enough to average traffic out and short enough to lie before the fall (vllm-project/vllm#41838).
FIRST_HOURS = timedelta(hours=6)
#: A process that was first met later than this after its birth did not begin before our eyes.
MET_WITHIN = timedelta(hours=1)
#: Drafts without which the first hours say nothing: at a design effect of 40 still 125 independent ones.
ENOUGH_DRAFTS = 5000.0
#: How far the batch of steps without speculation may lie from today's (ratio): step time rises slowly with it.
LIKE_BATCH = 0.25


class Beginnings:
    """Acceptance length of the first hours of each server's present process; read once from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[ServerName, tuple[tuple[LifeId, ...], float | None]] = {}

    def length(self, server: ServerName, lives: Sequence[Life], now: datetime) -> float | None:
        """Tokens a draft over the first hours of the process that runs now.

        None while they are not over, where nobody watched them, and where too little was drafted.
        """
        births = [birth(life) for life in lives]
        born = max((moment for moment in births if moment is not None), default=None)
        if born is None or None in births or now < born + FIRST_HOURS:
            return None
        key = tuple(life.id for life in lives)
        known = self._known.get(server)
        if known is None or known[0] != key:
            known = self._known[server] = (key, self._read(server, lives, born))
        return known[1]

    def _read(self, server: ServerName, lives: Sequence[Life], born: datetime) -> float | None:
        if any(life.first_seen > born + MET_WITHIN for life in lives):
            return None
        end = born + FIRST_HOURS
        with self._store.read() as unit:
            intervals = unit.intervals.between([server], born, end, details=False)
        by_id = {life.id: life for life in lives}
        pairs = [(by_id[i.life], i) for i in intervals if i.life in by_id]
        seen = signals(
            pairs, scope=server, at=end, window_seconds=FIRST_HOURS.total_seconds()
        )
        return seen.value("acceptance_length") if (seen.value("num_drafts") or 0.0) >= ENOUGH_DRAFTS else None


def birth(life: Life) -> datetime | None:
    """When a life began: by its process, by its counters, or because we saw it begin; None where nothing tells."""
    stamp = life.process_start if life.process_start is not None else life.created
    if stamp is not None:
        return datetime.fromtimestamp(stamp, UTC)
    return life.first_seen if life.counts_from_zero else None


def off_step_seconds(track: Track, now: datetime, lately: timedelta) -> float | None:
    """Step time without speculation at about the batch of the last `lately` (seconds).

    None where the server was never off while it was watched, or never at such a load.
    """
    off = [
        interval for place, life in enumerate(track.lives)
        if life.setting.is_off and is_rateable(interval := track.pairs[place][1])
    ]
    batch = decode_batch([i for _, i in track.between(now - lately, now)]) if off else None
    if batch is None:
        return None
    alike = [i for i in off if (then := decode_batch([i])) is not None and abs(then[0] / batch[0] - 1.0) <= LIKE_BATCH]
    found = step_time(alike, 1.0)
    return found.seconds if found is not None else None
