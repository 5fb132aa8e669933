"""Made-up tuning tables of the kinds that published sweeps show, so that the tuner meets some it was not built on.

    python -m tests.bench.synthetic_tables DIR [--seed N] [--count N]

Acceptance is simulated token by token (drafts begin where the last one ended, so that a shorter draft begins again
inside an easy stretch), step time is a line with a fixed overhead, optionally on a staircase of graph sizes. Nothing
here is shared with the tuner: neither its projection nor its cost model nor their numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

STEPS = 6000
HIGHEST = 12
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Accepts = Callable[[int, int], float]


class Text:
    """Difficulty of a long text, token by token: a two-state chain of easy and hard stretches."""

    def __init__(self, rng: random.Random, easy_length: float, hard_length: float, tokens: int) -> None:
        self.easy: list[bool] = []
        easy = True
        for _ in range(tokens):
            self.easy.append(easy)
            if rng.random() < 1 / (easy_length if easy else hard_length):
                easy = not easy


def survival_of(text: Text, accepts: Accepts, tokens: int, rng: random.Random) -> list[float]:
    """Survival by position of drafts of `tokens` over the text: each begins after the last emitted token."""
    hits = [0] * tokens
    at = drafts = 0
    while at + tokens + 1 < len(text.easy) and drafts < STEPS:
        drafts += 1
        for position in range(tokens):
            if rng.random() >= accepts(text.easy[at + position], position):
                at += position + 1
                break
            hits[position] += 1
        else:
            at += tokens + 1
    return [round(hit / drafts, 4) for hit in hits]


def head(rng: random.Random) -> tuple[str, Accepts, Text]:
    """An EAGLE-like head: good at easy text, worse at hard text, decaying with depth."""
    easy, hard, decay = rng.uniform(0.75, 0.95), rng.uniform(0.3, 0.65), rng.uniform(0.90, 1.0)
    text = Text(rng, rng.uniform(10, 60), rng.uniform(5, 40), 40_000)
    return "eagle3", lambda is_easy, position: (easy if is_easy else hard) * decay**position, text


def shallow(rng: random.Random) -> tuple[str, Accepts, Text]:
    """One reused MTP layer: a good first position and a collapse after it."""
    first, fall = rng.uniform(0.75, 0.92), rng.uniform(0.55, 0.85)
    text = Text(rng, 30, 15, 40_000)
    return "mtp", lambda is_easy, position: (first if is_easy else first - 0.15) * fall**position, text


def model(rng: random.Random) -> tuple[str, Accepts, Text]:
    """A small draft model: nearly independent acceptance, expensive passes."""
    rate = rng.uniform(0.5, 0.85)
    return "draft_model", lambda is_easy, position: rate if is_easy else rate - 0.1, Text(rng, 40, 20, 40_000)


def lookup(rng: random.Random) -> tuple[str, Accepts, Text]:
    """n-gram: long copied runs or nothing."""
    run, inside, outside = rng.uniform(4, 60), rng.uniform(0.85, 0.99), rng.uniform(0.02, 0.12)
    text = Text(rng, run, rng.uniform(8, 80), 40_000)
    return "ngram", lambda is_easy, position: inside if is_easy else outside, text


def block(rng: random.Random) -> tuple[str, Accepts, Text]:
    """A block drafter: all tokens in one pass, acceptance falling over the block."""
    first, fall = rng.uniform(0.7, 0.9), rng.uniform(0.88, 0.97)
    text = Text(rng, 30, 20, 40_000)
    return "dflash", lambda is_easy, position: (first if is_easy else first - 0.2) * fall**position, text


KINDS = (head, shallow, model, lookup, block)
#: Ranges of overhead, pass and verify cost relative to a step of a single token without speculation.
COSTS = {
    "eagle3": ((0.06, 0.25), (0.07, 0.18)),
    "mtp": ((0.05, 0.25), (0.04, 0.12)),
    "draft_model": ((0.05, 0.30), (0.10, 0.50)),
    "ngram": ((0.05, 0.30), (0.0, 0.01)),
    "dflash": ((0.05, 0.20), (0.10, 0.25)),
}


def step_times(method: str, batch: int, rng: random.Random) -> list[float]:
    """Step time at 0 .. HIGHEST (seconds)."""
    base = rng.uniform(0.003, 0.03)
    (low_h, high_h), (low_c, high_c) = COSTS[method]
    overhead, draft = rng.uniform(low_h, high_h), rng.uniform(low_c, high_c)
    verify, context = math.exp(rng.uniform(math.log(0.002), math.log(0.010))), rng.uniform(0.0, 0.004) * batch
    stairs = rng.choice((1, 1, 8))
    times = []
    for tokens in range(HIGHEST + 1):
        verified = math.ceil(batch * (tokens + 1) / stairs) * stairs if batch > 1 else tokens + 1
        passes = (1 if tokens else 0) if method == "dflash" else tokens
        times.append(base * (1 + (overhead if tokens else 0) + draft * passes + verify * verified + context))
    return times


def table(number: int, seed: int) -> dict[str, object]:
    """One table; the same number and seed give the same table."""
    rng = random.Random(f"{seed}-{number}")
    kind = KINDS[number % len(KINDS)]
    method, accepts, text = kind(rng)
    batch = rng.choice(BATCHES)
    times = step_times(method, batch, rng)
    rows: dict[str, dict[str, object]] = {"0": {"step_seconds": round(times[0], 7)}}
    only_length = rng.random() < 0.15
    for tokens in range(1, HIGHEST + 1):
        survival = survival_of(text, accepts, tokens, random.Random(f"{seed}-{number}-{tokens}"))
        row: dict[str, object] = {
            "acceptance_length": round(1 + sum(survival), 4), "step_seconds": round(times[tokens], 7)
        }
        if not only_length:
            row["acceptance_rate_per_position"] = survival
        rows[str(tokens)] = row
    return {
        "name": f"synthetic-{kind.__name__}-{number}-b{batch}", "method": method, "batch": batch, "model": "made up",
        "source": "tests/bench/synthetic_tables.py", "how": "simulated", "num_speculative_tokens": rows,
    }


def write(folder: Path, count: int, seed: int) -> None:
    """Write `count` tables into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        made = table(number, seed)
        (folder / f"{made['name']}.json").write_text(json.dumps(made, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    given = parser.parse_args(arguments)
    write(given.folder, given.count, given.seed)


if __name__ == "__main__":
    main()
