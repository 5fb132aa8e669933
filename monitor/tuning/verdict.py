"""Whether a change paid, measured: promote it, keep watching, or take it back. It acts on nothing.

With control servers it is a difference in differences, which removes time of day and traffic; a lone server is compared
with itself at like load. Looks are few and planned, with bounds that allow for looking more than once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

from monitor.model.rollout import Measured, Outcome
from monitor.signals.uncertainty import student_t95
from monitor.tuning.blocks import Block
from monitor.tuning.bootstrap import RUN_LENGTH, standard_error
from monitor.tuning.controls import against_controls
from monitor.tuning.guards import Guards, tripped
from monitor.tuning.matching import correct, match

#: Looks as (blocks after the change, bound in standard errors): O'Brien-Fleming-like, at 5, 15 and 45 minutes.
LOOKS: tuple[tuple[int, float], ...] = ((5, 3.5), (15, 2.5), (45, 2.0))
#: Loss (ratio) beyond which a change goes back before the last look.
TOLERATED_LOSS = 0.01
#: Smallest standard error of a gain: no two starts of a server are exactly alike.
LEAST_ERROR = 0.002


class Call(StrEnum):
    """What is to be done with a change."""

    PROMOTE = "promote"
    WATCH = "watch"
    ROLL_BACK = "roll_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a change is judged. `looks` count blocks, so that seconds-long blocks make a quick plan of the same shape."""

    looks: tuple[tuple[int, float], ...] = LOOKS
    run_length: int = RUN_LENGTH
    tolerated_loss: float = TOLERATED_LOSS
    guards: Guards = field(default_factory=Guards)

    def __post_init__(self) -> None:
        if not self.looks or any(b <= a for (a, _), (b, _) in pairwise(self.looks)):
            raise ValueError(f"looks {self.looks}: expected at least one, each later than the one before")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict with the measured effect. `is_final`: the last look is over, more blocks will not change it.

    `is_early`: not even the first look was reached, so that the measured effect is no ground for anything yet.
    """

    call: Call
    measured: Measured
    outcome: Outcome | None = None
    is_final: bool = False
    is_early: bool = False


@dataclass(frozen=True, slots=True)
class _Effect:
    log_gain: float
    error: float
    method: str
    blocks: int


def judge(
    before: Sequence[Block], after: Sequence[Block], controls: Sequence[Sequence[Block]] = (), plan: Plan | None = None
) -> Judged:
    """The verdict so far on one changed server.

    Args:
        before: its blocks before the change, in time order (an hour or so; the restart itself left out).
        after: its blocks since it was warm again, in time order.
        controls: blocks of each server left alone, over both times; empty for a lone server.
        plan: looks, block runs and guards.
    """
    plan = plan or Plan()
    recent = {block.slot for block in after[-plan.guards.blocks :]}
    others = [block for server in controls for block in server if block.slot in recent]
    broken = tripped(before, after, others, plan.guards)
    served = [block for block in after if block.goodput]
    reached = [look for look in plan.looks if len(served) >= look[0]]
    # Only what had been seen at the look decides, so that asking again between looks cannot change the verdict.
    seen = served[: reached[-1][0]] if reached else served
    effect = _measure(before, seen, controls, plan)
    if broken is not None:
        return _judged(Call.ROLL_BACK, effect, before, seen, f"{broken}: taken back", Outcome.GUARD_TRIPPED, True)
    is_last = len(reached) == len(plan.looks)
    if effect is None:
        text = f"nothing to compare in {len(after)} blocks since the change"
        return _judged(Call.WATCH, None, before, seen, text, None, is_last)
    if not reached:
        text = f"{len(served)} of {plan.looks[0][0]} blocks with traffic until the first look"
        return replace(_judged(Call.WATCH, effect, before, seen, text, None, False), is_early=True)
    return _look(effect, reached[-1][1], is_last, before, seen, plan)


def _look(
    effect: _Effect, bound: float, is_last: bool, before: Sequence[Block], after: Sequence[Block], plan: Plan
) -> Judged:
    low, high = effect.log_gain - bound * effect.error, effect.log_gain + bound * effect.error
    measured = f"measured {math.expm1(effect.log_gain):+.1%} tokens per second for each request ({effect.method})"
    if low > 0:
        return _judged(Call.PROMOTE, effect, before, after, f"{measured}: better", Outcome.MEASURED_BETTER, True)
    if high < math.log1p(-plan.tolerated_loss) or (is_last and high < 0):
        return _judged(Call.ROLL_BACK, effect, before, after, f"{measured}: worse", Outcome.MEASURED_WORSE, True)
    between = f"between {math.expm1(low):+.1%} and {math.expm1(high):+.1%}"
    return _judged(Call.WATCH, effect, before, after, f"{measured}, {between}: not proved either way", None, is_last)


def _measure(
    before: Sequence[Block], after: Sequence[Block], controls: Sequence[Sequence[Block]], plan: Plan
) -> _Effect | None:
    if controls:
        found = against_controls(before, after, controls)
        if found is not None:
            error = math.hypot(
                standard_error(found.early, plan.run_length), standard_error(found.late, plan.run_length), found.error
            )
            gain = sum(found.late) / len(found.late) - sum(found.early) / len(found.early)
            word = "server" if found.controls == 1 else "servers"
            return _Effect(
                gain, max(LEAST_ERROR, error), f"against {found.controls} {word} left alone", len(found.late)
            )
    return _at_like_load(before, after, plan.run_length) or _load_corrected(before, after, plan.run_length)


def _at_like_load(before: Sequence[Block], after: Sequence[Block], run_length: int) -> _Effect | None:
    found = match(before, after)
    if found is None or len(found.differences) < 2:
        return None
    error = math.hypot(standard_error(found.differences, run_length), standard_error(found.noise, run_length))
    mean = sum(found.differences) / len(found.differences)
    return _Effect(mean, max(LEAST_ERROR, error), "before and after at like load", len(found.differences))


def _load_corrected(before: Sequence[Block], after: Sequence[Block], run_length: int) -> _Effect | None:
    found = correct(before, after)
    if found is None:
        return None
    error = math.hypot(standard_error(found.early, run_length), standard_error(found.late, run_length), found.error)
    gain = sum(found.late) / len(found.late) - sum(found.early) / len(found.early)
    return _Effect(gain, max(LEAST_ERROR, error), "before and after, corrected for the load", len(found.late))


def _judged(
    call: Call, effect: _Effect | None, before: Sequence[Block], after: Sequence[Block], text: str,
    outcome: Outcome | None, is_final: bool,
) -> Judged:
    log_gain = effect.log_gain if effect else None
    half = student_t95(effect.blocks - 1) * effect.error if effect else math.inf
    is_bounded = log_gain is not None and math.isfinite(half)
    measured = Measured(
        gain=math.expm1(log_gain) if log_gain is not None else None,
        gain_low=math.expm1(log_gain - half) if log_gain is not None and is_bounded else None,
        gain_high=math.expm1(log_gain + half) if log_gain is not None and is_bounded else None,
        method=effect.method if effect else "not measured",
        minutes=sum(block.seconds for block in after) / 60.0,
        sentence=text,
        before=summary(before),
        after=summary(after),
    )
    return Judged(call=call, measured=measured, outcome=outcome, is_final=is_final)


def summary(blocks: Sequence[Block]) -> dict[str, float | None]:
    """Means of the compared numbers over blocks that say something, by signal name; None where none does."""
    columns: dict[str, list[float | None]] = {
        "goodput": [b.goodput for b in blocks],
        "acceptance_length": [b.acceptance_length for b in blocks],
        "step_seconds": [b.step_seconds for b in blocks],
        "decode_batch": [b.batch for b in blocks],
        "kv_usage": [b.kv_usage for b in blocks],
        "generation_tokens_per_second": [b.generation_tokens / b.seconds for b in blocks if b.seconds > 0],
    }
    return {name: _mean_known(values) for name, values in columns.items()}


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
