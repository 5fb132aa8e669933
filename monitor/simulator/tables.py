"""What a simulated engine does at each setting: published acceptance and step times, by batch and draft length.

It owns reading and interpolating the tables, not the drafts drawn from them. A table is one workload at one batch size;
a family is the same workload at several (`NAME-b1.json`, `NAME-b16.json`, …).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from monitor.errors import ConfigError, Problem

_BATCH_SUFFIX = re.compile(r"-b(\d+)$")


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: survival by position (0 to 1, non-increasing, one for each drafted token), step time (seconds)."""

    survival: tuple[float, ...]
    step_seconds: float

    @property
    def acceptance_length(self) -> float:
        """Mean tokens per step, bonus token included (tokens, 1 to length of `survival` + 1)."""
        return 1.0 + sum(self.survival)


@dataclass(frozen=True, slots=True)
class Table:
    """One workload at one batch size; `rows` maps `num_speculative_tokens` (0 = off) to what a server shows there."""

    name: str
    method: str
    batch: int
    source: str
    rows: Mapping[int, Row]

    def row(self, num_speculative_tokens: int) -> Row:
        """The row at this setting, measured or derived.

        Between two rows step time and survival are interpolated. Above the longest row its figures hold and further
        positions are never accepted (nobody measured them). Below the shortest drafting row survival is its prefix and
        step time follows the line through the two shortest rows; so does speculation off where the table lacks it.
        """
        k, settings = num_speculative_tokens, sorted(self.rows)
        if k in self.rows:
            return self.rows[k]
        if k > settings[-1]:
            last = self.rows[settings[-1]]
            return Row(last.survival + (0.0,) * (k - len(last.survival)), last.step_seconds)
        drafting = [setting for setting in settings if setting > 0]
        if k < drafting[0]:
            return Row(self.rows[drafting[0]].survival[:k], self._step_below(k, settings))
        above = bisect_left(settings, k)
        low, high = settings[above - 1], settings[above]
        share = (k - low) / (high - low)
        shorter, longer = self.rows[low].survival, self.rows[high].survival
        # A position that the shorter row lacks takes the longer row's figure, not a mix with "never".
        survival = tuple(a + (b - a) * share for a, b in zip(shorter, longer, strict=False)) + longer[low:k]
        step = self.rows[low].step_seconds + (self.rows[high].step_seconds - self.rows[low].step_seconds) * share
        return Row(tuple(sorted(survival, reverse=True)), step)

    def _step_below(self, k: int, settings: list[int]) -> float:
        first = self.rows[settings[0]].step_seconds
        if len(settings) == 1:
            return first
        slope = (self.rows[settings[1]].step_seconds - first) / (settings[1] - settings[0])
        return max(first + slope * (k - settings[0]), 0.1 * first)


@dataclass(frozen=True, slots=True)
class Family:
    """Tables of one workload in order of batch; figures between two batches are interpolated, outside them clamped."""

    name: str
    tables: tuple[Table, ...]

    @property
    def source(self) -> str:
        """Where the numbers come from, for people."""
        return self.tables[0].source

    @property
    def method(self) -> str:
        """Speculation method the numbers were taken with, vLLM's word for it."""
        return self.tables[0].method

    def row(self, num_speculative_tokens: int, batch: float) -> Row:
        """What one step shows at this setting with so many requests in it (at least 1)."""
        batches = [table.batch for table in self.tables]
        above = bisect_left(batches, batch)
        if above == 0 or above == len(batches):
            return self.tables[min(above, len(batches) - 1)].row(num_speculative_tokens)
        low, high = self.tables[above - 1], self.tables[above]
        share = (batch - low.batch) / (high.batch - low.batch)
        a, b = low.row(num_speculative_tokens), high.row(num_speculative_tokens)
        survival = tuple(x + (y - x) * share for x, y in zip(a.survival, b.survival, strict=True))
        return Row(survival, a.step_seconds + (b.step_seconds - a.step_seconds) * share)


