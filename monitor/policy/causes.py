"""Probable causes of an alert, each with the numbers that speak for it. It asks nobody and cures nothing.

What is compared: the server with its own normal, with itself at the same hour last week, with its peers on the same
model, and its engines with each other. Likelihoods are ours, for the order alone; they are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from monitor.model.duration import format_duration
from monitor.model.life import Life
from monitor.model.signal import SignalSet
from monitor.policy.condition import known_positions

#: Tokens gained per draft (length - 1) below this share of normal count as fallen, as AcceptanceSlowFall has it.
FALLEN = 0.80
#: An engine that gains less than this share of what the others gain is the bad one. Ours: engines of one server share
#: the traffic, and differ by a few percent.
_BAD_ENGINE, _ENOUGH_DRAFTS = 0.50, 200.0
#: Lengths of prompts or answers that differ by this factor are other traffic. Ours: weeks differ by less at one hour.
_OTHER_TRAFFIC = 1.5
#: Prompts from here on are long for heads that were trained on short ones: one fell from length 2.30 at 2K tokens to
#: 1.09 at 16K (vllm-project/speculators#684).
_LONG_PROMPT = 4000.0
#: A process whose length is below this share of its first hours' decays (vllm-project/vllm#41838), if it is up for 6 h.
_DECAYED, _DECAY_SECONDS = 0.80, 21_600.0
#: A first position below this, where it is normally several times as much, is no change of traffic.
_DEAD_POSITION, _LIVE_POSITION = 0.05, 0.25
#: The guides' mark of a draft that does not fit its target.
_MISFIT_ALPHA = 0.30
#: Preemptions a minute and KV cache in use that say that memory runs out.
_PREEMPTIONS, _FULL = 1.0, 0.90
#: Share of intervals with a queue from which on capacity is the limit, as the alert Saturated has it.
_QUEUED = 0.10
#: Drafts cut to less than this share of the setting are not what was configured.
_CUT = 0.60
#: A change counts as recent for so long (seconds).
_RECENT_SECONDS = 86_400.0

#: Alerts that say that drafts are accepted less.
ACCEPTANCE_ALERTS = frozenset(
    {"AcceptanceCliff", "AcceptanceSlowFall", "AcceptanceDecaysWithUptime", "AcceptanceLowFromStart", "DraftBroken"}
)

UNSEEN = "The page cannot show temperature, language or sampling: ask who sends."


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is known of one server when its alert fires.

    `last_week` are its signals at the same hour a week ago, `peers` those of other servers of its model, `engines`
    those of its engines where it has several. `life` is its newest one, `before` the one that this replaced.
    """

    at: datetime
    now: SignalSet
    last_week: SignalSet | None = None
    peers: Mapping[str, SignalSet] = field(default_factory=dict)
    engines: Mapping[str, SignalSet] = field(default_factory=dict)
    life: Life | None = None
    before: Life | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: a word for it, how likely it is beside the others (0 to 1), and a sentence with its numbers."""

    name: str
    likelihood: float
    sentence: str


Finding = Iterator[Cause]


def probable_causes(case: Case, *, about_acceptance: bool, limit: int = 3) -> tuple[Cause, ...]:
    """The likeliest causes first; for an alert about acceptance one that says so where nothing stands out."""
    # Acceptance is judged against what is normal at the same number of tokens, all else is not.
    finders = (*_ANY, *_ACCEPTANCE) if about_acceptance else (*_ANY, _another_number)
    found = sorted((cause for find in finders for cause in find(case)), key=lambda cause: -cause.likelihood)
    if not found and about_acceptance:
        return (Cause("unknown", 0.0, f"Nothing measured stands out. {UNSEEN}"),)
    return tuple(found[:limit])


def _bad_engine(case: Case) -> Finding:
    gains = {
        engine: length - 1.0
        for engine, signals in case.engines.items()
        if (length := signals.value("acceptance_length")) is not None
        and (signals.value("num_drafts") or 0.0) >= _ENOUGH_DRAFTS
    }
    if len(gains) < 2:
        return
    worst = min(gains, key=lambda engine: gains[engine])
    others = [gain for engine, gain in gains.items() if engine != worst]
    mean = sum(others) / len(others)
    if gains[worst] < _BAD_ENGINE * mean:
        yield Cause(
            "one_bad_engine", 0.95,
            f"One of {len(gains)} engines is bad: engine {worst} gets {gains[worst] + 1:.2f} tokens a draft, the others"
            f" {mean + 1:.2f}.",
        )  # fmt: skip


def _another_version(case: Case) -> Finding:
    life, before = case.life, case.before
    if life is None or before is None or (case.at - life.first_seen).total_seconds() > _RECENT_SECONDS:
        return
    since = f"since {life.first_seen:%Y-%m-%d %H:%M} UTC"
    old, new = before.engine_version, life.engine_version
    if old and new and old != new:
        yield Cause("another_version", 0.85, f"Another version {since}: {new}, before it {old}.")
    for what, mine, its in (
        ("model", life.model, before.model),
        ("draft", life.setting.draft_model, before.setting.draft_model),
        ("method", life.setting.method, before.setting.method),
    ):
        if mine and its and mine != its:
            yield Cause(f"another_{what}", 0.85, f"Another {what} {since}: {mine}, before it {its}.")


def _another_number(case: Case) -> Finding:
    life, before = case.life, case.before
    if life is None or before is None or (case.at - life.first_seen).total_seconds() > _RECENT_SECONDS:
        return
    new, old = life.setting.num_speculative_tokens, before.setting.num_speculative_tokens
    if new is not None and old is not None and new != old and life.adapts is None:
        yield Cause(
            "another_setting", 0.70,
            f"Another setting since {life.first_seen:%Y-%m-%d %H:%M} UTC: {life.setting.describe()}, before it"
            f" {before.setting.describe()}.",
        )  # fmt: skip


def _new_process(case: Case) -> Finding:
    if case.life is None or case.before is None:
        return
    age = (case.at - case.life.first_seen).total_seconds()
    if age <= _RECENT_SECONDS / 24:
        yield Cause("new_process", 0.40, f"It began with a new process, {format_duration(max(1.0, round(age)))} ago.")


def _memory(case: Case) -> Finding:
    preempted, full = case.now.value("preemptions_per_minute"), case.now.value("kv_usage_max")
    if preempted is not None and preempted > _PREEMPTIONS and (full is None or full > _FULL):
        cache = f", the KV cache up to {full:.0%} full" if full is not None else ""
        yield Cause(
            "memory", 0.75,
            f"Memory runs out: {preempted:.0f} requests a minute are thrown out and computed again{cache}. A draft"
            " takes its share of the same memory.",
        )  # fmt: skip


def _saturated(case: Case) -> Finding:
    queued = case.now.value("waiting_share")
    if queued is None or queued <= _QUEUED:
        return
    waiting = case.now.value("waiting")
    many = f", {waiting:.0f} at a time" if waiting else ""
    yield Cause("saturated", 0.60, f"It has more to do than it can: requests queue {queued:.0%} of the time{many}.")


def _traffic(case: Case) -> Finding:
    """Other prompts or answers than at this hour last week, or peers that fell as well."""
    moved = [text for name, what in _LENGTHS if (text := _moved(case, name, what))]
    fallen = [name for name, signals in case.peers.items() if _is_fallen(signals)]
    judged = [name for name, signals in case.peers.items() if _gain_of_normal(signals) is not None]
    together = bool(fallen) and len(fallen) * 2 > len(judged)
    if moved:
        peers = f" {_peers(fallen, judged)} fell as well." if together else ""
        sentence = f"The traffic is another: {'; '.join(moved)}.{peers} {UNSEEN}"
        yield Cause("traffic", 0.80 if together else 0.55, sentence)
    elif together:
        yield Cause("traffic", 0.65, f"{_peers(fallen, judged)} fell as well, so it is the traffic. {UNSEEN}")


def _alone(case: Case) -> Finding:
    """Peers on the same model are as before: whatever it is, it is here."""
    judged = {name: gain for name, s in case.peers.items() if (gain := _gain_of_normal(s)) is not None}
    if judged and not any(_is_fallen(case.peers[name]) for name in judged) and _is_fallen(case.now):
        lengths = [length for name in judged if (length := case.peers[name].value("acceptance_length")) is not None]
        who, verb = _peers(list(judged), list(judged)), "get" if len(judged) > 1 else "gets"
        yield Cause(
            "this_server", 0.50,
            f"It is this server alone: {who[0].lower()}{who[1:]} on the same model still {verb}"
            f" {sum(lengths) / len(lengths):.2f} tokens a draft.",
        )  # fmt: skip


def _long_context(case: Case) -> Finding:
    prompt = case.now.value("mean_prompt_tokens")
    if prompt is None or prompt < _LONG_PROMPT or not _is_neural(case):
        return
    before = case.last_week.value("mean_prompt_tokens") if case.last_week is not None else None
    if before is not None and prompt < _OTHER_TRAFFIC * before:
        return
    then = f" ({before:,.0f} at this hour last week)" if before is not None else ""
    yield Cause(
        "long_context", 0.70,
        f"Prompts are long: {prompt:,.0f} tokens on average{then}. Heads that were trained on short ones break there.",
    )  # fmt: skip


def _decay(case: Case) -> Finding:
    share, uptime = case.now.value("acceptance_length_since_start"), case.now.value("uptime_seconds")
    if share is not None and share < _DECAYED and uptime is not None and uptime > _DECAY_SECONDS:
        yield Cause(
            "decay", 0.80,
            f"It decays with uptime: {share:.0%} of the length of this process's first hours, after"
            f" {format_duration(round(uptime / 3600) * 3600.0)}. A restart brought it back where this was reported.",
        )  # fmt: skip


def _broken_head(case: Case) -> Finding:
    first = next(iter(known_positions(case.now, "acceptance_rate_at_pos")), None)
    normal = case.now.value("baseline_first_position_rate")
    if first is not None and first < _DEAD_POSITION and normal is not None and normal > _LIVE_POSITION:
        yield Cause(
            "broken_draft", 0.75,
            f"The draft or its head is broken, or the target's answers are: the first position is accepted {first:.0%}"
            f" of the time, normally {normal:.0%}. Read an answer.",
        )  # fmt: skip


def _wrong_pair(case: Case) -> Finding:
    alpha, normal = case.now.value("acceptance_alpha"), case.now.value("baseline_acceptance_rate")
    if alpha is None or alpha >= _MISFIT_ALPHA or (normal is not None and normal >= _MISFIT_ALPHA):
        return
    rates = known_positions(case.now, "acceptance_rate_at_pos")[:3]
    shown = ", ".join(f"{rate:.0%}" for rate in rates if rate is not None)
    positions = f" (by position {shown})" if shown else ""
    yield Cause(
        "wrong_pair", 0.80,
        f"The draft does not fit its target: {alpha:.0%} of the tokens tested are accepted{positions}, and it never was"
        " better here.",
    )  # fmt: skip


def _adapts(case: Case) -> Finding:
    if case.life is not None and case.life.adapts:
        yield Cause("adaptive", 0.35, f"The engine moves the number of tokens itself ({case.life.adapts}).")
    cut, setting = case.now.value("mean_draft_tokens"), case.now.value("num_speculative_tokens")
    if cut is not None and setting and cut < _CUT * setting:
        yield Cause(
            "cut_drafts", 0.45,
            f"Drafts are cut: {cut:.1f} tokens on average of the {setting:.0f} set, by a schedule, a length limit or"
            " the token budget.",
        )  # fmt: skip


_ANY: Sequence[Callable[[Case], Finding]] = (_another_version, _new_process, _memory, _saturated, _traffic)
_ACCEPTANCE: Sequence[Callable[[Case], Finding]] = (
    _bad_engine, _long_context, _decay, _broken_head, _wrong_pair, _alone, _adapts
)  # fmt: skip
_LENGTHS = (("mean_prompt_tokens", "prompts"), ("mean_output_tokens", "answers"))


def _moved(case: Case, name: str, what: str) -> str:
    """What has moved since this hour last week, with both numbers; empty where it has not, or is not known."""
    now, then = case.now.value(name), case.last_week.value(name) if case.last_week is not None else None
    if not now or not then or max(now / then, then / now) < _OTHER_TRAFFIC:
        return ""
    return f"{what} of {now:,.0f} tokens, {then:,.0f} at this hour last week"


def _gain_of_normal(signals: SignalSet) -> float | None:
    """Tokens gained per draft as a share of what is normal there; None where either is not known."""
    length, normal = signals.value("acceptance_length"), signals.value("baseline_acceptance_length")
    return (length - 1.0) / (normal - 1.0) if length is not None and normal is not None and normal > 1.0 else None


def _is_fallen(signals: SignalSet) -> bool:
    gain = _gain_of_normal(signals)
    return gain is not None and gain < FALLEN


def _is_neural(case: Case) -> bool:
    return case.now.value("is_neural_draft") != 0.0


def _peers(some: Sequence[str], of: Sequence[str]) -> str:
    if len(some) == 1:
        return f"Its peer {some[0]}" if len(of) == 1 else f"Its peer {some[0]} (one of {len(of)})"
    return f"Its {len(some)} peers" if len(some) == len(of) else f"{len(some)} of its {len(of)} peers"
