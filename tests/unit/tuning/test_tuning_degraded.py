"""What is recommended where a page tells less than a page of vLLM does: each lack has its own answer in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.cycle.decide import decide
from monitor.dialects.names import Known
from monitor.dialects.vllm_names import V0, V1
from monitor.model.decision import Action, Reason
from monitor.model.interval import Interval
from monitor.model.life import Life
from monitor.signals.accepted import alpha_of_length
from monitor.signals.build import signals
from monitor.tuning import Row, TuneInput, tune
from monitor.tuning.observe import row_of
from monitor.tuning.observed import Drafting
from monitor.tuning.projection import project
from tests.unit.cycle.questions import UP, firing, given, question, row
from tests.unit.signals.windows import NOON, interval, life

#: A length of 2.4 at three tokens is an acceptance of 0.665 a token, wherever the token stands.
LENGTH, ALPHA = 2.4, 0.66464


def told(of: Life, **changes: object) -> list[Interval]:
    return [interval(of, -15.0 * n, **changes) for n in range(20)]  # type: ignore[arg-type]


def asked(observed: Row, tokens: int = 3) -> TuneInput:
    return TuneInput(method="eagle3", num_speculative_tokens=tokens, observed={tokens: observed})


class TestNoPositions:
    """Drafts, draft tokens and accepted tokens alone."""

    def test_the_way_down_follows_from_one_rate_a_token_and_is_unsure(self) -> None:
        assert alpha_of_length(LENGTH, 3) == pytest.approx(ALPHA, abs=1e-4)
        found = project({3: Row(length=LENGTH, num_drafts=50_000.0)}, Drafting.HEAD, 4)
        iid = {tokens: sum(ALPHA**i for i in range(tokens + 1)) for tokens in (1, 2)}
        for tokens, expected in iid.items():
            assert found[tokens].value == pytest.approx(expected, rel=0.08)
            assert found[tokens].error > 2 * found[3].error

    def test_the_way_up_is_two_steps_at_most_and_less_sure_than_with_positions(self) -> None:
        blind = Row(length=3.6, num_drafts=50_000.0, finished_requests=500.0, step_seconds=0.010, batch=1.0)
        seen = replace(blind, survival=(0.92, 0.87, 0.81))
        found, sure = tune(asked(blind)), tune(asked(seen))
        assert found.action is Action.RAISE and (found.num_speculative_tokens or 0) <= 5
        assert max(found.forecasts) == 5
        assert found.forecasts[5].log_error > sure.forecasts[5].log_error


class TestNoCountOfDrafts:
    def test_drafts_are_drafted_tokens_over_the_setting(self) -> None:
        of = life(tokens=3)
        found = row_of(told(of, drafts=None, draft_tokens=3000.0, per_pos=None, accepted=1500.0), of.setting)
        assert found.num_drafts == pytest.approx(20_000.0)
        assert found.length == pytest.approx(2.5)
        assert not found.counts_drafts and row_of(told(of), of.setting).counts_drafts

    def test_a_change_says_so(self) -> None:
        asks = firing(UP)
        counted = row(0.9, 0.85, 0.8)
        found, plain = (
            decide(question(asks, given=given({3: one}))) for one in (replace(counted, counts_drafts=False), counted)
        )
        assert found.action is plain.action is Action.RAISE
        assert found.sentence == (
            f"{plain.sentence} The page counts no drafts: they are taken as draft tokens over the setting, too few "
            "where drafts are cut short."
        )


class TestAnOlderHistogram:
    @pytest.mark.parametrize("table", [V0, V1])
    def test_the_former_name_of_the_inter_token_histogram_is_the_same_histogram(self, table: tuple[Known, ...]) -> None:
        assert [one.reads for one in table if one.name == "time_per_output_token_seconds"] == ["inter_token"]


class TestNoHistogramAtAll:
    """The step time comes from requests that run, over drafts: too high by those that prefill."""

    def test_the_answer_says_so(self) -> None:
        of = life(tokens=3)
        pairs = [(of, one) for one in told(of, has_latency=False, steps=None)]
        window = signals(pairs, scope="group:g", at=NOON, window_seconds=300.0)
        assert window.value("step_seconds_way") == 3.0
        decision = decide(replace(question(firing(UP), given=given({3: row(0.9, 0.85, 0.8)})), window=window))
        assert decision.action is Action.RAISE
        assert decision.sentence.endswith(
            "The page has neither histograms nor a count of steps, so that step times are estimates from running "
            "requests."
        )

    def test_with_a_histogram_nothing_of_the_kind_is_said(self) -> None:
        of = life(tokens=3)
        window = signals([(of, one) for one in told(of)], scope="group:g", at=NOON, window_seconds=300.0)
        decision = decide(replace(question(firing(UP), given=given({3: row(0.9, 0.85, 0.8)})), window=window))
        assert decision.action is Action.RAISE and "estimates" not in decision.sentence


class TestSpeculationOff:
    def test_nothing_is_guessed_and_a_trial_on_one_of_several_is_proposed(self) -> None:
        off = Row(length=1.0, num_drafts=0.0, finished_requests=600.0, step_seconds=0.008, batch=1.0)
        found = tune(replace(asked(off, 0), replicas=2))
        assert (found.action, found.num_speculative_tokens, found.reason) == (Action.PROBE, 1, Reason.SPECULATION_OFF)
        assert found.gain is None
        assert found.sentence == (
            "Speculation is off, so that nothing is known of acceptance. Try 1 token on one of several servers to find"
            " out."
        )
