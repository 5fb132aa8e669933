"""Settings of one server: where it is, what is known of it, how it is restarted and taken out of its balancer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from monitor.config.credentials import Auth, Tls
from monitor.config.scalars import HttpUrl, Name, PageUrl, Size, UnitName
from monitor.config.section import Section
from monitor.model.server import Engine


class KnownSpeculation(Section):
    """What the operator says of a server's speculation where neither page nor command line shows it."""

    method: str | None = Field(None, description="Method, e.g. `ngram`, `draft_model`, `eagle3`.")
    num_speculative_tokens: int | None = Field(None, ge=0, description="Draft tokens a step; 0 is off.")
    draft_model: str | None = Field(None, description="Draft model or head.")


class DriverKind(StrEnum):
    """How a managed server is restarted."""

    SYSTEMD = "systemd"
    COMMAND = "command"
    PROCESS = "process"
    DRY_RUN = "dry_run"


#: Settings of a driver that only some kinds take; `*` marks those that a kind needs.
_DRIVER_KEYS = {
    DriverKind.SYSTEMD: ("unit*",),
    DriverKind.COMMAND: ("command*", "start*", "stop*", "status*", "kill", "log", "env", "cwd"),
    DriverKind.PROCESS: ("command*", "env", "cwd", "log_size_limit"),
    DriverKind.DRY_RUN: ("command", "unit", "env", "cwd", "log_size_limit"),
}
_DRIVER_COMMON = frozenset({"kind", "engine_version", "config_check", "start_now"})


class Driver(Section):
    """How acceptd starts and stops a server it manages."""

    kind: DriverKind = Field(
        description="`systemd`: a unit of its own; `command`: your commands; `process`: acceptd's own child; "
        "`dry_run`: says what it would do."
    )
    unit: UnitName | None = Field(
        None, description="`systemd`: the server's unit, which `acceptd adopt UNIT` has made ready."
    )
    command: tuple[str, ...] = Field(
        (), description="The server's whole command line, one item an argument, without a shell; a unit has its own."
    )
    start: tuple[str, ...] = Field(
        (), description="`command`: starts the server and ends; the item `{command}` stands for the command line."
    )
    stop: tuple[str, ...] = Field((), description="`command`: asks the server to end.")
    status: tuple[str, ...] = Field(
        (), description="`command`: prints the name of the run and ends with 0; nothing if none is there."
    )
    kill: tuple[str, ...] = Field((), description="`command`: ends the server at once; `stop` if empty.")
    log: tuple[str, ...] = Field((), description="`command`: prints the end of the server's log.")
    env: dict[str, str] = Field(default_factory=dict, description="Environment variables added for the server.")
    cwd: Path | None = Field(None, description="Working directory of the server.")
    engine_version: str | None = Field(None, description="Version to render flags for; asked from the server if unset.")
    config_check: bool = Field(
        True, description="Ask the server's own vLLM, where it can be imported, whether it takes a new command line."
    )
    start_now: bool | None = Field(
        None, description="Start the server when acceptd starts and finds it gone; if unset only with `process`."
    )
    log_size_limit: Size = Field(64 * 1024**2, description="Size at which the server's log is rotated.")

    @property
    def starts_now(self) -> bool:
        """`start_now`, or what suits the kind: systemd and the operator start what is theirs."""
        return self.kind is DriverKind.PROCESS if self.start_now is None else self.start_now

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        known = {key.rstrip("*"): key.endswith("*") for key in _DRIVER_KEYS[self.kind]}
        missing = [key for key, needed in known.items() if needed and not getattr(self, key)]
        if missing:
            raise ValueError(f"with kind {self.kind}: {', '.join(missing)} too")
        strange = sorted(self.model_fields_set - known.keys() - _DRIVER_COMMON)
        if strange:
            raise ValueError(f"with kind {self.kind}: no {', '.join(strange)} (it has {', '.join(known)})")
        if self.kind is DriverKind.DRY_RUN and bool(self.command) == bool(self.unit):
            raise ValueError("with kind dry_run: either command or unit")
        if self.kind is DriverKind.COMMAND and self.start.count("{command}") != 1:
            raise ValueError("`{command}` as one item of start, where the server's command line goes")
        return self


class DrainHooks(Section):
    """How a server is taken out of its balancer and back in: the balancer asks acceptd, or acceptd runs commands."""

    polled: bool = Field(False, description="The balancer polls `/-/serving/NAME` of acceptd (200 or 503).")
    polls: int = Field(3, ge=1, description="Answers of 503 after which it sends nothing (HAProxy: `fall`).")
    out: tuple[str, ...] = Field((), description="Command that takes the server out; an argument list, exit code 0.")
    back: tuple[str, ...] = Field((), description="Command that puts the server back; an argument list, exit code 0.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.polled == bool(self.out or self.back) or bool(self.out) != bool(self.back):
            raise ValueError("either `polled: true` or both commands, `out` and `back`")
        return self


class ServerConfig(Section):
    """One server to watch."""

    name: Name = Field(description="Unique name of the server.")
    url: HttpUrl = Field(description="Base URL, where /health and /v1 live.")
    metrics_url: PageUrl | None = Field(None, description="Full metrics URL; `url` + /metrics if unset.")
    group: Name | None = Field(None, description="Group it is tuned in; a group of its own if unset.")
    engine: Engine = Field(Engine.VLLM, description="Engine; the page has the last word.")
    gpu: str | None = Field(
        None,
        description="GPU type, with the number of cards where that differs (`2 x H100`): servers of one group must "
        "have the same; groups that also serve the same model share what a step costs.",
    )
    labels: dict[str, str] = Field(default_factory=dict, description="Labels added to its alerts.")
    auth: Auth | None = Field(None, description="Credentials.")
    tls: Tls | None = Field(None, description="Certificate settings.")
    speculation: KnownSpeculation | None = Field(None, description="What is known of its speculation.")
    driver: Driver | None = Field(None, description="How to restart it; a server without one is only watched.")
    drain: DrainHooks | None = Field(None, description="Commands for the balancer.")
    through: Name | None = Field(None, description="Source of kind `prometheus` that has its pages.")
    instance: str | None = Field(
        None, min_length=1,
        description="Value of that source's `instance_label`; host and port of `url` where it is not set.",
    )
