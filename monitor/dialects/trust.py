"""How far the counts of one engine may be believed: identities they must keep, and signs that they do not.

It flags; it corrects nothing. The same checks serve totals since start and differences of two pages.
"""

from __future__ import annotations

from itertools import pairwise

from monitor.model.counts import SpeculationCounts, TrafficCounts
from monitor.model.reading import EngineReading, Flag

#: Drafts shorter than this share of num_speculative_tokens on average make late positions look bad (ratio): their
#: denominators are smaller than the number of drafts. A request's last draft may be cut, so not exactly 1.
FULL_DRAFTS_RATIO = 0.98
#: Draft tokens from which an acceptance of exactly 1 is no accident (a true 0.95 does it once in 170 times).
PERFECT_MIN_DRAFT_TOKENS = 100
#: Generated tokens may be fewer than drafts and accepted tokens together by this share and count, and by so many
#: settings' worth of tokens for each finished request: what a step made beyond a request's end is dropped. Each draft
#: emits its accepted tokens and one more otherwise.
EMITTED_SLACK_RATIO = 0.05
EMITTED_SLACK_TOKENS = 64.0
EMITTED_SLACK_DRAFTS = 2.0
#: Tokens a draft that no drafter proposes; where the setting is not known, a mean above it is a broken counter.
LONGEST_DRAFT = 256


def contradiction(
    counts: SpeculationCounts,
    *,
    positions: int | None,
    traffic: TrafficCounts | None = None,
    slack: float = 0.0,
) -> str | None:
    """The first identity that these counts break, in words; None where they agree.

    Per-position counts sum to the accepted tokens and never rise with the position; accepted <= draft tokens <=
    positions x drafts; no position is accepted more often than drafted; every draft emits its tokens. `positions` is
    num_speculative_tokens where the page shows it. `slack` (tokens) is for pages whose counters are not read at one
    moment or are printed rounded. Source of the identities: vLLM `v1/spec_decode/metrics.py`.
    """
    drafts, drafted, accepted = counts.num_drafts, counts.num_draft_tokens, counts.num_accepted_tokens
    if drafted is not None and accepted is not None and accepted > drafted + slack:
        return f"{accepted:.0f} accepted of {drafted:.0f} draft tokens"
    longest = positions if positions is not None else LONGEST_DRAFT
    if drafts is not None and drafted is not None:
        if drafted > longest * (drafts + slack):
            return f"{drafted:.0f} draft tokens in {drafts:.0f} drafts of at most {longest}"
        if drafted + slack < drafts:
            return f"{drafts:.0f} drafts but {drafted:.0f} draft tokens"
    if drafts is not None and accepted is not None and accepted > longest * (drafts + slack):
        return f"{accepted:.0f} accepted in {drafts:.0f} drafts of at most {longest} tokens"
    return _emission_contradiction(counts, positions, traffic, slack) or _positions_contradiction(counts, slack)


def _emission_contradiction(
    counts: SpeculationCounts, positions: int | None, traffic: TrafficCounts | None, slack: float
) -> str | None:
    generated = traffic.generation_tokens if traffic is not None else None
    drafts, accepted = counts.num_drafts, counts.num_accepted_tokens
    if traffic is None or generated is None or drafts is None:
        return None
    finished = traffic.finished_requests
    emitted, dropped = drafts, 0.0
    if accepted is not None and positions is not None and finished is not None:
        emitted, dropped = drafts + accepted, EMITTED_SLACK_DRAFTS * (positions + 1) * finished
    if generated >= emitted * (1 - EMITTED_SLACK_RATIO) - EMITTED_SLACK_TOKENS - slack - dropped:
        return None
    return f"its drafts made {emitted:.0f} tokens but {generated:.0f} were generated"


def _positions_contradiction(counts: SpeculationCounts, slack: float) -> str | None:
    at = counts.accepted_per_pos
    if not at:
        return None
    if any(later > earlier + slack for earlier, later in pairwise(at)):
        return f"accepted tokens rise with the position: {_listed(at)}"
    if counts.num_drafts is not None and at[0] > counts.num_drafts + slack:
        return f"position 0 accepted {at[0]:.0f} times in {counts.num_drafts:.0f} drafts"
    if counts.num_accepted_tokens is not None and abs(sum(at) - counts.num_accepted_tokens) > slack:
        return f"positions sum to {sum(at):.0f}, accepted tokens are {counts.num_accepted_tokens:.0f}"
    drafted = counts.drafted_per_pos
    if drafted is not None:
        if any(took > had + slack for took, had in zip(at, drafted, strict=False)):
            return f"a position was accepted more often than drafted: {_listed(at)} of {_listed(drafted)}"
        if counts.num_draft_tokens is not None and abs(sum(drafted) - counts.num_draft_tokens) > slack:
            return f"positions drafted sum to {sum(drafted):.0f}, draft tokens are {counts.num_draft_tokens:.0f}"
    return None


def flags_of(counts: SpeculationCounts, positions: int | None, slack: float = 0.0) -> frozenset[Flag]:
    """Flags that the ratios of these counts deserve (not those of broken identities)."""
    flags = set()
    drafts, drafted, accepted = counts.num_drafts, counts.num_draft_tokens, counts.num_accepted_tokens
    if drafted is not None and accepted is not None:
        if accepted > drafted + slack:
            flags.add(Flag.ACCEPTANCE_OUT_OF_RANGE)
        elif drafted >= PERFECT_MIN_DRAFT_TOKENS and accepted == drafted:
            flags.add(Flag.SUSPICIOUS_PERFECT_ACCEPTANCE)
    elif accepted is not None and positions and drafts and accepted > positions * drafts + slack:
        flags.add(Flag.ACCEPTANCE_OUT_OF_RANGE)
    if positions and drafts and drafted is not None and drafted < FULL_DRAFTS_RATIO * positions * drafts:
        flags.add(Flag.PER_POSITION_CONFOUNDED)
    return frozenset(flags)


def torn_slack(engine: EngineReading, at_one_moment: bool) -> float:
    """By how much counters of one page may disagree since they were not read at one moment (tokens).

    One process prints its counters between two steps. Several (`PROMETHEUS_MULTIPROC_DIR`) write files that are read
    one after the other: one step of every running request may be in one counter and not yet in the next.
    """
    if at_one_moment or engine.created is not None:
        return 0.0
    return (engine.num_speculative_tokens or 1) * max(1.0, engine.gauges.running or 0.0)


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)
