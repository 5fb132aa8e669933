"""Lives and heads: one process life of one engine under one setting, and its last cumulative counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from monitor.model.counts import Counts
from monitor.model.reading import Reading
from monitor.model.server import ServerName

LifeId = NewType("LifeId", str)

#: The method of diffusion language models, whose steps denoise: there is nothing to tune.
DIFFUSION = "diffusion"


class SettingSource(StrEnum):
    """How a part of a setting is known, most trusted first."""

    PAGE = "page"
    COMMAND_LINE = "command line"
    LAUNCH_FILE = "launch file"
    SERVER_INFO = "server_info"
    CONFIG = "config"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A speculation setting: what acceptd tunes. `num_speculative_tokens` 0 is off; None is unknown.

    `schedule` holds `num_speculative_tokens_per_batch_size` as (first, last, tokens) triples.
    """

    method: str | None = None
    num_speculative_tokens: int | None = None
    draft_model: str | None = None
    schedule: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.num_speculative_tokens is not None and self.num_speculative_tokens < 0:
            raise ValueError(f"num_speculative_tokens is {self.num_speculative_tokens}: expected 0 (off) or more")

    @property
    def is_off(self) -> bool:
        """Whether the server is known not to speculate."""
        return self.num_speculative_tokens == 0

    def describe(self) -> str:
        """The setting in words for people, e.g. `ngram, 3 tokens`."""
        if self.is_off:
            return "speculation off"
        if self.method == DIFFUSION:
            return "a diffusion model: nothing is drafted"
        tokens = self.num_speculative_tokens
        count = "unknown number of tokens" if tokens is None else f"{tokens} token{'s' if tokens != 1 else ''}"
        return f"{self.method or 'method unknown'}, {count}" + (" (schedule)" if self.schedule else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one source says of a server's setting; a part that it does not know is None (or empty).

    `adapts` tells in words by what the engine moves num_speculative_tokens itself, `note` what hinders the source.
    """

    source: SettingSource
    setting: Setting = Setting()
    adapts: str | None = None
    note: str | None = None


class StartEvidence(StrEnum):
    """Why a new life was begun."""

    FIRST_SEEN = "first seen"
    PROCESS_START = "process start time"
    CREATED = "counter creation time"
    COUNTERS_FELL = "counters fell"
    OUR_RESTART = "our own restart"
    SETTING_CHANGED = "setting changed"


#: An interval may end so much before its life was first seen, or after it ended: the times can come from the clocks of
#: two machines.
CLOCKS_APART = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One process life of one engine of a server under one setting.

    `counts_from_zero` is True where the life began while we watched (or is known to be born after our last page), so
    that its first interval counts from 0; a life first met later starts at its first head.
    """

    id: LifeId
    server: ServerName
    model: str
    engine: str
    first_seen: datetime
    evidence: StartEvidence
    counts_from_zero: bool
    engine_version: str | None = None
    setting: Setting = Setting()
    sources: Mapping[str, SettingSource] = field(default_factory=dict)
    #: By what the engine moves num_speculative_tokens itself, in words; None where it is not known to.
    adapts: str | None = None
    #: Where sources of the setting disagree, or one could not be read: a sentence each.
    setting_notes: tuple[str, ...] = ()
    #: Unix seconds: `process_start_time_seconds` / `_created` of this life, None where the page has none.
    process_start: float | None = None
    created: float | None = None
    #: What the server prints of its start that can only be compared for change; None where it prints nothing.
    start_mark: str | None = None
    ended: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A life's last cumulative counts, written in the same transaction as the interval they close."""

    life: LifeId
    at: datetime
    monotonic: float
    #: Boot id of the machine whose monotonic clock `monotonic` is; another one makes it incomparable.
    boot_id: str
    counts: Counts


@dataclass(frozen=True, slots=True)
class LastReading:
    """The newest reading of a server and when the server last answered at all.

    As stored its engines have no counts: those are in the heads.
    """

    reading: Reading
    last_ok: datetime | None
