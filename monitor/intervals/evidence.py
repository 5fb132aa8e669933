"""Did this engine start anew since its last page? Weighs start times and falls, in the order of their strength.

It compares counts and times; it keeps no state and makes no intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from monitor.model.counts import Counts, Histogram
from monitor.model.life import StartEvidence

#: Start times closer than this are the same (seconds); a restart takes longer, rounding does not.
SAME_START_SECONDS = 1.0
#: A life counts from 0 when it was born at most this long before our last page (seconds): the server's clock may lag.
CLOCK_SKEW_SECONDS = 30.0
#: Of two workers' counters, one page must be this much nearer to the older head than to the newer (ratio) to say that
#: a page is that worker's again and no burst.
NEAR_FORMER_RATIO = 0.1


#: A server without start times may have restarted if what it counts now would have taken at most this many times the
#: fastest generation seen (ratio), plus this many tokens (for servers that were idle whenever we looked).
PLAUSIBLE_SPEED_RATIO = 3.0
PLAUSIBLE_TOKENS = 2000.0


class Turn(StrEnum):
    """What a page means for the life before it."""

    SAME = "same"
    RESTARTED = "restarted"
    FELL = "fell"
    GLITCH = "glitch"
    OTHER_PROCESS = "other process"


@dataclass(frozen=True, slots=True)
class Starts:
    """Unix seconds at which the process and its counters began; None where a page does not say.

    `mark` is what a server prints of its start that tells no time: another one is another process.
    """

    process: float | None
    created: float | None
    mark: str | None = None

    @property
    def latest(self) -> float | None:
        """The later of the two: when counting began."""
        known = [start for start in (self.process, self.created) if start is not None]
        return max(known) if known else None

    def is_known(self) -> bool:
        """Whether there is any start evidence."""
        return self.process is not None or self.created is not None or self.mark is not None


def compare_starts(new: Starts, old: Starts) -> StartEvidence | Turn | None:
    """Evidence that the newer start times are later, `OTHER_PROCESS` where they are earlier, None where they agree."""
    for now, before, evidence in (
        (new.process, old.process, StartEvidence.PROCESS_START),
        (new.created, old.created, StartEvidence.CREATED),
    ):
        if now is None or before is None:
            continue
        if now > before + SAME_START_SECONDS:
            return evidence
        if now < before - SAME_START_SECONDS:
            return Turn.OTHER_PROCESS
    if new.mark is not None and old.mark is not None and new.mark != old.mark:
        return StartEvidence.PROCESS_START
    return None


def is_confirmed_same(new: Starts, old: Starts) -> bool:
    """Whether a start time is known on both pages and did not move."""
    same_process = new.process is not None and old.process is not None
    same_created = new.created is not None and old.created is not None
    same_mark = new.mark is not None and old.mark is not None
    return (same_process or same_created or same_mark) and compare_starts(new, old) is None


def most_fell(new: Counts, old: Counts, *, estimated: bool = False) -> bool:
    """Whether more than half of the counters that had counted anything are lower now: a reset cuts all together.

    `estimated` speculation counts (vLLM V0) are left out: they may fall by themselves.
    """
    shares = [now < before for now, before in _pairs(new, old, estimated) if before > 0]
    return sum(shares) * 2 > len(shares)


def is_plausible(counts: Counts, seconds: float, speeds: Iterable[float | None]) -> bool:
    """Whether these counts can be of the last `seconds`, judged by generation speeds seen (tokens/s).

    Another worker's counters are those of its whole life, far more than one scrape's worth.
    """
    generated = counts.traffic.generation_tokens if counts.traffic is not None else None
    if generated is None:
        return True
    fastest = max((speed for speed in speeds if speed is not None), default=0.0)
    return generated <= PLAUSIBLE_SPEED_RATIO * fastest * seconds + PLAUSIBLE_TOKENS


def generation_speed(new: Counts, old: Counts, seconds: float) -> float | None:
    """Tokens per second between two counts; None where unknown or falling."""
    if new.traffic is None or old.traffic is None or seconds <= 0:
        return None
    now, before = new.traffic.generation_tokens, old.traffic.generation_tokens
    return (now - before) / seconds if now is not None and before is not None and now >= before else None


def is_near(page: Counts, former: Counts, head: Counts) -> bool:
    """Whether a page continues an earlier head rather than the last: nothing fell below it, and it is far nearer."""
    steps = [now - before for now, before in _pairs(page, former, False)]
    jumps = [now - before for now, before in _pairs(page, head, False)]
    if not steps or any(step < 0 for step in steps) or len(steps) != len(jumps):
        return False
    near = [jump > 0 and step <= NEAR_FORMER_RATIO * jump for step, jump in zip(steps, jumps, strict=True)]
    return sum(near) * 2 > len(near)


def moved(new: Counts, old: Counts) -> bool | None:
    """Whether any counter differs; None where there is none to compare."""
    pairs = list(_pairs(new, old, False))
    return any(now != before for now, before in pairs) if pairs else None


def _pairs(new: Counts, old: Counts, estimated: bool) -> Iterator[tuple[float, float]]:
    for now, before in _numbers(new, old, estimated):
        if now is not None and before is not None:
            yield now, before


def _numbers(new: Counts, old: Counts, estimated: bool) -> Iterator[tuple[float | None, float | None]]:
    if new.speculation is not None and old.speculation is not None and not estimated:
        now, before = new.speculation, old.speculation
        yield now.num_drafts, before.num_drafts
        yield now.num_draft_tokens, before.num_draft_tokens
        yield now.num_accepted_tokens, before.num_accepted_tokens
    if new.traffic is not None and old.traffic is not None:
        yield new.traffic.generation_tokens, old.traffic.generation_tokens
        yield new.traffic.prompt_tokens, old.traffic.prompt_tokens
        yield new.traffic.engine_steps, old.traffic.engine_steps
        yield new.traffic.finished_requests, old.traffic.finished_requests
    if new.latency is not None and old.latency is not None:
        yield _count(new.latency.time_to_first_token), _count(old.latency.time_to_first_token)
        yield _count(new.latency.inter_token), _count(old.latency.inter_token)


def _count(histogram: Histogram | None) -> float | None:
    return histogram.count if histogram is not None else None
