"""What the servers of a group showed at every setting they were at: rows for the tuner, facts that forbid tuning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.cycle.sight import SHORT_WINDOW_SECONDS
from monitor.model.life import DIFFUSION, Setting
from monitor.model.outcome import TuneFiring
from monitor.model.reading import Flag
from monitor.model.record import Rejection
from monitor.model.server import ActionLimits
from monitor.model.signal import SignalSet
from monitor.signals.build import signals_of
from monitor.signals.track import Track, merged
from monitor.tuning import CostRow, Fact, Limits, TuneInput
from monitor.tuning.forecast import believable
from monitor.tuning.observe import load_of, row_of, rows_of
from monitor.tuning.standdown import is_too_little

#: CUSUM of a fall that is a fault and no setting (standard deviations; 8 is worth an action).
FALL = 8.0
#: Share of intervals with queued requests above which a server is saturated.
SATURATED_SHARE = 0.10

_UNRELIABLE = frozenset({Flag.IDENTITIES_BROKEN, Flag.ACCEPTANCE_OUT_OF_RANGE, Flag.V0_COUNTERS_UNRELIABLE})


#: Signals that facts, rejections, reasons and evidence look at.
_SHOWN = (
    "acceptance_rate", "acceptance_length", "acceptance_alpha", "efficiency", "step_seconds", "goodput",
    "decode_batch", "generation_tokens_per_second", "num_drafts", "finished_requests", "waiting_share",
)  # fmt: skip
_JUDGED = ("acceptance_length_drop", "step_seconds_way")


@dataclass(frozen=True, slots=True)
class Basis:
    """What is decided about a group by: its signals over the window of what fired, and flags of the last minutes."""

    window: SignalSet
    flags: frozenset[Flag]


def basis(tracks: Sequence[Track], scope: str, firings: Iterable[TuneFiring], now: datetime) -> Basis:
    """The basis from the tracks of the group's servers: over the longest window of what fired, else the short one.

    What is looked at is worked out here, while the caller has just looked at the same intervals: they are folded.
    """
    seconds = max((firing.window_seconds for firing in firings), default=SHORT_WINDOW_SECONDS)
    window = signals_of(tracks, scope=scope, at=now, window_seconds=seconds)
    for name in (*_SHOWN, *_JUDGED):
        window.value(name)
    recent = merged(tracks, now - timedelta(seconds=SHORT_WINDOW_SECONDS), now)
    return Basis(window, frozenset(flag for _, interval in recent for flag in interval.flags))


def facts(
    window: SignalSet, setting: Setting, flags: Iterable[Flag], *, probe_failed: bool = False, fell: bool = False,
    decays: bool = False, adapts: bool = False,
) -> frozenset[Fact]:
    """Facts of a newest window that make tuning the wrong answer.

    `fell`, `decays`: an alert says that acceptance collapsed, or falls with uptime; `adapts`: an engine moves the
    number of tokens by itself.
    """
    found = set()
    if adapts:
        found.add(Fact.ADAPTS_ITSELF)
    if setting.method == DIFFUSION:
        found.add(Fact.DIFFUSION)
    if setting.schedule:
        found.add(Fact.SCHEDULE)
    if probe_failed:
        found.add(Fact.STUCK)
    if _UNRELIABLE & set(flags):
        found.add(Fact.UNRELIABLE)
    if fell or (window.value("acceptance_length_drop") or 0.0) >= FALL:
        found.add(Fact.FELL_SUDDENLY)
    if decays:
        found.add(Fact.DECAYS)
    if (window.value("waiting_share") or 0.0) > SATURATED_SHARE:
        found.add(Fact.SATURATED)
    return frozenset(found)


def rejected(
    rejections: Iterable[Rejection], window: SignalSet, setting: Setting, now: datetime
) -> frozenset[int]:
    """Settings that lost and whose time is not over, unless load or acceptance length has moved since."""
    batch, length = window.value("decode_batch"), window.value("acceptance_length")
    method, tokens = setting.method, setting.num_speculative_tokens
    return frozenset(
        r.num_speculative_tokens
        for r in rejections
        if (r.method in (None, method) or method is None)
        and r.holds(now, batch=batch, acceptance_length=length, tokens=tokens)
    )


def tune_input(
    tracks: Sequence[Track],
    window: SignalSet,
    *,
    setting: Setting,
    limits: ActionLimits,
    rejections: Iterable[Rejection],
    restart_seconds: float,
    replicas: int,
    known_facts: frozenset[Fact],
    now: datetime,
    elsewhere: Sequence[Sequence[CostRow]] = (),
    trained_depth: int | None = None,
    draft_ratio: float | None = None,
) -> TuneInput:
    """Everything the tuner is told of one group; `tracks` are those of its servers, best in sums.

    `elsewhere`: step times of each server of another group that runs the same; what contradicts its own is left out.
    """
    tokens = setting.num_speculative_tokens
    day = now - timedelta(days=1)
    given = TuneInput(
        method=setting.method,
        num_speculative_tokens=tokens,
        observed=rows_of(tracks),
        limits=Limits(
            minimum=limits.min_speculative_tokens, maximum=limits.max_speculative_tokens, allow_off=limits.allow_off,
            trained_depth=trained_depth,
        ),
        rejected=rejected(rejections, window, setting, now) | frozenset(limits.never),
        restart_seconds=restart_seconds,
        batches=load_of(tracks, day),
        facts=known_facts,
        replicas=replicas,
        draft_ratio=draft_ratio,
    )
    given = replace(given, costs=believable(given, elsewhere)) if elsewhere else given
    since = now - timedelta(seconds=window.window_seconds)
    recent = [interval for life, interval in merged(tracks, since, now) if life.setting == setting]
    if tokens is None or not recent:
        return given
    current = row_of(recent, setting)
    if is_too_little(current, tokens, given):
        # A short window of a busy server: all that was seen at the setting may be enough where it is not.
        return given
    # What the rules judge and what the tuner weighs must be the same numbers.
    return replace(given, observed={**given.observed, tokens: current})


def evidence(window: SignalSet, names: Mapping[str, float | None]) -> dict[str, float | None]:
    """The numbers a decision rests on: those of its rule, and what every person asks for."""
    shown = {name: window.value(name) for name in _SHOWN}
    return {**shown, **names, "batch": shown["decode_batch"]}
