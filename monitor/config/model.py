"""The whole configuration: names, types, defaults and what each setting is for. Loading lives in `load.py`.

What belongs to one server, to finding servers and to telling people has modules of its own.
"""

from __future__ import annotations

from datetime import time
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from monitor.config.scalars import (
    ClockTime,
    DatabaseUrl,
    Duration,
    ListenAddress,
    Name,
    PositiveDuration,
    Size,
    TimeZone,
    TokenCount,
)
from monitor.config.section import Section, one_of
from monitor.config.servers import ServerConfig
from monitor.config.sources import Source
from monitor.config.telling import Alertmanager, Notify, Slack, Webhook
from monitor.model.maintenance import LONGEST_SECONDS, Window
from monitor.model.server import Mode


class MaintenanceWindow(Section):
    """When changes of a group may begin."""

    opens: str = Field(description="When it opens: minute, hour, day of month, month, day of week, as in crontab(5).")
    lasts: PositiveDuration = Field(description="How long it stays open: one minute to seven days of real time.")
    timezone: TimeZone = Field("UTC", description="Zone of `opens`; nights in which clocks are set are accounted for.")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not 60.0 <= self.lasts <= LONGEST_SECONDS:
            raise ValueError("lasts: one minute to seven days")
        Window(self.opens, self.lasts, self.timezone)
        return self


