"""The simulated page against a page taken from a live vLLM 0.32.0 (HELP texts replaced)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from monitor.simulator.engine import Engine, Limits
from monitor.simulator.http_counts import Answered, HttpCounts
from monitor.simulator.page import MetricsPage
from monitor.simulator.process_figures import Figures, ProcessFigures
from tests.unit.simulator.engines import engine, ran

LIVE = Path(__file__).parents[2] / "golden" / "exposition" / "simulator" / "vllm_0.32.0_draft_model_k3.prom"
FIGURES = Figures(2.2e9, 7.6e8, 8.01, 34, 20_000, (1, 2, 3), (0, 0, 0), (4, 5, 6))
BORN = 1_795_972_515.84565
#: Labels whose values are part of the dialect; other values (model, version, sizes) are the server's own.
FIXED = frozenset(
    ("le", "position", "reason", "source", "finished_reason", "sleep_state", "generation", "engine", "handler")
)


def page(one: Engine, http: HttpCounts | None = None, name: str = "tiny", log_stats: bool = True) -> str:
    return MetricsPage(one, name, BORN - 28, BORN, log_stats).render(http or HttpCounts(), FIGURES)


def served() -> HttpCounts:
    http = HttpCounts()
    http.add(Answered("/v1/completions", "POST", 200, 1.35, 110, 1380), BORN + 90)
    return http


def series(text: str) -> Iterator[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Family with its type, sample name, labels with the values that are fixed; in order."""
    family = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            family = line.removeprefix("# TYPE ")
        elif not line.startswith("#"):
            match = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? (\S+)", line)
            assert match, line
            labels = re.findall(r'(\w+)="([^"]*)"', match[2] or "")
            yield family, match[1], tuple((key, value if key in FIXED else "") for key, value in labels)


def families(text: str) -> dict[str, tuple[str, frozenset[object], tuple[str, ...]]]:
    """Per family: type, label names of each kind of sample, bucket edges."""
    found: dict[str, tuple[str, set[object], list[str]]] = {}
    for line in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        found[line[0]] = (line[1], set(), [])
    for family, name, labels in series(text):
        kind, shapes, edges = found[family.split()[0]]
        assert kind == family.split()[1]
        shapes.add((name, tuple(key for key, _ in labels)))
        edges += [value for key, value in labels if key == "le" and value not in edges]
    return {name: (kind, frozenset(shapes), tuple(edges)) for name, (kind, shapes, edges) in found.items()}


def test_families_types_labels_and_edges_are_those_of_the_live_page() -> None:
    mine, live = families(page(ran(5, engine(3)), served())), families(LIVE.read_text())
    assert mine.keys() == live.keys()
    for name, shape in live.items():
        assert mine[name] == shape, name


def test_every_series_is_there_in_the_order_of_the_live_page() -> None:
    assert list(series(page(ran(5, engine(3)), served()))) == list(series(LIVE.read_text()))


def test_every_family_has_one_help_line_above_its_type_as_in_the_live_page() -> None:
    def headers(text: str) -> list[tuple[str, str]]:
        return re.findall(r"^# (HELP|TYPE) (\S+)", text, re.M)

    assert headers(page(engine(3), served())) == headers(LIVE.read_text())


def test_the_help_texts_are_our_own() -> None:
    assert "(text left out)" not in page(engine(3))


def test_values_are_printed_as_in_the_live_page() -> None:
    text = page(ran(5, engine(3)), served())
    value = re.compile(r"^-?\d+\.\d+(e[+-]\d\d)?$|^\d+e-\d\d$")
    for line in text.splitlines():
        if not line.startswith("#"):
            assert value.match(line.rsplit(" ", 1)[1]), line
    assert re.search(r"^process_start_time_seconds 1\.795972487845\d+e\+09$", text, re.M)


