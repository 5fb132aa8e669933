"""What rules would have done over stored history: alerts that begin and end, and what tuning would have answered.

The past did not change as the rules asked, so every answer is one to the setting that was in force then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.cycle.decide import Question, decide
from monitor.cycle.experience import facts, tune_input
from monitor.cycle.past import UNSTORED_FACTS, Past, Replayer
from monitor.model.alert import AlertState
from monitor.model.decision import Action, Decision, DecisionId
from monitor.model.life import LifeId, Setting
from monitor.model.outcome import Truth, TuneFiring
from monitor.model.record import Rejection
from monitor.model.signal import SignalSet
from monitor.policy.rule import Rule, RuleSet
from monitor.policy.timeline import EventKind, ReplayEvent, replay
from monitor.signals.build import signals_of
from monitor.signals.track import merged

#: A tuning rule that holds on is asked again after so long (seconds), as the daemon renews what it concluded.
AGAIN_SECONDS = 3600.0
#: Alerts of which acceptance is said to have collapsed, as for the daemon's own decisions.
_COLLAPSED = frozenset({"AcceptanceCliff"})


@dataclass(frozen=True, slots=True)
class Replayed:
    """One thing that would have happened. `decision` is what a tuning rule would have come to."""

    event: ReplayEvent
    decision: Decision | None = None


def replay_group(
    past: Past, rules: RuleSet, until: datetime, *, step_seconds: float, baseline_seconds: float,
    rejections: Sequence[Rejection] = (), restart_seconds: float = 180.0,
) -> Iterator[Replayed]:
    """Replay `rules` over one group; a tuning answer is told where it is another one than before."""
    # Where every signal of an alert's condition is a fact that nobody stored, nothing can be said at any moment.
    nothing = SignalSet(scope="nothing", at=past.since, window_seconds=step_seconds)
    rules = replace(rules, alerts=tuple(rule for rule in rules.alerts if not _is_silent(rule, nothing)))
    walk = Replayer(past, rules, baseline_seconds)
    events = replay(
        rules, walk.moments(until, step_seconds), past.scopes, credit_seconds=2.5 * step_seconds,
        again_seconds=AGAIN_SECONDS,
    )
    firing: set[str] = set()
    told: dict[str, tuple[Action, int | None]] = {}
    for event in events:
        if event.alert is not None and event.alert.name in _COLLAPSED:
            (firing.add if event.alert.state is AlertState.FIRING else firing.discard)(event.alert.fingerprint)
        if event.firing is None or event.kind is EventKind.TUNE_ENDED:
            told.pop(event.rule, None)
            yield Replayed(event)
            continue
        decision = answer(
            past, event.firing, event.at, fell=bool(firing), restart_seconds=restart_seconds,
            rejections=[one for one in rejections if one.at <= event.at],
        )
        said = (decision.action, decision.proposed.num_speculative_tokens)
        if told.get(event.rule) != said:
            told[event.rule] = said
            yield Replayed(event, decision)


def answer(
    past: Past, firing: TuneFiring, now: datetime, *, fell: bool, rejections: Sequence[Rejection],
    restart_seconds: float,
) -> Decision:
    """What the daemon would have concluded from one firing, with its tuner and guards."""
    group = past.group
    lives = {server.name: past.newest_lives(server.name, now) for server in past.servers}
    settings = {life.setting for found in lives.values() for life in found}
    tracks = [track.cut(now - timedelta(days=1), now) for track in past.tracks.values()]
    window = signals_of(tracks, scope=f"group:{group.name}", at=now, window_seconds=firing.window_seconds)
    given, setting = None, Setting()
    if len(settings) == 1:
        setting = next(iter(settings))
        since = now - timedelta(seconds=firing.window_seconds)
        flags = {flag for _, interval in merged(tracks, since, now) for flag in interval.flags}
        given = tune_input(
            tracks, window, setting=setting, limits=group.limits, rejections=rejections,
            restart_seconds=restart_seconds, replicas=len(lives), now=now,
            known_facts=facts(
                window, setting, flags, probe_failed=False, fell=fell,
                adapts=any(life.adapts for found in lives.values() for life in found),
            ),
        )
    return decide(
        Question(
            group=group, setting=setting, window=window, given=given,
            lives={name: tuple(LifeId(life.id) for life in found) for name, found in lives.items() if found},
            outcomes=(), firings=(firing,), now=now, decision_id=DecisionId("replayed"),
        )
    )


def _is_silent(rule: Rule, nothing: SignalSet) -> bool:
    return UNSTORED_FACTS.issuperset(rule.when.names) and rule.when.evaluate(nothing)[0] is not Truth.TRUE


def not_judged(rules: RuleSet) -> Mapping[str, tuple[str, ...]]:
    """Rules that a replay cannot judge, with the facts that nobody stored.

    A rule that asks whether a fact is known is judged without it, as it was while nobody had asked.
    """
    found = {rule.name: tuple(sorted(UNSTORED_FACTS & set(rule.when.scalars) - set(rule.when.known))) for rule in rules}
    return {name: names for name, names in found.items() if names}
