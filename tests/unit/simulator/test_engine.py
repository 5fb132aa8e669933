from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from monitor.simulator.engine import Limits
from monitor.simulator.faults import FaultKind, make_fault
from monitor.simulator.load import parse_load
from monitor.simulator.requests import Request
from monitor.simulator.tables import find_family
from tests.unit.simulator.engines import assert_identities, engine, ran

QUIET = Limits(step_noise=0.0)


def test_acceptance_and_step_time_are_the_tables() -> None:
    one = ran(60, engine(3, "closed:clients=16,prompt=100,output=100"))
    row = find_family("gsm8k-eagle3").row(3, 16)
    counts = one.counts
    rates = [accepted / counts.num_drafts for accepted in counts.accepted_per_pos]
    # 85,000 drafts at a design effect near 2: standard error below 0.0025.
    assert rates == pytest.approx(row.survival, abs=0.01)
    assert counts.step.sum / counts.step.count == pytest.approx(row.step_seconds, rel=0.01)
    assert counts.num_draft_tokens == 3 * counts.num_drafts == 3 * counts.step.count
    assert_identities(counts, 3)


def test_throughput_is_batch_times_length_over_step_time() -> None:
    one = ran(60, engine(3, "closed:clients=32,prompt=100,output=200"))
    row = find_family("gsm8k-eagle3").row(3, 32)
    # A prompt takes a step in which its request makes one token, so slightly less than the batch decodes.
    expected = 32 * row.acceptance_length / row.step_seconds
    assert one.counts.generation_tokens / one.now == pytest.approx(expected, rel=0.03)


def test_the_setting_that_is_better_in_the_table_is_faster() -> None:
    speed = {
        k: ran(40, engine(k, "closed:clients=24,output=120", table="qwen35-mtp")).counts.generation_tokens
        for k in (2, 3, 4)
    }
    assert 1.08 < speed[3] / speed[2] < 1.2
    assert 1.04 < speed[4] / speed[3] < 1.13


def test_the_same_seed_makes_the_same_life_and_another_does_not() -> None:
    first, second, other = (ran(10, engine(seed=seed)) for seed in (4, 4, 5))
    assert first.counts.accepted_per_pos == second.counts.accepted_per_pos
    assert first.counts.step.sum == second.counts.step.sum
    assert first.counts.accepted_per_pos != other.counts.accepted_per_pos


def test_how_time_is_cut_changes_no_identity_and_little_else() -> None:
    coarse, fine = ran(30, engine()), ran(30, engine(), every=0.05)
    for one in (coarse, fine):
        assert_identities(one.counts, 3)
        assert one.now == pytest.approx(30, abs=0.1)
    assert fine.counts.generation_tokens == pytest.approx(coarse.counts.generation_tokens, rel=0.03)


def test_less_than_a_step_is_kept_for_the_next_call() -> None:
    one = engine(3, "closed:clients=1", limits=QUIET)
    for _ in range(1000):
        one.advance(0.001)
    assert one.now == pytest.approx(1.0, abs=0.011)
    assert one.counts.step.count > 80


def test_speculation_off_makes_one_token_a_step() -> None:
    one = ran(20, engine(0))
    assert one.counts.num_drafts == one.counts.num_draft_tokens == 0
    assert one.counts.accepted_per_pos == []
    assert_identities(one.counts, 0)
    row = find_family("gsm8k-eagle3").row(0, 16)
    assert one.counts.step.sum / one.counts.step.count == pytest.approx(row.step_seconds, rel=0.01)


def test_latencies_hang_together() -> None:
    counts = ran(30, engine(3, "closed:clients=16,prompt=300,output=80")).counts
    ended = counts.e2e.count
    assert ended == counts.finished["stop"] + counts.finished["length"] > 400
    assert counts.e2e.sum == pytest.approx(counts.queue.sum + counts.inference.sum)
    assert counts.inference.sum == pytest.approx(counts.prefill.sum + counts.decode.sum)
    # Steps of requests that still run are in the one sum and not yet in the other.
    assert 0 < counts.step.sum - counts.decode.sum < 16 * 3
    assert counts.generation_lengths.count == counts.params_max_tokens.count == ended
    assert 0 <= counts.generation_tokens - counts.generation_lengths.sum < 16 * 200
    # TPOT is decode time over later tokens: about step time over length.
    row = find_family("gsm8k-eagle3").row(3, 16)
    tpot = counts.time_per_output_token.sum / ended
    assert tpot == pytest.approx(row.step_seconds / row.acceptance_length, rel=0.1)


def test_an_open_load_runs_as_many_requests_as_littles_law_says() -> None:
    one = engine(3, "open:rate=6,prompt=100,output=200")
    seen = []
    for _ in range(400):
        one.advance(0.5)
        seen.append(one.running)
    counts = one.counts
    assert counts.e2e.count == pytest.approx(6 * 200, rel=0.1)
    assert np.mean(seen) == pytest.approx(6 * counts.inference.sum / counts.inference.count, rel=0.15)