def test_a_parser_reads_the_engines_own_counts() -> None:
    one = ran(10, engine(3))
    read = {}
    for family in text_string_to_metric_families(page(one)):
        for sample in family.samples:
            which = [sample.labels[name] for name in ("position", "finished_reason", "le") if name in sample.labels]
            read[sample.name, which[0] if which else None] = sample.value
    counts = one.counts
    assert read["vllm:spec_decode_num_drafts_total", None] == counts.num_drafts > 0
    assert read["vllm:spec_decode_num_draft_tokens_total", None] == counts.num_draft_tokens
    assert read["vllm:spec_decode_num_accepted_tokens_total", None] == counts.num_accepted_tokens
    for position, accepted in enumerate(counts.accepted_per_pos):
        assert read["vllm:spec_decode_num_accepted_tokens_per_pos_total", str(position)] == accepted
    assert read["vllm:generation_tokens_total", None] == counts.generation_tokens
    assert read["vllm:prompt_tokens_total", None] == counts.prompt_tokens
    assert read["vllm:num_requests_running", None] == one.running > 0
    assert read["vllm:num_requests_waiting", None] == one.waiting
    assert read["vllm:kv_cache_usage_perc", None] == pytest.approx(one.kv_usage)
    assert read["vllm:request_success_total", "stop"] == counts.finished["stop"] > 0
    assert read["vllm:inter_token_latency_seconds_count", None] == counts.step.count
    assert read["vllm:inter_token_latency_seconds_sum", None] == pytest.approx(counts.step.sum)
    assert read["vllm:inter_token_latency_seconds_bucket", "+Inf"] == counts.step.count
    assert read["vllm:time_to_first_token_seconds_count", None] == counts.first_tokens
    assert read["vllm:e2e_request_latency_seconds_sum", None] == pytest.approx(counts.e2e.sum)
    assert read["vllm:iteration_tokens_total_sum", None] == counts.generation_tokens + counts.prompt_tokens


def test_before_the_first_draft_the_speculation_series_are_there_at_zero() -> None:
    text = page(engine(5, "none"))
    assert text.count("vllm:spec_decode_num_accepted_tokens_per_pos_total{") == 5
    assert re.search(r'^vllm:spec_decode_num_drafts_total\{engine="0",model_name="tiny"\} 0\.0$', text, re.M)
    # No request yet: the labelled http families have no samples, only HELP and TYPE.
    assert "# TYPE http_requests_total counter" in text and "http_requests_total{" not in text
    assert "http_requests_created" not in text
    assert re.search(r"^http_request_duration_highr_seconds_count 0\.0$", text, re.M)


def test_without_speculation_there_is_no_speculation_family() -> None:
    text = page(ran(3, engine(0)))
    assert "spec_decode" not in text and "vllm:generation_tokens_total{" in text


def test_without_stats_there_is_no_engine_family() -> None:
    text = page(engine(3), log_stats=False)
    assert "vllm:" not in text and "process_start_time_seconds" in text


def test_births_are_wall_times_just_after_the_start_and_rise() -> None:
    births = [float(value) for value in re.findall(r"^\S+_created(?:\{.*\})? (\S+)$", page(engine(3)), re.M)]
    engines = births[:-1]
    assert engines == sorted(engines) and len(set(engines)) == len(engines)
    assert all(BORN <= birth < BORN + 0.01 for birth in births)


def test_sleep_moves_the_state() -> None:
    text = page(ran(2, engine(3, faults=["sleep"])))
    assert 'sleep_state="awake"} 0.0' in text and 'sleep_state="weights_offloaded"} 1.0' in text


def test_lengths_follow_the_longest_sequence() -> None:
    text = page(engine(3, limits=Limits(max_model_len=8192)))
    edges = re.findall(r'^vllm:request_prompt_tokens_bucket\{.*le="([^"]+)"', text, re.M)
    assert edges[-3:] == ["2000.0", "5000.0", "+Inf"]


def test_a_model_name_is_escaped() -> None:
    text = page(engine(3), name='a"b\\c\nd')
    assert r'model_name="a\"b\\c\nd"' in text
    assert any(
        sample.labels.get("model_name") == 'a"b\\c\nd'
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    )


def test_http_series_are_counted_by_handler_and_class_of_status() -> None:
    http = served()
    http.add(Answered("/v1/completions", "POST", 500, 0.01, 100, 50), BORN + 95)
    http.add(Answered("/v1/models", "GET", 200, 0.001, 0, 300), BORN + 96)
    text = page(engine(3), http)
    for line in (
        'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 1.0',
        'http_requests_total{handler="/v1/completions",method="POST",status="5xx"} 1.0',
        'http_request_size_bytes_sum{handler="/v1/completions"} 210.0',
        'http_response_size_bytes_count{handler="/v1/models"} 1.0',
        "http_request_duration_highr_seconds_count 3.0",
        'http_request_duration_seconds_bucket{handler="/v1/models",le="0.1",method="GET"} 1.0',
        'http_request_duration_seconds_count{handler="/v1/completions",method="POST"} 2.0',
    ):
        assert line in text.splitlines(), line


def test_process_figures_are_this_process_and_kept_for_a_while() -> None:
    figures = ProcessFigures()
    first = figures.read(100.0)
    assert first.resident_bytes > 1e6 and first.open_fds > 2 and first.max_fds >= first.open_fds
    assert len(first.gc_collections) == 3 and first.cpu_seconds > 0
    assert figures.read(104.0) is first and figures.read(106.0) is not first
