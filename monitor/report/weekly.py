"""Numbers that only a report needs: throughput at equal load, pages per shift, share of the time covered. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from monitor.intervals.loads import Loads
from monitor.model.alert import Alert, Severity
from monitor.model.decision import Action, Decision, DecisionState, Reason
from monitor.policy.grouping import is_told
from monitor.report.content import Noise
from monitor.signals.track import Pair

#: A shift of on-call (hours); 21 a week.
SHIFT_HOURS = 8.0
#: Loads (mean of running requests in an hour) within such a factor count as equal.
_LOAD_STEP = 1.25
#: Where one load ends and the next begins. Less than half a request, below the first, says nothing of throughput.
LOAD_EDGES = (0.5, *(_LOAD_STEP ** (number + 0.5) for number in range(-3, 44)))

#: Why a group is not tuned, where the reason of its conclusion is a hindrance and not a good setting.
_HINDRANCES = {
    Reason.TOO_LITTLE_DATA: "too little traffic to judge",
    Reason.NO_DATA: "no data",
    Reason.SETTING_UNKNOWN: "its setting is not known, or its servers differ",
    Reason.UNRELIABLE_COUNTERS: "its counters contradict each other",
    Reason.ENGINE_ADAPTS_ITSELF: "the engine moves the number itself",
    Reason.SCHEDULE_SET: "a schedule by batch size is set",
    Reason.DIFFUSION_MODEL: "a diffusion model drafts nothing",
    Reason.SPECULATION_OFF: "speculation is off",
    Reason.SATURATED: "it is saturated: capacity is the limit",
    Reason.BROKEN_DRAFT: "its draft is broken",
    Reason.WRONG_PAIR: "draft and target do not fit",
    Reason.DECAY_WITH_UPTIME: "its acceptance decays with uptime",
    Reason.ENGINE_STUCK: "its engine was stuck",
    Reason.SERVER_DOWN: "a server is down",
    Reason.REJECTED_BEFORE: "what would be tried has lost before",
    Reason.GAIN_BELOW_RESTART_COST: "the gain would not repay the restart",
}


def equal_load_change(now: Loads, before: Loads) -> float | None:
    """Throughput of the period against the one before at equal load, as a ratio minus 1; None without common loads.

    Each load (by `LOAD_EDGES`) that both periods had is compared by tokens per second, weighted by the time that the
    shorter of the two spent there. Loads are means of an hour in a fleet of any size, so that a figure means the same.
    """
    common = [place for place in now.keys() & before.keys() if place and before[place][0] > 0 and now[place][0] > 0]
    weight = sum(min(now[place][1], before[place][1]) for place in common)
    if weight <= 0:
        return None
    logs = (
        min(now[place][1], before[place][1])
        * math.log((now[place][0] / now[place][1]) / (before[place][0] / before[place][1]))
        for place in sorted(common)
    )
    return math.exp(sum(logs) / weight) - 1.0


def calls(alerts: Iterable[Alert], severity: Severity, start: datetime, end: datetime) -> list[datetime]:
    """When people were called by messages of a severity: once for all alerts of an incident that fired together."""
    told = {
        (alert.incident, alert.fired_at)
        for alert in alerts
        if alert.severity is severity and is_told(alert) and alert.fired_at and start <= alert.fired_at < end
    }
    return [fired_at for _, fired_at in told]


def noise(alerts: Sequence[Alert], start: datetime, end: datetime) -> Noise:
    """How often people were called in the period, and in its worst shift of eight hours."""
    pages = calls(alerts, Severity.PAGE, start, end)
    shift = timedelta(hours=SHIFT_HOURS)
    busiest = Counter((at - start) // shift for at in pages)
    return Noise(
        pages=len(pages),
        tickets=len(calls(alerts, Severity.TICKET, start, end)),
        shifts=max(1.0, (end - start) / shift),
        busiest=max(busiest.values(), default=0),
    )


def busy_hours(loads: Loads) -> float | None:
    """Hours in which something ran (by `LOAD_EDGES`); None where nothing is known of loads."""
    return sum(seconds for place, (_, seconds) in loads.items() if place) / 3600.0 if loads else None


def covered_share(pairs: Sequence[Pair], start: datetime, end: datetime) -> float:
    """Share of the period (0 to 1) for which there are intervals without a gap; engines of a server count once."""
    spans = sorted(
        (max(interval.start, start), min(interval.end, end))
        for _, interval in pairs
        if not interval.is_gap and interval.end > start and interval.start < end
    )
    covered, reached = timedelta(), start
    for begun, ended in spans:
        if ended > reached:
            covered += ended - max(begun, reached)
            reached = ended
    return covered / (end - start)


def hindrance(decision: Decision | None) -> str:
    """Why a group could not be tuned, in words; empty where it could, or needs nothing."""
    if decision is None:
        return "nothing was concluded yet"
    if decision.state is DecisionState.REFUSED:
        return decision.note.removeprefix("not done: ") or "a limit refused it"
    if decision.action is Action.KEEP or decision.reason in (Reason.BROKEN_DRAFT, Reason.WRONG_PAIR):
        words = _HINDRANCES.get(decision.reason, "")
        return f"{words}. {decision.sentence}" if words else ""
    return ""


def confidence(decision: Decision) -> str:
    """How sure a prediction is, in a word: by where its interval lies."""
    if decision.gain is None:
        return "not predicted: it is an experiment, measured and taken back if it loses"
    if decision.gain_low is None or decision.gain_high is None:
        return "without an interval"
    if decision.gain_low > 0:
        return "sure: the whole interval is a gain"
    return "likely" if decision.gain > 0 else "doubtful"
