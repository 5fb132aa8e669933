"""What the page shows where hosts share a database: this host's own things as ever, and with them the whole fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from monitor.app.neighbours import Neighbours
from monitor.app.view import DaemonView
from monitor.errors import StoreError
from monitor.model.server import ServerName
from monitor.report import lookup
from monitor.report.history import SPANS, history
from monitor.report.others import alerts_here, joined
from monitor.report.views import command_view
from monitor.store.api import Unit

Plain = dict[str, Any]
Found = TypeVar("Found")


class FleetView(DaemonView):
    """Answers as `DaemonView` does; what this host does not know is looked for in the fleet's database.

    Lists hold what this host knows while that database is away. A thing that is in that database alone raises
    StoreError then.
    """

    def __init__(self, neighbours: Neighbours, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._near = neighbours

    def fleet_trouble(self) -> str:
        """Why the servers of other hosts are missing, or old."""
        return self._near.look()[1]

    def overview(self) -> Plain:
        """How the fleet stands."""
        here = super().overview()
        with self._store.read() as unit:
            ours = alerts_here(unit)
        others, trouble = self._near.look()
        present = {self._near.host, *self._near.present()}
        return joined(here, others, self._near.host, present=present, trouble=trouble, ours=ours)

    def trends(self) -> Mapping[str, Sequence[float | None]]:
        """Acceptance of the last day; of groups over all hosts."""
        here, (others, _) = super().trends(), self._near.look()
        if others is None:
            return here
        own = {name: trend for name, trend in here.items() if not name.startswith("group:")}
        return {**here, **others.trends, **own}

    def history(self, *, server: str | None = None, group: str | None = None, span: str) -> Plain | None:
        """What a server or a group did, wherever."""
        others = self._near.look()[0]
        theirs = others.members(group) if others is not None and group is not None else ()
        if others is not None and server in others.hosts and server not in self._servers:
            theirs = [ServerName(server)]  # type: ignore[arg-type]
        own = next((one.servers for one in self._groups.values() if one.name == group), ())
        if theirs:
            now = self._clock.now()
            try:
                return self._near.ask(lambda unit: history(unit, [*own, *theirs], SPANS[span], now))
            except StoreError:
                if not own:
                    raise
        return super().history(server=server, group=group, span=span)

    def server(self, name: str) -> Plain | None:
        """What is kept of a server."""
        others = self._near.look()[0]
        if name in self._servers or others is None or name not in others.hosts:
            return super().server(name)
        wanted, group, now = ServerName(name), others.group_of(ServerName(name)), self._clock.now()
        return self._near.ask(lambda unit: lookup.server_in_full(unit, wanted, group, now))

    def alerts(self, days: float) -> Plain:
        """Alerts now and of the last days, of every host."""
        here, now = super().alerts(days), self._clock.now()
        with self._store.read() as unit:
            ours = alerts_here(unit)
        there: Plain = self._asked(lambda unit: lookup.alerts_since(unit, self._back(days), now, ours), {})
        return {
            state: sorted([*found, *there.get(state, ())], key=lambda one: str(one["since"]), reverse=True)
            for state, found in here.items()
        }

    def alert(self, fingerprint: str) -> Plain | None:
        """One alert."""
        now = self._clock.now()
        return super().alert(fingerprint) or self._near.ask(lambda unit: lookup.alert_in_full(unit, fingerprint, now))

    def decisions(self, group: str | None, days: float) -> list[Plain]:
        """Decisions of the last days."""
        there: list[Plain] = self._asked(lambda unit: lookup.decisions_since(unit, group, self._back(days)), [])
        return _with(super().decisions(group, days), there, "made_at")

    def decision(self, name: str, planned: str | None = None) -> Plain | None:
        """A decision in full; plan and trail are with its host."""
        def find(unit: Unit) -> Plain | None:
            found = lookup.find_decision(unit, name)
            return lookup.explain(unit, found, planned) if found is not None else None

        here = super().decision(name, planned)
        there = None if here is not None else self._near.ask(find)
        return here if there is None else {**there, "elsewhere": True}

    def rollouts(self, group: str | None, days: float) -> list[Plain]:
        """Rollouts of the last days."""
        there: list[Plain] = self._asked(lambda unit: lookup.rollouts_since(unit, group, self._back(days)), [])
        return _with(super().rollouts(group, days), there, "created_at")

    def rollout(self, name: str) -> Plain | None:
        """A rollout in full; its trail is with its host."""
        return super().rollout(name) or self._near.ask(lambda unit: lookup.rollout_in_full(unit, name))

    def request(self, name: str) -> Plain | None:
        """A request with its outcome, of this host or carried to another."""
        found = super().request(name)
        if found is not None:
            return found
        asked = self._near.ask(lambda unit: unit.commands.get(name))
        return command_view(asked) if asked is not None else None

    def _asked(self, find: Callable[[Unit], Found], otherwise: Found) -> Found:
        try:
            return self._near.ask(find)
        except StoreError:
            # The page says so at its top.
            return otherwise


def _with(here: list[Plain], there: list[Plain], moment: str) -> list[Plain]:
    """Both, the newest first; what both know is as this host knows it."""
    known = {one["id"] for one in here}
    found = [*here, *(one for one in there if one["id"] not in known)]
    return sorted(found, key=lambda one: str(one[moment]), reverse=True)
