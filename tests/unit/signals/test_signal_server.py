"""State of servers: stuck, sleeping, fresh, up; and the load that is of the whole window."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.model.counts import TrafficCounts
from monitor.model.life import LastReading
from monitor.model.reading import Reading, State, Verdict
from monitor.model.signal import NoData
from monitor.signals import Context, signals
from monitor.signals.server import stuck_seconds
from tests.unit.signals.windows import NOON, life, run_of

FLAT = {"generation": 0.0, "prompt": 0.0, "steps": 0.0, "drafts": 0.0, "per_pos": (0.0, 0.0, 0.0), "finished": 0.0,
        "outputs": None}


def build(pairs, **rest):
    return signals(pairs, scope="server:a", at=NOON, window_seconds=300.0, **rest)


def reading(verdict=Verdict.OK, state=None) -> LastReading:
    return LastReading(
        Reading(server=life().server, scraped_at=NOON, monotonic=0.0, dialect="vllm_v1", verdict=verdict, reason="",
                state=state), NOON,
    )


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 60.0),
        ({"running": 0.0, "waiting": 3.0}, 60.0),  # only waiting is work too
        ({"running": 0.0, "waiting": 0.0}, 0.0),  # idle is not stuck
        ({"prompt": 5000.0}, 0.0),  # a long prefill moves the prompt counter
        ({"steps": 10.0}, 0.0),
        ({"generation": 1.0}, 0.0),
        ({"finished": 1.0}, 0.0),
    ],
)
def test_stuck_is_work_while_every_counter_is_flat(changes, seconds):
    pairs = [*run_of(life(), 4, ends_at=-60.0), *run_of(life(), 4, **{**FLAT, **changes})]
    assert build(pairs).value("stuck_seconds") == seconds


@pytest.mark.parametrize(("reason", "stuck"), [("abort", 60.0), ("error", 60.0), ("stop", 0.0), ("length", 0.0)])
def test_a_client_that_gives_up_on_a_stuck_engine_does_not_make_it_well(reason, stuck):
    # The probe itself ends so.
    traffic = TrafficCounts(generation_tokens=0.0, prompt_tokens=0.0, engine_steps=0.0, finished={reason: 1.0})
    assert build(run_of(life(), 4, **{**FLAT, "traffic": traffic})).value("stuck_seconds") == stuck


def test_stuck_time_reaches_back_beyond_the_window():
    assert build(run_of(life(), 40, **FLAT)).value("stuck_seconds") == 600.0


def test_a_new_process_is_not_stuck_because_the_old_one_was():
    pairs = [*run_of(life(number=1), 10, ends_at=-15.0, **FLAT), *run_of(life(number=2), 1, **FLAT)]
    assert build(pairs).value("stuck_seconds") == 15.0


@pytest.mark.parametrize("state", [State.SLEEPING, State.BUSY_COUNTERS_DEFERRED])
def test_where_counters_stand_still_on_purpose_nothing_is_called_stuck(state):
    pairs = run_of(life(), 10, **FLAT)
    found = build(pairs, contexts={life().server: Context(last=reading(state=state))})
    assert found.value("stuck_seconds") is None
    assert found.scalars["stuck_seconds"].reason is NoData.NOT_KNOWN


def test_without_gauges_or_counter_nobody_knows_whether_it_is_stuck():
    assert build(run_of(life(), 4, **{**FLAT, "running": None, "waiting": None})).value("stuck_seconds") is None
    assert build(run_of(life(), 4, **{**FLAT, "generation": None})).value("stuck_seconds") is None


@pytest.mark.parametrize(
    ("verdict", "up", "starting", "probe"),
    [
        (Verdict.OK, 1, 0, 0), (Verdict.SCRAPE_ERROR, 0, 0, 0), (Verdict.STARTING, 1, 1, 0),
        (Verdict.NEEDS_PROBE, 1, 0, 1),
    ],
)
def test_what_the_newest_reading_says(verdict, up, starting, probe):
    found = build([], contexts={life().server: Context(last=reading(verdict))})
    assert (found.value("up"), found.value("is_starting"), found.value("needs_probe")) == (up, starting, probe)


def test_nothing_known_of_a_server_is_not_down():
    assert build([]).scalars["up"].reason is NoData.NOT_KNOWN


def test_age_of_the_newest_sample_counts_from_the_beginning_of_the_watch_when_there_is_none():
    server = life().server
    watched = Context(watched_since=NOON - timedelta(seconds=90))
    contexts = {server: watched}
    assert build([], contexts=contexts).value("seconds_since_last_sample") == 90.0
    assert build(run_of(life(), 1, ends_at=-40.0), contexts=contexts).value("seconds_since_last_sample") == 40.0


def test_uptime_is_of_the_youngest_engine():
    pairs = [
        *run_of(life(engine="0", process_start=NOON.timestamp() - 500), 2),
        *run_of(life(engine="1", process_start=NOON.timestamp() - 200), 2),
    ]
    assert build(pairs).value("uptime_seconds") == pytest.approx(200.0)


def test_errors_are_a_share_of_answers_and_no_traffic_is_no_error():
    assert build(run_of(life(), 4, errors=1.0)).value("error_ratio") == pytest.approx(0.1)
    assert build(run_of(life(), 4, finished=0.0)).scalars["error_ratio"].reason is NoData.NO_TRAFFIC


def test_latency_quantiles_come_from_added_buckets():
    pairs = [*run_of(life(), 10, ends_at=-150.0), *run_of(life(), 10, step_seconds=0.04)]
    found = build(pairs)
    assert found.value("inter_token_latency_seconds_mean") == pytest.approx(0.025)
    assert 0.025 < found.value("inter_token_latency_seconds_p95") <= 0.05
    assert found.value("time_to_first_token_seconds_p50") <= 0.05
    assert found.scalars["queue_time_seconds_p99"].reason is NoData.NOT_EXPORTED


def test_waiting_share_counts_intervals_with_a_queue():
    pairs = [*run_of(life(), 3, ends_at=-15.0), *run_of(life(), 1, waiting=2.0)]
    assert build(pairs).value("waiting_share") == pytest.approx(0.25)


def test_requests_that_only_wait_for_the_next_step_are_no_queue():
    for running, waiting, share in ((24.0, 1.5, 0.0), (24.0, 2.5, 1.0), (2.0, 0.9, 0.0), (2.0, 1.0, 1.0)):
        assert build(run_of(life(), 4, running=running, waiting=waiting)).value("waiting_share") == share
    assert build(run_of(life(), 4, running=None, waiting=3.0)).value("waiting_share") == 1.0
    assert build(run_of(life(), 4, waiting=None)).value("waiting_share") is None


@pytest.mark.parametrize(("looks", "share"), [((0.0, 8.0), 0.0), ((3.0, 8.0), 1.0), ((2.0, 8.0), 0.0)])
def test_a_queue_is_there_at_both_looks(looks: tuple[float, float], share: float) -> None:
    # A simulated server with room to spare was called saturated on a busy machine: arrivals came in bunches.
    spans = [
        (one, replace(interval, gauges=replace(interval.gauges, waiting_mean=sum(looks) / 2, waiting_max=max(looks))))
        for one, interval in run_of(life(), 4, running=24.0, waiting=1.0)
    ]
    assert build(spans).value("waiting_share") == share


def test_without_http_counters_errors_are_requests_that_ended_by_one():
    traffic = TrafficCounts(generation_tokens=1.0, finished={"stop": 18.0, "error": 2.0})
    assert build(run_of(life(), 4, traffic=traffic)).value("error_ratio") == pytest.approx(0.1)
    silent = TrafficCounts(generation_tokens=1.0)
    assert build(run_of(life(), 4, traffic=silent)).scalars["error_ratio"].reason is NoData.NOT_EXPORTED


def test_an_empty_stream_is_not_stuck():
    assert stuck_seconds([]) is None
