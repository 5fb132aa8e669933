"""Servers and the groups they are tuned in: what acceptd is told, not what it measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from monitor.model.maintenance import Window

ServerName = NewType("ServerName", str)
GroupName = NewType("GroupName", str)


class Engine(StrEnum):
    """The serving engines that acceptd knows."""

    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMACPP = "llamacpp"
    UNKNOWN = "unknown"


class Mode(StrEnum):
    """How far acceptd may go with a group, from looking on to acting alone."""

    OBSERVE = "observe"
    RECOMMEND = "recommend"
    APPROVE = "approve"
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One metrics URL and the server behind it.

    `base_url` is where `/health`, `/version` and `/v1/...` live. `managed` servers have a driver that may restart them.
    `simulated` ones are marked wherever people read of them.
    """

    name: ServerName
    group: GroupName
    base_url: str
    metrics_url: str
    engine: Engine = Engine.VLLM
    managed: bool = False
    simulated: bool = False
    gpu: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name or any(c in self.name for c in "/\\ \n"):
            raise ValueError(f"server name {self.name!r} is empty or has a slash, a space or a line break")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLimits:
    """What a group allows acceptd to do and how long each step may take (seconds)."""

    min_speculative_tokens: int = 1
    max_speculative_tokens: int = 8
    allow_off: bool = False
    allow_downtime: bool = False
    changes_per_day: int = 1
    cooldown_seconds: float = 1800.0
    drain_seconds: float = 120.0
    stop_seconds: float = 60.0
    start_seconds: float = 900.0
    warmup_seconds: float = 180.0
    observe_seconds: float = 900.0
    #: Restarts of one server within a day, whatever their reason, after which acceptd gives up and pages.
    restarts_per_day: int = 6
    #: Whether a server that is proved stuck may be restarted (once an incident).
    restart_stuck: bool = False
    #: Whether a managed server that went away outside any change is started again (within `restarts_per_day`).
    keep_running: bool = False
    #: Added to `start_seconds` when a setting starts for the first time on a server (compile caches).
    first_start_seconds: float = 600.0
    #: Whether a drain past its limit goes on, cutting what still runs; the default abandons the change instead.
    cut_after_drain: bool = False
    #: When changes may begin; at any time where there is none.
    maintenance: tuple[Window, ...] = ()
    #: Numbers of speculative tokens that are never set, whatever they promise (0: off).
    never: tuple[int, ...] = ()
    #: How long a server that someone changed by hand is left to them.
    drift_hold_seconds: float = 86_400.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_speculative_tokens <= self.max_speculative_tokens:
            raise ValueError(
                f"limits {self.min_speculative_tokens}..{self.max_speculative_tokens}: expected 1 <= min <= max"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Servers of one model that are tuned together: declared by the operator, never guessed."""

    name: GroupName
    servers: tuple[ServerName, ...]
    mode: Mode = Mode.RECOMMEND
    limits: ActionLimits = ActionLimits()
