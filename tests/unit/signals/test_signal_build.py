"""The signal set as a whole: names, samples, settings, engines and servers that add."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from monitor.model.signal import NoData
from monitor.signals import VOCABULARY, Kind, signals
from monitor.signals.build import WRITERS
from monitor.signals.material import Material
from monitor.signals.sheet import Sheet
from monitor.signals.track import tracks_of
from monitor.signals.window import Window
from tests.unit.signals.windows import NOON, life, run_of


def build(pairs, window_seconds=300.0, **rest):
    return signals(pairs, scope="server:a", at=NOON, window_seconds=window_seconds, **rest)


def test_every_name_of_the_vocabulary_is_there_with_a_value_or_a_reason_and_no_other():
    for pairs in ([], run_of(life(), 20), run_of(life(tokens=0), 20, has_speculation=False)):
        found = build(pairs)
        assert set(found.scalars) == {s.name for s in VOCABULARY.values() if s.kind is Kind.SCALAR}
        assert set(found.vectors) == {s.name for s in VOCABULARY.values() if s.kind is Kind.VECTOR}


def test_every_writer_writes_its_own_names_and_no_other():
    for write, names in ((w, {n for n, of in WRITERS.items() if of is w}) for w in dict.fromkeys(WRITERS.values())):
        for pairs in ([], run_of(life(), 4), run_of(life(tokens=0), 4, has_speculation=False)):
            sheet = Sheet(partial(Material, Window(tracks_of(pairs), NOON, 300.0), {}), {}, {})
            asked = build(pairs)
            # What a writer reads of others is there already.
            sheet._scalars.update({name: signal for name, signal in asked.scalars.items() if name not in names})
            sheet._vectors.update({name: signal for name, signal in asked.vectors.items() if name not in names})
            write(sheet, sheet.material)
            assert sheet._scalars.keys() == asked.scalars.keys()
            assert sheet._vectors.keys() == asked.vectors.keys()


def test_a_signal_that_nobody_asks_for_is_not_worked_out():
    found = build(run_of(life(), 4))
    assert found.value("running") == 2.0
    assert set(found.scalars._done) == {"running", "running_max"}


def test_the_numbers_of_a_plain_window():
    found = build(run_of(life(), 20))
    value = found.value
    assert value("num_drafts") == 20_000
    assert value("finished_requests") == 200
    assert value("covered_seconds") == 300
    assert value("acceptance_rate") == pytest.approx(0.5)
    assert value("acceptance_length") == pytest.approx(2.5)
    assert value("draft_coverage") == pytest.approx(1.0)
    assert value("efficiency") == pytest.approx(2.5 / 4)
    assert value("num_speculative_tokens") == 3
    assert found.vectors["acceptance_rate_at_pos"].values == pytest.approx((0.7, 0.5, 0.3))
    assert found.vectors["conditional_acceptance_rate_at_pos"].values == pytest.approx((0.7, 5 / 7, 0.6))
    # 30,000 accepted of 30,000 + (20,000 - 6,000) tokens tested: whole drafts are censored, not misses.
    assert value("acceptance_alpha") == pytest.approx(30 / 44)
    assert value("step_seconds") == pytest.approx(0.01)
    assert value("step_seconds_way") == 1
    assert value("step_seconds_disagreement") == pytest.approx(0.0, abs=1e-9)
    assert value("decode_batch") == pytest.approx(2.0)
    assert value("goodput") == pytest.approx(250.0)
    assert value("generation_tokens_per_second") == pytest.approx(2500 / 15)
    assert value("error_ratio") == 0.0
    assert value("waiting_share") == 0.0


def test_counts_and_rates_of_two_engines_add_but_their_seconds_do_not():
    one, two = life(engine="0"), life(engine="1")
    found = build([*run_of(one, 20), *run_of(two, 20)])
    assert found.value("num_drafts") == 40_000
    assert found.value("covered_seconds") == 300
    assert found.value("generation_tokens_per_second") == pytest.approx(2 * 2500 / 15)
    assert found.value("running") == pytest.approx(4.0)
    assert found.value("kv_usage") == pytest.approx(0.25)
    assert found.value("acceptance_length") == pytest.approx(2.5)


def test_after_a_restart_the_setting_dependent_signals_use_the_new_setting_only():
    old, new = life(tokens=3, number=1), life(tokens=5, number=2)
    pairs = [
        *run_of(old, 10, ends_at=-150.0),
        *run_of(new, 10, per_pos=(800.0, 600.0, 400.0, 200.0, 100.0), generation=3100.0),
    ]
    found = build(pairs)
    assert found.value("num_speculative_tokens") == 5
    assert found.value("num_drafts") == 10_000
    assert found.value("acceptance_length") == pytest.approx(3.1)
    # Throughput is of the whole window: seconds of lives that follow each other add.
    assert found.value("generation_tokens_per_second") == pytest.approx((2500 + 3100) / 2 / 15)


def test_servers_at_different_settings_are_not_mixed():
    found = build([*run_of(life("a", tokens=3), 10), *run_of(life("b", tokens=5), 10)])
    assert found.scalars["acceptance_length"].reason is NoData.MIXED_SETTINGS
    assert found.scalars["num_drafts"].reason is NoData.MIXED_SETTINGS
    assert found.value("servers") == 2
    assert found.value("generation_tokens_per_second") == pytest.approx(2 * 2500 / 15)


def test_an_engine_that_is_gone_does_not_count_as_one_at_another_setting():
    pairs = [*run_of(life(engine="1", tokens=3), 4, ends_at=-200.0), *run_of(life(engine="0", tokens=5, number=2), 8)]
    found = build(pairs)
    assert found.value("num_speculative_tokens") == 5


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([], NoData.NO_INTERVALS),
        (run_of(life(), 4, drafts=0.0, per_pos=(0.0, 0.0, 0.0)), NoData.NO_DRAFTS),
        (run_of(life(tokens=0), 4, has_speculation=False), NoData.SPECULATION_OFF),
        (run_of(life(), 4, has_speculation=False), NoData.NOT_EXPORTED),
    ],
)
def test_the_reason_of_an_absent_acceptance(pairs, reason):
    assert build(pairs).scalars["acceptance_length"].reason is reason


def test_zero_drafts_are_a_count_of_zero_and_no_rate():
    found = build(run_of(life(), 4, drafts=0.0, per_pos=(0.0, 0.0, 0.0)))
    assert found.value("num_drafts") == 0
    assert found.value("acceptance_rate") is None


def test_intervals_after_the_moment_asked_about_are_ignored():
    pairs = run_of(life(), 10, ends_at=75.0)
    assert build(pairs).value("num_drafts") == 5_000


def test_gaps_keep_their_counts_and_give_no_rate():
    pairs = [(of, replace(i, is_gap=n == 0)) for n, (of, i) in enumerate(run_of(life(), 2))]
    found = build(pairs)
    assert found.value("num_drafts") == 2_000
    assert found.value("covered_seconds") == 15
    assert found.value("generation_tokens_per_second") == pytest.approx(2500 / 15)


def test_a_window_of_no_length_is_refused_with_its_scope():
    with pytest.raises(ValueError, match="server:a"):
        build([], window_seconds=0.0)


def test_a_window_is_half_open():
    pairs = run_of(life(), 2, seconds=300.0)
    assert pairs[0][1].end == NOON - timedelta(seconds=300)
    assert build(pairs).value("num_drafts") == 1_000
