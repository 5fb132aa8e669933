"""Objectives, pages and stored history for tests of the SLOs in a running daemon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId, StartEvidence
from monitor.model.reading import Reading, Verdict
from monitor.model.server import ActionLimits, Group, GroupName, ServerName
from monitor.slo.load import SloPolicy, load_slos
from tests.unit.slo import slos

A, B = ServerName("a"), ServerName("b")
CHAT = GroupName("chat")
GROUP = Group(name=CHAT, servers=(A, B), limits=ActionLimits(warmup_seconds=120.0))
NOON = datetime(2026, 3, 31, 12, 0, tzinfo=UTC)

TTFT = "name: ttft, indicator: time_to_first_token, threshold: 1s, objective: 0.99"
UPTIME = "name: up, indicator: uptime, objective: 0.99"
ACCEPTANCE = "name: acc, indicator: acceptance, threshold: 0.6, objective: 0.9"
ERRORS = "name: av, indicator: availability, objective: 0.99"


def policies(*entries: str) -> tuple[SloPolicy, ...]:
    if not entries:
        return ()
    return load_slos({"s.yaml": "slos:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries)})


def at(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def page(seconds: float, server: ServerName = A, verdict: Verdict = Verdict.OK, reason: str = "") -> Reading:
    return Reading(server=server, scraped_at=at(seconds), monotonic=seconds, dialect="vllm_v1", verdict=verdict,
                   reason=reason)


def failed(seconds: float, server: ServerName = A, reason: str = "timeout: no answer") -> Reading:
    return page(seconds, server, Verdict.SCRAPE_ERROR, reason)


def served(end: float, *, server: ServerName = A, slow: float = 0.0, fast: float = 10.0, accepted: float = 800.0,
           errors: float = 0.0, elapsed: float = 15.0, life: str = "life-1", drafts: float = 1000.0) -> Interval:
    """An interval that ends `end` seconds after noon: `fast` requests in time, `slow` ones too late."""
    origin = (NOON - slos.START).total_seconds()
    return slos.interval(
        origin + end, server=server, life=life, elapsed=elapsed, drafts=drafts, draft_tokens=drafts, accepted=accepted,
        ttft=slos.histogram(0.0, fast, fast + slow, fast + slow), responses={"2xx": fast, "5xx": errors},
    )


def life(name: str = "life-1", server: ServerName = A, *, first_seen: datetime = NOON, born: bool = False) -> Life:
    return Life(id=LifeId(name), server=server, model="m", engine="0", first_seen=first_seen,
                evidence=StartEvidence.PROCESS_START if born else StartEvidence.FIRST_SEEN, counts_from_zero=born)
