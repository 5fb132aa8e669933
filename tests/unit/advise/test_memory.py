"""What fits where: the guides' own examples, and what is not known is not guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.advise.memory import Fit, Room, estimate
from monitor.advise.shapes import ModelShape, Precision
from tests.unit.advise.models import GIB, L1, L8, L70, QWEN05, QWEN7, room, shape


def test_an_8b_with_a_1b_draft_leaves_4_gb_of_cache_on_a_24_gb_card() -> None:
    found = estimate(shape(L8), Room(gpu_bytes=24 * GIB), 5, shape(L1))
    assert found.fit is Fit.FITS
    assert (found.cache_bytes or 0) / 1e9 == pytest.approx(4.0, abs=0.6)
    assert found.bytes_per_token == 160 * 1024
    assert found.sentence == (
        "weights 16.1 GB + 2.5 GB for the draft; 3.5 GB left for 21,141 tokens of context (160 KiB each)"
    )


def test_the_same_pair_does_not_fit_16_gb() -> None:
    found = estimate(shape(L8), Room(gpu_bytes=16 * GIB), 5, shape(L1))
    assert found.fit is Fit.DOES_NOT_FIT
    assert found.capacity_tokens == 0.0
    assert "leave no room for a KV cache within 15.5 GB" in found.sentence


def test_a_70b_at_4_bit_with_an_8b_at_4_bit_fits_48_gb_only_with_a_small_cache() -> None:
    """The guides' 42 + 5 GB: it starts, with a context that a load soon fills."""
    big, small = (replace(shape(name), precision=Precision.FOUR_BIT) for name in (L70, L8))
    found = estimate(big, Room(gpu_bytes=48 * GIB, utilization=0.97, concurrency=1.0, prompt_tokens=1e5,
                               output_tokens=1e3), 5, small)
    assert found.fit is Fit.DOES_NOT_FIT
    assert 0 < (found.capacity_tokens or 0) < 10_000


def test_an_8_bit_draft_takes_about_half() -> None:
    full = estimate(shape(L8), room(), 3, shape(L1))
    half = estimate(shape(L8), room(), 3, shape(L1), Precision.EIGHT_BIT)
    assert half.draft_bytes / full.draft_bytes == pytest.approx(0.6, abs=0.02)
    three = shape("meta-llama/Llama-3.2-3B")
    assert (three.weight_bytes(Precision.EIGHT_BIT) or 0) / (three.weight_bytes() or 1) == pytest.approx(0.56, abs=0.01)


def test_what_the_load_needs_wants_a_fifth_more() -> None:
    target = shape(QWEN7)
    capacity = estimate(target, room(concurrency=1.0), 0).capacity_tokens or 0.0
    for by, expected in ((1.25, Fit.FITS), (1.1, Fit.TIGHT), (0.9, Fit.DOES_NOT_FIT)):
        load = Room(gpu_bytes=24 * GIB, concurrency=1.0, prompt_tokens=capacity / by, output_tokens=1.0)
        assert estimate(target, load, 0).fit is expected


def test_logits_grow_with_draft_tokens_and_requests() -> None:
    """(7 + 1) x 256 x 128,256 x 4 bytes are 1.05 GB."""
    found = estimate(shape(L8), room(80 * GIB, concurrency=256.0), 7)
    none = estimate(shape(L8), room(80 * GIB, concurrency=256.0), 0)
    assert (found.other_bytes or 0) - 1e9 == pytest.approx(1.05e9, rel=0.01)
    assert (none.other_bytes or 0) - 1e9 == pytest.approx(1.05e9 / 8, rel=0.01)


def test_gpus_share_weights_and_heads() -> None:
    one, two = (estimate(shape(L70), room(80 * GIB, tensor_parallel=n), 3, shape(L8)) for n in (1, 2))
    assert one.fit is Fit.DOES_NOT_FIT
    assert (two.fit, two.target_bytes) == (Fit.DOES_NOT_FIT, pytest.approx(70.55e9))
    four = estimate(shape(L70), room(80 * GIB, tensor_parallel=4), 3, shape(L8))
    assert (four.fit, four.bytes_per_token) == (Fit.FITS, (320 + 128) * 1024 / 4)


def test_a_draft_shrinks_the_cache_quietly() -> None:
    alone, pair = estimate(shape(QWEN7), room(), 0), estimate(shape(QWEN7), room(), 0, shape(QWEN05))
    assert (alone.fit, pair.fit) == (Fit.FITS, Fit.FITS)
    assert (pair.capacity_tokens or 0) < (alone.capacity_tokens or 0)


@pytest.mark.parametrize(
    ("target", "gpu", "draft", "missing"),
    [
        (ModelShape(name="x"), 24 * GIB, None, "not known: the size of x, the KV cache of x"),
        (None, None, None, "not known: the memory of the GPU"),
        (None, 24 * GIB, ModelShape(name="d"), "not known: the size of d, the KV cache of d"),
    ],
)
def test_what_is_not_known_is_said(
    target: ModelShape | None, gpu: float | None, draft: ModelShape | None, missing: str
) -> None:
    found = estimate(target or shape(L8), Room(gpu_bytes=gpu), 3, draft)
    assert (found.fit, found.sentence, found.capacity_tokens) == (Fit.UNKNOWN, missing, None)
