"""What must hold of signals whatever the counts: bounds, orders, additivity, and intervals that hold the truth."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.model.signal import NoData
from monitor.signals import signals
from monitor.signals.accepted import Accepted, add_accepted, alpha_of_length, censored_alpha
from monitor.signals.uncertainty import ratio_estimate, within_draft_variance
from tests.unit.signals.windows import NOON, interval, life


@st.composite
def drafts_of_a_window(draw):
    """Intervals of one life with accepted counts that fall by position and never exceed the drafts."""
    tokens = draw(st.integers(1, 8))
    of = life(tokens=tokens)
    pairs = []
    for number in range(draw(st.integers(1, 12))):
        drafts = draw(st.integers(0, 5000))
        counts, left = [], drafts
        for _ in range(tokens):
            left = draw(st.integers(0, left))
            counts.append(float(left))
        pairs.append((of, interval(of, -15.0 * number, drafts=float(drafts), per_pos=counts)))
    return tokens, pairs


def build(pairs, **rest):
    return signals(pairs, scope="server:a", at=NOON, window_seconds=600.0, **rest)


@given(drafts_of_a_window())
@settings(max_examples=60, deadline=None)
def test_acceptance_stays_in_its_bounds(window):
    tokens, pairs = window
    found = build(pairs)
    if not found.value("num_drafts"):
        assert found.value("acceptance_length") is None
        assert found.scalars["acceptance_length"].reason is NoData.NO_DRAFTS
        return
    assert 1.0 <= found.value("acceptance_length") <= tokens + 1
    assert 0.0 <= found.value("acceptance_rate") <= 1.0
    assert 0.0 <= found.value("acceptance_alpha") <= 1.0
    survival = found.vectors["acceptance_rate_at_pos"].values
    assert all(later <= earlier for earlier, later in pairwise(survival))
    assert 1.0 + sum(survival) == pytest.approx(found.value("acceptance_length"))
    assert all(c is None or 0.0 <= c <= 1.0 for c in found.vectors["conditional_acceptance_rate_at_pos"].values)


@given(drafts_of_a_window())
@settings(max_examples=60, deadline=None)
def test_intervals_of_confidence_hold_their_value(window):
    found = build(window[1])
    for signal in found:
        if signal.low is not None and signal.high is not None:
            assert signal.low - 1e-9 <= signal.value <= signal.high + 1e-9
    vector = found.vectors["acceptance_rate_at_pos"]
    for low, value, high in zip(vector.lows, vector.values, vector.highs, strict=True):
        assert low - 1e-9 <= value <= high + 1e-9


@given(drafts_of_a_window(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_in_which_intervals_come_does_not_matter(window, rng):
    pairs = list(window[1])
    shuffled = pairs[:]
    rng.shuffle(shuffled)
    assert build(pairs) == build(shuffled)


@given(drafts_of_a_window(), st.integers(1, 11))
@settings(max_examples=40, deadline=None)
def test_splitting_a_window_adds_up(window, cut):
    pairs = window[1]
    whole = build(pairs).value("num_drafts")
    at = NOON - timedelta(seconds=15.0 * cut)
    late = signals(pairs, scope="s", at=NOON, window_seconds=15.0 * cut)
    early = signals(pairs, scope="s", at=at, window_seconds=600.0)
    assert (late.value("num_drafts") or 0.0) + (early.value("num_drafts") or 0.0) == pytest.approx(whole)


@given(st.floats(0.0, 1.0), st.integers(1, 15))
def test_alpha_is_the_inverse_of_the_length_it_gives(alpha, tokens):
    length = sum(alpha**i for i in range(tokens + 1))
    found = alpha_of_length(length, tokens)
    assert sum(found**i for i in range(tokens + 1)) == pytest.approx(length, abs=1e-6)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_variance_within_a_draft_is_that_of_its_distribution(falls):
    survival, left = [], 1.0
    for fall in falls:
        left *= fall
        survival.append(left)
    exactly = [1.0, *survival, 0.0]
    shares = [exactly[i] - exactly[i + 1] for i in range(len(survival) + 1)]
    mean = sum(n * p for n, p in enumerate(shares))
    variance = sum((n - mean) ** 2 * p for n, p in enumerate(shares))
    assert within_draft_variance(survival) == pytest.approx(variance, abs=1e-9)


def correlated_windows(windows: int, blocks: int, spread: float) -> tuple[np.ndarray, float]:
    """Drafts accepted per window, block and position, and drafts per block.

    16 requests at a time, each with an easiness of its own; they last 20 to 160 steps of which a block has 60, so that
    most outlive the block they began in.
    """
    rng = np.random.default_rng(5)
    slots, steps = 16, 60
    ease = np.clip(rng.normal(0.7, spread, (windows, slots)), 0.05, 0.98)
    left = rng.integers(1, 90, (windows, slots))
    accepted = np.zeros((windows, blocks, 3))
    for block in range(blocks):
        for _ in range(steps):
            run = np.cumprod(rng.random((windows, slots, 3)) < ease[:, :, None], axis=2)
            accepted[:, block] += run.sum(axis=1)
            left -= 1
            done = left <= 0
            left[done] = rng.integers(20, 160, int(done.sum()))
            ease[done] = np.clip(rng.normal(0.7, spread, int(done.sum())), 0.05, 0.98)
    return accepted, float(slots * steps)


@pytest.mark.parametrize(("blocks", "spread"), [(20, 0.15), (20, 0.25), (40, 0.20)])
def test_a_95_percent_interval_holds_the_truth_in_93_to_97_percent_of_windows(blocks, spread):
    """Correlated drafts: requests differ in easiness and span blocks. The truth is the mean over all windows.

    Length, acceptance at each position, and acceptance per token tested.
    """
    windows = 1000
    accepted, drafts = correlated_windows(windows, blocks, spread)
    means = accepted.mean(axis=(0, 1)) / drafts
    truths = {"length": 1.0 + means.sum(), "alpha": means.sum() / (1.0 + means[0] + means[1])}
    truths |= {f"position {i}": means[i] for i in range(3)}
    held = dict.fromkeys(truths, 0)
    total = drafts * blocks
    for window in accepted:
        survival = tuple((window.sum(axis=0) / total).tolist())
        found = Accepted(
            num_drafts=total, num_draft_tokens=3 * total, num_accepted_tokens=float(window.sum()), survival=survival,
            reached=None, blocks_per_pos=tuple(map(tuple, window.tolist())),
            blocks=tuple((drafts, taken) for taken in window.sum(axis=1).tolist()),
        )
        estimates = {"length": found.length_estimate(), "alpha": censored_alpha(found, 3)}
        for i, rate in enumerate(survival):
            estimates[f"position {i}"] = ratio_estimate(
                window[:, i].tolist(), [drafts] * blocks, rate * (1 - rate), bounds=(0.0, 1.0)
            )
        for name, truth in truths.items():
            held[name] += estimates[name].low <= truth <= estimates[name].high
    # 1,000 windows tell a share to +-1.4 points (2 standard errors).
    assert {name for name, count in held.items() if not 0.93 - 0.014 <= count / windows <= 0.97 + 0.014} == set(), held


def test_raw_binomial_intervals_would_not_hold_it():
    """The same windows with the error of independent drafts: the reason for all of this."""
    accepted, drafts = correlated_windows(400, 20, 0.25)
    lengths = accepted.sum(axis=(1, 2)) / (20 * drafts)
    variances = [within_draft_variance(rates) for rates in (accepted.sum(axis=1) / (20 * drafts)).tolist()]
    half = 1.96 * np.sqrt(np.array(variances) / (20 * drafts))
    assert (np.abs(lengths - lengths.mean()) <= half).mean() < 0.6


def test_few_blocks_assume_a_wide_interval():
    few = ratio_estimate([700.0] * 3, [1000.0] * 3, 0.21, bounds=(0.0, 1.0))
    assert few.design_effect == 10.0
    assert few.batches == 0
    many = ratio_estimate([700.0 + 5 * random.Random(i).gauss(0, 1) for i in range(40)], [1000.0] * 40, 0.21)
    assert many.batches >= 10
    assert many.design_effect == 2.0


def test_no_denominator_is_no_estimate():
    assert ratio_estimate([], [], 1.0) is None
    assert ratio_estimate([0.0], [0.0], 1.0) is None


def test_accepted_is_none_without_drafts():
    of = life()
    assert add_accepted([interval(of, drafts=0.0, per_pos=(0.0, 0.0, 0.0))], of.setting) is None
