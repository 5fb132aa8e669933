"""The batch-size schedule of vLLM 0.24.0 and newer: which count of tokens at which batch size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from monitor.errors import LaunchError

#: (first batch size, last batch size, tokens), both sizes included, ordered by the first.
Schedule: TypeAlias = tuple[tuple[int, int, int], ...]
_KEY = "num_speculative_tokens_per_batch_size"


def read_schedule(value: object) -> Schedule:
    """Read the JSON form, a list of `[start, end, tokens]`; None is no schedule (an empty tuple).

    Raises `LaunchError` where vLLM refuses it (`v1/spec_decode/dynamic/utils.py`): an empty list, the first range not
    from 1, overlapping or reversed ranges, a negative count. Gaps and the tail carry the count before them.
    """
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise LaunchError(f"{_KEY}: found {value!r}, expected a list of [start, end, tokens]")
    ranges = tuple(sorted(_entry(entry) for entry in value))
    if ranges[0][0] != 1:
        raise LaunchError(f"{_KEY}: the first range starts at {ranges[0][0]}, expected 1")
    for before, after in pairwise(ranges):
        if after[0] <= before[1]:
            raise LaunchError(f"{_KEY}: ranges {list(before)} and {list(after)} overlap")
    return ranges


def _entry(entry: object) -> tuple[int, int, int]:
    if (
        isinstance(entry, Sequence)
        and len(entry) == 3
        and all(isinstance(number, int) and not isinstance(number, bool) for number in entry)
        and 1 <= entry[0] <= entry[1]
        and entry[2] >= 0
    ):
        return (entry[0], entry[1], entry[2])
    raise LaunchError(f"{_KEY}: found {entry!r}, expected [start, end, tokens] with 1 <= start <= end and tokens >= 0")


def tokens_at(schedule: Schedule, batch_size: int, num_speculative_tokens: int) -> int:
    """Tokens the engine drafts at `batch_size` (1 or more): gaps carry on, and the setting itself is the ceiling."""
    tokens = schedule[0][2]
    for start, _, count in schedule:
        if start > batch_size:
            break
        tokens = count
    return min(tokens, num_speculative_tokens)
