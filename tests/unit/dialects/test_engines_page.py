"""`docs/engines.md` says of every release what the name tables say, and what a page of theirs is really read as."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from monitor.dialects import llamacpp, sglang, vllm_names
from monitor.dialects.detect import is_blind
from monitor.dialects.names import Known, names_printed_by, version_key

PAGE = (Path(__file__).parents[3] / "docs" / "engines.md").read_text()
TABLES: Mapping[str, tuple[tuple[Known, ...], str]] = {
    "vLLM V0": (vllm_names.V0, "V0"),
    "vLLM V1": (vllm_names.V1, "V1"),
    "SGLang": (sglang.TABLE, ""),
    "llama-server": (llamacpp.TABLE, ""),
}
Has = Callable[[str], bool]


def yes(*names: str) -> Callable[[str, Has], str]:
    return lambda engine, has: "yes" if all(has(name) for name in names) else "no"


def rate(engine: str, has: Has) -> str:
    if engine == "vLLM V0":
        return "estimated" if has("v0_efficiency") else "no"
    if engine == "SGLang":
        return "estimated" if has("verify_calls") else "no"
    return yes("num_draft_tokens", "num_accepted_tokens")(engine, has)


def length(engine: str, has: Has) -> str:
    if engine in ("vLLM V0", "SGLang"):
        return rate(engine, has)
    return yes("num_drafts", "num_accepted_tokens")(engine, has)


def tokens_on_the_page(engine: str, has: Has) -> str:
    if engine == "vLLM V0":
        return "estimated" if has("v0_efficiency") and has("v0_emitted") else "no"
    return yes("num_steps" if engine == "SGLang" else "accepted_per_pos")(engine, has)


def step(engine: str, has: Has) -> str:
    """A histogram has one observation a step; else it follows from running requests and the number of drafts."""
    if has("inter_token"):
        return "yes"
    return "estimated" if has("running") and (has("num_drafts") or has("verify_calls")) else "no"


#: What each column says, from the names that a release prints.
COLUMNS: Mapping[str, Callable[[str, Has], str]] = {
    "rate": rate,
    "positions": yes("accepted_per_pos"),
    "length": length,
    "k": tokens_on_the_page,
    "tokens": yes("generation_tokens"),
    "step": step,
    "TPOT": yes("time_per_output_token"),
    "KV": yes("kv_usage"),
}


def derived(engine: str, version: str) -> dict[str, str]:
    table, generation = TABLES[engine]
    printed = names_printed_by([known for known in table if known.first], version, generation)
    return {column: says(engine, printed.__contains__) for column, says in COLUMNS.items()}


def rows() -> list[tuple[str, str, str | None, dict[str, str]]]:
    part = re.search(r"<!-- support:.*?-->\n(.*?)<!-- end of support -->", PAGE, re.DOTALL)
    assert part is not None
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in part[1].splitlines()]
    assert head[2:] == list(COLUMNS)
    found = []
    for engine, versions, *cells in lines:
        first, _, last = versions.partition(" – ")
        found.append((engine, first, last.strip(" –") or None, dict(zip(COLUMNS, cells, strict=True))))
    return found


def releases(engine: str) -> list[str]:
    """Every release at which a name of that engine begins or ends."""
    table, _ = TABLES[engine]
    known = {version for one in table for version in (one.first, one.last) if version}
    return sorted(known, key=version_key)


@pytest.mark.parametrize(("engine", "first", "last", "said"), rows(), ids=lambda value: str(value)[:20])
def test_a_row_says_what_its_releases_print(engine: str, first: str, last: str | None, said: dict[str, str]) -> None:
    assert derived(engine, first) == said
    assert derived(engine, last or releases(engine)[-1]) == said


@pytest.mark.parametrize("engine", TABLES)
def test_every_release_at_which_something_changes_is_in_a_row_that_is_right(engine: str) -> None:
    own = [row for row in rows() if row[0] == engine]
    for (_, _, last, before), (_, first, _, after) in pairwise(own):
        assert last is not None and version_key(last) < version_key(first)
        assert before != after, "two rows that say the same are one"
    for version in releases(engine):
        key = version_key(version)
        inside = [
            said for _, first, last, said in own
            if version_key(first) <= key and (last is None or key <= version_key(last))
        ]
        # A release between two rows was not read: nothing may change there.
        if inside or key < version_key(own[0][1]):
            assert [derived(engine, version)] * len(inside) == inside, version
        else:
            nearest = max((row for row in own if version_key(row[1]) <= key), key=lambda row: version_key(row[1]))
            assert derived(engine, version) in (nearest[3], derived(engine, own[own.index(nearest) + 1][1])), version


def test_the_ranges_that_print_nothing_of_speculation_are_those_that_say_so() -> None:
    for engine, first, last, said in rows():
        if engine.startswith("vLLM") and said["rate"] == "no" and engine != "vLLM V0":
            assert is_blind("vllm_v1", first) and is_blind("vllm_v1", last)
    assert is_blind("vllm_v0", "0.4.1") and is_blind("vllm_v0", "0.5.2")
    assert not is_blind("vllm_v0", "0.5.3") and not is_blind("vllm_v1", "0.8.3")


def test_every_name_that_is_read_is_listed_with_its_releases() -> None:
    part = re.search(r"<!-- names:.*?-->\n(.*?)\n<!-- end of names -->", PAGE, re.DOTALL)
    assert part is not None
    said = {
        (engine, name.strip("`"), kind, reads.strip("`"), versions)
        for engine, name, kind, reads, versions in (
            [cell.strip() for cell in line.strip("|").split("|")] for line in part[1].splitlines()[2:]
        )
    }
    expected = {
        (
            engine, known.name, known.kind.value, known.reads,
            f"{known.first} – {known.last or ''}".strip() if known.first else "not looked up",
        )
        for engine, (table, _) in TABLES.items()
        for known in table
        if known.reads is not None
    }
    assert said == expected
