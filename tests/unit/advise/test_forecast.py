"""What a method may bring: near what was published, less with every request, and never surer than it is."""

from __future__ import annotations

import pytest

from monitor.advise.forecast import Forecast, forecast
from tests.unit.advise.models import catalog


def guess(method: str, concurrency: float | None = 1.0, kind: str = "chat", **more: object) -> Forecast:
    return forecast(method, catalog().methods[method], kind=kind, concurrency=concurrency, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "kind", "concurrency", "gain", "tolerance"),
    [
        # Llama-3.1-8B EAGLE-3 on ShareGPT, replay at batch 1 and k = 3: 2.2976 x 5.9267 / 9.3292 ms.
        ("eagle3", "chat", 1.0, 0.46, 0.20),
        # The same on an engine, k = 3: 2.79 x 7.07 / 11.41 ms (vllm-project/vllm#20780); within the range at least.
        ("eagle3", "chat", 1.0, 0.73, 0.25),
        # n-gram on ShareGPT, k = 4: 1.2908 x 5.9267 / 7.2176 ms.
        ("ngram", "chat", 1.0, 0.06, 0.10),
    ],
)
def test_near_what_was_published(method: str, kind: str, concurrency: float, gain: float, tolerance: float) -> None:
    found = guess(method, concurrency, kind)
    assert found.gain == pytest.approx(gain, abs=tolerance)
    assert found.gain_low < gain < found.gain_high


@pytest.mark.parametrize("method", ["eagle3", "eagle", "mtp", "draft_model", "ngram", "suffix"])
def test_every_further_request_makes_it_worth_less(method: str) -> None:
    gains = [guess(method, float(batch), draft_ratio=0.15).gain for batch in (1, 8, 32, 128, 512)]
    assert gains == sorted(gains, reverse=True)
    counts = [guess(method, float(batch), draft_ratio=0.15).tokens for batch in (1, 8, 32, 128, 512)]
    assert counts == sorted(counts, reverse=True)
    assert not guess(method, 512.0, draft_ratio=0.15).pays


def test_a_small_draft_of_a_large_model_drafts_further() -> None:
    """70B with a 1B: the guides' five; with an 8B, or an 8B with a 1B: the conservative three."""
    assert guess("draft_model", draft_ratio=2.5 / 141).tokens == 5
    assert guess("draft_model", draft_ratio=16.1 / 141).tokens == 3
    assert guess("draft_model", draft_ratio=2.5 / 16.1).tokens == 3


def test_text_that_repeats_itself_is_what_lookups_are_for() -> None:
    gains = [guess("ngram", 8.0, kind).gain for kind in ("chat", "rag", "code", "edit")]
    assert gains == sorted(gains)
    assert guess("ngram", 8.0, "edit").gain > guess("eagle3", 8.0).gain


def test_an_edit_emits_about_three_tokens_a_step() -> None:
    """vllm-project/vllm#24344: 2.96 per step at its best."""
    assert guess("ngram", 1.0, "edit").length == pytest.approx(2.96, abs=0.4)


def test_an_unknown_load_is_taken_for_a_small_one() -> None:
    assert guess("eagle3", None) == guess("eagle3", 8.0)


def test_counts_follow_the_heads_of_the_model() -> None:
    assert guess("mtp", least=2, step=2).tokens == 2
    assert guess("mtp", most=1).tokens == 1
    assert guess("mtp", 512.0, least=3, step=3).tokens == 3


def test_the_range_is_wide_and_contains_the_guess() -> None:
    for method in ("eagle3", "mtp", "draft_model", "ngram"):
        found = guess(method, 8.0)
        assert found.gain_low < found.gain - 0.1 < found.gain + 0.1 < found.gain_high
