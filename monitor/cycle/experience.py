"""What the servers of a group showed at every setting they were at: rows for the tuner, facts that forbid tuning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from monitor.model.life import Setting
from monitor.model.reading import Flag
from monitor.model.record import Rejection
from monitor.model.server import ActionLimits
from monitor.model.signal import SignalSet
from monitor.signals.build import signals
from monitor.signals.vocabulary import Family
from monitor.signals.window import Pair
from monitor.tuning import Fact, Limits, Row, TuneInput

#: Newest time at a setting that its row rests on (seconds): long enough for thousands of drafts at low load, short
#: enough that old traffic does not speak for today's.
ROW_SECONDS = 2 * 3600.0
#: Drafts in the rules' own window from which it alone speaks for the setting in force.
ENOUGH_DRAFTS = 5000.0
#: CUSUM of a fall that is a fault and no setting (standard deviations; tuning.md §3.2: 8 is worth an action).
FALL = 8.0
#: Acceptance length now over the same process's first hours, below which it decays with uptime.
DECAY = 0.75
#: Share of intervals with queued requests above which a server is saturated (tuning.md §4.4).
SATURATED_SHARE = 0.10

_FAMILIES = (Family.ACCEPTANCE, Family.STEPS, Family.LOAD)
_UNRELIABLE = frozenset({Flag.IDENTITIES_BROKEN, Flag.ACCEPTANCE_OUT_OF_RANGE, Flag.V0_COUNTERS_UNRELIABLE})


def rows(pairs: Sequence[Pair], now: datetime, like: Setting) -> dict[int, Row]:
    """A row for every num_speculative_tokens that the servers were at with the method and draft of `like` (or off)."""
    by_tokens: dict[int, list[Pair]] = {}
    for life, interval in pairs:
        setting = life.setting
        tokens = setting.num_speculative_tokens
        same = tokens == 0 or (setting.method, setting.draft_model) == (like.method, like.draft_model)
        # While the method is not known yet the number alone is: a life is not split by what was learned late.
        if tokens is not None and (same or setting.method is None or like.method is None):
            by_tokens.setdefault(tokens, []).append((life, interval))
    found = {}
    for tokens, own in by_tokens.items():
        end = max(interval.end for _, interval in own)
        row = _row(own, end)
        if row is not None:
            found[tokens] = row
    return found


def _row(pairs: Sequence[Pair], end: datetime) -> Row | None:
    return row_of(signals(pairs, scope="row", at=end, window_seconds=ROW_SECONDS, families=_FAMILIES))


def row_of(seen: SignalSet) -> Row | None:
    """One window of one setting as a row; None where it says neither length nor step time."""
    step, length = seen.value("step_seconds"), seen.value("acceptance_length")
    if step is None and length is None:
        return None
    vector = seen.vectors.get("acceptance_rate_at_pos")
    survival = None
    if vector is not None and vector.values and all(value is not None for value in vector.values):
        survival = tuple(value for value in vector.values if value is not None)
    return Row(
        survival=survival,
        length=length,
        num_drafts=seen.value("num_drafts"),
        finished_requests=seen.value("finished_requests"),
        step_seconds=step,
        batch=seen.value("decode_batch"),
        coverage=_between(seen.value("draft_coverage"), 1.0),
        prefill_tokens_per_step=seen.value("prefill_tokens_per_step") or 0.0,
    )


def _between(value: float | None, default: float) -> float:
    return default if value is None or value <= 0 else min(1.0, value)


def facts(
    window: SignalSet, setting: Setting, flags: Iterable[Flag], *, probe_failed: bool, fell: bool
) -> frozenset[Fact]:
    """Facts of a newest window that make tuning the wrong answer; `fell`: an alert says that acceptance collapsed."""
    found = set()
    if setting.schedule:
        found.add(Fact.SCHEDULE)
    if probe_failed:
        found.add(Fact.STUCK)
    if _UNRELIABLE & set(flags):
        found.add(Fact.UNRELIABLE)
    if fell or (window.value("acceptance_length_drop") or 0.0) >= FALL:
        found.add(Fact.FELL_SUDDENLY)
    since = window.value("acceptance_length_since_start")
    if since is not None and since < DECAY:
        found.add(Fact.DECAYS)
    if (window.value("waiting_share") or 0.0) > SATURATED_SHARE:
        found.add(Fact.SATURATED)
    return frozenset(found)


def rejected(rejections: Iterable[Rejection], window: SignalSet, method: str | None, now: datetime) -> frozenset[int]:
    """Settings that lost and whose time is not over, unless load or acceptance length has moved since."""
    batch, length = window.value("decode_batch"), window.value("acceptance_length")
    return frozenset(
        r.num_speculative_tokens
        for r in rejections
        if (r.method in (None, method) or method is None) and r.holds(now, batch=batch, acceptance_length=length)
    )


def tune_input(
    pairs: Sequence[Pair],
    window: SignalSet,
    *,
    setting: Setting,
    limits: ActionLimits,
    rejections: Iterable[Rejection],
    restart_seconds: float,
    replicas: int,
    known_facts: frozenset[Fact],
    now: datetime,
) -> TuneInput:
    """Everything the tuner is told of one group."""
    recent = [pair for pair in pairs if pair[1].end > now - timedelta(days=1)]
    observed = rows(pairs, now, setting)
    current, tokens = row_of(window), setting.num_speculative_tokens
    if tokens is not None and current is not None and (current.num_drafts or 0.0) >= ENOUGH_DRAFTS:
        # What the rules judge and what the tuner weighs must be the same numbers.
        observed[tokens] = current
    return TuneInput(
        method=setting.method,
        num_speculative_tokens=tokens,
        observed=observed,
        limits=Limits(
            minimum=limits.min_speculative_tokens, maximum=limits.max_speculative_tokens, allow_off=limits.allow_off
        ),
        rejected=rejected(rejections, window, setting.method, now),
        restart_seconds=restart_seconds,
        batches=batches(recent),
        facts=known_facts,
        replicas=replicas,
    )


def batches(pairs: Iterable[Pair]) -> tuple[tuple[float, float], ...]:
    """The load that was served: running requests (rounded to powers of √2 so that few remain) and their seconds."""
    weights: dict[float, float] = {}
    for _, interval in pairs:
        running = interval.gauges.running_mean
        if running is not None and running >= 0.5 and not interval.is_gap:
            size = 1.0
            while size * 1.1892 < running:
                size *= 1.4142
            weights[size] = weights.get(size, 0.0) + interval.elapsed_seconds
    return tuple(sorted(weights.items()))


def evidence(window: SignalSet, names: Mapping[str, float | None]) -> dict[str, float | None]:
    """The numbers a decision rests on: those of its rule, and what every person asks for."""
    shown = {
        name: window.value(name)
        for name in (
            "acceptance_rate", "acceptance_length", "acceptance_alpha", "efficiency", "step_seconds", "goodput",
            "decode_batch", "generation_tokens_per_second", "num_drafts", "finished_requests", "waiting_share",
        )
    }
    return {**shown, **names, "batch": shown["decode_batch"]}
