"""Which engine, and which generation of it, printed a page: from the page first, from `/version` beside it.

It decides nothing from configuration, and says where page and version disagree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from monitor.dialects import llamacpp, sglang, vllm_names
from monitor.dialects.names import Meaning, Names, Spelling, spell, version_key
from monitor.dialects.vllm_names import ROUTER_NAMES
from monitor.model.server import Engine

NAMES: dict[Engine, Names] = {
    Engine.VLLM: vllm_names.NAMES,
    Engine.SGLANG: sglang.NAMES,
    Engine.LLAMACPP: llamacpp.NAMES,
}

#: Engines of which every name is in the table, read or not.
_WHOLE_TABLES = frozenset({Engine.VLLM, Engine.LLAMACPP})

#: Series that only a V0 engine prints (declared even where they have no sample), and only a V1 engine.
_V0_ONLY = frozenset(known.name for known in vllm_names.V0) - frozenset(known.name for known in vllm_names.V1)
_V1_ONLY = frozenset(known.name for known in vllm_names.V1) - frozenset(known.name for known in vllm_names.V0)

#: First and last releases whose pages never say whether they speculate, per generation.
_BLIND = {"V0": ("0.4.1", "0.5.2"), "V1": ("0.7.1", "0.8.2")}


def meaning_of(name: str) -> Meaning | None:
    """What a sample of that name stands for, of whatever engine; None where it is no engine's or unknown."""
    spelling = spell(name)
    return None if spelling is None or spelling.engine not in NAMES else NAMES[spelling.engine].meaning(spelling)


def is_wanted(name: str) -> bool:
    """Whether acceptd reads samples of that name."""
    if name in ("process_start_time_seconds", "http_requests_total"):
        return True
    meaning = meaning_of(name)
    return meaning is not None and meaning.known.reads is not None


def engines_of(names: Iterable[str]) -> list[Engine]:
    """The engines to which these names belong, the one with most names first."""
    votes = Counter(spelling.engine for name in names if (spelling := spell(name)) is not None)
    return [engine for engine, _ in votes.most_common()]


def unknown_names(names: Iterable[str]) -> frozenset[str]:
    """Names with an engine's prefix that its table does not have: new releases print them first.

    SGLang is left out: of its some hundred names the table has only those that are of use.
    """
    found = set()
    for name in names:
        spelling = spell(name)
        if spelling is None or spelling.engine not in _WHOLE_TABLES:
            continue
        if not NAMES[spelling.engine].knows_family(spelling) and not is_router_name(spelling):
            found.add(name)
    return frozenset(found)


def is_router_name(spelling: Spelling) -> bool:
    """Whether only a router or gateway in front of engines prints that name."""
    return spelling.bare in ROUTER_NAMES or spelling.bare.startswith("router")


def generation_of(names: Iterable[str], has_engine_label: bool) -> str | None:
    """`V0` or `V1` for a vLLM page with these names; None where the page does not tell (few series, no label).

    An `engine` label is V1's from 0.8.3; before that `_created` samples are, which V0 suppresses.
    """
    bare = {spelling.bare for name in names if (spelling := spell(name)) is not None}
    families = {name.removesuffix("_total") for name in bare}
    if has_engine_label or families & _V1_ONLY or any(name.endswith("_created") for name in bare):
        return "V1"
    return "V0" if families & _V0_ONLY else None


def shows_v0(names: Iterable[str]) -> bool:
    """Whether any of these sample names is one that only V0 engines print."""
    spellings = (spell(name) for name in names)
    return any(one is not None and one.bare.removesuffix("_total") in _V0_ONLY for one in spellings)


@lru_cache(maxsize=1000)
def generation_by(version: str | None) -> str:
    """`V0` or `V1` by the version alone: from 0.10.0 there is only V1, and before V0 is the likelier."""
    return "V1" if version_key(version or "") >= (0, 10) else "V0"


@lru_cache(maxsize=1000)
def disagreement(dialect: str, version: str | None) -> str | None:
    """A sentence where `/version` rules out what the page looks like; None where they agree or nothing is known."""
    key = version_key(version or "")
    if not key or version is None:
        return None
    if dialect == "vllm_v0" and key >= (0, 11, 1):
        return f"the page looks like a V0 engine, but vLLM {version} has none"
    if dialect == "vllm_v1" and key < (0, 7, 1):
        return f"the page looks like a V1 engine, but vLLM {version} prints no V1 metrics"
    return None


@lru_cache(maxsize=1000)
def is_blind(dialect: str, version: str | None) -> bool:
    """Whether that vLLM release prints nothing of speculation, on or off."""
    generation = {"vllm_v0": "V0", "vllm_v1": "V1"}.get(dialect)
    if generation is None or not version:
        return False
    first, last = _BLIND[generation]
    return version_key(first) <= version_key(version) <= version_key(last)
