"""What the servers of other hosts do, from the fleet's database, and how it stands beside a host's own on one page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from monitor.model.alert import Alert, AlertState, Fingerprint
from monitor.model.record import Watched
from monitor.model.server import Server, ServerName
from monitor.report.assemble import with_known
from monitor.report.overview import WINDOW_SECONDS, overview, together
from monitor.report.trends import day_trends
from monitor.report.views import told_alert
from monitor.store.api import Unit

_SHOWN = (AlertState.PENDING, AlertState.FIRING)


@dataclass(frozen=True, slots=True)
class Others:
    """The fleet without one host, as it stood at `at`."""

    at: datetime
    #: As `monitor.report.overview` gives it.
    view: Mapping[str, Any]
    #: Which host watches which of these servers.
    hosts: Mapping[ServerName, str]
    #: Alerts that are about them.
    alerts: Sequence[Alert]
    #: Acceptance of the last day of every server of the fleet, and of `group:NAME` over all hosts.
    trends: Mapping[str, Sequence[float | None]]

    def members(self, group: str) -> list[ServerName]:
        """Servers of a group on other hosts."""
        return [ServerName(one["name"]) for found in self.view["groups"] if found["name"] == group
                for one in found["servers"]]

    def group_of(self, server: ServerName) -> str:
        """The group of one of these servers."""
        return next(str(found["name"]) for found in self.view["groups"] if server in self.members(found["name"]))


def alerts_here(unit: Unit) -> set[tuple[Fingerprint, datetime]]:
    """Which alerts this host's own store has: the fleet's has them too, and they are shown once."""
    return {(alert.fingerprint, alert.active_since) for alert in unit.alerts.all()}


def alerts_elsewhere(
    unit: Unit, since: datetime, now: datetime, ours: Collection[tuple[Fingerprint, datetime]]
) -> list[dict[str, Any]]:
    """Alerts of the fleet's database that go on or ended at or after `since`, but `ours`; each with its host.

    That is None where it is about a group, which may stand on several.
    """
    hosts = {str(one.server): one.host for one in unit.servers.all(now)}
    silences = unit.silences.active(now)
    return [
        {**told_alert(alert, silences, now),
         "host": hosts.get(alert.labels.get("server", ""), alert.labels.get("host"))}
        for alert in unit.alerts.since(since) if (alert.fingerprint, alert.active_since) not in ours
    ]


def read_others(
    unit: Unit, host: str, now: datetime, *, window_seconds: float = WINDOW_SECONDS,
    trends: Mapping[str, Sequence[float | None]] | None = None,
) -> Others:
    """What the fleet's database says of the servers that other hosts than `host` watch.

    `window_seconds` is the time that figures cover; `trends` are those of a reading a moment ago, which need not be
    made again.
    """
    watched = [one for one in unit.servers.all(now) if one.retired_at is None]
    theirs = [one for one in watched if one.host != host]
    names = {one.server: one.host for one in theirs}
    servers = [_server(one) for one in theirs]
    return Others(
        at=now, view=overview(unit, with_known((), theirs), servers, now, window_seconds=window_seconds), hosts=names,
        trends=day_trends(unit, with_known((), watched), now) if trends is None else trends,
        alerts=[one for one in unit.alerts.all() if one.state in _SHOWN and _is_about(one, theirs)],
    )  # fmt: skip


def joined(
    here: dict[str, Any], others: Others | None, host: str, *, present: Collection[str], trouble: str,
    ours: Collection[tuple[str, datetime]],
) -> dict[str, Any]:
    """The overview of a host with the servers of the others in it; each server says whose it is.

    `present` are the hosts that give signs of life: what is known of servers of any other is old. `ours` are the host's
    own alerts by fingerprint and beginning: the fleet's database has copies of them.
    """
    groups = [_marked(group, {one["name"]: host for one in group["servers"]}, {host}) for group in here["groups"]]
    alerts = [{**alert, "host": host} for alert in here["alerts"]]
    if others is not None:
        places = {group["name"]: index for index, group in enumerate(groups)}
        for group in others.view["groups"]:
            theirs = _marked(group, others.hosts, present)
            if group["name"] in places:
                groups[places[group["name"]]] = _as_one(groups[places[group["name"]]], theirs)
            else:
                groups.append({**theirs, "is_here": False})
        about = {(one.fingerprint, _stamp(one)) for one in others.alerts
                 if (one.fingerprint, one.active_since) not in ours}
        alerts += [{**view, "host": others.hosts.get(view["labels"].get("server"), view["labels"].get("host"))}
                   for view in others.view["alerts"] if (view["fingerprint"], view["since"]) in about]
    return {
        **here,
        "groups": groups,
        "alerts": alerts,
        "figures": together([server for group in groups for server in group["servers"]]),
        "fleet": {
            "host": host,
            "hosts": sorted({host, *(others.hosts.values() if others is not None else ())}),
            "away": sorted({*others.hosts.values()} - {*present}) if others is not None else [],
            "read_at": others.at.isoformat() if others is not None else None,
            "trouble": trouble,
        },
    }


def _marked(group: Mapping[str, Any], hosts: Mapping[Any, str], present: Collection[str]) -> dict[str, Any]:
    """A group whose servers say which host watches them, and which of those hosts is away."""
    servers = [{**one, "host": hosts[one["name"]]} for one in group["servers"]]
    for one in servers:
        if one["host"] not in present:
            one |= {"condition": "host away", "level": "bad"}
    up = sum(one["verdict"] not in (None, "scrape_error") for one in servers if one["host"] in present)
    return {**group, "servers": servers, "hosts": sorted({one["host"] for one in servers}), "up": up, "is_here": True}


def _as_one(here: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """A group of this host with its servers on others. What acceptd would do is this host's, where it knows."""
    servers = [*here["servers"], *theirs["servers"]]
    leading = here if here["advice"] or here["rollout"] or not theirs["advice"] else theirs
    return {
        **here,
        **{key: leading[key] for key in ("advice", "intent")},
        "rollout": here["rollout"] or theirs["rollout"],
        "figures": together(servers),
        "settings": sorted({*here["settings"], *theirs["settings"]}),
        "servers": servers,
        "hosts": sorted({*here["hosts"], *theirs["hosts"]}),
        "up": here["up"] + theirs["up"],
    }


def _stamp(alert: Alert) -> str:
    return (alert.fired_at or alert.active_since).isoformat()


def _is_about(alert: Alert, theirs: Sequence[Watched]) -> bool:
    """Whether an alert is about a server of another host, about such a host, or about a group with servers there."""
    labels = alert.labels
    if "server" in labels:
        return any(one.server == labels["server"] for one in theirs)
    if "host" in labels:
        return any(one.host == labels["host"] for one in theirs)
    return any(one.group == labels.get("group") for one in theirs)


def _server(one: Watched) -> Server:
    return Server(
        name=one.server, group=one.group, base_url=one.url, metrics_url=one.url, engine=one.engine, labels=one.labels
    )
