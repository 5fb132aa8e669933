"""Who must not hear of an alert now: inhibition, silences, our own rollouts. It owns no state and sends nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.model.alert import Alert, AlertState, Severity, Silence
from monitor.policy.rule import Inhibition

#: Annotation of an alert rule that is told even while our own change of that server runs: `during_rollout: tell`.
DURING_ROLLOUT = "during_rollout"


class MuteKind(StrEnum):
    """Why an alert is not told."""

    INHIBITED = "inhibited"
    SILENCED = "silenced"
    ROLLOUT = "rollout"


@dataclass(frozen=True, slots=True)
class Mute:
    """Why an alert is quiet, and by whom or what, in words."""

    kind: MuteKind
    by: str


class Muter:
    """Answers for all alerts of one moment; made anew for each.

    `rolling` names the servers that a change of ours is taking down, warming or putting back.
    """

    def __init__(
        self,
        alerts: Iterable[Alert],
        inhibitions: Sequence[Inhibition],
        silences: Sequence[Silence],
        rolling: Collection[str],
        now: datetime,
    ) -> None:
        self._silences = silences
        self._rolling = frozenset(rolling)
        self._now = now
        self._inhibitions = inhibitions
        self._sources = self._index(list(alerts))

    def mute(self, alert: Alert, *, silenced_at: datetime | None = None) -> Mute | None:
        """Why `alert` is quiet; None where it may be told. Inhibition goes before silences, as in Alertmanager.

        `silenced_at`: of the silences, those that still last then.
        """
        source = self._inhibitor(alert)
        if source is not None:
            return Mute(MuteKind.INHIBITED, source.annotations.get("summary") or source.name)
        for silence in self._silences:
            if silence.mutes(alert.labels, silenced_at or self._now):
                return Mute(MuteKind.SILENCED, f"{silence.author}: {silence.reason}")
        server = alert.labels.get("server", "")
        if server in self._rolling and alert.annotations.get(DURING_ROLLOUT) != "tell":
            return Mute(MuteKind.ROLLOUT, f"our own change of {server}")
        return None

    def _index(self, alerts: list[Alert]) -> list[dict[tuple[str, ...], list[Alert]]]:
        """Per inhibition, its sources by the labels that must be equal: no pair of alerts is tried in vain."""
        tables: list[dict[tuple[str, ...], list[Alert]]] = []
        for inhibition in self._inhibitions:
            table: dict[tuple[str, ...], list[Alert]] = {}
            for alert in alerts:
                if self._is_source(alert, inhibition) and all(m.matches(alert.labels) for m in inhibition.source):
                    table.setdefault(_values(alert, inhibition.equal), []).append(alert)
            tables.append(table)
        return tables

    def _is_source(self, alert: Alert, inhibition: Inhibition) -> bool:
        match alert.state:
            case AlertState.FIRING:
                return True
            case AlertState.PENDING:
                # One that has had no data since may never fire: what it might explain is told.
                return inhibition.pending and alert.last_true is not None and alert.last_true >= self._now
            case AlertState.RESOLVED if alert.resolved_at is not None:
                return (self._now - alert.resolved_at).total_seconds() < inhibition.after_seconds
        return False

    def _inhibitor(self, alert: Alert) -> Alert | None:
        for inhibition, table in zip(self._inhibitions, self._sources, strict=True):
            for source in table.get(_values(alert, inhibition.equal), ()):
                # Two alerts that could mute each other both stay loud: a cycle must not silence an incident.
                if source.fingerprint != alert.fingerprint and inhibition.mutes(alert.labels, source.labels):
                    if not inhibition.mutes(source.labels, alert.labels):
                        return source
        return None


def _values(alert: Alert, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(alert.labels.get(name, "") for name in names)


#: A silence that ends while it still mutes something is told of so long before (seconds): time to prolong it, or to
#: mend what it hides. One that is short from the start is told of in its last quarter.
ENDING_SECONDS, _ENDING_SHARE = 1800.0, 0.25


def ending_silences(
    silences: Iterable[Silence], alerts: Iterable[Alert], muter: Muter, now: datetime
) -> list[tuple[Silence, list[Alert]]]:
    """Silences that end soon while they still mute alerts that will then be told, each with those alerts."""
    # What is only held, or quiet for another reason as well, will not be told.
    firing = [
        a for a in alerts if a.state is AlertState.FIRING and a.severity is not Severity.INFO and a.clear_since is None
    ]
    found = []
    for silence in silences:
        muted = [
            alert for alert in firing
            if silence.mutes(alert.labels, now) and muter.mute(alert, silenced_at=silence.ends_at) is None
        ]
        notice = min(timedelta(seconds=ENDING_SECONDS), (silence.ends_at - silence.starts_at) * _ENDING_SHARE)
        if muted and silence.ends_at - now <= notice:
            found.append((silence, muted))
    return found
