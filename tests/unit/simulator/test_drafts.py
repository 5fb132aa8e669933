from __future__ import annotations

import numpy as np
import pytest

from monitor.simulator.drafts import DraftLaw, draft_law

SURVIVAL = (0.67, 0.43, 0.28)


def survival_of(outcomes: np.ndarray, k: int) -> list[float]:
    drafts = np.sum(outcomes >= 1)
    return [float(np.sum(outcomes >= i + 2) / drafts) for i in range(k)]


@pytest.mark.parametrize("correlation", [0.0, 0.03, 0.3])
def test_each_position_keeps_its_survival_whatever_the_correlation(correlation: float) -> None:
    law = DraftLaw(SURVIVAL, 1.0, correlation)
    rng = np.random.default_rng(5)
    # Latents as the drafts of a server see them: standard normal.
    outcomes = law.outcomes(rng, rng.standard_normal(20_000), 20)
    assert outcomes.min() == 1 and outcomes.max() == 4
    assert survival_of(outcomes, 3) == pytest.approx(SURVIVAL, abs=0.01)


def test_requests_are_drawn_so_that_their_drafts_have_the_survival() -> None:
    law = DraftLaw(SURVIVAL, 1.0, 0.3)
    rng = np.random.default_rng(6)
    latents = np.array([law.latent(rng) for _ in range(4000)])
    outcomes = law.outcomes(rng, latents, 400)
    # Each request stops after 300 tokens: an easy one makes fewer drafts.
    is_before = np.cumsum(outcomes, axis=1) - outcomes < 300
    drafted = outcomes[is_before]
    assert [float(np.mean(drafted >= i + 2)) for i in range(3)] == pytest.approx(SURVIVAL, abs=0.008)
    plain = law.outcomes(rng, latents, 50)
    assert np.mean(plain >= 2) > SURVIVAL[0] + 0.015  # without the stop the tilt towards easy requests shows


def test_drafts_of_one_request_correlate_and_those_of_two_do_not() -> None:
    rng = np.random.default_rng(7)
    for correlation, low, high in ((0.0, -0.01, 0.01), (0.1, 0.05, 0.1), (0.4, 0.25, 0.4)):
        outcomes = DraftLaw(SURVIVAL, 1.0, correlation).outcomes(rng, rng.standard_normal(40_000), 2)
        assert low < np.corrcoef(outcomes[:, 0], outcomes[:, 1])[0, 1] < high


def test_coverage_is_the_share_of_steps_with_a_draft_and_survival_is_per_step() -> None:
    law = DraftLaw((0.2, 0.1), 0.5, 0.0)
    outcomes = law.outcomes(np.random.default_rng(8), np.zeros(1000), 100)
    assert np.mean(outcomes >= 1) == pytest.approx(0.5, abs=0.01)
    assert np.mean(outcomes >= 2) == pytest.approx(0.2, abs=0.01)
    assert survival_of(outcomes, 2) == pytest.approx([0.4, 0.2], abs=0.01)


def test_coverage_below_the_first_position_is_raised_to_it() -> None:
    outcomes = DraftLaw((0.6,), 0.1, 0.0).outcomes(np.random.default_rng(9), np.zeros(1000), 100)
    assert np.mean(outcomes >= 1) == pytest.approx(0.6, abs=0.01)
    assert set(np.unique(outcomes)) == {0, 2}


def test_certain_and_impossible_positions_are_exact() -> None:
    outcomes = DraftLaw((1.0, 1.0, 0.0), 1.0, 0.2).outcomes(np.random.default_rng(1), np.zeros(50), 50)
    assert set(np.unique(outcomes)) == {3}


def test_without_speculation_there_are_no_drafts() -> None:
    law = DraftLaw((), 1.0, 0.2)
    assert law.latent(np.random.default_rng(1)) == 0.0
    assert not law.outcomes(np.random.default_rng(1), np.zeros(3), 4).any()


def test_a_law_is_built_once() -> None:
    assert draft_law(SURVIVAL, 1.0, 0.1) is draft_law(SURVIVAL, 1.0, 0.1)
