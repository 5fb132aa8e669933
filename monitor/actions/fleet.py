"""What the machine is given: the servers it may restart, and who else has a say. It owns no rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from monitor.actions.balancer import Balancer, NoBalancer
from monitor.actions.inspection import Inspector, NoInspector
from monitor.actions.probe import Probe
from monitor.drivers.protocol import Driver
from monitor.model.rollout import Change
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.targets.drafts import DraftFacts


@dataclass(frozen=True, slots=True)
class Managed:
    """A server that this daemon may restart."""

    server: Server
    driver: Driver
    probe: Probe
    balancer: Balancer = field(default_factory=NoBalancer)
    inspector: Inspector = field(default_factory=NoInspector)
    #: What the files of its draft say; asked again and again, so it remembers.
    draft: Callable[[], DraftFacts] = DraftFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What this daemon works on. `probes` may know more servers than are managed: peers must serve too."""

    groups: Mapping[GroupName, Group]
    managed: Mapping[ServerName, Managed]
    probes: Mapping[ServerName, Probe] = field(default_factory=dict)

    @property
    def all_probes(self) -> Mapping[ServerName, Probe]:
        """Probes of every server that is known here."""
        return {**{name: managed.probe for name, managed in self.managed.items()}, **self.probes}


class Gate(Protocol):
    """Further reasons to leave a server alone: SLOs that burn, saturation, maintenance windows, missing capacity."""

    def refusal(self, group: Group, change: Change, now: datetime) -> str | None:
        """Why the server of `change` may not be stopped now, as a sentence; None where it may.

        Asked before a change begins and while its server drains; never of a way back or a restart: they end trouble.
        """
        ...


class OpenGate:
    """No further reasons."""

    def refusal(self, group: Group, change: Change, now: datetime) -> str | None:
        """None."""
        return None
