"""Questions to `decide`, with what a test does not care about filled in: a group at three tokens, 60 % accepted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from monitor.cycle.decide import Question
from monitor.model.decision import DecisionId
from monitor.model.life import LifeId, Setting
from monitor.model.outcome import ChangeKind, RuleOutcome, Truth, TuneChange, TuneFiring
from monitor.model.server import Group, GroupName, ServerName
from monitor.model.signal import Signal, SignalSet
from monitor.tuning import Fact, Limits, Row, TuneInput
from tests.unit.signals.windows import NOON

SERVER = ServerName("a")
EAGLE = Setting(method="eagle3", num_speculative_tokens=3, draft_model="org/head")
FIXED = (0.80, 0.60, 0.40)
UP, DOWN = TuneChange(ChangeKind.STEP, 1), TuneChange(ChangeKind.STEP, -1)


def row(*survival: float, step_seconds: float = 0.010, drafts: float = 50_000.0, requests: float = 500.0) -> Row:
    """What a server showed at as many tokens as rates are given."""
    return Row(
        survival=survival or None, length=1.0 + sum(survival), num_drafts=drafts, finished_requests=requests,
        step_seconds=step_seconds, batch=8.0,
    )


def given(
    observed: dict[int, Row] | None = None, *, tokens: int | None = 3, method: str = "eagle3",
    limits: Limits | None = None, rejected: frozenset[int] = frozenset(), facts: frozenset[Fact] = frozenset(),
    replicas: int = 1,
) -> TuneInput:
    return TuneInput(
        method=method, num_speculative_tokens=tokens, observed={3: row(*FIXED)} if observed is None else observed,
        limits=limits or Limits(allow_off=False), rejected=rejected, facts=facts, replicas=replicas,
    )


def firing(change: TuneChange, *, rule: str = "raise-tokens", guard: str | None = None) -> TuneFiring:
    return TuneFiring(
        rule=rule, scope="group:g", change=change, held_since=NOON, held_seconds=2400.0, window_seconds=1800.0,
        evidence={"acceptance_rate": 0.77}, guard=guard, labels={"group": "g"},
        annotations={"summary": "g: acceptance 77%, above 70 %"},
    )


def outcome(rule: str, truth: Truth, reason: str = "") -> RuleOutcome:
    return RuleOutcome(
        rule=rule, scope="group:g", truth=truth, reason=reason, for_seconds=1800.0, evidence={"acceptance_rate": 0.6},
    )


def window(rate: float | None = 0.6, at: datetime = NOON) -> SignalSet:
    scalars = {"acceptance_rate": Signal("acceptance_rate", rate, 1000.0)} if rate is not None else {}
    return SignalSet(scope="group:g", at=at, window_seconds=300.0, scalars=scalars)


def question(
    *firings: TuneFiring, given: TuneInput | None, outcomes: tuple[RuleOutcome, ...] = (), setting: Setting = EAGLE,
    rate: float | None = 0.6,
) -> Question:
    if given is not None:
        setting = replace(setting, method=given.method, num_speculative_tokens=given.num_speculative_tokens)
    return Question(
        group=Group(name=GroupName("g"), servers=(SERVER,)), setting=setting, lives={SERVER: (LifeId("a-0-1"),)},
        window=window(rate), outcomes=outcomes or (outcome("raise-tokens", Truth.FALSE),), firings=firings,
        given=given, now=NOON, decision_id=DecisionId("d-1"),
    )
