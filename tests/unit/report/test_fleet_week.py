"""A report on a simulated week with known changes: the effects it prints hold the true ones in their intervals.

Acceptance and step times are drawn around truths that only the simulation knows; the real judge measures each change
from what is stored, and the report prints what it measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from monitor.actions.judge import Verdict
from monitor.cycle.judge import StoredJudge
from monitor.model.decision import DecisionId
from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId, Setting, StartEvidence
from monitor.model.rollout import Change, ChangeId, ChangeState, Outcome, Rollout, RolloutId, RolloutState
from monitor.model.server import Group, GroupName, ServerName
from monitor.report.assemble import assemble
from monitor.report.render import to_html, to_json
from tests.fakes.memory_store import MemoryStore
from tests.unit.signals.windows import NOON
from tests.unit.signals.windows import interval as counted

END = datetime(2026, 3, 9, 9, 0, tzinfo=UTC)
SCRAPE = 15.0


@dataclass(frozen=True)
class Truth:
    """A server's one change: chance of each further token, step time (seconds), both before and after."""

    server: str
    days_ago: float
    tokens: tuple[int, int]
    alpha: float
    step: tuple[float, float]

    def length(self, index: int) -> float:
        return 1.0 + sum(self.alpha**place for place in range(1, self.tokens[index] + 1))

    @property
    def gain(self) -> float:
        """What the change did to tokens per second and request."""
        return (self.length(1) / self.step[1]) / (self.length(0) / self.step[0]) - 1.0


WEEK = (
    Truth("chat-1", 6.2, (2, 3), 0.80, (0.0100, 0.0102)),
    Truth("chat-2", 5.1, (2, 4), 0.85, (0.0100, 0.0105)),
    Truth("code-1", 4.4, (3, 4), 0.70, (0.0100, 0.0130)),
    Truth("code-2", 3.3, (4, 2), 0.45, (0.0140, 0.0115)),
    Truth("rag-1", 2.6, (2, 3), 0.55, (0.0120, 0.0128)),
    Truth("rag-2", 1.2, (5, 3), 0.60, (0.0150, 0.0121)),
)
GROUPS = [
    Group(name=GroupName(name), servers=tuple(ServerName(t.server) for t in WEEK if t.server.startswith(name)))
    for name in ("chat", "code", "rag")
]


def life(truth: Truth, index: int) -> Life:
    return Life(
        id=LifeId(f"{truth.server}-{index}"), server=ServerName(truth.server), model="m", engine="0",
        first_seen=END - timedelta(days=8), evidence=StartEvidence.FIRST_SEEN, counts_from_zero=index == 1,
        engine_version="0.32.0", setting=Setting(method="mtp", num_speculative_tokens=truth.tokens[index]),
    )  # fmt: skip


def drawn(truth: Truth, index: int, end: datetime, seconds: float, random: np.random.Generator) -> Interval:
    """What a server did in some seconds: 12 requests at a time, their acceptance a little different each time."""
    step = truth.step[index] * float(random.normal(1.0, 0.01))
    drafts = float(round(12 * seconds / step))
    # Requests differ more than coins: texts come in kinds.
    alpha = min(0.99, max(0.05, float(random.normal(truth.alpha, 0.015))))
    left, per_pos = int(drafts), []
    for _ in range(truth.tokens[index]):
        left = int(random.binomial(left, alpha))
        per_pos.append(float(left))
    made = counted(
        life(truth, index), (end - NOON).total_seconds(), seconds=seconds, drafts=drafts, per_pos=per_pos,
        generation=drafts + sum(per_pos), outputs=drafts, step_seconds=step, steps=drafts / 12, running=12.0,
    )  # fmt: skip
    return replace(made, life=life(truth, index).id, server=ServerName(truth.server))


