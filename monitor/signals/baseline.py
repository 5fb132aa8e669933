"""What is normal: a server's acceptance at one setting and engine version, learned from its healthy windows."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from monitor.model.life import Setting
from monitor.model.record import Baseline
from monitor.model.server import ServerName
from monitor.model.signal import SignalSet

#: Drafts that a window needs before anything is learned from it.
MIN_DRAFTS = 2000.0
#: Windows that are averaged plainly before old ones are forgotten.
LEARNING_WINDOWS = 12
#: Windows before the baseline is believed.
SETTLED_WINDOWS = 3
#: Time after which half of an old baseline is forgotten (seconds): a day, so that the daily rhythm averages out.
HEALTHY_HALF_LIFE = 86_400.0
#: The same for windows far from normal (seconds): a fault of hours must not become normal, a new normal may in a week.
UNHEALTHY_HALF_LIFE = 7 * 86_400.0
#: Share of the baseline's accepted tokens below which a window is not healthy.
HEALTHY_SHARE = 0.8


@lru_cache(maxsize=4096)
def baseline_key(setting: Setting, engine_version: str | None) -> str:
    """Key under which a server's baseline is kept: acceptance is only comparable at equal setting and version."""
    schedule = ",".join("-".join(map(str, part)) for part in setting.schedule)
    parts = (setting.method, setting.draft_model, setting.num_speculative_tokens, schedule, engine_version)
    return "|".join("" if part is None else str(part) for part in parts)


def is_settled(baseline: Baseline | None) -> bool:
    """Whether a baseline has seen enough windows to judge by."""
    return baseline is not None and baseline.windows >= SETTLED_WINDOWS


def update_baseline(
    old: Baseline | None, window: SignalSet, server: ServerName, key: str, *, now: datetime
) -> Baseline | None:
    """The baseline after one more window (normally 5 minutes) of `server` at `key`; `old` where nothing is learned.

    Nothing is learned from a window with fewer than `MIN_DRAFTS` drafts or without length and rate. The first windows
    are averaged; later ones pull by their length over a half-life, far slower when they are far below normal.
    """
    length, rate = window.value("acceptance_length"), window.value("acceptance_rate")
    drafts = window.value("num_drafts") or 0.0
    if length is None or rate is None or drafts < MIN_DRAFTS:
        return old
    positions = window.vectors.get("acceptance_rate_at_pos")
    first = positions.values[0] if positions is not None and positions.values else None
    if old is None or old.key != key:
        return Baseline(server, key, length, rate, first, drafts, now, 1)
    pull = _pull(old, length, min(window.window_seconds, (now - old.updated_at).total_seconds()))
    if pull <= 0:
        return old
    old_first = old.first_position_rate
    return Baseline(
        server=server,
        key=key,
        acceptance_length=old.acceptance_length + pull * (length - old.acceptance_length),
        acceptance_rate=old.acceptance_rate + pull * (rate - old.acceptance_rate),
        first_position_rate=first if old_first is None else old_first if first is None
        else old_first + pull * (first - old_first),
        num_drafts=old.num_drafts + drafts,
        updated_at=now,
        windows=old.windows + 1,
    )


def _pull(old: Baseline, length: float, seconds: float) -> float:
    """Weight of a window of `seconds` new time against the old baseline (0 to 1)."""
    if seconds <= 0:
        return 0.0
    if (length - 1.0) < HEALTHY_SHARE * (old.acceptance_length - 1.0):
        return float(1.0 - 0.5 ** (seconds / UNHEALTHY_HALF_LIFE))
    forgetting = float(1.0 - 0.5 ** (seconds / HEALTHY_HALF_LIFE))
    return max(forgetting, 1.0 / (old.windows + 1)) if old.windows < LEARNING_WINDOWS else forgetting
