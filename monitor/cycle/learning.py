"""Learning what is normal from the windows of servers that nothing is done to."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime

from monitor.cycle.sight import Seen, key_of
from monitor.model.record import Baseline
from monitor.model.server import ServerName
from monitor.model.signal import SignalSet
from monitor.signals.baseline import is_settled, update_baseline

log = logging.getLogger(__name__)


def learned(seen: Seen, windows: Mapping[ServerName, SignalSet], now: datetime) -> Iterator[Baseline]:
    """Baselines that learned something: not while a change of ours is under way, and a window at a time."""
    for name, window in windows.items():
        lives, old = seen.lives[name], seen.baselines.get(name)
        if not lives or name in seen.rolling:
            continue
        if old is not None and (now - old.updated_at).total_seconds() < window.window_seconds:
            continue
        new = update_baseline(old, window, name, key_of(lives), now=now)
        if new is not None and new != old:
            if is_settled(new) and not is_settled(old):
                log.info("baseline settled server=%s length=%.3f key=%s", name, new.acceptance_length, new.key)
            yield new
