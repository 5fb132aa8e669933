"""Step time: the regression on published sweeps, its priors, and goodput forecasts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.tuning.cost import fit
from monitor.tuning.forecast import Forecast, believable, forecasts
from monitor.tuning.observed import CostRow, Drafting, Row, Step, TuneInput

TABLES = Path(__file__).parents[2] / "golden" / "tuning_tables"


def rows_of(name: str) -> dict[int, dict]:
    found = json.loads((TABLES / f"{name}.json").read_text())["num_speculative_tokens"]
    return {int(tokens): row for tokens, row in found.items()}


def step(tokens: int, batch: float, context: float | None = None) -> Step:
    return Step(num_speculative_tokens=tokens, batch=batch, decode_context=context)


def cost_row(tokens: int, batch: float, seconds: float) -> CostRow:
    return CostRow(num_speculative_tokens=tokens, batch=batch, step_seconds=seconds)


@pytest.mark.parametrize("name", ["vllm20780-eagle", "vllm20780-eagle3", "vllm32628-humaneval-c1"])
def test_two_settings_tell_the_others_on_published_sweeps(name):
    """As published: fitting on k = 3 and 5 alone; within 3 % from 3 to 6, within 6 % at 7."""
    rows = rows_of(name)
    cost = fit([cost_row(k, 1, rows[k]["step_seconds"]) for k in (3, 5)], Drafting.HEAD)
    for tokens in (4, 6, 7):
        allowed = 0.06 if tokens == 7 else 0.03
        assert cost.seconds(step(tokens, 1)) == pytest.approx(rows[tokens]["step_seconds"], rel=allowed)


def test_every_part_stays_positive_even_when_step_time_falls_with_tokens():
    cost = fit([cost_row(1, 1, 0.010), cost_row(5, 1, 0.008)], Drafting.HEAD)
    assert cost.seconds(step(8, 1)) > cost.seconds(step(1, 1)) > cost.seconds(step(0, 1)) > 0


def test_one_setting_leaves_the_cost_of_a_token_to_the_prior():
    one = fit([cost_row(3, 1, 0.010)], Drafting.HEAD)
    two = fit([cost_row(3, 1, 0.010), cost_row(5, 1, 0.0118)], Drafting.HEAD)
    assert math.sqrt(one.covariance[2, 2]) > 0.3
    assert math.sqrt(two.covariance[2, 2]) < 0.25
    assert one.seconds(step(3, 1)) == pytest.approx(0.010, rel=0.01)


def test_rows_at_several_batches_tell_what_verifying_costs():
    true = {b: 0.006 * (1 + 0.15 + 0.1 * 3 + 0.008 * b * 4) for b in (1, 16, 64)}
    cost = fit([cost_row(3, b, seconds) for b, seconds in true.items()], Drafting.HEAD)
    assert math.exp(cost.parameters[3]) == pytest.approx(0.008, rel=0.25)
    assert cost.seconds(step(3, 32)) == pytest.approx(0.006 * (1.45 + 0.008 * 128), rel=0.03)


def long_step(tokens: int, context: float) -> float:
    """A step of 16 requests, of which 1,000 tokens of context add as much as a tenth of the weights."""
    return 0.006 * (1 + 0.15 + 0.1 * tokens + 0.004 * 16 * (tokens + 1) + 6e-6 * 16 * context)


def at_context(tokens: int, context: float | None, seconds: float) -> CostRow:
    return CostRow(num_speculative_tokens=tokens, batch=16, step_seconds=seconds, decode_context=context)


def test_a_setting_seen_with_long_prompts_is_not_taken_for_dear():
    """5 tokens were in force while prompts were long: of the 60 % more that a step took, 17 come from the drafts."""
    seen = {5: 8000.0, 3: 500.0}
    true = long_step(5, 2000.0) / long_step(3, 2000.0)
    fitted = fit([at_context(k, context, long_step(k, context)) for k, context in seen.items()], Drafting.HEAD)
    blind = fit([at_context(k, None, long_step(k, context)) for k, context in seen.items()], Drafting.HEAD)
    assert long_step(5, 8000.0) / long_step(3, 500.0) == pytest.approx(1.60, abs=0.01)
    assert fitted.seconds(step(5, 16, 2000.0)) / fitted.seconds(step(3, 16, 2000.0)) == pytest.approx(true, rel=0.04)
    assert blind.seconds(step(5, 16)) / blind.seconds(step(3, 16)) > 1.2 * true


def test_rows_at_several_contexts_tell_what_a_token_of_it_costs():
    cost = fit([at_context(3, context, long_step(3, context)) for context in (500.0, 2000.0, 8000.0)], Drafting.HEAD)
    assert cost.seconds(step(3, 16, 4000.0)) == pytest.approx(long_step(3, 4000.0), rel=0.02)


def test_a_step_that_does_not_tell_its_context_has_that_of_the_others():
    cost = fit([at_context(3, 1000.0, 0.010), at_context(5, 3000.0, 0.013)], Drafting.HEAD)
    assert cost.seconds(step(3, 16)) == pytest.approx(cost.seconds(step(3, 16, 2000.0)))


def test_a_block_drafter_pays_once():
    cost = fit([cost_row(3, 1, 0.010)], Drafting.BLOCK)
    assert cost.seconds(step(7, 1)) / cost.seconds(step(3, 1)) < 1.03
    assert fit([cost_row(3, 1, 0.010)], Drafting.HEAD).seconds(step(7, 1)) / 0.010 > 1.2


def test_a_large_draft_model_is_known_to_be_dear():
    small = fit([cost_row(3, 1, 0.010)], Drafting.MODEL, draft_ratio=0.05)
    large = fit([cost_row(3, 1, 0.010)], Drafting.MODEL, draft_ratio=0.9)
    assert large.seconds(step(0, 1)) < 0.5 * small.seconds(step(0, 1))


def test_without_any_step_time_only_ratios_mean_something():
    cost = fit([], Drafting.HEAD)
    assert not cost.is_scaled
    rows = {1: Row(survival=(0.7,), length=1.7)}
    found = forecasts(TuneInput(method="eagle3", num_speculative_tokens=1, observed=rows), 3)
    assert found[3].step_seconds is None
    assert found[3].goodput is None
    assert found[3].log_error > 0.03


def test_an_unknown_batch_widens_the_answer():
    def at(batch: float | None) -> Forecast:
        row = Row(survival=(0.7, 0.5, 0.3), length=2.5, step_seconds=0.01, batch=batch)
        return forecasts(TuneInput(method="eagle3", num_speculative_tokens=3, observed={3: row}), 5)[1]

    assert at(None).log_error > at(8.0).log_error


def test_gain_is_the_ratio_of_goodputs():
    rows = {
        3: Row(survival=(0.7, 0.5, 0.3), length=2.5, step_seconds=0.010, batch=1.0),
        0: Row(length=1.0, step_seconds=0.008, batch=1.0),
    }
    found = forecasts(TuneInput(method="eagle3", num_speculative_tokens=3, observed=rows), 3)
    assert found[0].gain == pytest.approx((1 / 0.008) / (2.5 / 0.010) - 1, abs=0.02)
    assert found[3].gain == 0.0
    assert found[0].goodput == pytest.approx(125.0, rel=0.02)


def test_the_load_of_the_day_decides_not_the_minute():
    row = Row(survival=(0.7, 0.5, 0.3), length=2.5, step_seconds=0.010, batch=1.0)
    given = TuneInput(method="eagle3", num_speculative_tokens=3, observed={3: row})
    busy = TuneInput(method="eagle3", num_speculative_tokens=3, observed={3: row}, batches=((1.0, 0.1), (256.0, 0.9)))
    assert forecasts(busy, 3)[1].gain > forecasts(given, 3)[1].gain + 0.05


def test_expected_improvement_by_hand():
    sure = Forecast(4, 3.0, 0.01, math.log(1.05), 0.0, False)
    assert sure.expected_improvement == pytest.approx(0.05)
    even = Forecast(4, 3.0, 0.01, 0.0, 0.10, False)
    # E[max(0, X)] of a normal with sd s is s / sqrt(2 pi); a log-normal is near it.
    assert even.expected_improvement == pytest.approx(0.10 / math.sqrt(2 * math.pi), rel=0.08)
    hopeless = Forecast(4, 3.0, 0.01, -0.5, 0.02, False)
    assert hopeless.expected_improvement == pytest.approx(0.0, abs=1e-9)


def test_what_contradicts_the_servers_own_step_times_is_left_out_with_its_server():
    row = Row(survival=(0.7, 0.5, 0.3), length=2.5, num_drafts=20_000.0, step_seconds=0.010, batch=8.0)
    given = TuneInput(method="eagle3", num_speculative_tokens=3, observed={3: row})

    def at(tokens, seconds):
        return CostRow(num_speculative_tokens=tokens, batch=8.0, step_seconds=seconds, step_error=0.05)

    like = (at(3, 0.0105), at(1, 0.008))
    assert believable(given, [like]) == like
    # At the same setting three standard deviations are some 16 %: another number of cards is further off.
    assert believable(given, [(at(3, 0.012), at(1, 0.008))]) == ()
    assert believable(given, [(at(1, 0.020),), like]) == like


def test_step_times_from_elsewhere_tell_what_a_draft_token_costs_here():
    row = Row(survival=(0.7, 0.5, 0.3), length=2.5, num_drafts=20_000.0, step_seconds=0.010, batch=8.0)
    alone = TuneInput(method="eagle3", num_speculative_tokens=3, observed={3: row})
    told = replace(alone, costs=tuple(
        CostRow(num_speculative_tokens=k, batch=8.0, step_seconds=0.007 + 0.001 * k, step_error=0.05) for k in (1, 3, 5)
    ))
    before, after = forecasts(alone, 5), forecasts(told, 5)
    for tokens in (1, 5):
        assert after[tokens].log_error < before[tokens].log_error
    assert after[1].step_seconds == pytest.approx(0.008, rel=0.05)