def geometric_survival(acceptance_length: float, num_speculative_tokens: int) -> tuple[float, ...]:
    """Survival a, a², … whose sum with the bonus token is this length; for tables that publish only the length."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(middle**i for i in range(num_speculative_tokens + 1)) < acceptance_length:
            low = middle
        else:
            high = middle
    return tuple(low**i for i in range(1, num_speculative_tokens + 1))


def load_table(path: Path) -> Table:
    """Read one table file.

    Raises:
        ConfigError: the file is missing, not JSON, or not a table; names the file, the place and what was expected.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(path, "", str(error.strerror), "a readable table file") from error
    except ValueError as error:
        raise _wrong(path, "", str(error), "JSON") from error
    settings = raw.get("num_speculative_tokens") if isinstance(raw, dict) else None
    if not isinstance(settings, dict) or not settings:
        raise _wrong(path, "num_speculative_tokens", "", "an object from setting to its row")
    rows = {_setting(path, key): _row(path, key, value) for key, value in settings.items()}
    if not any(rows):
        raise _wrong(path, "num_speculative_tokens", ", ".join(settings), "at least one row above 0")
    batch = raw.get("batch", 1)
    if not isinstance(batch, int) or batch < 1:
        raise _wrong(path, "batch", repr(batch), "a whole number of at least 1")
    return Table(str(raw.get("name", path.stem)), str(raw.get("method", "")), batch, str(raw.get("source", "")), rows)


def find_family(name: str) -> Family:
    """The family of this name among the shipped tables, or of this path: a file, or a path without `-bN.json`.

    Raises:
        ConfigError: no such table; lists the shipped ones.
    """
    return _find_family(name)


@lru_cache(maxsize=64)
def _find_family(name: str) -> Family:
    shipped = Path(str(resources.files("monitor.simulator"))) / "tables"
    for base in (Path(name), shipped / name):
        if base.suffix == ".json" and base.is_file():
            return Family(base.stem, (load_table(base),))
        files = [file for file in base.parent.glob(f"{base.name}-b*.json") if _BATCH_SUFFIX.search(file.stem)]
        if files:
            tables = sorted((load_table(file) for file in files), key=lambda table: table.batch)
            return Family(base.name, tuple(tables))
        single = base.with_name(base.name + ".json")
        if single.is_file():
            return Family(base.name, (load_table(single),))
    known = ", ".join(shipped_families())
    raise ConfigError([Problem("--sim-table", repr(name), f"a table file or one of: {known}")])


def shipped_families() -> tuple[str, ...]:
    """Names of the families that come with acceptd, in alphabetical order."""
    folder = resources.files("monitor.simulator") / "tables"
    stems = (entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    return tuple(sorted({_BATCH_SUFFIX.sub("", stem) for stem in stems}))


def _setting(path: Path, key: str) -> int:
    if not key.isdecimal():
        raise _wrong(path, "num_speculative_tokens", repr(key), "a whole number")
    return int(key)


def _row(path: Path, key: str, raw: object) -> Row:
    where, k = f"num_speculative_tokens.{key}", int(key)
    if not isinstance(raw, dict) or not isinstance(raw.get("step_seconds"), int | float) or raw["step_seconds"] <= 0:
        raise _wrong(path, where, "", "an object with step_seconds above 0")
    rates, length = raw.get("acceptance_rate_per_position"), raw.get("acceptance_length")
    if k == 0:
        survival: tuple[float, ...] = ()
    elif rates is not None:
        if not isinstance(rates, list) or len(rates) != k or not all(isinstance(rate, int | float) for rate in rates):
            raise _wrong(path, f"{where}.acceptance_rate_per_position", repr(rates), f"{k} numbers")
        survival = tuple(float(rate) for rate in rates)
        if any(not 0 <= b <= a <= 1 for a, b in zip((1.0, *survival), survival, strict=False)):
            raise _wrong(path, f"{where}.acceptance_rate_per_position", repr(rates), "rates of 0 to 1 that never rise")
    elif isinstance(length, int | float) and 1 <= length <= k + 1:
        survival = geometric_survival(float(length), k)
    else:
        raise _wrong(path, where, repr(length), f"acceptance_rate_per_position, or acceptance_length from 1 to {k + 1}")
    return Row(survival, float(raw["step_seconds"]))


def _wrong(path: Path, where: str, found: str, expected: str) -> ConfigError:
    return ConfigError([Problem(where or "file", found, expected, file=str(path))])