def live_through(store: MemoryStore, truth: Truth, seed: int) -> None:
    """Write the week of one server: hours, and pages as scraped around its change; then judge the change."""
    random = np.random.default_rng(seed)
    changed = END - timedelta(days=truth.days_ago)
    stopped, begun = changed, changed + timedelta(minutes=4)
    old, new = (life(truth, index).setting for index in (0, 1))
    rollout = Rollout(
        id=RolloutId(f"r-{truth.server}"), group=GroupName(truth.server.split("-")[0]), decision=DecisionId("d"),
        current=old, proposed=new, created_at=changed, requested_by="rule goodput", state=RolloutState.PROMOTED,
    )  # fmt: skip
    change = Change(
        id=ChangeId(f"{rollout.id}-1"), rollout=rollout.id, server=ServerName(truth.server), position=0,
        state=ChangeState.OBSERVING, current=old, proposed=new, entered_at=begun, stop_asked_at=stopped,
        started_at=stopped, history=(f"{changed:%Y-%m-%dT%H:%M:%SZ} draining",),
    )  # fmt: skip
    with store.write() as unit:
        unit.rollouts.add(rollout)
        unit.changes.add([change])
        for index in (0, 1):
            unit.lives.add(life(truth, index))
        for minute in range(int(8 * 24 * 60 / 30)):
            end = END - timedelta(minutes=30 * minute)
            if abs((end - changed).total_seconds()) > 7200:
                unit.intervals.add([drawn(truth, int(end > changed), end, 1800.0, random)])
        for number in range(240):
            unit.intervals.add([drawn(truth, 0, stopped - timedelta(seconds=SCRAPE * number), SCRAPE, random)])
            unit.intervals.add([drawn(truth, 1, begun + timedelta(seconds=SCRAPE * (number + 1)), SCRAPE, random)])
    judge = StoredJudge(store, lambda name: next(g for g in GROUPS if name in g.servers), scrape_seconds=SCRAPE)
    found = judge.judge(change, begun + timedelta(seconds=900))
    kept = found.verdict is not Verdict.ROLL_BACK
    with store.write() as unit:
        unit.changes.update(replace(
            change, state=ChangeState.PROMOTED if kept else ChangeState.ROLLED_BACK, measured=found.measured,
            outcome=Outcome.MEASURED_BETTER if kept else Outcome.MEASURED_WORSE, sentence=found.sentence,
        ))  # fmt: skip


def test_the_effects_that_are_printed_hold_the_true_ones() -> None:
    store = MemoryStore()
    for seed, truth in enumerate(WEEK):
        live_through(store, truth, seed)
    with store.read() as unit:
        report = assemble(
            unit, GROUPS, end=END, now=END, key="2026-W10", host="h", target=0.6, simulated=True
        )  # fmt: skip
    changes = {c["server"]: c for group in json.loads(to_json(report))["groups"] for c in group["changes"]}
    assert set(changes) == {truth.server for truth in WEEK}
    text = to_html(report)
    for truth in WEEK:
        told = changes[truth.server]
        assert told["gain_low"] <= truth.gain <= told["gain_high"], (truth, told)
        # An interval that holds everything says nothing.
        assert told["gain_high"] - told["gain_low"] < 0.12, told
        assert told["outcome"].startswith("promoted" if truth.gain > 0 else "rolled_back"), (truth, told)
        assert f"{told['gain']:+.1%}" in text and f"{told['gain_low']:+.1%} to {told['gain_high']:+.1%}" in text
    # What was changed shows in the curves as well: the setting at the end of the week is the new one.
    servers = {server.name: server for group in report.groups for server in group.servers}
    assert all(servers[truth.server].setting == f"mtp, {truth.tokens[1]} tokens" for truth in WEEK)
    # A group's curve goes on while its servers are at different settings: only the minutes of a change may be missing.
    for group in report.groups:
        known = [point.acceptance_rate is not None and point.acceptance_length is not None for point in group.trend]
        assert sum(known) / len(known) > 0.95, group.name
