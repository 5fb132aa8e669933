"""Makes the rig's models; runs inside the rig's own environment.

    PYTHON_OF_THE_RIG models.py FOLDER

- `target`: a 4-layer, 256-wide Llama with random weights and tied embeddings. Its greedy output soon loops, so n-gram
  lookup fits it.
- `draft-good`: the target with 0.1 sigma of noise on every matrix. As a draft it is accepted about 55–75 %, and costs
  as much as the target, so speculation with it is slower than none.
- `draft-close`, `draft-fair`: the same with 0.05 and 0.2 sigma, accepted more and less often.
- `draft-bad`: other random weights, same tokenizer. As a draft it is never right but by chance.

The seeds are fixed; the tokenizer is trained on the standard library, so only another Python changes it.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCAB_SIZE = 2048
HIDDEN_SIZE = 256
NUM_LAYERS = 4
NUM_HEADS = 4
#: As much as one request may hold, prompt and output; the rig serves half of it.
MAX_POSITIONS = 2048
#: Share of a matrix's standard deviation that is added as noise to make a copy a draft.
DRAFT_NOISE = {"draft-close": 0.05, "draft-good": 0.1, "draft-fair": 0.2}
#: Files the tokenizer is trained on: a few hundred give all the merges 2,048 entries have room for.
TRAINING_FILES = 300
TARGET_SEED, NOISE_SEED, BAD_SEED = 1, 2, 3


def main(folder: Path) -> None:
    """Write the models, each a folder that vLLM loads offline."""
    tokenizer = train_tokenizer()
    config = llama_config(tokenizer)

    def random_model(seed: int) -> LlamaForCausalLM:
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).to(torch.bfloat16)

    target = random_model(TARGET_SEED)
    made = {"target": target, "draft-bad": random_model(BAD_SEED)}
    for name, noise in DRAFT_NOISE.items():
        # The same noise in each, only more of it, so that a closer draft is better wherever it is better.
        made[name] = random_model(NOISE_SEED)
        with torch.no_grad():
            for own, other in zip(made[name].parameters(), target.parameters(), strict=True):
                exact = other.float()
                spread = exact.std() if exact.dim() > 1 else 0.0
                own.copy_((exact + noise * spread * torch.randn_like(exact)).to(own.dtype))

    for name, model in made.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        print(f"{name}: {sum(one.numel() for one in model.parameters()) / 1e6:.1f} M weights", flush=True)


def train_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE of the standard library's sources, in a fixed order."""
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")) + sorted(
        Path(sysconfig.get_path("stdlib")).glob("[a-z]*/*.py")
    )
    sources = [path for path in sources if "site-packages" not in path.parts][:TRAINING_FILES]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train(
        [str(path) for path in sources],
        trainers.BpeTrainer(
            vocab_size=VOCAB_SIZE,
            special_tokens=["<s>", "</s>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", model_max_length=MAX_POSITIONS
    )


def llama_config(tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    """The architecture all share; equal vocabularies are what a draft must have."""
    return LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=HIDDEN_SIZE,
        intermediate_size=4 * HIDDEN_SIZE,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=NUM_HEADS,
        num_key_value_heads=NUM_HEADS,
        max_position_embeddings=MAX_POSITIONS,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        # Tied, a random model repeats itself; untied, it wanders.
        tie_word_embeddings=True,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
