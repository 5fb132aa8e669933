"""What one evaluation leaves in the own metrics."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.cycle.evaluate import Evaluated
from monitor.cycle.slos import SloKeeper
from monitor.model.alert import AlertState, Severity
from monitor.model.server import Server, ServerName
from monitor.telemetry import Telemetry


def record(seen: Evaluated, servers: Mapping[ServerName, Server], slos: SloKeeper, telemetry: Telemetry) -> int:
    """Set signals, positions, events of objectives and firing alerts; the number of pages that fire."""
    for name, signals in seen.servers.items():
        group = servers[name].group
        for signal in telemetry.signal_names:
            telemetry.signal(signal, name, group, signals.value(signal))
        rates = signals.vectors.get("acceptance_rate_at_pos")
        telemetry.positions(name, group, rates.values if rates is not None else ())
    for slo, scope, good, valid in slos.new_events():
        telemetry.slo_events(slo, scope, good, valid)
    for status in slos.statuses or ():
        telemetry.slo_known(status.slo.name, status.scope, status.attainment.known * status.slo.period_days * 86_400.0)
    firing = [alert.severity for alert in seen.alerts if alert.state is AlertState.FIRING]
    telemetry.alerts_firing({severity.value: firing.count(severity) for severity in Severity})
    return firing.count(Severity.PAGE)
