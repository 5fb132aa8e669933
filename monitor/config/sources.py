"""Settings of sources: where servers are found beside those that are written down."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from monitor.config.credentials import Auth, Tls
from monitor.config.scalars import Duration, HttpUrl, Name, PageUrl, PositiveDuration
from monitor.config.section import Section
from monitor.model.server import Engine


class FileSd(Section):
    """Lists of servers in files, in the form of Prometheus' `file_sd`."""

    files: tuple[Path, ...] = Field(
        min_length=1, description="JSON or YAML files; the last part of a path may have a `*`. Read again when changed."
    )


class HttpSd(Section):
    """A list of servers at a URL, in the form of Prometheus' `http_sd`."""

    url: PageUrl = Field(description="Where the list is asked for.")
    auth: Auth | None = Field(None, description="Credentials of the endpoint.")
    tls: Tls | None = Field(None, description="Certificate settings of the endpoint.")


class PrometheusSource(Section):
    """Targets that Prometheus, Thanos, Mimir or VictoriaMetrics scrapes already; their pages are read from its API."""

    url: HttpUrl = Field(description="Base URL, below which `/api/v1/query` lies.")
    selector: str = Field(min_length=1, description='Selector of the targets, e.g. `{job="vllm"}`.')
    instance_label: str = Field("instance", description="Label that tells targets apart; its value is their address.")
    headers: dict[str, str] = Field(
        default_factory=dict, repr=False, description="Headers sent along, e.g. `X-Scope-OrgID`."
    )
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
