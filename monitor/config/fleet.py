"""From configuration to the values that the parts work with: servers, groups, limits, credentials."""

from __future__ import annotations

import socket
from typing import Protocol

from monitor.config.credentials import Auth, Tls
from monitor.config.load import metrics_url, secret
from monitor.config.model import Config, GroupConfig, Limits, Retention
from monitor.config.servers import ServerConfig
from monitor.model.life import Setting
from monitor.model.maintenance import Window
from monitor.model.server import ActionLimits, Group, GroupName, Mode, Server, ServerName
from monitor.scrape.client import Credentials
from monitor.store import Retention as Keep


def host_name(config: Config) -> str:
    """Name of this host in records."""
    return config.host or socket.gethostname()


def servers(config: Config) -> list[Server]:
    """Every configured server."""
    return [
        Server(
            name=ServerName(one.name),
            group=group_name(one),
            base_url=one.url,
            metrics_url=metrics_url(one),
            engine=one.engine,
            managed=one.driver is not None,
            simulated=config.simulated,
            gpu=one.gpu,
            labels=one.labels,
        )
        for one in config.servers
    ]


def group_name(server: ServerConfig) -> GroupName:
    """The group a server is tuned in: its own where none is given."""
    return GroupName(server.group or server.name)


def groups(config: Config) -> list[Group]:
    """Every group, in the order in which servers name them."""
    members: dict[GroupName, list[ServerName]] = {}
    for server in config.servers:
        members.setdefault(group_name(server), []).append(ServerName(server.name))
    given = {GroupName(group.name): group for group in config.groups}
    return [
        Group(
            name=name,
            servers=tuple(names),
            mode=_mode(config, given.get(name)),
            limits=action_limits(given[name].limits) if name in given else action_limits(Limits.model_validate({})),
        )
        for name, names in members.items()
    ]


def _mode(config: Config, group: GroupConfig | None) -> Mode:
    return group.mode if group is not None and group.mode is not None else config.mode


def action_limits(limits: Limits) -> ActionLimits:
    """The limits of one group."""
    return ActionLimits(
        min_speculative_tokens=limits.min_speculative_tokens,
        max_speculative_tokens=limits.max_speculative_tokens,
        allow_off=limits.allow_off,
        allow_downtime=limits.allow_downtime,
        changes_per_day=limits.changes_per_day,
        cooldown_seconds=limits.cooldown,
        drain_seconds=limits.drain_limit,
        stop_seconds=limits.stop_limit,
        start_seconds=limits.start_limit,
        first_start_seconds=limits.first_start_extra,
        warmup_seconds=limits.warmup,
        observe_seconds=limits.observe,
        restarts_per_day=limits.restarts_per_day,
        restart_stuck=limits.restart_stuck,
        keep_running=limits.keep_running,
        cut_after_drain=limits.cut_after_drain,
        maintenance=tuple(Window(one.opens, one.lasts, one.timezone) for one in limits.maintenance),
        never=limits.never,
        drift_hold_seconds=limits.hold_after_drift,
    )


def tuning_sets(config: Config) -> dict[GroupName, str]:
    """Name of the tuning rule set of each group."""
    own = {GroupName(group.name): group.rules for group in config.groups if group.rules is not None}
    return {group.name: own.get(group.name, config.rules.tuning) for group in groups(config)}


class Guarded(Protocol):
    """What has credentials: a server, or an endpoint that lists servers."""

    @property
    def auth(self) -> Auth | None:
        """Whom we are."""
    @property
    def tls(self) -> Tls | None:
        """How it shows who it is."""


def kept(settings: Retention) -> Keep:
    """How long the store keeps what."""
    day = 86_400.0
    return Keep(
        raw_hours=settings.intervals / 3600.0, five_minutes_days=settings.five_minutes / day,
        hours_days=settings.hours / day, days_days=settings.days / day, history_days=settings.decisions / day,
    )


def credentials(server: Guarded) -> Credentials:
    """What the server wants to see. Raises ConfigError where a secret's file has gone."""
    auth, tls = server.auth, server.tls
    return Credentials(
        bearer_token=secret(auth, "bearer_token") if auth else None,
        username=auth.username if auth else None,
        password=secret(auth, "password") if auth else None,
        ca_file=str(tls.ca_file) if tls and tls.ca_file else None,
        cert_file=str(tls.cert_file) if tls and tls.cert_file else None,
        key_file=str(tls.key_file) if tls and tls.key_file else None,
        verify=not (tls and tls.insecure_skip_verify),
    )


def configured_settings(config: Config) -> dict[ServerName, Setting]:
    """What the operator says of the servers' speculation."""
    return {
        ServerName(one.name): Setting(
            method=one.speculation.method,
            num_speculative_tokens=one.speculation.num_speculative_tokens,
            draft_model=one.speculation.draft_model,
        )
        for one in config.servers
        if one.speculation is not None
    }