def test_more_clients_than_places_wait_in_line() -> None:
    one = ran(20, engine(3, "closed:clients=20,output=60", limits=replace(QUIET, max_num_seqs=8)))
    assert one.running <= 8 and one.running + one.waiting == 20
    assert one.counts.queue.sum / one.counts.queue.count > one.counts.prefill.sum / one.counts.prefill.count


def test_a_full_kv_cache_preempts_and_still_answers() -> None:
    limits = Limits(kv_tokens=3000)
    one = engine(3, "closed:clients=40,prompt=120,output=120", limits=limits)
    highest = 0.0
    for _ in range(60):
        one.advance(0.5)
        highest = max(highest, one.kv_usage)
        assert one.running + one.waiting == 40
    counts = one.counts
    assert counts.preemptions > 0 and counts.preemptions_per_request.sum > 0
    assert 0.8 < highest <= 1.0 and counts.e2e.count > 100
    assert_identities(counts, 3)


def test_the_prefix_cache_shortens_prefill_and_is_counted() -> None:
    warm, cold = (ran(20, engine(3, f"closed:clients=8,prompt=800,output=40,hits={hits}")) for hits in (0.9, 0))
    assert 0.8 < warm.counts.cached_prompt_tokens / warm.counts.prompt_tokens <= 0.9
    assert cold.counts.cached_prompt_tokens == 0
    assert warm.counts.prefill.sum / warm.counts.prefill.count < cold.counts.prefill.sum / cold.counts.prefill.count
    assert warm.counts.computed_prompt_lengths.sum < 0.3 * warm.counts.prompt_lengths.sum


# Requests from outside.


@pytest.mark.parametrize("tokens", [1, 2, 7, 64])
def test_a_request_from_outside_makes_exactly_its_tokens(tokens: int) -> None:
    one = engine(3, "none")
    ended: list[Request] = []
    request = one.submit(10, tokens, ended.append)
    ran(3, one, every=0.02)
    assert ended == [request]
    assert (request.produced, request.finish_reason) == (tokens, "length")
    assert one.counts.generation_tokens == tokens
    assert one.counts.finished["length"] == 1
    assert one.counts.time_per_output_token.count == 1
    assert_identities(one.counts, 3)


def test_one_token_takes_no_draft_and_has_no_time_per_token() -> None:
    one = engine(3, "none")
    one.submit(10, 1)
    ran(1, one)
    assert (one.counts.num_drafts, one.counts.step.count, one.counts.time_per_output_token.sum) == (0, 0, 0.0)
    assert one.counts.first_token.sum > 0


def test_requests_from_outside_come_on_top_of_the_load() -> None:
    one = ran(5, engine(3, "closed:clients=4"))
    request = one.submit(10, 50)
    ran(5, one)
    assert request.finish_reason == "length"
    assert one.running + one.waiting == 4


def test_an_aborted_request_leaves_and_is_counted_once() -> None:
    one = engine(3, "none")
    ended: list[Request] = []
    request = one.submit(10, 900, ended.append)
    one.advance(0.5)
    assert one.running == 1 and request.produced > 1
    one.abort(request)
    one.abort(request)
    ran(2, one)
    assert one.running == 0 and ended == [request]
    assert one.counts.finished["abort"] == 1 and one.counts.e2e.count == 0
    assert_identities(one.counts, 3)


def test_a_listener_hears_of_every_end() -> None:
    one = engine(3, "closed:clients=2")
    heard: list[Request] = []
    one.on_end = heard.append
    ran(5, one)
    assert len(heard) == sum(one.counts.finished.values()) > 5


# Faults.


