"""Every setting of acceptd: names, types, defaults and what each is for. Loading lives in `load.py`."""

from __future__ import annotations

from datetime import time
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from monitor.config.scalars import (
    ClockTime,
    DatabaseUrl,
    Duration,
    HttpUrl,
    ListenAddress,
    Name,
    PositiveDuration,
    Size,
    TimeZone,
    TokenCount,
    UnitName,
)
from monitor.config.section import Section, one_of
from monitor.config.telling import Alertmanager, Notify, Slack, Webhook
from monitor.model.maintenance import LONGEST_SECONDS, Window
from monitor.model.server import Engine, Mode


class Auth(Section):
    """Credentials for one server; they go to its own origin and nowhere else."""

    bearer_token: SecretStr | None = Field(None, description="Token sent as `Authorization: Bearer`.")
    bearer_token_file: Path | None = Field(None, description="File whose first line is the bearer token.")
    username: str | None = Field(None, description="User of HTTP basic auth.")
    password: SecretStr | None = Field(None, description="Password of HTTP basic auth.")
    password_file: Path | None = Field(None, description="File whose first line is the password.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        one_of(self, "bearer_token", "bearer_token_file")
        one_of(self, "password", "password_file")
        if self.username and (self.bearer_token or self.bearer_token_file):
            raise ValueError("either a bearer token or a user and password")
        return self


class Tls(Section):
    """How a server's certificate is checked and which one we show."""

    ca_file: Path | None = Field(None, description="CA bundle to trust instead of the system's.")
    cert_file: Path | None = Field(None, description="Client certificate (PEM) for mutual TLS.")
    key_file: Path | None = Field(None, description="Key of the client certificate.")
    insecure_skip_verify: bool = Field(False, description="Do not verify the server's certificate.")


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
    metrics_url: HttpUrl | None = Field(None, description="Full metrics URL; `url` + /metrics if unset.")
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
    through: Name | None = Field(
        None, description="Source of kind `prometheus` that has its pages; host and port of `url` are its instance."
    )


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


class FileSd(Section):
    """Lists of servers in files, in the form of Prometheus' `file_sd`."""

    files: tuple[Path, ...] = Field(
        min_length=1, description="JSON or YAML files; the last part of a path may have a `*`. Read again when changed."
    )


class HttpSd(Section):
    """A list of servers at a URL, in the form of Prometheus' `http_sd`."""

    url: HttpUrl = Field(description="Where the list is asked for.")
    auth: Auth | None = Field(None, description="Credentials of the endpoint.")
    tls: Tls | None = Field(None, description="Certificate settings of the endpoint.")


class PrometheusSource(Section):
    """Targets that Prometheus, Thanos, Mimir or VictoriaMetrics scrapes already; their pages are read from its API."""

    url: HttpUrl = Field(description="Base URL, below which `/api/v1/query` lies.")
    selector: str = Field(min_length=1, description='Selector of the targets, e.g. `{job="vllm"}`.')
    instance_label: str = Field("instance", description="Label that tells targets apart; its value is their address.")
    headers: dict[str, str] = Field(default_factory=dict, description="Headers sent along, e.g. `X-Scope-OrgID`.")
    delay: Duration = Field(5.0, description="How far behind now samples are asked for, so that all have arrived.")
    backfill: Duration = Field(14 * 86400.0, description="History taken over when a server is first met; 0s for none.")
    backfill_step: PositiveDuration = Field(300.0, description="Distance of the values taken over.")
    ask_servers: bool = Field(
        False, description="Whether acceptd can reach the servers too, and asks them (version, /health, one token)."
    )
    auth: Auth | None = Field(None, description="Credentials of the API.")
    tls: Tls | None = Field(None, description="Certificate settings of the API.")


class Source(Section):
    """Where servers are found beside those under `servers`."""

    name: Name = Field(description="Unique name of the source.")
    file_sd: FileSd | None = Field(None, description="Servers listed in files.")
    http_sd: HttpSd | None = Field(None, description="Servers listed at a URL.")
    prometheus: PrometheusSource | None = Field(None, description="Targets of a Prometheus-compatible store.")
    local: bool = Field(False, description="Inference servers that listen on this host.")
    refresh: PositiveDuration = Field(
        60.0, description="Time between two looks; files that changed are read within seconds."
    )
    group: Name | None = Field(None, description="Group of servers without the label `group_label`.")
    name_label: str = Field("acceptd_name", description="Label whose value is a server's name, else its address.")
    group_label: str = Field("acceptd_group", description="Label whose value is a server's group.")
    engine: Engine = Field(Engine.VLLM, description="Engine; the page has the last word.")
    auth: Auth | None = Field(None, description="Credentials of the servers found.")
    tls: Tls | None = Field(None, description="Certificate settings of the servers found.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = ("file_sd", "http_sd", "prometheus", "local")
        if sum(bool(getattr(self, kind)) for kind in kinds) != 1:
            raise ValueError(f"exactly one of {', '.join(kinds)}")
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


class SharedRetention(Section):
    """How long the history of a fleet is kept: shorter as scraped, since a thousand servers write a GB in hours."""

    intervals: PositiveDuration = Field(2 * 86400.0, description="Intervals as scraped, in whole days.")
    five_minutes: PositiveDuration = Field(35 * 86400.0, description="Rollups over five minutes, and checks.")
    hours: PositiveDuration = Field(400 * 86400.0, description="Rollups over an hour.")
    days: PositiveDuration = Field(36_500 * 86400.0, description="Rollups over a day.")
    decisions: PositiveDuration = Field(400 * 86400.0, description="Decisions, rollouts, alerts and notices.")


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
