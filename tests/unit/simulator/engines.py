"""Engines for tests: one call from a table, a load and faults to an engine, and the sums that must agree."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.simulator.behaviour import Behaviour
from monitor.simulator.counts import Counts
from monitor.simulator.engine import Engine, Limits
from monitor.simulator.faults import Faults, parse_fault
from monitor.simulator.load import parse_load
from monitor.simulator.speculation import Speculation
from monitor.simulator.tables import find_family


def engine(
    k: int = 3,
    load: str = "closed:clients=16,prompt=100,output=60",
    *,
    table: str = "gsm8k-eagle3",
    faults: Sequence[str] = (),
    correlation: float = 0.03,
    coverage: float = 1.0,
    schedule: tuple[tuple[int, int, int], ...] = (),
    limits: Limits | None = None,
    seed: int = 1,
) -> Engine:
    speculation = Speculation("eagle3", k, "draft", schedule) if k else None
    orders = Faults(parse_fault(text) for text in faults)
    behaviour = Behaviour(find_family(table), speculation, correlation, coverage, orders)
    return Engine(behaviour, parse_load(load), limits or Limits(), seed)


def ran(seconds: float, engine: Engine, *, every: float = 1.0) -> Engine:
    for _ in range(round(seconds / every)):
        engine.advance(every)
    return engine


def assert_identities(counts: Counts, k: int) -> None:
    """What holds exactly on a real V1 page whose requests did not hit a limit in mid-draft."""
    accepted = counts.accepted_per_pos
    assert sum(accepted) == counts.num_accepted_tokens
    assert accepted == sorted(accepted, reverse=True)
    assert counts.num_accepted_tokens <= counts.num_draft_tokens <= k * counts.num_drafts
    assert counts.num_drafts <= counts.step.count
    assert counts.generation_tokens == counts.step.count + counts.num_accepted_tokens + counts.first_tokens
    assert counts.first_token.count == counts.first_tokens
    assert counts.iteration_tokens.sum == counts.generation_tokens + counts.prompt_tokens
