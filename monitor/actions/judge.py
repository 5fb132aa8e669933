"""How a change under observation is judged, and what becomes of one that nothing could be proved of.

The statistics live in `monitor/tuning/`; the machine only asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from monitor.model.rollout import Change, Measured, Outcome


class Verdict(StrEnum):
    """What is to be done with a change."""

    PROMOTE = "promote"
    WATCH = "watch"
    ROLL_BACK = "roll_back"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict so far. `outcome` says why for PROMOTE and ROLL_BACK (MEASURED_WORSE, GUARD_TRIPPED …).

    `is_early`: too little was seen since the change for what is measured to be a ground for keeping it.
    """

    verdict: Verdict
    sentence: str
    measured: Measured | None = None
    outcome: Outcome | None = None
    is_early: bool = False


class Judge(Protocol):
    """Compares a changed server with what it was, or with the servers left alone."""

    def judge(self, change: Change, now: datetime) -> Judgement:
        """The verdict on a change that is being observed since `change.entered_at`; asked again and again."""
        ...


class Unproved(StrEnum):
    """What becomes of a change that is neither better nor worse for sure when its time is up."""

    #: Keep it where it is more likely better than not, go back otherwise (also where nothing could be measured).
    LIKELY = "likely"
    KEEP = "keep"
    REVERT = "revert"


def settle(judgement: Judgement, policy: Unproved) -> Judgement:
    """The final verdict at the end of the observation: WATCH becomes PROMOTE or ROLL_BACK, others stay.

    The default, LIKELY, asks only for the better odds: the point estimate decides. Going back from everything that may
    be a loss would never keep a gain near the dead band; measuring and going back from what is worse ends within 0.4 %
    of the best setting on average. A setting that could not be measured, or only in less time than the first look asks
    for, is not kept, since the former one is known to serve.
    """
    if judgement.verdict is not Verdict.WATCH:
        return judgement
    gain = judgement.measured.gain if judgement.measured is not None else None
    is_measured = gain is not None and not judgement.is_early
    outcome = Outcome.NOT_PROVED if is_measured else Outcome.TOO_LITTLE_DATA
    keep = policy is Unproved.KEEP or (policy is Unproved.LIKELY and gain is not None and is_measured and gain >= 0)
    told = f"{judgement.sentence}; " if judgement.sentence else ""
    if gain is None:
        why = "nothing could be measured within the time allowed"
    elif judgement.is_early:
        why = "too little was seen within the time allowed"
    else:
        why = f"not proved within the time allowed, measured {gain:+.1%}"
    verdict = Verdict.PROMOTE if keep else Verdict.ROLL_BACK
    return Judgement(verdict, f"{told}{why}: {'kept' if keep else 'going back'}", judgement.measured, outcome)
