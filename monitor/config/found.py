"""The configuration with the servers that sources found: each becomes a server as if it stood in the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from monitor.config.load import metrics_url
from monitor.config.model import Config
from monitor.config.servers import ServerConfig
from monitor.config.sources import Source
from monitor.targets.service_discovery import Found

#: What a name may not have (see `scalars.Name`): an address becomes a name with dashes.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class WithFound:
    """A configuration with found servers; why others were left out; the source of each found one by its name."""

    config: Config
    left_out: tuple[str, ...]
    source_of: Mapping[str, str]

    def only(self, names: Collection[str]) -> Config:
        """The configuration with these servers alone."""
        kept = tuple(server for server in self.config.servers if server.name in names)
        return self.config.model_copy(update={"servers": kept})


def with_found(config: Config, found: Mapping[str, Sequence[Found]]) -> WithFound:
    """`config` with the servers of each source.

    A server that stands in the file, or in an earlier source, is not taken twice: by its metrics URL or by its name.
    """
    urls = {metrics_url(server): f"server {server.name}" for server in config.servers}
    names = {server.name: f"server {server.name}" for server in config.servers}
    servers, left_out, source_of = list(config.servers), [], {}
    for source in config.sources:
        # In one order always: of one that is listed twice the same entry counts, whatever order an endpoint answers in.
        for one in sorted(found.get(source.name, ()), key=lambda it: (it.address, sorted(it.labels.items()))):
            where = f"source {source.name}: {one.address}"
            try:
                server = _server(source, one)
            except ValidationError as error:
                problem = error.errors()[0]
                left_out.append(f"{where}: {problem['loc'][0]} is {problem.get('input')!r}, expected {problem['msg']}")
                continue
            known = urls.get(metrics_url(server)) or names.get(server.name)
            if known is not None:
                left_out.append(f"{where}: is {known} already")
                continue
            urls[metrics_url(server)] = names[server.name] = f"server {server.name} of source {source.name}"
            source_of[server.name] = source.name
            servers.append(server)
    return WithFound(config.model_copy(update={"servers": tuple(servers)}), tuple(left_out), source_of)


def _server(source: Source, one: Found) -> ServerConfig:
    labels = one.shown_labels
    name, group = labels.pop(source.name_label, None), labels.pop(source.group_label, None)
    return ServerConfig.model_validate(
        {
            "name": name or _NOT_IN_NAMES.sub("-", one.address).strip("-._")[:_LONGEST_NAME],
            "url": one.base_url,
            "metrics_url": one.metrics_url,
            "group": group or source.group,
            "engine": source.engine,
            "labels": labels,
            **({"through": source.name, "instance": one.address} if source.prometheus is not None else {}),
            "auth": source.auth,
            "tls": source.tls,
        }
    )
