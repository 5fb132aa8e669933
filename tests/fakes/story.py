"""A small fleet with a past, written into a store: what pages, terminal and report are tested and looked at with.

Three groups: `chat` (two servers; one change kept, one undone, a raise that waits for approval), `code` (a change being
observed), `rag` (a page fires, hostile names). Load follows the day, numbers follow a formula: nothing is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.model.alert import Alert, AlertState, Matcher, Silence, SilenceId, fingerprint
from monitor.model.counts import Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.decision import (
    Action,
    Decision,
    DecisionId,
    DecisionState,
    Precondition,
    Reason,
    ThresholdAnswer,
)
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.life import LastReading, Life, LifeId, Setting, SettingSource, StartEvidence
from monitor.model.reading import Flag, Reading, Verdict
from monitor.model.record import AuditEntry, Evidence, Pause, ReportRecord
from monitor.model.rollout import Change, ChangeId, ChangeState, Measured, Outcome, Rollout, RolloutId, RolloutState
from monitor.model.server import Engine, Group, GroupName, Mode, Server, ServerName
from monitor.store import Store
from monitor.store.api import Unit

#: A name that would run where somebody forgot to escape it, in HTML, Markdown and Slack.
HOSTILE = "<script>alert('x')</script>|*&`\""

CHAT, CODE, RAG = GroupName("chat"), GroupName("code"), GroupName("rag")
CHAT_1, CHAT_2, CODE_1, RAG_1 = (ServerName(name) for name in ("chat-1", "chat-2", "code-1", "rag-1"))
GROUPS = (
    Group(name=CHAT, servers=(CHAT_1, CHAT_2), mode=Mode.APPROVE),
    Group(name=CODE, servers=(CODE_1,), mode=Mode.AUTO),
    Group(name=RAG, servers=(RAG_1,), mode=Mode.RECOMMEND),
)
SERVERS = tuple(
    Server(
        name=name, group=group.name, base_url=f"http://10.0.0.{index}", metrics_url=f"http://10.0.0.{index}/metrics",
        engine=Engine.VLLM, managed=name != RAG_1,
    )
    for group in GROUPS
    for index, name in enumerate(group.servers, 1)
)
_EDGES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, math.inf)


def setting(method: str, tokens: int) -> Setting:
    return Setting(method=method, num_speculative_tokens=tokens)


E2, E3, E4 = (setting("eagle3", tokens) for tokens in (2, 3, 4))
M2, M3 = setting("mtp", 2), setting("mtp", 3)


@dataclass(frozen=True)
class Stretch:
    """One life of a server: from so many days ago until so many days ago (0 is now), at one setting."""

    server: ServerName
    begun: float
    ended: float
    setting: Setting
    alpha: float
    step: float
    model: str = "llama-70b"


STRETCHES = (
    Stretch(CHAT_1, 60.0, 12.0, E2, 0.72, 0.0120),
    Stretch(CHAT_1, 12.0, 4.0, E3, 0.72, 0.0124),
    Stretch(CHAT_1, 4.0, 3.95, E4, 0.72, 0.0150),
    Stretch(CHAT_1, 3.95, 0.0, E3, 0.72, 0.0124),
    Stretch(CHAT_2, 60.0, 11.9, E2, 0.71, 0.0121),
    Stretch(CHAT_2, 11.9, 0.0, E3, 0.71, 0.0125),
    Stretch(CODE_1, 30.0, 0.02, M2, 0.86, 0.0100, "qwen-coder"),
    Stretch(CODE_1, 0.02, 0.0, M3, 0.86, 0.0103, "qwen-coder"),
    Stretch(RAG_1, 20.0, 0.1, E2, 0.60, 0.0110, HOSTILE),
    Stretch(RAG_1, 0.1, 0.0, E2, 0.03, 0.0110, HOSTILE),
)


def write_story(store: Store, now: datetime) -> None:
    """Write it so that it ends at `now`."""
    with store.write() as unit:
        seen: dict[ServerName, int] = {}
        for number, stretch in enumerate(STRETCHES):
            # What broke in rag did so within one life.
            first = stretch.server not in seen
            same = stretch.server == RAG_1 and not first
            life = _life(stretch, number if not same else seen[stretch.server], now, counts_from_zero=not first)
            if not same:
                unit.lives.add(life)
                seen[stretch.server] = number
            unit.intervals.add(_intervals(stretch, life, now))
        _readings(unit, now)
        _decisions(unit, now)
        _changes(unit, now)
        _alerts(unit, now)
        _people(unit, now)


def _life(stretch: Stretch, number: int, now: datetime, *, counts_from_zero: bool) -> Life:
    ended = None if stretch.ended == 0.0 or stretch.server == RAG_1 else now - timedelta(days=stretch.ended)
    return Life(
        id=LifeId(f"{stretch.server}-{number}"), server=stretch.server, model=stretch.model, engine="0",
        first_seen=now - timedelta(days=stretch.begun), ended=ended, evidence=StartEvidence.FIRST_SEEN,
        counts_from_zero=counts_from_zero, engine_version="0.32.0", setting=stretch.setting,
        sources={"num_speculative_tokens": SettingSource.PAGE, "method": SettingSource.COMMAND_LINE},
    )  # fmt: skip


def _ends(stretch: Stretch, now: datetime) -> Iterator[tuple[datetime, float]]:
    """Ends and lengths of intervals: hours in the past, five minutes in the last day, 30 s in the last hour."""
    at, until = now - timedelta(days=stretch.begun), now - timedelta(days=stretch.ended)
    while at < until:
        age = (now - at).total_seconds()
        length = 30.0 if age <= 3600 else 300.0 if age <= 86_400 else 3600.0 if age <= 8 * 86_400 else 14_400.0
        length = min(length, (until - at).total_seconds())
        at += timedelta(seconds=length)
        if length > 1:
            yield at, length


def _intervals(stretch: Stretch, life: Life, now: datetime) -> Iterator[Interval]:
    tokens = stretch.setting.num_speculative_tokens or 0
    for end, length in _ends(stretch, now):
        hour = end.hour + end.minute / 60
        running = 12.0 + 8.0 * math.sin((hour - 9) / 24 * 2 * math.pi)
        steps = length / stretch.step
        drafts = steps * running
        survival = [stretch.alpha ** (place + 1) for place in range(tokens)]
        accepted = drafts * sum(survival)
        requests = (drafts + accepted) / 200
        yield Interval(
            life=life.id, server=stretch.server, start=end - timedelta(seconds=length), end=end, elapsed_seconds=length,
            speculation=SpeculationCounts(drafts, drafts * tokens, accepted, tuple(drafts * rate for rate in survival)),
            speculation_seconds=length,
            traffic=TrafficCounts(
                generation_tokens=drafts + accepted, prompt_tokens=requests * 800, engine_steps=steps,
                finished={"stop": requests}, http_responses={"2xx": requests * 0.999, "5xx": requests * 0.001},
                preemptions=0.0,
            ),
            traffic_seconds=length,
            latency=LatencyCounts(
                time_to_first_token=_around(0.18 + 0.01 * running, requests),
                inter_token=_around(stretch.step, drafts),
                time_per_output_token=_around(stretch.step / (1 + sum(survival)), requests),
            ),
            latency_seconds=length,
            gauges=GaugeSpan(running, running + 4, running / 20, 3.0, running / 50, running / 40),
            gauges_seconds=length,
            flags=frozenset({Flag.QUANTIZED_COUNTERS}) if stretch.server == RAG_1 else frozenset(),
        )  # fmt: skip


def _around(seconds: float, count: float) -> Histogram:
    """Observations spread evenly from half to one and a half times `seconds`."""
    shares = (min(max((edge / seconds - 0.5), 0.0), 1.0) for edge in _EDGES)
    return Histogram(_EDGES, tuple(count * share for share in shares), seconds * count, count)


def _readings(unit: Unit, now: datetime) -> None:
    for server in SERVERS:
        page = Reading(
            server=server.name, scraped_at=now - timedelta(seconds=4), monotonic=1.0, dialect="vllm_v1",
            verdict=Verdict.OK, reason="speculation: drafts since the last page",
        )  # fmt: skip
        unit.readings.put(LastReading(page, now - timedelta(seconds=4)))


def _decision(
    name: str, group: Group, action: Action, reason: Reason, now: datetime, old: Setting, new: Setting,
    state: DecisionState, sentence: str, gain: float | None = None,
) -> Decision:  # fmt: skip
    return Decision(
        id=DecisionId(name), group=group.name, servers=group.servers, rule="goodput", action=action, reason=reason,
        sentence=sentence, current=old, proposed=new, precondition=Precondition({}, old), made_at=now,
        expires_at=now + timedelta(hours=6), state=state, gain=gain,
        gain_low=None if gain is None else gain - 0.02, gain_high=None if gain is None else gain + 0.03,
        evidence={"acceptance_rate": 0.5376, "acceptance_length": 2.61, "num_drafts": 412_000.0, "waiting": None},
        window_seconds=1800.0, threshold=ThresholdAnswer(Action.KEEP, 3, "keep 3. Acceptance is 53.8 %."),
    )  # fmt: skip


def _decisions(unit: Unit, now: datetime) -> None:
    chat, code, rag = GROUPS
    ago = timedelta
    unit.decisions.add(
        _decision("d-chat1", chat, Action.RAISE, Reason.PREDICTED_GAIN, now - ago(days=12), E2, E3,
                  DecisionState.ACTED_ON, "3 tokens are predicted to give 8 % more at this load.", 0.08)
    )  # fmt: skip
    unit.decisions.add(
        _decision("d-chat2", chat, Action.RAISE, Reason.PREDICTED_GAIN, now - ago(days=4), E3, E4,
                  DecisionState.ACTED_ON, "4 tokens are predicted to give 3 % more at this load.", 0.03)
    )  # fmt: skip
    unit.decisions.add(
        _decision("d-chat3", chat, Action.LOWER, Reason.PREDICTED_GAIN, now - ago(minutes=20), E3, E2,
                  DecisionState.AWAITING_APPROVAL, "At the last day's load 2 tokens give 6 % more.", 0.06)
    )  # fmt: skip
    plan = {
        "command line of chat-1": "- --speculative-config {\"method\": \"eagle3\", \"num_speculative_tokens\": 3}\n"
                                  "+ --speculative-config {\"method\": \"eagle3\", \"num_speculative_tokens\": 2}",
        "cost": "about 95 s without chat-1; 240,000 tokens not generated meanwhile",
        "checks": "ok: the last good setting is known\nok: chat-2 serves",
    }  # fmt: skip
    unit.evidence.add(Evidence("plan:d-chat3", CHAT_1, now - ago(minutes=20), "plan", plan))
    unit.decisions.add(
        _decision("d-code1", code, Action.RAISE, Reason.ABOVE_RAISE_THRESHOLD, now - ago(minutes=30), M2, M3,
                  DecisionState.ACTED_ON, "Acceptance is 86 %, above 70 % (over 30 min).", 0.11)
    )  # fmt: skip
    unit.decisions.add(
        _decision("d-rag1", rag, Action.RESTART, Reason.BROKEN_DRAFT, now - ago(hours=2), E2, E2,
                  DecisionState.RECOMMENDED, "Acceptance fell suddenly at an unchanged setting: a fault.")
    )  # fmt: skip


def _change(
    name: str, rollout: str, server: ServerName, old: Setting, new: Setting, state: ChangeState, at: datetime,
    outcome: Outcome | None = None, gain: float | None = None, position: int = 0,
) -> Change:  # fmt: skip
    measured = None
    if gain is not None:
        measured = Measured(
            gain=gain, gain_low=gain - 0.02, gain_high=gain + 0.02, method="before and after at like load",
            minutes=15.0, sentence="",
        )  # fmt: skip
    return Change(
        id=ChangeId(name), rollout=RolloutId(rollout), server=server, position=position, state=state, current=old,
        proposed=new, entered_at=at + timedelta(minutes=20), is_canary=position == 0, outcome=outcome,
        measured=measured, sentence="observing" if gain is None else f"{server}: measured {gain:+.1%}",
        history=(f"{at:%Y-%m-%dT%H:%M:%SZ} draining: draining {server}", f"{at:%Y-%m-%dT%H:%M:%SZ} restarting"),
    )  # fmt: skip


def _changes(unit: Unit, now: datetime) -> None:
    def rollout(
        name: str, group: GroupName, decision: str, old: Setting, new: Setting, at: datetime, state: RolloutState,
        outcome: Outcome | None = None,
    ) -> None:  # fmt: skip
        over = state is not RolloutState.ACTIVE
        unit.rollouts.add(
            Rollout(
                id=RolloutId(name), group=group, decision=DecisionId(decision), current=old, proposed=new,
                created_at=at, requested_by="rule goodput", state=state, outcome=outcome,
                finished_at=at + timedelta(minutes=40) if over else None,
                sentence="kept: it is faster" if state is RolloutState.PROMOTED else "",
            )
        )  # fmt: skip

    twelve, four, now_ish = now - timedelta(days=12), now - timedelta(days=4), now - timedelta(days=0.02)
    rollout("r-one", CHAT, "d-chat1", E2, E3, twelve, RolloutState.PROMOTED, Outcome.MEASURED_BETTER)
    rollout("r-two", CHAT, "d-chat2", E3, E4, four, RolloutState.ROLLED_BACK, Outcome.MEASURED_WORSE)
    rollout("r-three", CODE, "d-code1", M2, M3, now_ish, RolloutState.ACTIVE)
    two_later = twelve + timedelta(hours=2)
    better, worse = Outcome.MEASURED_BETTER, Outcome.MEASURED_WORSE
    unit.changes.add(
        [
            _change("r-one-1", "r-one", CHAT_1, E2, E3, ChangeState.PROMOTED, twelve, better, 0.081),
            _change("r-one-2", "r-one", CHAT_2, E2, E3, ChangeState.PROMOTED, two_later, better, 0.074, 1),
            _change("r-two-1", "r-two", CHAT_1, E3, E4, ChangeState.ROLLED_BACK, four, worse, -0.128),
            _change("r-three-1", "r-three", CODE_1, M2, M3, ChangeState.OBSERVING, now_ish),
        ]
    )  # fmt: skip


def alert(
    name: str, severity: str, now: datetime, *, hours: float, resolved: float | None = None, **labels: str
) -> Alert:
    """An alert that fired so many hours ago, and was over so many hours ago."""
    whole = {"alertname": name, "severity": severity, **labels}
    fired = now - timedelta(hours=hours)
    return Alert(
        fingerprint=fingerprint(whole), labels=whole, active_since=fired - timedelta(minutes=5), fired_at=fired,
        notified_at=fired, incident=f"{name}-{'-'.join(labels.values())}",
        resolved_at=None if resolved is None else now - timedelta(hours=resolved), last_true=now,
        state=AlertState.FIRING if resolved is None else AlertState.RESOLVED,
        annotations={"summary": f"{labels.get('server', 'fleet')}: {name}",
                     "description": "First position 1.9%, normally 60.1%: restart, or switch speculation off.",
                     "runbook": "acceptance-cliff"},
        evidence={"acceptance_length": 1.03, "baseline_acceptance_length": 1.96, "kv_usage": None},
    )  # fmt: skip


def _alerts(unit: Unit, now: datetime) -> None:
    unit.alerts.put(
        [
            alert("AcceptanceCliff", "page", now, hours=2.2, server=RAG_1, group=RAG, model=HOSTILE),
            alert("HighPreemptions", "ticket", now, hours=5.0, server=CHAT_2, group=CHAT),
            alert("ServerDown", "page", now, hours=30.0, resolved=29.5, server=CHAT_1, group=CHAT),
            alert("Saturated", "info", now, hours=60.0, resolved=58.0, server=CODE_1, group=CODE),
        ]
    )  # fmt: skip


def _people(unit: Unit, now: datetime) -> None:
    unit.silences.add(
        Silence(
            id=SilenceId("ab12cd34"), matchers=(Matcher("server", "=", CHAT_2), Matcher("alertname", "=~", "High.*")),
            author="mira", reason="memory is being exchanged", starts_at=now - timedelta(hours=1),
            ends_at=now + timedelta(hours=3),
        )
    )  # fmt: skip
    unit.pauses.set(Pause("group:rag", "jonas", "the head is being retrained", now - timedelta(hours=1)))
    unit.audit.add(AuditEntry(now - timedelta(hours=1), "jonas", "pause", "group:rag", "paused group:rag"))
    unit.audit.add(AuditEntry(now - timedelta(days=12), "rule goodput", "started", "r-one", "rollout began"))
    unit.evidence.add(
        Evidence("ev-1", RAG_1, now - timedelta(hours=2), "page and log when it broke",
                 {"page": "vllm:num_requests_running 3", "log": HOSTILE})
    )  # fmt: skip
    unit.reports.put(
        ReportRecord(
            key="2026-W47", made_at=now - timedelta(days=5), period_start=now - timedelta(days=12),
            period_end=now - timedelta(days=5), headline="4 servers in 3 groups; 2 changes: 2 kept.", body="",
        )
    )  # fmt: skip