def lengths(marks: list[tuple[int, int]]) -> list[float]:
    return [1 + (b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(marks)]


def by_second(seconds: int, **given: object) -> list[float]:
    """Acceptance length in each second."""
    one = engine(2, "closed:clients=16,output=60", **given)  # type: ignore[arg-type]
    marks = [(0, 0)]
    for _ in range(seconds):
        one.advance(1.0)
        marks.append((one.counts.num_drafts, one.counts.num_accepted_tokens))
    return lengths(marks)


def test_a_cliff_falls_at_its_second_and_not_before() -> None:
    found = by_second(10, faults=["cliff=0.02@5"])
    assert min(found[:5]) > 1.9
    assert max(found[5:]) < 1.06


def test_decay_lets_acceptance_fall_with_uptime() -> None:
    found = by_second(40, faults=["decay=20"])
    assert found[0] > 2.0 and found[19] == pytest.approx(1 + 0.686 / 2 + 0.448 / 4, abs=0.06)
    assert found[39] < 1.25


def test_a_shift_follows_the_other_table_from_its_second() -> None:
    found = by_second(10, faults=["shift=qwen35-mtp@5"])
    assert max(found[:5]) < 2.3
    assert min(found[5:]) > 2.6


def test_stuck_keeps_running_and_moves_no_counter() -> None:
    one = ran(6, engine(3, "open:rate=4,output=200", faults=["stuck@5"]))

    def moving() -> tuple[int, ...]:
        counts = one.counts
        return counts.generation_tokens, counts.num_drafts, counts.prompt_tokens, counts.step.count, counts.e2e.count

    before = moving()
    outside = one.submit(10, 1)
    ran(60, one)
    assert moving() == before
    assert one.running > 100 and outside.finish_reason is None


def test_an_engine_that_is_freed_goes_on_and_answers_everybody() -> None:
    one = ran(20, engine(3, "open:rate=4,output=50", faults=["stuck"]))
    assert one.counts.generation_tokens == 0 and one.running > 40
    one.behaviour.faults.clear(FaultKind.STUCK)
    one.stop_traffic()
    ran(20, one)
    assert one.running == one.waiting == 0 and one.counts.e2e.count > 40
    assert_identities(one.counts, 3)


def test_a_sleeping_engine_runs_nothing_and_wakes() -> None:
    one = ran(10, engine(3, "closed:clients=4", faults=["sleep@5"]))
    assert one.is_asleep and one.running == one.waiting == 0 and one.counts.finished["abort"] == 4
    tokens = one.counts.generation_tokens
    ran(10, one)
    assert one.counts.generation_tokens == tokens
    one.behaviour.faults.clear(FaultKind.SLEEP)
    ran(5, one)
    assert one.running + one.waiting == 4 and one.counts.generation_tokens > tokens


def test_a_setting_can_be_worse_than_its_table() -> None:
    two, three = (
        ran(30, engine(k, "closed:clients=24", table="qwen35-mtp", faults=["worse_k=3:1.6"])) for k in (2, 3)
    )
    assert three.counts.generation_tokens < 0.8 * two.counts.generation_tokens


def test_a_cold_start_is_slow_for_its_time() -> None:
    one = engine(3, "closed:clients=8", faults=["cold_start=10:3"])
    marks = []
    for _ in range(20):
        one.advance(1.0)
        marks.append(one.counts.step.count)
    assert 2.5 < (marks[19] - marks[11]) / (marks[8] - marks[0]) < 3.5


def test_a_fault_ordered_while_it_runs_takes_effect() -> None:
    one = ran(5, engine(2, "closed:clients=16"))
    one.behaviour.faults.order(make_fault("cliff"), one.now)
    drafts, accepted = one.counts.num_drafts, one.counts.num_accepted_tokens
    ran(5, one)
    assert (one.counts.num_accepted_tokens - accepted) / (one.counts.num_drafts - drafts) < 0.05


# Speculation that varies.


def test_a_schedule_drafts_by_batch_and_stops_where_it_says_0() -> None:
    schedule = ((1, 8, 3), (9, 32, 1), (33, 256, 0))
    one = ran(10, engine(3, "closed:clients=4", schedule=schedule))
    assert one.counts.num_draft_tokens == 3 * one.counts.num_drafts > 0
    one.traffic.change(parse_load("closed:clients=16"), one.now)
    ran(5, one)
    drafts, tokens = one.counts.num_drafts, one.counts.num_draft_tokens
    ran(5, one)
    assert one.counts.num_draft_tokens - tokens == one.counts.num_drafts - drafts > 0
    one.traffic.change(parse_load("closed:clients=64"), one.now)
    ran(5, one)
    drafts, generated = one.counts.num_drafts, one.counts.generation_tokens
    ran(5, one)
    assert one.counts.num_drafts == drafts and one.counts.generation_tokens > generated
    assert len(one.counts.accepted_per_pos) == 3
    assert_identities(one.counts, 3)


def test_lookup_drafts_only_where_it_finds_a_match() -> None:
    counts = ran(30, engine(3, table="sharegpt-ngram", coverage=0.5)).counts
    assert counts.num_drafts / counts.step.count == pytest.approx(0.5, abs=0.02)
    row = find_family("sharegpt-ngram").row(3, 16)
    assert counts.num_accepted_tokens / counts.step.count == pytest.approx(sum(row.survival), abs=0.02)
    assert_identities(counts, 3)


# Statistics.

BLOCKS = 120


def design_effect(correlation: float) -> float:
    """Variance of block means of accepted tokens a draft, over what independent drafts would show."""
    one = engine(3, "closed:clients=16,prompt=50,output=120", correlation=correlation, seed=11)
    ran(5, one)
    marks = [(one.counts.num_drafts, one.counts.num_accepted_tokens)]
    for _ in range(BLOCKS):
        one.advance(2.0)
        marks.append((one.counts.num_drafts, one.counts.num_accepted_tokens))
    means = np.array(lengths(marks))
    drafts = (marks[-1][0] - marks[0][0]) / BLOCKS
    survival = np.array(find_family("gsm8k-eagle3").row(3, 16).survival)
    square = float(np.sum((2 * np.arange(1, 4) - 1) * survival))
    return float(np.var(means) * drafts / (square - np.sum(survival) ** 2))


def test_correlation_widens_block_means_as_in_real_traffic() -> None:
    # A variance of 120 blocks is known to about 13 %.
    assert design_effect(0.0) == pytest.approx(1.0, abs=0.4)
    assert 1.4 < design_effect(0.03) < 3.5
    assert design_effect(0.4) > 8
