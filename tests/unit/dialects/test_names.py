"""Names: their spellings, and the releases that print them."""

from __future__ import annotations

import pytest

from monitor.dialects import llamacpp, sglang
from monitor.dialects.names import Kind, Known, Names, Role, names_printed_by, spell, version_key
from monitor.dialects.vllm_names import NAMES, V0, V1
from monitor.model.server import Engine


@pytest.mark.parametrize(
    ("name", "engine", "bare", "distance"),
    [
        ("vllm:prompt_tokens_total", Engine.VLLM, "prompt_tokens_total", 0),
        ("vllm_prompt_tokens_total", Engine.VLLM, "prompt_tokens_total", 2),
        ("ray_vllm:prompt_tokens_total", Engine.VLLM, "prompt_tokens_total", 4),
        ("ray_vllm_prompt_tokens_total", Engine.VLLM, "prompt_tokens_total", 6),
        ("sglang:token_usage", Engine.SGLANG, "token_usage", 0),
        ("llamacpp:requests_processing", Engine.LLAMACPP, "requests_processing", 0),
    ],
)
def test_spellings(name: str, engine: Engine, bare: str, distance: int) -> None:
    spelling = spell(name)
    assert spelling is not None
    assert (spelling.engine, spelling.bare, spelling.distance) == (engine, bare, distance)


@pytest.mark.parametrize("name", ["python_info", "ray_node_cpu", "xvllm:a", "vllm", "vllm:", "http_requests_total"])
def test_names_of_no_engine(name: str) -> None:
    assert spell(name) is None


@pytest.mark.parametrize(
    ("name", "reads", "role"),
    [
        ("vllm:prompt_tokens_total", "prompt_tokens", Role.VALUE),
        ("vllm:prompt_tokens", "prompt_tokens", Role.VALUE),
        ("vllm:prompt_tokens_created", "prompt_tokens", Role.CREATED),
        ("vllm:iteration_tokens_total_count", "iteration", Role.COUNT),
        ("vllm:iteration_tokens_total_bucket", "iteration", Role.BUCKET),
        ("vllm:iteration_tokens_total_sum", "iteration", Role.SUM),
        ("vllm:num_requests_waiting", "waiting", Role.VALUE),
    ],
)
def test_meanings(name: str, reads: str, role: Role) -> None:
    spelling = spell(name)
    assert spelling is not None
    meaning = NAMES.meaning(spelling)
    assert meaning is not None
    assert (meaning.known.reads, meaning.role) == (reads, role)


@pytest.mark.parametrize(
    "name",
    [
        "vllm:num_requests_waiting_by_reason",
        "vllm:prompt_tokens_by_source_total",
        "vllm:prompt_tokens_cached_by_source_total",
        "vllm:cache_config_info",
    ],
)
def test_longer_names_are_known_and_not_taken_for_shorter_ones(name: str) -> None:
    spelling = spell(name)
    assert spelling is not None
    assert not NAMES.is_read(spelling)
    assert NAMES.knows_family(spelling)


def test_a_histogram_is_no_counter_whatever_its_name() -> None:
    spelling = spell("vllm:iteration_tokens_total")
    assert spelling is not None
    assert NAMES.meaning(spelling) is None


@pytest.mark.parametrize("table", [V0, V1, sglang.TABLE, llamacpp.TABLE], ids=["V0", "V1", "sglang", "llamacpp"])
def test_tables_say_each_name_once_with_versions_in_order(table: tuple[Known, ...]) -> None:
    assert len({known.name for known in table}) == len(table)
    for known in table:
        assert not known.name.endswith("_total") or known.kind is Kind.HISTOGRAM
        assert known.last is None or version_key(known.first) <= version_key(known.last)


def test_unprefixed_samples_of_one_table_never_collide() -> None:
    for names in (NAMES, sglang.NAMES, llamacpp.NAMES):
        seen: dict[str, str] = {}
        for known in names.table:
            for sample in (f"{known.name}_total", f"{known.name}_created", f"{known.name}_bucket", known.name):
                assert seen.setdefault(sample, known.name) == known.name


@pytest.mark.parametrize(
    ("version", "key"),
    [
        ("0.10.1.1", (0, 10, 1, 1)),
        ("0.8.5.post1", (0, 8, 5, 1)),
        ("b11434", (11434,)),
        ("0.11.0rc2", (0, 11, 0)),
        ("0.9.2.dev12+g123", (0, 9, 2)),
        ("0.10.2+cu128", (0, 10, 2)),
        ("", ()),
    ],
)
def test_versions_compare(version: str, key: tuple[int, ...]) -> None:
    assert version_key(version) == key


@pytest.mark.parametrize(
    ("version", "generation", "printed", "absent"),
    [
        (
            "0.6.3",
            "V0",
            {"v0_efficiency": "spec_decode_efficiency", "kv_usage": "gpu_cache_usage_perc"},
            {"num_drafts"},
        ),
        ("0.8.3", "V1", {"num_draft_tokens": "spec_decode_num_draft_tokens"}, {"num_drafts", "accepted_per_pos"}),
        ("0.10.1", "V1", {"inter_token": "time_per_output_token_seconds", "kv_usage": "kv_cache_usage_perc"}, set()),
        (
            "0.33.0",
            "V1",
            {"inter_token": "inter_token_latency_seconds", "rejections": "admission_rejections"},
            {"drafted_per_pos", "v0_efficiency"},
        ),
        ("0.8.1", "V1", {"generation_tokens": "generation_tokens"}, {"num_draft_tokens", "num_drafts"}),
    ],
)
def test_what_a_release_prints(version: str, generation: str, printed: dict[str, str], absent: set[str]) -> None:
    found = names_printed_by((*V0, *V1), version, generation)
    assert {reads: found[reads].name for reads in printed} == printed
    assert not absent & found.keys()


def test_a_name_not_in_the_table_is_unknown() -> None:
    names = Names((Known("a", Kind.COUNTER, "a", "1"),))
    spelling = spell("vllm:a_total_more")
    assert spelling is not None
    assert names.meaning(spelling) is None
    assert not names.knows_family(spelling)
