"""Rows, loads and costs read from stored intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.model.counts import Histogram
from monitor.model.life import Setting
from monitor.signals.track import tracks_of
from monitor.tuning.observe import cost_rows, load_of, row_of, rows_of
from tests.unit.signals.windows import NOON, interval, life, run_of


def test_a_row_of_plain_intervals():
    of = life()
    row = row_of([i for _, i in run_of(of, 20)], of.setting)
    assert row.survival == pytest.approx((0.7, 0.5, 0.3))
    assert row.length == pytest.approx(2.5)
    assert row.step_seconds == pytest.approx(0.01)
    assert row.batch == pytest.approx(2.0)
    assert row.coverage == 1.0
    assert row.num_drafts == 20_000
    assert row.finished_requests == 200
    assert row.covered_seconds == 300
    assert row.prefill_tokens_per_step == pytest.approx(2.0)
    assert 0.0 < row.length_error < 0.05


def test_a_row_tells_the_context_that_its_steps_read():
    of = life()
    intervals = [i for _, i in run_of(of, 20)]
    assert row_of(intervals, of.setting).decode_context is None
    lengths = {"prompt_length": Histogram((math.inf,), (10.0,), 8000.0, 10.0),
               "output_length": Histogram((math.inf,), (10.0,), 2000.0, 10.0)}
    told = [replace(i, traffic=replace(i.traffic, **lengths)) for i in intervals]
    assert row_of(told, of.setting).decode_context == pytest.approx(900.0)


def test_a_row_of_a_server_without_speculation():
    of = life(tokens=0)
    row = row_of([i for _, i in run_of(of, 4, has_speculation=False)], of.setting)
    assert (row.length, row.survival, row.num_drafts) == (1.0, None, 0.0)
    assert row.step_seconds == pytest.approx(0.01)


def test_coverage_of_lookup():
    of = life(method="ngram")
    row = row_of([i for _, i in run_of(of, 20, outputs=4000.0)], of.setting)
    assert row.coverage == pytest.approx(0.25)


def test_positions_not_reached_count_as_nothing_accepted():
    of = life(tokens=5)
    row = row_of([i for _, i in run_of(of, 20)], of.setting)
    assert row.survival == pytest.approx((0.7, 0.5, 0.3, 0.0, 0.0))


def test_one_row_per_setting_of_the_newest_drafter_only():
    pairs = [
        *run_of(life(tokens=1, number=1), 4, ends_at=-600.0, per_pos=(900.0,)),
        *run_of(life(tokens=4, method="ngram", number=2), 4, ends_at=-400.0, per_pos=(90.0,) * 4),
        *run_of(life(tokens=0, number=3), 4, ends_at=-200.0, has_speculation=False),
        *run_of(life(tokens=3, number=4), 4),
    ]
    rows = rows_of(tracks_of(pairs))
    assert sorted(rows) == [0, 1, 3]
    assert rows[1].length == pytest.approx(1.9)


def test_unknown_settings_and_schedules_give_no_row():
    of = life()
    scheduled = Setting(method="eagle3", num_speculative_tokens=3, schedule=((1, 16, 3),))
    assert rows_of(tracks_of(run_of(life(tokens=None), 4))) == {}
    assert rows_of(tracks_of(run_of(replace(of, setting=scheduled), 4))) == {}


def test_a_row_rests_on_the_newest_time_at_its_setting():
    old = run_of(life(number=1), 20, ends_at=-4000.0, per_pos=(900.0, 800.0, 700.0))
    new = run_of(life(number=2), 20)
    assert rows_of(tracks_of([*old, *new]), newest_seconds=300.0)[3].length == pytest.approx(2.5)
    assert rows_of(tracks_of([*old, *new]))[3].length > 2.5


def test_the_load_is_weighted_by_the_tokens_served():
    of = life()
    intervals = [
        interval(of, -90.0, outputs=500.0, generation=9000.0),
        interval(of, -30.0, outputs=500.0, generation=1000.0),
        interval(of, -15.0, outputs=32_000.0, generation=3000.0),
        interval(of, 0.0, outputs=32_000.0, generation=0.0),
    ]
    found = load_of(tracks_of([(of, one) for one in intervals]), NOON - timedelta(seconds=60))
    assert [round(batch, 3) for batch, _ in found] == [1.0, 64.0]
    assert [share for _, share in found] == pytest.approx([0.25, 0.75])
    assert load_of(tracks_of([(of, interval(of, generation=None))]), NOON - timedelta(days=1)) == ()


def test_what_was_seen_days_ago_is_trusted_the_less():
    old = run_of(life(tokens=5, number=1), 20, ends_at=-9 * 86_400.0, per_pos=(700.0, 500.0, 300.0, 200.0, 100.0))
    rows, fresh = rows_of(tracks_of([*old, *run_of(life(number=2), 20)])), rows_of(tracks_of(old))
    assert rows[5].length == fresh[5].length
    assert rows[5].length_error == pytest.approx(math.hypot(fresh[5].length_error, 0.06))
    assert rows[5].step_error == pytest.approx(math.hypot(0.015, 0.015))
    assert fresh[5].step_error is None


def test_costs_of_other_servers():
    silent = run_of(life("b", tokens=1, number=2), 4, has_latency=False, steps=None, running=None)
    (track,) = tracks_of([*run_of(life("b", tokens=5), 4), *silent])
    (row,) = cost_rows(track, "eagle3", None)
    assert (row.num_speculative_tokens, row.step_seconds) == (5, pytest.approx(0.01))
    # 1.5 % of the row itself and 5 % for being elsewhere.
    assert row.step_error == pytest.approx(math.hypot(0.015, 0.05))


def test_another_drafter_tells_nothing_of_what_a_draft_token_costs_but_off_does():
    off = run_of(life("b", tokens=0, number=2), 4, has_speculation=False)
    (track,) = tracks_of([*run_of(life("b", tokens=5, method="mtp"), 4, ends_at=-600.0), *off])
    assert [row.num_speculative_tokens for row in cost_rows(track, "eagle3", None)] == [0]
    assert {row.num_speculative_tokens for row in cost_rows(track, "mtp", None)} == {0, 5}
