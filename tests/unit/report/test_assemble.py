"""What a report reads from the store: objectives are counted over its days, uptime from the checks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from monitor.model.record import Checks
from monitor.model.server import Group, GroupName, ServerName
from monitor.report.assemble import assemble
from monitor.slo.load import load_slos
from tests.fakes.memory_store import MemoryStore

END = datetime(2026, 3, 9, 9, 0, tzinfo=UTC)
A = ServerName("a")
SLOS = """
slos:
  - {name: up, indicator: uptime, objective: 0.99}
  - {name: ttft, indicator: time_to_first_token, threshold: 1s, objective: 0.99}
"""


def test_uptime_counts_the_checks_of_the_reports_days_and_an_slo_without_events_is_left_out() -> None:
    store = MemoryStore()
    with store.write() as unit:
        unit.checks.add(
            [Checks(A, END - timedelta(days=8), 0, 20), Checks(A, END - timedelta(days=1), 18, 2),
             Checks(ServerName("stranger"), END, 0, 20), Checks(A, END + timedelta(minutes=5), 0, 20)]
        )
    with store.read() as unit:
        report = assemble(
            unit, [Group(name=GroupName("chat"), servers=(A,))], end=END, now=END, key="k", host="h", target=0.6,
            simulated=False, policies=load_slos({"s.yaml": SLOS}),
        )
    (group,) = report.groups
    (only,) = group.slos
    assert (only.name, only.valid) == ("up", 20.0)
    assert only.sli == 0.9
