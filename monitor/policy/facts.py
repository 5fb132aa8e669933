"""What the daemon knows of a server beside its page, as signals that rules may name. It asks nobody.

Whoever evaluates rules puts these values into the signal sets; one it does not know stays without value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from monitor.model.signal import NoData, Signal, SignalSet

#: Every fact by name, with its meaning. All are one number; a value of None means that nobody asked.
FACTS: Mapping[str, str] = {
    "probe_failed": "1 when the newest generation probe got no token, 0 when it got one; none where none was made or "
                    "the server answered 401 or 403.",
    "health_ok": "1 when `/health` last said 200, 0 when it did not; none where it was not asked since the last scrape "
                 "that failed, or answered 401 or 403.",
    "scrape_unauthorized": "1 when the newest scrape was answered 401 or 403, else 0.",
    "restart_failed": "1 after a restart by acceptd that did not end as meant: the server did not come back, or came "
                      "back on its former setting (then for 20 minutes, so that it is told once); 0 after a later one "
                      "that did, or none in 24 h.",
    "is_neural_draft": "1 where a model drafts (EAGLE, MTP, draft model and the like), 0 where text is looked up "
                       "(n-gram, suffix); none where the method is not known.",
    "deliveries_failed": "Messages that a receiver refused for good in the last hour and has taken none since, or that "
                         "wait for longer than 5 minutes; one more while no Alertmanager takes alerts for as long "
                         "(scope `daemon`).",
    "feeds_away": "Prometheus-compatible stores that have servers' pages and could not be asked the last time (scope "
                  "`daemon`).",
    "fleet_store_away_seconds": "Since when the fleet's database cannot be used, 0 while it can; none without one "
                                "(scope `daemon`).",
    "pages_lost": "Pages that waited on disk for the store and were lost to newer ones or to damage; 0 once that is "
                  "more than an hour ago (scope `daemon`).",
}

#: Methods besides n-gram that copy from text seen before (vLLM `vllm/config/speculative.py`): any acceptance up to 1 is
#: normal for them. n-gram has a name of its own in each engine (`ngram`, `[ngram]`, `ngram_gpu`, `NGRAM`, `ngram-mod`).
_LOOKUP_METHODS = frozenset({"suffix", "lookup", "prompt_lookup"})


def rule_vocabulary(signals: Mapping[str, str]) -> dict[str, str]:
    """Names that rules may use: `signals` (name to kind) and the facts."""
    return {**signals, **dict.fromkeys(FACTS, "scalar")}


def is_neural_draft(method: str | None) -> float | None:
    """The fact of that name for a speculation method as its engine calls it; None where the method is not known."""
    if method is None:
        return None
    parts = [part.strip().lower() for part in method.split(",")]
    return 0.0 if all("ngram" in part or part in _LOOKUP_METHODS for part in parts) else 1.0


def with_facts(signals: SignalSet, facts: Mapping[str, float | None]) -> SignalSet:
    """`signals` with facts added; raises ValueError for a name that is no fact."""
    if not facts.keys() <= FACTS.keys():
        unknown = sorted(facts.keys() - FACTS.keys())
        raise ValueError(f"{', '.join(unknown)}: expected one of {', '.join(FACTS)}")
    added = {name: _fact(name, value) for name, value in facts.items()}
    return replace(signals, scalars=_WithFacts(signals.scalars, added))


@lru_cache(maxsize=1024)
def _fact(name: str, value: float | None) -> Signal:
    return Signal(name, value, 1.0, reason=NoData.NOT_KNOWN if value is None else None)


class _WithFacts(Mapping[str, Signal]):
    """Signals and facts as one, without asking for any signal."""

    def __init__(self, signals: Mapping[str, Signal], facts: Mapping[str, Signal]) -> None:
        self._signals = signals
        self._facts = facts

    def __getitem__(self, name: str) -> Signal:
        found = self._facts.get(name)
        return found if found is not None else self._signals[name]

    def get(self, name: str, default: Any = None) -> Any:
        """As of any mapping, without its detour over an exception."""
        found = self._facts.get(name)
        return found if found is not None else self._signals.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._facts or name in self._signals

    def __iter__(self) -> Iterator[str]:
        yield from self._signals
        yield from self._facts

    def __len__(self) -> int:
        return len(self._signals) + len(self._facts)
