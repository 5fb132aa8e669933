"""Values to store, with every field set to something that a careless column would lose."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from monitor.model.alert import Alert, AlertState, Matcher, Severity, Silence, SilenceId, fingerprint
from monitor.model.counts import Counts, Gauges, Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
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
from monitor.model.life import Head, LastReading, Life, LifeId, Setting, SettingSource, StartEvidence
from monitor.model.notice import Notice, NoticeId, NoticeKind
from monitor.model.reading import EngineReading, Flag, Reading, State, Verdict
from monitor.model.record import Watched
from monitor.model.rollout import (
    Change,
    ChangeId,
    ChangeState,
    Measured,
    Outcome,
    Rollout,
    RolloutId,
    RolloutState,
)
from monitor.model.server import Engine, GroupName, Mode, ServerName

T0 = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
A, B = ServerName("a"), ServerName("b")
EAST, WEST = GroupName("east"), GroupName("west")

#: The largest odd whole number that a double holds, and one that decimal text must give with all its digits.
LARGE, FINE = 2.0**53 - 1, 0.1 + 0.2

NGRAM = Setting(method="ngram", num_speculative_tokens=3, schedule=((1, 8, 5), (9, 64, 2)))
EAGLE = Setting(method="eagle3", num_speculative_tokens=4, draft_model="org/héad")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def histogram(scale: float = 1.0) -> Histogram:
    return Histogram(
        (0.001, 0.005, 0.01, 2.5, math.inf), (0.0, 3.0 * scale, 3.0 * scale, 7.0 * scale, LARGE), FINE * scale, LARGE
    )


def counts(scale: float = 1.0) -> Counts:
    return Counts(
        speculation=SpeculationCounts(LARGE, 30.0 * scale, 20.0 * scale, (9.0, 7.5, 4.0), (10.0, 10.0, 10.0)),
        traffic=TrafficCounts(
            generation_tokens=LARGE,
            prompt_tokens=FINE,
            cached_prompt_tokens=0.0,
            engine_steps=12.0,
            step_tokens=1e300,
            finished={"stop": 3.0, "length": 1.0},
            http_responses={"2xx": 5.0, "5xx": 0.0},
            rejections=1.0,
            preemptions=2.0,
            prompt_length=histogram(2.0),
            output_length=Histogram((1.0, math.inf), (0.0, 0.0), 0.0, 0.0),
        ),
        latency=LatencyCounts(histogram(), histogram(2.0), histogram(3.0), histogram(4.0), histogram(5.0)),
    )


def life(name: str = "a/m/0/1", server: ServerName = A, first_seen: datetime = T0, **fields: object) -> Life:
    values: dict[str, object] = {
        "model": "org/mödel",
        "engine": "0",
        "evidence": StartEvidence.PROCESS_START,
        "counts_from_zero": True,
        "engine_version": "0.10.1",
        "setting": NGRAM,
        "sources": {"method": SettingSource.PAGE, "num_speculative_tokens": SettingSource.COMMAND_LINE},
        "process_start": 1772366400.53,
        "created": 1772366401.25,
        "ended": None,
    }
    return Life(id=LifeId(name), server=server, first_seen=first_seen, **(values | fields))  # type: ignore[arg-type]


def head(of: Life, when: datetime = T0, scale: float = 1.0) -> Head:
    return Head(life=of.id, at=when, monotonic=123456.789012345, boot_id="b0-07", counts=counts(scale))


def interval(of: Life, end: float, seconds: float = 15.0, *, bare: bool = False, **fields: object) -> Interval:
    """An interval that ends `end` seconds after T0, with every family or (`bare`) with none."""
    values: dict[str, object] = {}
    if not bare:
        whole = counts()
        values = {
            "speculation": whole.speculation,
            "speculation_seconds": 15.0,
            "traffic": whole.traffic,
            "traffic_seconds": 14.5,
            "latency": whole.latency,
            "latency_seconds": 14.25,
            "gauges": GaugeSpan(1.5, 3.0, 0.0, 0.0, FINE, 1.0),
            "gauges_seconds": 15.0,
            "flags": frozenset({Flag.BAD_SAMPLE, Flag.DUPLICATE_SERIES}),
            "is_gap": True,
            "partial": True,
        }
    return Interval(
        life=of.id,
        server=of.server,
        start=at(end - seconds),
        end=at(end),
        elapsed_seconds=seconds,
        **(values | fields),  # type: ignore[arg-type]
    )


def reading(server: ServerName = A, when: datetime = T0) -> LastReading:
    engine = EngineReading(
        model="org/mödel",
        engine="0",
        counts=counts(),
        gauges=Gauges(running=1.0, waiting=0.0, kv_usage=FINE, sleeping=False),
        num_speculative_tokens=3,
        created=1772366401.25,
    )
    page = Reading(
        server=server,
        scraped_at=when,
        monotonic=5.5,
        dialect="vllm_v1",
        verdict=Verdict.OK,
        reason="fine — 100 %",
        state=State.IDLE,
        flags=frozenset({Flag.QUANTIZED_COUNTERS, Flag.BAD_SAMPLE}),
        engines=(engine,),
        process_start=1772366400.53,
    )
    return LastReading(page, last_ok=when)


def decision(name: str, group: GroupName = EAST, made_at: datetime = T0, **fields: object) -> Decision:
    values: dict[str, object] = {
        "servers": (A, B),
        "rule": "raise-tokens",
        "action": Action.RAISE,
        "reason": Reason.PREDICTED_GAIN,
        "sentence": "3 tokens are predicted to give 8 % more",
        "current": NGRAM,
        "proposed": EAGLE,
        "precondition": Precondition(lives={A: (LifeId("l1"), LifeId("l2")), B: ()}, setting=NGRAM),
        "expires_at": made_at + timedelta(hours=1),
        "state": DecisionState.RECOMMENDED,
        "gain": FINE,
        "gain_low": -0.01,
        "gain_high": 0.6,
        "evidence": {"acceptance_rate": 0.71, "step_seconds": None},
        "window_seconds": 1800.0,
        "threshold": ThresholdAnswer(Action.KEEP, None, "between 50 and 70 %"),
        "note": "by hand",
    }
    return Decision(id=DecisionId(name), group=group, made_at=made_at, **(values | fields))  # type: ignore[arg-type]


MEASURED = Measured(
    gain=0.07,
    gain_low=None,
    gain_high=0.1,
    method="difference in differences",
    minutes=15.0,
    sentence="7 % more",
    before={"goodput": 100.0},
    after={"goodput": None},
)


def rollout(name: str, group: GroupName = EAST, created_at: datetime = T0, **fields: object) -> Rollout:
    values: dict[str, object] = {
        "decision": DecisionId("d1"),
        "current": NGRAM,
        "proposed": EAGLE,
        "requested_by": "anna",
        "state": RolloutState.ACTIVE,
        "sentence": "begun",
        "measured": MEASURED,
    }
    return Rollout(id=RolloutId(name), group=group, created_at=created_at, **(values | fields))  # type: ignore[arg-type]


def change(name: str, of: Rollout, position: int = 0, **fields: object) -> Change:
    values: dict[str, object] = {
        "server": A,
        "state": ChangeState.OBSERVING,
        "current": NGRAM,
        "proposed": EAGLE,
        "entered_at": T0,
        "deadline": at(900),
        "is_canary": True,
        "command_hash": "abc",
        "process": "1234@567",
        "models": ("m1", "m2"),
        "traffic_held": True,
        "attempts": 2,
        "stop_asked_at": at(1),
        "killed_at": at(2),
        "retry_at": at(3),
        "drained_at": at(4),
        "stopped_at": at(5),
        "started_at": at(6),
        "ready_at": at(7),
        "outcome": Outcome.NOT_PROVED,
        "sentence": "watching",
        "measured": MEASURED,
        "history": ("drained", "stopped"),
    }
    return Change(id=ChangeId(name), rollout=of.id, position=position, **(values | fields))  # type: ignore[arg-type]


def alert(name: str, since: datetime = T0, state: AlertState = AlertState.FIRING, **fields: object) -> Alert:
    labels = {"alertname": name, "severity": "page", "server": "a"}
    values: dict[str, object] = {
        "annotations": {"summary": "it fell"},
        "fired_at": since,
        "resolved_at": None,
        "last_true": since,
        "evidence": {"acceptance_length": 1.2, "num_drafts": None},
        "acknowledged_by": "anna",
        "notified_at": since,
    }
    return Alert(
        fingerprint=fingerprint(labels),
        labels=labels,
        state=state,
        active_since=since,
        **(values | fields),  # type: ignore[arg-type]
    )


def silence(name: str, starts: float = 0, ends: float = 3600) -> Silence:
    matchers = (Matcher("server", "=~", "a|b"), Matcher("alertname", "!=", "X"))
    return Silence(
        id=SilenceId(name), matchers=matchers, author="anna", reason="work", starts_at=at(starts), ends_at=at(ends)
    )


def watched(name: str, **fields: object) -> Watched:
    """A server that is watched."""
    values: dict[str, object] = {
        "server": ServerName(name), "group": EAST, "host": "h1", "url": f"http://{name}:8000", "mode": Mode.AUTO,
        "engine": Engine.SGLANG, "since": T0,
    }  # fmt: skip
    return Watched(**{**values, **fields})  # type: ignore[arg-type]


def notice(name: str, key: str = "", thread: str = "t1", created: float = 0, **fields: object) -> Notice:
    values: dict[str, object] = {
        "kind": NoticeKind.ALERT_FIRING,
        "severity": Severity.PAGE,
        "title": "AcceptanceCliff on a",
        "text": "line one\nline two — <b>&",
        "fields": (("rate", "0.31"), ("length", "1.4")),
        "labels": {"server": "a"},
        "annotations": {"runbook": "x"},
        "edits_root": True,
        "in_thread": True,
        "attachments": ("/tmp/report.html",),
        "simulated": True,
    }
    return Notice(
        id=NoticeId(name),
        dedupe_key=key or name,
        thread=thread,
        created_at=at(created),
        **(values | fields),  # type: ignore[arg-type]
    )