class Limits(Section):
    """What a group allows acceptd to do, and how long each step of a change may take."""

    min_speculative_tokens: int = Field(1, ge=1, description="Smallest num_speculative_tokens to set.")
    max_speculative_tokens: int = Field(8, ge=1, description="Largest num_speculative_tokens to set.")
    allow_off: bool = Field(False, description="Whether speculation may be switched off.")
    allow_downtime: bool = Field(False, description="Whether the only server of a group may be restarted.")
    changes_per_day: int = Field(1, ge=0, description="Rollouts that may start in 24 h.")
    cooldown: Duration = Field(1800.0, description="Rest after a rollout before the next.")
    drain_limit: Duration = Field(120.0, description="Longest wait for running requests to end.")
    stop_limit: PositiveDuration = Field(60.0, description="Longest wait after SIGTERM before SIGKILL.")
    start_limit: PositiveDuration = Field(900.0, description="Longest wait for a started server to serve.")
    first_start_extra: Duration = Field(600.0, description="Added the first time a setting starts (compile caches).")
    cut_after_drain: bool = Field(
        False, description="Whether requests still running after drain_limit are cut; else the change is abandoned."
    )
    keep_running: bool = Field(False, description="Whether a managed server that went away is started again.")
    warmup: Duration = Field(180.0, description="Time after ready that is not judged.")
    observe: PositiveDuration = Field(2700.0, description="Longest time a change is measured before the verdict.")
    restarts_per_day: int = Field(6, ge=1, description="Starts of one server in 24 h before acceptd gives up on it.")
    restart_stuck: bool = Field(False, description="Whether a server proved stuck is restarted, once an incident.")
    maintenance: tuple[MaintenanceWindow, ...] = Field((), description="When changes may begin; at any time if empty.")
    never: tuple[TokenCount, ...] = Field(
        (), description="Numbers of speculative tokens that are never set; 0 is off."
    )
    hold_after_drift: Duration = Field(
        86_400.0, description="How long a server that someone changed by hand is not tuned; 0s: not at all."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_speculative_tokens > self.max_speculative_tokens:
            raise ValueError(
                f"min_speculative_tokens ({self.min_speculative_tokens}) not above "
                f"max_speculative_tokens ({self.max_speculative_tokens})"
            )
        return self


class GroupConfig(Section):
    """Servers of one model that are tuned together."""

    name: Name = Field(description="Unique name of the group.")
    mode: Mode | None = Field(None, description="How far acceptd may go here; the global mode if unset.")
    rules: Name | None = Field(None, description="Tuning rule set of this group; the global one if unset.")
    limits: Limits = Field(default_factory=lambda: Limits.model_validate({}), description="What is allowed here.")


class Rollouts(Section):
    """How many changes the fleet bears."""

    max_concurrent: int = Field(1, ge=1, description="Groups that may be changed at once, in the whole fleet.")


class Scrape(Section):
    """How pages are fetched."""

    interval: PositiveDuration = Field(15.0, description="Time between two pages of one server.")
    timeout: PositiveDuration = Field(10.0, description="Deadline of one whole scrape, body included.")
    size_limit: Size = Field(16 * 1024**2, description="Largest page that is read.")
    workers: int = Field(32, ge=1, le=512, description="Scrapes under way at once.")

    @model_validator(mode="after")
    def _deadline(self) -> Self:
        if self.timeout > self.interval:
            raise ValueError(f"timeout ({self.timeout:g}s) not above interval ({self.interval:g}s)")
        return self


class Retention(Section):
    """How long history is kept."""

    intervals: PositiveDuration = Field(35 * 86400.0, description="Intervals as scraped.")
    five_minutes: PositiveDuration = Field(100 * 86400.0, description="Rollups over five minutes, and checks.")
    hours: PositiveDuration = Field(400 * 86400.0, description="Rollups over an hour.")
    days: PositiveDuration = Field(36_500 * 86400.0, description="Rollups over a day.")
    decisions: PositiveDuration = Field(400 * 86400.0, description="Decisions, rollouts, alerts and notices.")


class SharedRetention(Retention):
    """How long the history of a fleet is kept: shorter as scraped, since a thousand servers write a GB in hours."""

    intervals: PositiveDuration = Field(2 * 86400.0, description="Intervals as scraped, in whole days.")
    five_minutes: PositiveDuration = Field(35 * 86400.0, description="Rollups over five minutes, and checks.")


class SharedStore(Section):
    """One PostgreSQL database for all daemons of a fleet, beside the local file of each."""

    url: DatabaseUrl = Field(description="Address of the database, e.g. `postgresql://acceptd@db.example/acceptd`.")
    password: SecretStr | None = Field(None, description="Password of its user.")
    password_file: Path | None = Field(None, description="File whose first line is that password.")
    lease: PositiveDuration = Field(
        60.0, description="After so long without a sign of life a host is silent, and others take its found servers."
    )
    retention: SharedRetention = Field(
        default_factory=lambda: SharedRetention.model_validate({}), description="How long history is kept there."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        one_of(self, "password", "password_file")
        return self


class StoreConfig(Section):
    """Where history is kept."""

    shared: SharedStore | None = Field(None, description="Database of the fleet; without it each host is alone.")
    retention: Retention = Field(default_factory=lambda: Retention.model_validate({}), description="How long.")
    spool_size: Size = Field(
        64 * 1024**2, ge=64 * 1024,
        description="Disk space taken at the first start, for pages that wait while the store is locked or full.",
    )


class Rules(Section):
    """Which rules are evaluated, and how often."""

    tuning: Name = Field("guarded", description="Tuning rule set: `threshold`, `guarded`, `goodput` or your own.")
    alerts: bool = Field(True, description="Whether the shipped alert rules are evaluated.")
    files: tuple[Path, ...] = Field((), description="Rule files of your own, evaluated after the shipped ones.")
    interval: PositiveDuration = Field(60.0, description="Time between two evaluations.")
    baseline_window: PositiveDuration = Field(300.0, description="Length of the windows that baselines learn from.")
    parameters: dict[str, Duration] = Field(
        default_factory=dict,
        description="Overrides of `for`, `window` and `keep_firing_for` by rule, e.g. `raise-tokens.window: 10m`.",
    )


class SloConfig(Section):
    """Which objectives hold."""

    shipped: bool | None = Field(
        None, description="Whether the shipped objectives hold; where unset they do unless `files` are given."
    )
    files: tuple[Path, ...] = Field((), description="SLO files of your own, in acceptd's form or OpenSLO's.")


class Report(Section):
    """The weekly report."""

    day: Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"] = Field("mon", description="Day of the week.")
    at: ClockTime = Field(time(9, 0), description="Time of day.")
    timezone: TimeZone = Field("UTC", description="Zone of day and time.")
    target_acceptance: float = Field(0.6, gt=0, lt=1, description="Acceptance rate shown as the target; never paged.")


class Web(Section):
    """The daemon's own HTTP endpoints."""

    listen: ListenAddress = Field("127.0.0.1:9747", description="Address and port; beyond loopback a token is needed.")
    token: SecretStr | None = Field(None, description="Token asked for on every request.")
    token_file: Path | None = Field(None, description="File whose first line is that token.")
    actions: bool = Field(True, description="Whether people may act on the page, or only look.")

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        one_of(self, "token", "token_file")
        host = self.listen.rpartition(":")[0].strip("[]")
        loopback = host == "localhost" or host.startswith("127.") or host == "::1"
        if not loopback and not (self.token or self.token_file):
            raise ValueError(f"a token or token_file, since {self.listen} can be reached from outside this host")
        return self


class Log(Section):
    """The daemon's log."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")


class Config(Section):
    """The whole configuration."""

    data_dir: Path = Field(Path("/var/lib/acceptd"), description="Folder of database, server logs and reports.")
    host: Name | None = Field(None, description="Name of this host in records; the system's if unset.")
    mode: Mode = Field(Mode.RECOMMEND, description="How far acceptd may go, where a group says nothing else.")
    simulated: bool = Field(False, description="Marks everything as SIMULATED; set by `acceptd demo`.")
    servers: tuple[ServerConfig, ...] = Field((), description="Servers to watch.")
    sources: tuple[Source, ...] = Field((), description="Where more servers are found.")
    groups: tuple[GroupConfig, ...] = Field((), description="Groups with settings of their own.")
    rollouts: Rollouts = Field(default_factory=lambda: Rollouts.model_validate({}), description="Changes at once.")
    scrape: Scrape = Field(default_factory=lambda: Scrape.model_validate({}), description="How pages are fetched.")
    store: StoreConfig = Field(default_factory=lambda: StoreConfig.model_validate({}), description="History.")
    rules: Rules = Field(default_factory=lambda: Rules.model_validate({}), description="Rules.")
    slo: SloConfig = Field(default_factory=lambda: SloConfig.model_validate({}), description="Objectives.")
    slack: Slack | None = Field(None, description="Slack.")
    alertmanager: Alertmanager | None = Field(None, description="Prometheus' Alertmanager.")
    webhooks: tuple[Webhook, ...] = Field((), description="Receivers of your own.")
    notify: Notify = Field(default_factory=lambda: Notify.model_validate({}), description="Who is told of what.")
    report: Report = Field(default_factory=lambda: Report.model_validate({}), description="Weekly report.")
    web: Web = Field(default_factory=lambda: Web.model_validate({}), description="Own endpoints.")
    log: Log = Field(default_factory=lambda: Log.model_validate({}), description="Own log.")
