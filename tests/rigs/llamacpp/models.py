"""Makes the rig's models as GGUF files; runs inside the rig's own environment.

    PYTHON_OF_THE_RIG models.py FOLDER

- `target`: a 4-layer, 128-wide Llama with random weights and tied embeddings.
- `draft`: the target with 0.3 sigma of noise on every matrix: accepted about two times in three.
- `draft-bad`: other random weights, same tokenizer: right only where both repeat themselves, about one time in four.
"""

from __future__ import annotations

import sys
import sysconfig
from collections import Counter
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np

HIDDEN_SIZE = 128
NUM_LAYERS = 4
NUM_HEADS = 4
FEED_FORWARD_SIZE = 4 * HIDDEN_SIZE
CONTEXT_LENGTH = 2048
RMS_EPSILON = 1e-5
#: Standard deviation of the random weights (that of Llama's initialisation).
SPREAD = 0.02
#: Share of it that is added as noise to make the target a draft.
DRAFT_NOISE = 0.3
#: Pairs of characters that are a token of their own, beside the 256 bytes.
NUM_MERGES = 254
#: Files whose pairs are counted.
TRAINING_FILES = 100
SPECIAL_TOKENS = ("<s>", "</s>")
TARGET_SEED, NOISE_SEED, BAD_SEED = 1, 2, 3


def main(folder: Path) -> None:
    """Write the models; llama-server loads each by itself."""
    tokens, merges = vocabulary()
    shapes = tensor_shapes(len(tokens))
    target = random_weights(shapes, TARGET_SEED)
    noise = random_weights(shapes, NOISE_SEED)
    draft = {
        name: value if value.ndim == 1 else value + np.float32(DRAFT_NOISE) * noise[name]
        for name, value in target.items()
    }
    for name, weights in {"target": target, "draft": draft, "draft-bad": random_weights(shapes, BAD_SEED)}.items():
        write_model(folder / f"{name}.gguf", weights, tokens, merges)
        print(f"{name}: {sum(value.size for value in weights.values()) / 1e6:.1f} M weights", flush=True)


def vocabulary() -> tuple[list[str], list[str]]:
    """Tokens and merges of a byte-level BPE: every byte, and the standard library's most frequent pairs."""
    letters = byte_letters()
    folder = Path(sysconfig.get_path("stdlib"))
    pairs: Counter[str] = Counter()
    for path in sorted(folder.glob("*.py"))[:TRAINING_FILES]:
        for word in path.read_text(encoding="utf-8", errors="ignore").split():
            spelled = "".join(letters[byte] for byte in word.encode())
            pairs.update(first + second for first, second in pairwise(spelled))
    # Ties by name, or the order would be that of the files.
    frequent = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:NUM_MERGES]
    return [*SPECIAL_TOKENS, *letters, *frequent], [f"{pair[0]} {pair[1]}" for pair in frequent]


def byte_letters() -> list[str]:
    """The printable letter that stands for each byte in a byte-level BPE (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(moved)) for byte in range(256)]


def tensor_shapes(num_tokens: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of each tensor, in llama.cpp's names; without `output.weight` the embeddings are tied."""
    square, up, down = (HIDDEN_SIZE, HIDDEN_SIZE), (FEED_FORWARD_SIZE, HIDDEN_SIZE), (HIDDEN_SIZE, FEED_FORWARD_SIZE)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (num_tokens, HIDDEN_SIZE),
        "output_norm.weight": (HIDDEN_SIZE,),
    }
    for layer in range(NUM_LAYERS):
        block = {
            "attn_norm": (HIDDEN_SIZE,), "attn_q": square, "attn_k": square, "attn_v": square, "attn_output": square,
            "ffn_norm": (HIDDEN_SIZE,), "ffn_gate": up, "ffn_up": up, "ffn_down": down,
        }
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
    return shapes


def random_weights(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Normal matrices and norms of ones, the same for the same seed."""
    generator = np.random.default_rng(seed)
    return {
        name: np.ones(shape, np.float32) if len(shape) == 1
        else (SPREAD * generator.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_model(path: Path, weights: dict[str, np.ndarray], tokens: list[str], merges: list[str]) -> None:
    """Write one GGUF file with everything llama-server asks for."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(path.stem)
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(HIDDEN_SIZE)
    writer.add_block_count(NUM_LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD_SIZE)
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(NUM_HEADS)
    writer.add_layer_norm_rms_eps(RMS_EPSILON)
    writer.add_rope_dimension_count(HIDDEN_SIZE // NUM_HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if token in SPECIAL_TOKENS else normal for token in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index("<s>"))
    writer.add_eos_token_id(tokens.index("</s>"))
    for name, value in weights.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
