"""The tuner: from what a server showed to the setting it should be at, with the reason. Pure.

A change is an experiment that is measured and taken back if it loses. So a setting is worth trying by the gain
expected of that, E[max(0, ratio - 1)], less what its restarts cost: going there, and coming back with the probability
that it loses. That one rule replaces fixed dead bands: sure small gains pass, unsure ones only where they may be large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from monitor.model.decision import Action, Reason
from monitor.tuning.advice import TuneAdvice, sentence
from monitor.tuning.forecast import Forecast, forecasts
from monitor.tuning.observed import Drafting, Fact, TuneInput
from monitor.tuning.standdown import is_wrong_pair, shortfalls, stand_down
from monitor.tuning.threshold import threshold_answer, why_they_differ

#: A restart must earn this many times the serving time it costs, within the horizon.
RESTART_FACTOR = 3.0
#: Least gain that a trial must be worth (ratio), however cheap restarts are: smaller ones cannot be measured.
LEAST_WORTH = 0.004
#: Every further setting already seen makes the next trial dearer by this share: what is left to find gets less.
WORTH_GROWTH = 0.25
#: Most positions up in one step: the projection upwards is a guess.
MAX_STEP_UP = 2
#: Lookup may go as far as twice the setting when the last conditional rate says that runs go on.
LOOKUP_RUNS_ON = 0.7
#: Above this setting, off must be predicted better by `OFF_MARGIN` than every setting that is worth trying: lengths at
#: small settings are underestimated from afar, and a server that is off shows no acceptance any more.
OFF_ONLY_FROM, OFF_MARGIN = 2, 0.02
#: Predicted gain below which a mere trial is not made, however much it might tell; lower for off while it was never
#: seen: its step time alone tells what speculation costs as such, which no setting with drafts can.
PROBE_FLOOR = -0.05
OFF_PROBE_FLOOR = -0.30
#: Setting that a server without speculation is probed with.
PROBE_TOKENS = 1


def tune(given: TuneInput) -> TuneAdvice:
    """The recommendation for what was observed; it never raises on odd numbers, it keeps and says why."""
    refusal = stand_down(given)
    if refusal is not None:
        return _answer(given, refusal[0], refusal[1], given.num_speculative_tokens)
    now = given.num_speculative_tokens
    assert now is not None  # stand_down has looked
    if now == 0 and not any(tokens > 0 for tokens in given.observed):
        return _when_off(given)
    highest = max(highest_candidate(given), now + MAX_STEP_UP, *given.observed)
    found = forecasts(given, highest)
    allowed = candidates(given, found)
    best = max(allowed, key=lambda tokens: worth(found[tokens], given), default=None)
    if best is None or worth(found[best], given) <= 0:
        return _keep(given, found, best)
    return _move(given, found, best)


def worth(forecast: Forecast, given: TuneInput) -> float:
    """What trying a setting is worth (ratio of goodput over the horizon) after its restarts; 0 or less: nothing."""
    loses = 0.5 * math.erfc(forecast.log_gain / max(forecast.log_error, 1e-9) / math.sqrt(2.0))
    restart = max(LEAST_WORTH, RESTART_FACTOR * given.restart_seconds / (3600.0 * given.horizon_hours))
    restart *= 1.0 + WORTH_GROWTH * (len(given.observed) - 1)
    return forecast.expected_improvement - restart * (1.0 + loses)


def highest_candidate(given: TuneInput) -> int:
    """Largest setting that may be proposed from the one in force."""
    now, row = given.num_speculative_tokens or 0, given.current
    highest = now + MAX_STEP_UP
    survival = row.survival if row is not None else None
    if given.drafting is Drafting.LOOKUP and survival and len(survival) > 1:
        runs_on = survival[-1] >= LOOKUP_RUNS_ON * survival[-2] > 0
        highest = max(highest, 2 * now) if runs_on else highest
    highest = max([highest, *(tokens for tokens in given.observed if tokens > 0)])
    ceiling = given.limits.maximum
    if given.limits.trained_depth is not None:
        ceiling = min(ceiling, given.limits.trained_depth)
    return min(highest, ceiling)


def candidates(given: TuneInput, found: Mapping[int, Forecast], *, ignore_limits: bool = False) -> list[int]:
    """Settings that may be proposed: projected, within limits, not rejected, and sensible for what is known."""
    now = given.num_speculative_tokens
    limits = given.limits
    top = highest_candidate(given) if not ignore_limits else max(found, default=0)
    chosen = []
    for tokens, forecast in found.items():
        if tokens == now or (tokens in given.rejected and not ignore_limits):
            continue
        if not ignore_limits and not (limits.minimum <= tokens <= top if tokens else limits.allow_off):
            continue
        never_off = tokens == 0 and not any(seen == 0 for seen in given.observed)
        if forecast.gain < (OFF_PROBE_FLOOR if never_off else PROBE_FLOOR):
            continue
        if Fact.SATURATED in given.facts and now is not None and tokens > now:
            continue
        chosen.append(tokens)
    if is_wrong_pair(given):
        return [tokens for tokens in chosen if tokens == 0]
    if 0 in chosen and now is not None and now > OFF_ONLY_FROM:
        rivals = [found[tokens].log_gain for tokens in chosen if tokens > 0 and worth(found[tokens], given) > 0]
        if rivals and found[0].log_gain < max(rivals) + OFF_MARGIN:
            chosen.remove(0)
    return chosen


def _move(given: TuneInput, found: Mapping[int, Forecast], best: int) -> TuneAdvice:
    now, forecast = given.num_speculative_tokens or 0, found[best]
    if best == 0 and forecast.gain > 0.0:
        action = Action.OFF
        reason = Reason.WRONG_PAIR if is_wrong_pair(given) else Reason.SPECULATION_DOES_NOT_PAY
    elif forecast.gain <= 0.0:
        action, reason = Action.PROBE, Reason.IDENTIFY_DRAFT_COST
    else:
        action, reason = (Action.RAISE if best > now else Action.LOWER), Reason.PREDICTED_GAIN
    return _answer(given, action, reason, best, found)


def _keep(given: TuneInput, found: Mapping[int, Forecast], best: int | None) -> TuneAdvice:
    """Keep, with the most telling reason: what would have been proposed had it been allowed, else what fell short."""
    now = given.num_speculative_tokens
    if is_wrong_pair(given):
        return _answer(given, Action.KEEP, Reason.WRONG_PAIR, now, found)
    if Fact.SATURATED in given.facts:
        return _answer(given, Action.KEEP, Reason.SATURATED, now, found)
    barred = [t for t in candidates(given, found, ignore_limits=True) if worth(found[t], given) > 0]
    if barred:
        first = max(barred, key=lambda tokens: worth(found[tokens], given))
        reason = Reason.REJECTED_BEFORE if first in given.rejected else Reason.AT_LIMIT
        return _answer(given, Action.KEEP, reason, now, found, about=first)
    if best is not None and found[best].gain > 0.0:
        return _answer(given, Action.KEEP, Reason.GAIN_BELOW_RESTART_COST, now, found, about=best)
    return _answer(given, Action.KEEP, Reason.NO_CANDIDATE_CLEARS_BAR, now, found)


def _when_off(given: TuneInput) -> TuneAdvice:
    """Off and nothing ever seen: probe one of several servers, never a lone one."""
    tokens = max(PROBE_TOKENS, given.limits.minimum)
    can_probe = (given.replicas or 0) > 1 and tokens not in given.rejected
    action = Action.PROBE if can_probe else Action.KEEP
    return _answer(given, action, Reason.SPECULATION_OFF, tokens if can_probe else 0, about=tokens)


def _answer(
    given: TuneInput, action: Action, reason: Reason, proposed: int | None,
    found: Mapping[int, Forecast] | None = None, *, about: int | None = None,
) -> TuneAdvice:
    now, row = given.num_speculative_tokens, given.current
    threshold = threshold_answer(row, now, given.limits)
    subject = about if about is not None else proposed
    forecast = found.get(subject) if found and subject is not None and subject != now else None
    first = row.survival[0] if row is not None and row.survival else None
    text = sentence(
        reason, now=now, to=subject, forecast=forecast,
        short=", ".join(shortfalls(row, now, given)) if row is not None and now is not None else "nothing yet",
        first=f"{100 * first:.0f} %" if first is not None else "few",
    )
    # Where nothing was weighed, that is not why they differ.
    differs = why_they_differ(threshold, proposed, now) if found else ""
    moved = forecast if proposed == subject else None
    return TuneAdvice(
        action=action, num_speculative_tokens=proposed, reason=reason,
        sentence=f"{text} {differs}".strip(), threshold=threshold,
        gain=moved.gain if moved else None, gain_low=moved.gain_low if moved else None,
        gain_high=moved.gain_high if moved else None, forecasts=found or {},
    )

