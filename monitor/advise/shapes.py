"""What a model weighs and what each token of its context takes, from its configuration. It reads no files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Precision(StrEnum):
    """How a model's weights are stored."""

    BF16 = "bf16"
    #: 8 bit: fp8 or int8.
    EIGHT_BIT = "8bit"
    #: 4 bit with its scales (AWQ, GPTQ, MXFP4).
    FOUR_BIT = "4bit"


#: Bytes of a weight; embeddings and output head stay at 16 bit. 4 bit: 0.53 to 0.58 with scales.
_BYTES = {Precision.BF16: 2.0, Precision.EIGHT_BIT: 1.0, Precision.FOUR_BIT: 0.53}
_FULL_BYTES = 2.0
#: Draft vocabulary of EAGLE-3 heads (32,000 in those published for Llama and Qwen).
_EAGLE3_VOCABULARY = 32_000

#: Words for a quantization in a configuration (`quantization_config.quant_method`), besides those that say their bits.
_QUANTIZED = {"fp8": Precision.EIGHT_BIT, "awq": Precision.FOUR_BIT, "gptq": Precision.FOUR_BIT,
              "mxfp4": Precision.FOUR_BIT, "nvfp4": Precision.FOUR_BIT}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A model as memory sees it. None is not known.

    `family` is the catalog's word for models that share a tokenizer. `parameters` is a count. `latent` is the width of
    a compressed KV cache (MLA), which has no heads. `own_heads` is the number of prediction heads that the model was
    trained with (MTP). `stored_bytes` is what its files weigh.
    """

    name: str
    vocabulary: int | None = None
    family: str = ""
    parameters: float | None = None
    layers: int | None = None
    hidden: int | None = None
    intermediate: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    latent: int | None = None
    tied: bool = False
    own_heads: int = 0
    precision: Precision = Precision.BF16
    stored_bytes: float | None = None

    def weight_bytes(self, precision: Precision | None = None) -> float | None:
        """What its weights take (bytes) as stored, or at `precision`; None where its size is not known."""
        wanted = precision or self.precision
        if self.stored_bytes is not None and wanted is self.precision:
            return self.stored_bytes
        if self.parameters is None:
            return None
        full = 0.0
        if wanted is not Precision.BF16 and self.vocabulary is not None and self.hidden is not None:
            full = min(self.parameters, self.vocabulary * self.hidden * (1.0 if self.tied else 2.0))
        return (self.parameters - full) * _BYTES[wanted] + full * _FULL_BYTES

    def kv_bytes_per_token(self, *, bytes_each: float = 2.0, tensor_parallel: int = 1) -> float | None:
        """What one token of context takes on each GPU (bytes); KV heads fewer than GPUs are replicated."""
        if self.layers is None:
            return None
        if self.latent is not None:
            return self.layers * self.latent * bytes_each
        if self.kv_heads is None or self.head_dim is None:
            return None
        return 2.0 * self.layers * math.ceil(self.kv_heads / tensor_parallel) * self.head_dim * bytes_each

    def eagle_head(self, *, is_third: bool) -> ModelShape | None:
        """An EAGLE head for this model: one of its layers, what fuses its inputs, and (EAGLE-3) a small vocabulary.

        Gives 0.25 billion for an 8B and 0.99 for a 70B Llama, as published. None where the shape is not known.
        """
        hidden, wide, heads, own, dim = self.hidden, self.intermediate, self.heads, self.kv_heads, self.head_dim
        if hidden is None or wide is None or heads is None or own is None or dim is None:
            return None
        attention = 2.0 * hidden * heads * dim + 2.0 * hidden * own * dim
        fused = (3.0 if is_third else 2.0) * hidden * hidden
        words = float(_EAGLE3_VOCABULARY * hidden) if is_third else 0.0
        parameters = attention + 3.0 * hidden * wide + fused + words
        return ModelShape(name=f"EAGLE head of {self.name}", vocabulary=self.vocabulary, family=self.family,
                          parameters=parameters, layers=1, hidden=hidden, intermediate=wide, heads=heads,
                          kv_heads=own, head_dim=dim, tied=True)  # fmt: skip


def shape_of_config(name: str, config: Mapping[str, object], stored_bytes: float | None = None) -> ModelShape:
    """The shape in a model's `config.json`; what it does not say, or says in another form, is None.

    Raises ValueError, naming the key, where a number is none.
    """
    nested = config.get("text_config")
    own: Mapping[str, object] = {**config, **nested} if isinstance(nested, Mapping) else config
    heads, hidden = _count(own, "num_attention_heads"), _count(own, "hidden_size")
    head_dim = _count(own, "head_dim") or (hidden // heads if hidden and heads else None)
    rank, rope = _count(own, "kv_lora_rank"), _count(own, "qk_rope_head_dim")
    shape = ModelShape(
        name=name,
        vocabulary=_count(own, "vocab_size"),
        layers=_count(own, "num_hidden_layers"),
        hidden=hidden,
        intermediate=_count(own, "intermediate_size"),
        heads=heads,
        kv_heads=_count(own, "num_key_value_heads") or heads,
        head_dim=head_dim,
        latent=rank + rope if rank and rope else None,
        tied=own.get("tie_word_embeddings") is True,
        own_heads=_count(own, "num_nextn_predict_layers") or _count(own, "n_predict") or 0,
        precision=_precision(config),
        stored_bytes=stored_bytes,
    )
    parameters = _parameters(shape, own)
    if parameters is None and stored_bytes is not None and shape.precision is Precision.BF16:
        parameters = stored_bytes / _FULL_BYTES
    return replace(shape, parameters=parameters)


def _parameters(shape: ModelShape, config: Mapping[str, object]) -> float | None:
    """Counted for dense models with gated feed-forward layers; experts are stored in too many ways."""
    if any(_count(config, key) for key in ("num_local_experts", "n_routed_experts", "num_experts")):
        return None
    hidden, wide, layers, vocabulary = shape.hidden, shape.intermediate, shape.layers, shape.vocabulary
    heads, own, dim = shape.heads, shape.kv_heads, shape.head_dim
    if None in (hidden, wide, layers, vocabulary, heads, own, dim) or shape.latent is not None:
        return None
    assert hidden and wide and layers and vocabulary and heads and own and dim
    layer = 2.0 * hidden * heads * dim + 2.0 * hidden * own * dim + 3.0 * hidden * wide
    return layers * layer + vocabulary * hidden * (1.0 if shape.tied else 2.0)


def _precision(config: Mapping[str, object]) -> Precision:
    quantized = config.get("quantization_config")
    if not isinstance(quantized, Mapping):
        return Precision.BF16
    bits = quantized.get("bits") or quantized.get("num_bits")
    if isinstance(bits, int) and not isinstance(bits, bool):
        return Precision.FOUR_BIT if bits <= 4 else Precision.EIGHT_BIT
    method = str(quantized.get("quant_method", "")).lower()
    if quantized.get("load_in_4bit") is True or "int4" in str(quantized).lower():
        return Precision.FOUR_BIT
    return _QUANTIZED.get(method, Precision.EIGHT_BIT)


def _count(config: Mapping[str, object], key: str) -> int | None:
    value = config.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"config.json: {key}: found {value!r}, expected a whole number")
    return value
