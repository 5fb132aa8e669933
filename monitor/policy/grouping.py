"""Which alerts share a message: by labels and place, by the incident they were told as, and all at once in a storm.

A storm (a network that is away, a host with twenty servers) would be a message for every group. Past a number of new
ones, what is new becomes one incident, a digest, for each severity and place. It stays one: what was told together is
closed together, and what comes while it is open joins it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from monitor.model.alert import Alert, AlertState, Severity

#: How a digest's incident begins.
DIGEST = "digest"

#: A group's labels and place.
Key = tuple[str, ...]


@dataclass(slots=True)
class AlertGroup:
    """Alerts that are told of together. `incident` is what they were told as before; empty for news."""

    key: Key
    place: Key
    incident: str = ""
    alerts: list[Alert] = field(default_factory=list)


def is_told(alert: Alert) -> bool:
    """Whether people were told of this firing."""
    return alert.notified_at is not None and alert.fired_at is not None and alert.notified_at >= alert.fired_at


def is_to_close(alert: Alert) -> bool:
    """Whether people were told that it fires and not yet that it is over."""
    if alert.state is not AlertState.RESOLVED or alert.resolved_at is None or not is_told(alert):
        return False
    return alert.notified_at is not None and alert.notified_at < alert.resolved_at


def grouped(alerts: Iterable[tuple[Key, Key, Alert]]) -> list[AlertGroup]:
    """Firing or resolved alerts (each with its key and place) in groups, open incidents whole."""
    groups: dict[str | Key, AlertGroup] = {}
    open_incident: dict[Key, str] = {}
    rows = [(key, place, alert, _open_as(alert)) for key, place, alert in alerts]
    for key, _, _, incident in rows:
        if incident:
            open_incident.setdefault(key, incident)
    for key, place, alert, incident in rows:
        known = incident or open_incident.get(key, "")
        group = groups.setdefault(known or key, AlertGroup(key, place, known))
        group.alerts.append(alert)
    return list(groups.values())


def digested(
    groups: Sequence[AlertGroup], news: Collection[int], now: datetime, *, above: int, window_seconds: float
) -> list[AlertGroup]:
    """`groups` with the `news` (positions of groups to be told for the first time now) put together in a storm.

    A storm is when more than `above` incidents begin within the window.
    """
    since = now - timedelta(seconds=window_seconds)
    young = sum(1 for group in groups if group.incident and _began(group) > since)
    if len(news) + young <= above:
        return list(groups)
    rest = [group for number, group in enumerate(groups) if number not in news]
    found: dict[Key, AlertGroup] = {_bucket(g): g for g in rest if g.incident.startswith(f"{DIGEST}-")}
    for number in sorted(news):
        bucket = _bucket(groups[number])
        if bucket not in found:
            found[bucket] = AlertGroup((DIGEST, *bucket), groups[number].place)
            rest.append(found[bucket])
        found[bucket].alerts += groups[number].alerts
    return rest


def incident_of(group: AlertGroup, new: Iterable[Alert]) -> str:
    """The group's incident: as it was told before, else a new id of which alert, in which group, since when."""
    if group.incident:
        return group.incident
    alerts = list(new) or group.alerts
    known = [alert.incident for alert in alerts if alert.incident]
    is_digest = group.key[0] == DIGEST
    if known and not is_digest:
        # One that fires again soon after it was over goes on in its thread.
        return known[0]
    began = min(alert.fired_at or alert.active_since for alert in alerts)
    where = hashlib.sha256("\xff".join(group.key).encode()).hexdigest()[:8]
    return f"{DIGEST if is_digest else alerts[0].name}-{where}-{began:%Y%m%dT%H%M%S}"


def labels_key(labels: Mapping[str, str], by: Iterable[str]) -> Key:
    """The values of the labels that alerts are grouped by."""
    return tuple(labels.get(name, "") for name in by)


def _open_as(alert: Alert) -> str:
    """The incident that people were told of and that is not closed for this alert; empty for none."""
    is_open = is_told(alert) and (alert.state is AlertState.FIRING or is_to_close(alert))
    return alert.incident if is_open else ""


def _bucket(group: AlertGroup) -> Key:
    loudest = min((alert.severity for alert in group.alerts), key=list(Severity).index)
    return (loudest.value, *group.place)


def _began(group: AlertGroup) -> datetime:
    return min(alert.fired_at or alert.active_since for alert in group.alerts)
