"""Weights and KV cache of known models, as published; and what a configuration says."""

from __future__ import annotations

import pytest

from monitor.advise.shapes import ModelShape, Precision, shape_of_config
from tests.unit.advise.models import L1, L8, L70, shape

KIB = 1024.0


@pytest.mark.parametrize(
    ("name", "weights", "cache"),
    [
        (L8, 16.1, 128), (L70, 141, 320), (L1, 2.5, 32), ("meta-llama/Llama-3.2-3B", 6.4, 112),
        ("Qwen/Qwen2.5-0.5B", 1.0, 12), ("Qwen/Qwen2.5-1.5B", 3.1, 28), ("Qwen/Qwen2.5-7B", 15.2, 56),
        ("Qwen/Qwen2.5-32B-Instruct", 65.5, 256), ("Qwen/Qwen2.5-72B-Instruct", 145, 320),
        ("Qwen/Qwen3-0.6B", 1.5, 112), ("Qwen/Qwen3-1.7B", 4.1, 112), ("Qwen/Qwen3-8B", 16.4, 144),
        ("Qwen/Qwen3-32B", 65.5, 256), ("mistralai/Mistral-7B-v0.3", 14.5, 128),
    ],
)  # fmt: skip
def test_published_sizes(name: str, weights: float, cache: float) -> None:
    """GB of weights at 16 bit and KiB of KV cache for each token."""
    found = shape(name)
    assert (found.weight_bytes() or 0) / 1e9 == pytest.approx(weights, rel=0.025)
    assert found.kv_bytes_per_token() == cache * KIB


@pytest.mark.parametrize(
    ("name", "precision", "gigabytes"),
    [(L8, Precision.EIGHT_BIT, 9.0), (L8, Precision.FOUR_BIT, 5.7), (L70, Precision.EIGHT_BIT, 71.0),
     (L70, Precision.FOUR_BIT, 40.0)],
)  # fmt: skip
def test_quantized_weights_keep_embeddings_at_16_bit(name: str, precision: Precision, gigabytes: float) -> None:
    assert (shape(name).weight_bytes(precision) or 0) / 1e9 == pytest.approx(gigabytes, rel=0.03)


@pytest.mark.parametrize(("name", "billions"), [(L8, 0.24), (L70, 0.99)])
def test_an_eagle_head_is_about_one_layer(name: str, billions: float) -> None:
    head = shape(name).eagle_head(is_third=False)
    assert head is not None and head.parameters is not None
    assert head.parameters / 1e9 == pytest.approx(billions, rel=0.06)
    assert head.kv_bytes_per_token() == (shape(name).kv_bytes_per_token() or 0) / (shape(name).layers or 1)
    third = shape(name).eagle_head(is_third=True)
    assert third is not None and (third.parameters or 0) > head.parameters


def test_a_small_draft_may_cost_more_cache_than_weights() -> None:
    """Qwen3-8B with Qwen3-0.6B holds 1.78 times the KV bytes of the 8B alone."""
    eight, small = shape("Qwen/Qwen3-8B").kv_bytes_per_token(), shape("Qwen/Qwen3-0.6B").kv_bytes_per_token()
    assert ((eight or 0) + (small or 0)) / (eight or 1) == pytest.approx(1.78, abs=0.01)


def test_heads_are_split_over_gpus_and_replicated_where_there_are_fewer() -> None:
    eight = shape(L8)
    assert eight.kv_bytes_per_token(tensor_parallel=2) == 64 * KIB
    assert eight.kv_bytes_per_token(tensor_parallel=16) == 16 * KIB
    assert eight.kv_bytes_per_token(bytes_each=1.0) == 64 * KIB


LLAMA = {
    "model_type": "llama", "vocab_size": 128256, "num_hidden_layers": 32, "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": False,
}


class TestConfigurations:
    def test_a_dense_model_is_counted(self) -> None:
        found = shape_of_config("x", LLAMA)
        assert (found.parameters or 0) / 1e9 == pytest.approx(8.03, rel=0.001)
        assert (found.kv_bytes_per_token(), found.vocabulary, found.head_dim) == (128 * KIB, 128256, 128)

    def test_files_weigh_what_they_weigh(self) -> None:
        found = shape_of_config("x", LLAMA | {"quantization_config": {"quant_method": "awq", "bits": 4}}, 5.73e9)
        assert (found.precision, found.weight_bytes()) == (Precision.FOUR_BIT, 5.73e9)
        assert (found.weight_bytes(Precision.BF16) or 0) > 16e9

    def test_experts_are_not_counted_but_weighed(self) -> None:
        config = LLAMA | {"num_local_experts": 8}
        assert shape_of_config("x", config).weight_bytes() is None
        assert shape_of_config("x", config, 93e9).weight_bytes() == 93e9

    def test_a_compressed_cache_has_no_heads(self) -> None:
        """DeepSeek: (512 + 64) x layers x bytes."""
        config = LLAMA | {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
                          "num_nextn_predict_layers": 1}
        found = shape_of_config("x", config)
        assert found.kv_bytes_per_token() == 576 * 61 * 2
        assert (found.own_heads, found.parameters) == (1, None)

    def test_a_text_model_inside_another(self) -> None:
        found = shape_of_config("x", {"model_type": "vision", "text_config": LLAMA})
        assert found.layers == 32

    @pytest.mark.parametrize(
        ("quantization", "expected"),
        [
            ({"quant_method": "fp8"}, Precision.EIGHT_BIT), ({"quant_method": "gptq", "bits": 8}, Precision.EIGHT_BIT),
            ({"quant_method": "mxfp4"}, Precision.FOUR_BIT), ({"load_in_4bit": True}, Precision.FOUR_BIT),
            ({"quant_method": "compressed-tensors", "format": "int4"}, Precision.FOUR_BIT),
            ({"quant_method": "new"}, Precision.EIGHT_BIT), ("odd", Precision.BF16),
        ],
    )  # fmt: skip
    def test_how_it_is_stored(self, quantization: object, expected: Precision) -> None:
        assert shape_of_config("x", LLAMA | {"quantization_config": quantization}).precision is expected

    @pytest.mark.parametrize("value", ["32", -1, True, 3.5])
    def test_a_number_that_is_none_is_named(self, value: object) -> None:
        with pytest.raises(ValueError, match="num_hidden_layers: found"):
            shape_of_config("x", LLAMA | {"num_hidden_layers": value})

    def test_what_it_does_not_say_is_not_known(self) -> None:
        found = shape_of_config("x", {})
        assert found == ModelShape(name="x")
        assert (found.weight_bytes(), found.kv_bytes_per_token(), found.eagle_head(is_third=True)) == (None, None, None)
