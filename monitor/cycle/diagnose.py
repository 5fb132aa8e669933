"""Gathers what is known when an alert fires, for its probable causes: history, peers, engines, the week before."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from monitor.cycle.history import History
from monitor.cycle.sight import SHORT_WINDOW_SECONDS, Seen
from monitor.errors import StoreError
from monitor.model.alert import Alert, Fingerprint
from monitor.model.life import Life
from monitor.model.server import Group, GroupName, ServerName
from monitor.model.signal import SignalSet
from monitor.policy.causes import ACCEPTANCE_ALERTS, Case, probable_causes
from monitor.signals.build import signals
from monitor.store import Store

log = logging.getLogger(__name__)

#: Most alerts of one evaluation that causes are looked for: in a storm the storm is the cause.
_MOST = 20
#: "The same hour last week": an hour around the same moment.
_WEEK, _HALF_HOUR = timedelta(days=7), timedelta(minutes=30)
#: How far back the life that the newest one replaced is looked for.
_BEFORE = timedelta(days=14)
#: Alerts about a server that is not there have nothing to be measured by.
_BLIND = frozenset({"ServerDown", "NoSamples", "StartingTooLong", "ScrapeUnauthorized", "AlertHasNoData"})


class Diagnoser:
    """Finds causes for alerts about servers, and for those about groups whose servers show some."""

    def __init__(self, store: Store, history: History, groups: Sequence[Group]) -> None:
        self._store = store
        self._history = history
        self._groups = {group.name: group for group in groups}

    def causes(
        self, alerts: Sequence[Alert], seen: Seen, shorts: Mapping[ServerName, SignalSet], now: datetime
    ) -> dict[Fingerprint, tuple[str, ...]]:
        """Sentences by alert, the likeliest first. What goes wrong here costs a cause, never an alert."""
        found: dict[Fingerprint, tuple[str, ...]] = {}
        for alert in alerts[:_MOST]:
            if alert.name in _BLIND:
                continue
            try:
                found[alert.fingerprint] = self._causes(alert, seen, shorts, now)
            except StoreError as error:
                log.warning("causes not looked for alert=%s: %s", alert.name, error)
            except Exception:
                log.exception("causes not found alert=%s", alert.name)
        return found

    def _causes(
        self, alert: Alert, seen: Seen, shorts: Mapping[ServerName, SignalSet], now: datetime
    ) -> tuple[str, ...]:
        server = ServerName(alert.labels.get("server", ""))
        if server in shorts:
            case = self._case(server, seen, shorts, now)
            found = probable_causes(case, about_acceptance=alert.name in ACCEPTANCE_ALERTS)
            return tuple(cause.sentence for cause in found)
        group = self._groups.get(GroupName(alert.labels.get("group", "")))
        sentences = []
        for name in group.servers if group is not None else ():
            if name in shorts:
                for cause in probable_causes(self._case(name, seen, shorts, now), about_acceptance=False, limit=1):
                    sentences.append(f"{name}: {cause.sentence}")
        return tuple(sentences[:3])

    def _case(
        self, server: ServerName, seen: Seen, shorts: Mapping[ServerName, SignalSet], now: datetime
    ) -> Case:
        lives = seen.lives.get(server, ())
        newest = max(lives, key=lambda life: life.first_seen, default=None)
        models = {life.model for life in lives}
        peers = {
            str(name): signals_of_peer
            for name, signals_of_peer in shorts.items()
            if name != server and models & {life.model for life in seen.lives.get(name, ())}
        }
        last_week, before = self._past(server, newest, now)
        return Case(
            at=now, now=shorts[server], last_week=last_week, peers=peers, engines=self._engines(server, lives, now),
            life=newest, before=before,
        )

    def _engines(self, server: ServerName, lives: Sequence[Life], now: datetime) -> dict[str, SignalSet]:
        """Signals of each engine by itself, where the server has several of one model."""
        names = sorted({life.engine for life in lives})
        if len(names) < 2:
            return {}
        pairs = self._history.pairs([server], now - timedelta(seconds=SHORT_WINDOW_SECONDS))
        return {
            name: signals(
                [pair for pair in pairs if pair[0].engine == name], scope=f"engine:{name}", at=now,
                window_seconds=SHORT_WINDOW_SECONDS,
            )
            for name in names
        }

    def _past(self, server: ServerName, newest: Life | None, now: datetime) -> tuple[SignalSet | None, Life | None]:
        """The same hour last week, and the life that the newest one of its engine replaced."""
        then = now - _WEEK
        with self._store.read() as unit:
            intervals = unit.intervals.between([server], then - _HALF_HOUR, then + _HALF_HOUR)
            lives = {life.id: life for life in unit.lives.of(server, now - _BEFORE, now)}
            lives |= {i.life: life for i in intervals if i.life not in lives and (life := unit.lives.get(i.life))}
        pairs = [(lives[one.life], one) for one in intervals if one.life in lives]
        week = None
        if pairs:
            week = signals(pairs, scope=server, at=then + _HALF_HOUR, window_seconds=2 * _HALF_HOUR.total_seconds())
        if newest is None:
            return week, None
        older = [
            life for life in lives.values()
            if life.engine == newest.engine and life.id != newest.id and life.first_seen < newest.first_seen
        ]  # fmt: skip
        return week, max(older, key=lambda life: life.first_seen, default=None)
