"""Readings of whole answers: verdict, reason, flags, start times, and what the version adds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from monitor.dialects import Dialects, ServerReader
from monitor.model.counts import SpeculationCounts
from monitor.model.reading import Flag, Reading, State, Verdict
from monitor.model.server import ServerName
from tests.fakes.mutations import BODIES, SAMPLES
from tests.fakes.pages import SGLANG_RANKS, V1, histogram, labelled, llamacpp_page, sglang_page, v0_page, v1_page

AT = datetime(2026, 9, 1, tzinfo=UTC)
LIVE = (SAMPLES / "vllm_0.32.0_v1_draft_model_k3.prom").read_bytes()


def read(body: bytes, reader: ServerReader | None = None, **how: Any) -> Reading:
    return (reader or ServerReader(ServerName("s"))).read(body, scraped_at=AT, monotonic=1.0, **how)


def test_a_real_v1_page_whole() -> None:
    reading = read(LIVE, content_type="text/plain; version=0.0.4", version="0.32.0")
    assert (reading.dialect, reading.verdict, reading.flags, reading.state) == (
        "vllm_v1",
        Verdict.OK,
        frozenset(),
        None,
    )
    assert reading.process_start == 1795972487.58
    [engine] = reading.engines
    assert (engine.model, engine.engine, engine.num_speculative_tokens) == ("tiny", "0", 3)
    assert engine.created == pytest.approx(1795972515.846)
    speculation, traffic, latency = engine.counts.speculation, engine.counts.traffic, engine.counts.latency
    assert speculation is not None
    assert traffic is not None
    assert latency is not None
    assert (speculation.num_drafts, speculation.num_draft_tokens, speculation.num_accepted_tokens) == (
        6656,
        19968,
        10192,
    )
    assert speculation.accepted_per_pos == (3430.0, 3396.0, 3366.0)
    assert traffic.generation_tokens == 16_800
    assert traffic.engine_steps == 1128
    assert traffic.step_tokens == 17_692
    assert traffic.finished == {"stop": 0, "length": 84, "abort": 0, "error": 0, "repetition": 0}
    assert traffic.http_responses == {"2xx": 84}
    assert (traffic.rejections, traffic.preemptions, traffic.cached_prompt_tokens) == (0, 0, 0)
    for found, count in (
        (latency.inter_token, 6656),
        (latency.time_to_first_token, 84),
        (latency.time_per_output_token, 84),
        (latency.e2e_request, 84),
        (latency.queue, 84),
        (traffic.prompt_length, 84),
        (traffic.output_length, 84),
    ):
        assert found is not None
        assert found.count == count
    assert engine.gauges.sleeping is False


def test_nothing_of_a_real_page_is_unknown_by_name() -> None:
    for body in BODIES:
        reader = ServerReader(ServerName("s"))
        read(body, reader)
        assert reader.unknown == frozenset()


def test_new_names_are_told() -> None:
    reader = ServerReader(ServerName("s"))
    read(v1_page(V1(more=labelled("vllm:brand_new_total", {"engine": "0"}, 1))), reader)
    assert reader.unknown == {"vllm:brand_new_total"}


def test_readers_that_share_say_the_same_as_those_that_do_not() -> None:
    shared = Dialects()
    readers = [shared.reader(ServerName("s")) for _ in range(2)]
    for body in [*BODIES, *BODIES[::-1], *BODIES]:
        alone = read(body)
        for reader in readers:
            said = read(body, reader)
            if said.dialect != "vllm_v0":  # V0 pages are read with what was learned from the page before
                assert said == alone


def test_a_release_that_prints_nothing_of_speculation_is_said_to() -> None:
    page = v1_page(V1(at=None, generation=100))
    assert "prints nothing of speculation" in read(page, version="0.8.2").reason
    assert "prints nothing" not in read(page, version="0.8.5").reason


def test_page_and_version_that_disagree_are_both_told() -> None:
    reading = read(v1_page(V1(at=None, generation=100)), version="0.6.3")
    assert reading.dialect == "vllm_v1"
    assert "0.6.3" in reading.reason


def test_a_zero_start_time_is_none() -> None:
    assert read(v1_page(V1(), process_start=0.0)).process_start is None


def test_the_start_time_of_a_proxy_is_not_the_engines() -> None:
    reading = read(v1_page(V1(100, (70, 50, 30), generation=255), process_start=1788620000.0))
    assert reading.process_start is None
    assert "another program's" in reading.reason
    assert reading.flags == frozenset()


def test_a_page_of_two_lives_is_not_believed() -> None:
    page = v1_page(V1(100, (70, 50, 30), generation=255))
    page = page.replace(b'generation_tokens_created{engine="0",model_name="model-a"} 1788616077.0',
                        b'generation_tokens_created{engine="0",model_name="model-a"} 1788620000.0')
    reading = read(page)
    assert Flag.IDENTITIES_BROKEN in reading.flags
    assert "3923 s apart" in reading.reason


def test_a_missing_position_is_told() -> None:
    page = v1_page(V1(100, (70, 50, 30), generation=260))
    lines = [
        line for line in page.splitlines(keepends=True) if b"_per_pos_total" not in line or b'position="1"' not in line
    ]
    reading = read(b"".join(lines))
    assert Flag.IDENTITIES_BROKEN in reading.flags
    assert "position is missing" in reading.reason
    assert reading.engines[0].num_speculative_tokens == 3


def test_a_missing_counter_is_told() -> None:
    page = v1_page(V1(100, (70, 50, 30), generation=260))
    lines = [line for line in page.splitlines(keepends=True) if b"num_accepted_tokens_total{" not in line]
    assert "num_accepted_tokens missing" in read(b"".join(lines)).reason


def test_one_step_of_several_processes_may_be_torn() -> None:
    torn = v1_page(V1(100, (70, 50, 30), generation=260, created=None, running=2), process_start=None)
    torn = torn.replace(b'position="2"} 30.0', b'position="2"} 33.0')
    assert Flag.IDENTITIES_BROKEN not in read(torn).flags
    torn = torn.replace(b'position="2"} 33.0', b'position="2"} 40.0')
    assert Flag.IDENTITIES_BROKEN in read(torn).flags


def test_the_rust_frontend_prints_all_positions_with_the_first_draft() -> None:
    page = v1_page(V1(100, (20,), draft_tokens=300, generation=130, created=None), process_start=None, openmetrics=True)
    assert Flag.IDENTITIES_BROKEN in read(page, content_type="application/openmetrics-text; version=1.0.0").flags


def test_ray_prints_a_position_only_once_it_was_accepted() -> None:
    replica = {"ReplicaId": "r1", "WorkerId": "w1"}
    one = V1(100, (20,), draft_tokens=300, generation=130, created=None, extra=replica)
    reading = read(v1_page(one, prefix="ray_vllm_", process_start=None))
    assert (reading.verdict, reading.flags) == (Verdict.OK, frozenset())
    [engine] = reading.engines
    assert (engine.engine, engine.num_speculative_tokens, engine.prints_zeros) == ("0/r1", 3, False)
    assert engine.counts.speculation == SpeculationCounts(100, 300, 20, (20, 0, 0))


def test_ray_prints_no_counter_of_accepted_tokens_before_the_first() -> None:
    one = V1(100, (), draft_tokens=300, generation=130, created=None)
    page = v1_page(one, prefix="ray_vllm:", process_start=None)
    lines = [line for line in page.splitlines(keepends=True) if b"num_accepted_tokens" not in line]
    reading = read(b"".join(lines))
    assert (reading.verdict, reading.flags) == (Verdict.OK, frozenset())
    assert reading.engines[0].counts.speculation == SpeculationCounts(100, 300, 0, (0, 0, 0))


def test_ray_workers_outside_serve_have_no_replica_but_are_told_apart() -> None:
    workers = [V1(10, (5,), created=None, extra={"ReplicaId": "", "WorkerId": worker}) for worker in ("w1", "w2")]
    reading = read(v1_page(*workers, prefix="ray_vllm_", process_start=None))
    assert [engine.engine for engine in reading.engines] == ["0/w1", "0/w2"]


def test_v0_and_v1_series_of_one_engine_are_not_believed() -> None:
    page = v0_page(efficiency=0.6, rate=0.65, accepted=1950, drafted=3000, emitted=2400, generation=1100)
    page += labelled("vllm:num_requests_waiting", {"engine": "0", "model_name": "model-a"}, 0).encode()
    reading = read(page)
    assert Flag.IDENTITIES_BROKEN in reading.flags
    assert "V0" in reading.reason


def test_a_page_put_together_from_several_is_said_to_be() -> None:
    twice = read(v1_page(V1(100, (70, 50, 30), generation=255)) + v1_page(V1(model="model-b")))
    assert Flag.DUPLICATE_SERIES in twice.flags
    assert "declared twice" in twice.reason
    both = read(v1_page(V1(100, (70, 50, 30), generation=255)) + llamacpp_page(predicted=5))
    assert Flag.DUPLICATE_SERIES in both.flags
    assert "llamacpp" in both.reason
    assert [engine.model for engine in both.engines] == ["model-a"]


def test_a_page_without_generated_tokens_is_not_off() -> None:
    page = v1_page(V1(at=None, generation=100))
    lines = [line for line in page.splitlines(keepends=True) if b"generation_tokens" not in line]
    reading = read(b"".join(lines))
    assert reading.verdict is Verdict.NOT_SPEC_DECODE
    assert Flag.IDENTITIES_BROKEN in reading.flags
    assert "generation_tokens" in reading.reason


def test_a_lost_count_is_not_called_0() -> None:
    page = llamacpp_page(predicted=400, drafts="n/a", draft_tokens="n/a", accepted=199, at=(90, 60, 49))
    reading = read(page)
    assert reading.verdict is Verdict.OK
    assert "0 drafts" not in reading.reason
    page = v1_page(V1(100, (70, 50, 30), generation=255), V1(7, (5, 3, 1), generation=20, engine="1"))
    lost = read(page.replace(b'"model-a"} 7.0', b'"model-a"} ?'))
    assert "100 drafts since start, not counting 1 of 2 engines" in lost.reason


def test_llama_server_lacks_none_of_its_counters_and_prints_them_at_one_moment() -> None:
    page = llamacpp_page(predicted=400, drafts=100, draft_tokens=300, accepted=199, at=(90, 60, 49), processing=3)
    assert read(page).flags == frozenset()
    lines = [line for line in page.splitlines(keepends=True) if b"num_drafts_total" not in line]
    assert Flag.IDENTITIES_BROKEN in read(b"".join(lines)).flags
    assert Flag.IDENTITIES_BROKEN in read(page.replace(b'"2"} 49', b'"2"} 50')).flags


def test_queues_by_priority_are_in_their_total() -> None:
    total = sglang_page(calls=10, generation={"true": 40.0}, requests=2, running=5)
    total = total.replace(b'pp_rank="0"', b'pp_rank="0",priority=""')
    parts = "".join(
        labelled("sglang:num_running_reqs", {**SGLANG_RANKS, "priority": priority}, count)
        for priority, count in (("0", 3.0), ("HIGH", 2.0))
    )
    [engine] = read(total + parts.encode()).engines
    assert (engine.engine, engine.gauges.running) == ("0", 5)


def test_an_operators_own_label_on_token_counters_splits_them() -> None:
    page = sglang_page(calls=None, generation={}, requests=12, running=5).decode()
    labels = {"engine_type": "unified", "model_name": "model-s"}
    for tenant, tokens, calls in (("a", 300.0, 100.0), ("b", 40.0, 20.0)):
        page += labelled("sglang:generation_tokens_total", {**labels, "tenant": tenant}, tokens)
        page += labelled("sglang:spec_verify_calls_total", {**labels, "tenant": tenant}, calls)
    [engine] = read(page.encode()).engines
    assert engine.counts.speculation == SpeculationCounts(120, 360, 208)


def test_sglangs_inter_token_latency_is_one_a_token() -> None:
    labels = {"engine_type": "unified", "model_name": "model-s"}
    tokens = histogram("sglang:inter_token_latency_seconds", labels, ("0.01", "+Inf"), (90, 100), 0.8)
    [engine] = read(sglang_page(calls=10, generation={"true": 40.0}, requests=2, more=tokens)).engines
    assert engine.counts.latency is not None
    assert engine.counts.latency.inter_token is None
    assert engine.counts.latency.time_per_output_token is not None
    assert engine.counts.latency.time_per_output_token.mean == pytest.approx(0.008)


def test_speculation_declared_without_samples_is_not_off() -> None:
    page = v1_page(V1(at=None, generation=100)) + b"# TYPE vllm:spec_decode_num_drafts counter\n"
    assert read(page).verdict is Verdict.NO_DRAFTS_YET


def test_all_engines_must_sleep_for_the_server_to_sleep() -> None:
    def engine(name: str, awake: float) -> V1:
        labels = {"engine": name, "model_name": "model-a", "sleep_state": "awake"}
        return V1(engine=name, more=labelled("vllm:engine_sleep_state", labels, awake))

    assert read(v1_page(engine("0", 0.0), engine("1", 0.0))).state is State.SLEEPING
    assert read(v1_page(engine("0", 0.0), engine("1", 1.0))).state is None


def test_http_answers_count_by_class_and_once() -> None:
    web = "".join(
        labelled("http_requests_total", {"handler": path, "method": "POST", "status": status}, count)
        for path, status, count in (
            ("/v1/completions", "2xx", 5),
            ("/v1/chat/completions", "200", 3),
            ("/v1/completions", "500", 2),
            ("/metrics", "2xx", 99),
            ("/health", "503", 99),
            ("none", "4xx", 99),
            ("/v1/completions", "", 99),
        )
    )
    reading = read(v1_page(V1(engine="0"), V1(engine="1", more=web)))
    first, second = (engine.counts.traffic for engine in reading.engines)
    assert first is not None
    assert second is not None
    assert first.http_responses == {"2xx": 8, "5xx": 2}
    assert second.http_responses == {}


def test_a_page_of_too_many_engines_is_refused() -> None:
    page = "".join(f'vllm:generation_tokens_total{{model_name="m{n}",engine="0"}} 1\n' for n in range(1001))
    reading = read(page.encode())
    assert reading.verdict is Verdict.SCRAPE_ERROR
    assert "1001 engines" in reading.reason


def test_a_negative_counter_is_lost() -> None:
    drafts = b'num_drafts_total{engine="0",model_name="model-a"} '
    page = v1_page(V1(100, (70, 50, 30), generation=260))
    reading = read(page.replace(drafts + b"100.0", drafts + b"-100.0"))
    assert Flag.BAD_SAMPLE in reading.flags
    assert reading.engines[0].counts.speculation is not None
    assert reading.engines[0].counts.speculation.num_drafts is None
