"""Acceptance: denominators, censoring, coverage, degraded pages, and counts that may not be believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.model.life import Setting
from monitor.model.reading import Flag
from monitor.model.signal import NoData
from monitor.signals import signals
from monitor.signals.accepted import add_accepted, alpha_of_length, survival_of
from monitor.signals.uncertainty import ratio_estimate, student_t95, wilson, within_draft_variance
from tests.unit.signals.windows import NOON, interval, life, run_of


def build(pairs):
    return signals(pairs, scope="server:a", at=NOON, window_seconds=300.0)


def test_survival_counts_only_the_drafts_that_reached_the_position():
    # n-gram: 1,000 drafts, of which 400 were 3 long; 200 of those were accepted whole.
    assert survival_of((600.0, 300.0, 200.0), 1000.0, (1000.0, 600.0, 400.0)) == pytest.approx((0.6, 0.5, 0.5))
    assert survival_of((600.0, 300.0, 200.0), 1000.0, None) == pytest.approx((0.6, 0.3, 0.2))


def test_survival_never_rises_although_the_denominators_differ():
    assert survival_of((500.0, 300.0), 1000.0, (1000.0, 400.0)) == pytest.approx((0.5, 0.5))


def test_alpha_does_not_fall_with_the_setting_where_the_rate_does():
    alpha = 0.8
    found = {}
    for tokens in (1, 3, 6):
        of = life(tokens=tokens)
        per_pos = [10_000 * alpha**i for i in range(1, tokens + 1)]
        result = build(run_of(of, 20, drafts=10_000.0, per_pos=per_pos))
        found[tokens] = (result.value("acceptance_rate"), result.value("acceptance_alpha"))
    assert [round(rate, 2) for rate, _ in found.values()] == [0.80, 0.65, 0.49]
    assert [a for _, a in found.values()] == pytest.approx([0.8, 0.8, 0.8])


@pytest.mark.parametrize(("length", "tokens", "alpha"), [(1.0, 3, 0.0), (4.0, 3, 1.0), (1 + 0.8 + 0.64, 2, 0.8)])
def test_alpha_from_the_length_alone(length, tokens, alpha):
    assert alpha_of_length(length, tokens) == pytest.approx(alpha, abs=1e-6)


def test_without_positions_alpha_comes_from_the_length():
    of = life(tokens=2)
    found = build(run_of(of, 20, per_pos=None, accepted=1440.0, drafts=1000.0))
    assert found.value("acceptance_alpha") == pytest.approx(0.8, abs=1e-6)
    assert found.vectors["acceptance_rate_at_pos"].reason is NoData.NOT_EXPORTED


def test_without_a_count_of_drafts_they_are_drafted_tokens_over_the_setting():
    of = life(tokens=3)
    pairs = run_of(of, 20, drafts=None, draft_tokens=3000.0, per_pos=None, accepted=1500.0)
    assert build(pairs).value("acceptance_length") == pytest.approx(2.5)


def test_effective_length_counts_the_steps_without_a_draft():
    # As published for an n-gram edit task: 4.59 tokens a draft, but most steps had none.
    of = life(method="ngram", tokens=5)
    per_pos = (810.0, 737.0, 700.0, 679.0, 664.0)
    found = build(run_of(of, 20, drafts=1000.0, per_pos=per_pos, outputs=2000.0))
    assert found.value("acceptance_length") == pytest.approx(4.59)
    assert found.value("draft_coverage") == pytest.approx(0.5)
    assert found.value("effective_acceptance_length") == pytest.approx(1 + 3.59 / 2)
    assert found.value("efficiency") == pytest.approx((1 + 3.59 / 2) / 6)


def test_intervals_that_contradict_themselves_are_left_out_and_alone_give_a_reason():
    good = run_of(life(), 10)
    bad = [(of, replace(i, flags=frozenset({Flag.IDENTITIES_BROKEN}))) for of, i in run_of(life(), 10, ends_at=-150.0)]
    assert build([*good, *bad]).value("num_drafts") == 10_000
    assert build(bad).scalars["acceptance_length"].reason is NoData.UNRELIABLE


def test_a_rate_above_one_is_shown_as_it_is():
    of = life(tokens=1)
    pairs = run_of(of, 20, drafts=100.0, draft_tokens=100.0, per_pos=None, accepted=130.0)
    assert build(pairs).value("acceptance_rate") == pytest.approx(1.3)


def test_the_setting_is_read_from_the_positions_when_it_is_not_known():
    pairs = run_of(life(tokens=None), 20, draft_tokens=3000.0)
    assert build(pairs).value("num_speculative_tokens") == 3


def test_drafts_that_were_cut_short_show_in_their_mean_length():
    pairs = run_of(life(tokens=5), 20, draft_tokens=2000.0, per_pos=(700.0, 400.0, 0.0, 0.0, 0.0))
    assert build(pairs).value("mean_draft_tokens") == pytest.approx(2.0)


def test_the_variance_within_drafts_is_exact_from_positions():
    # n = 0, 1, 2 with probability 1/2, 1/4, 1/4: mean 0.75, E[n^2] 1.25.
    assert within_draft_variance((0.5, 0.25)) == pytest.approx(1.25 - 0.75**2)


def test_textbook_quantiles():
    assert student_t95(9) == pytest.approx(2.262, abs=0.01)
    assert student_t95(4) == pytest.approx(2.776, abs=0.02)
    assert student_t95(1000) == pytest.approx(1.962, abs=0.001)
    assert wilson(0.5, 100.0) == pytest.approx((0.4038, 0.5962), abs=1e-4)


def test_counts_are_added_before_they_are_divided():
    of = life(tokens=1)
    small, large = interval(of, -15.0, drafts=10.0, per_pos=(10.0,)), interval(of, drafts=990.0, per_pos=(495.0,))
    accepted = add_accepted([small, large], Setting(num_speculative_tokens=1))
    assert accepted.length == pytest.approx(1.505)


def test_without_any_count_of_drafted_tokens_there_is_a_length_and_no_rate():
    of = life(tokens=None)
    pairs = [
        (of, replace(i, speculation=replace(i.speculation, num_draft_tokens=None, accepted_per_pos=None)))
        for of, i in run_of(of, 20)
    ]
    found = build(pairs)
    assert found.value("acceptance_length") == pytest.approx(2.5)
    for name in ("acceptance_rate", "acceptance_alpha", "mean_draft_tokens", "efficiency"):
        assert found.value(name) is None, name


def test_drafted_tokens_that_are_not_counted_follow_from_the_setting():
    of = life(tokens=3)
    pairs = [(of, replace(i, speculation=replace(i.speculation, num_draft_tokens=None))) for of, i in run_of(of, 20)]
    assert build(pairs).value("acceptance_rate") == pytest.approx(0.5)


def test_intervals_that_lost_their_drafted_tokens_do_not_raise_the_rate():
    of = life()
    pairs = run_of(of, 20)
    lost = [(of, replace(i, speculation=replace(i.speculation, num_draft_tokens=None))) for of, i in pairs[::2]]
    found = build([*lost, *pairs[1::2]])
    assert found.value("mean_draft_tokens") == pytest.approx(3.0)
    assert found.value("acceptance_rate") == pytest.approx(0.5)


def test_pages_of_one_setting_may_show_different_numbers_of_positions():
    of = life(tokens=None)
    pairs = [
        *run_of(of, 10, ends_at=-150.0, per_pos=(700.0, 500.0), draft_tokens=2000.0),
        *run_of(of, 10, per_pos=(700.0, 500.0, 300.0), draft_tokens=3000.0),
    ]
    assert build(pairs).vectors["acceptance_rate_at_pos"].values == pytest.approx((0.7, 0.5, 0.15))


def test_the_last_blocks_that_fill_no_batch_are_not_lost():
    # 23 blocks make 10 batches of 2 and one of 3.
    found = ratio_estimate([700.0] * 22 + [900.0], [1000.0] * 23, 0.21)
    assert found.value == pytest.approx((700 * 22 + 900) / 23_000)
    assert found.batches == 11
    assert found.design_effect > 2.0
