"""A unit of work over SQL: one transaction and its repositories, made when they are first asked for."""

from __future__ import annotations

from functools import cached_property

from sqlalchemy import Connection

from monitor.store.edges import EdgesCache, UnitEdges
from monitor.store.repositories.acting import (
    SqlBaselines,
    SqlChanges,
    SqlDecisions,
    SqlLastGoods,
    SqlRejections,
    SqlRestarts,
    SqlRollouts,
)
from monitor.store.repositories.asking import SqlCommands, SqlPauses, SqlSilences, SqlTimers
from monitor.store.repositories.checks import SqlChecks
from monitor.store.repositories.history import SqlHeads, SqlLives, SqlReadings, SqlWatched
from monitor.store.repositories.intervals import SqlIntervals
from monitor.store.repositories.leases import SqlLeases
from monitor.store.repositories.outbox import SqlOutbox
from monitor.store.repositories.shipping import SqlUnshipped
from monitor.store.repositories.telling import SqlAlerts, SqlAudit, SqlEvidence, SqlReports


class SqlUnit:
    """One transaction, seen through its repositories."""

    def __init__(self, connection: Connection, cache: EdgesCache, *, database_time: bool) -> None:
        self.connection = connection
        self.edges = UnitEdges(connection, cache)
        self._database_time = database_time

    @cached_property
    def lives(self) -> SqlLives:
        """Process lives."""
        return SqlLives(self.connection)

    @cached_property
    def heads(self) -> SqlHeads:
        """Last cumulative counts."""
        return SqlHeads(self.connection)

    @cached_property
    def intervals(self) -> SqlIntervals:
        """Differences between heads."""
        return SqlIntervals(self.connection, self.edges)

    @cached_property
    def unshipped(self) -> SqlUnshipped:
        """What the fleet's database lacks."""
        return SqlUnshipped(self.connection, self.edges)

    @cached_property
    def checks(self) -> SqlChecks:
        """Checks, answered or not."""
        return SqlChecks(self.connection)

    @cached_property
    def servers(self) -> SqlWatched:
        """Servers watched."""
        return SqlWatched(self.connection)

    @cached_property
    def readings(self) -> SqlReadings:
        """Newest readings."""
        return SqlReadings(self.connection)

    @cached_property
    def decisions(self) -> SqlDecisions:
        """Conclusions."""
        return SqlDecisions(self.connection)

    @cached_property
    def rollouts(self) -> SqlRollouts:
        """New settings under way."""
        return SqlRollouts(self.connection)

    @cached_property
    def changes(self) -> SqlChanges:
        """Servers' parts of rollouts."""
        return SqlChanges(self.connection)

    @cached_property
    def leases(self) -> SqlLeases:
        """Rights held."""
        return SqlLeases(self.connection, database_time=self._database_time)

    @cached_property
    def alerts(self) -> SqlAlerts:
        """Incidents."""
        return SqlAlerts(self.connection)

    @cached_property
    def silences(self) -> SqlSilences:
        """Muted alerts."""
        return SqlSilences(self.connection)

    @cached_property
    def outbox(self) -> SqlOutbox:
        """Notices and deliveries."""
        return SqlOutbox(self.connection)

    @cached_property
    def pauses(self) -> SqlPauses:
        """Where nothing starts."""
        return SqlPauses(self.connection)

    @cached_property
    def commands(self) -> SqlCommands:
        """Requests to the daemon."""
        return SqlCommands(self.connection)

    @cached_property
    def rejections(self) -> SqlRejections:
        """Settings that lost."""
        return SqlRejections(self.connection)

    @cached_property
    def timers(self) -> SqlTimers:
        """Rule timers."""
        return SqlTimers(self.connection)

    @cached_property
    def baselines(self) -> SqlBaselines:
        """What is normal."""
        return SqlBaselines(self.connection)

    @cached_property
    def restarts(self) -> SqlRestarts:
        """Starts by us."""
        return SqlRestarts(self.connection)

    @cached_property
    def last_good(self) -> SqlLastGoods:
        """Settings to go back to."""
        return SqlLastGoods(self.connection)

    @cached_property
    def audit(self) -> SqlAudit:
        """Who did what."""
        return SqlAudit(self.connection)

    @cached_property
    def reports(self) -> SqlReports:
        """Weekly reports."""
        return SqlReports(self.connection)

    @cached_property
    def evidence(self) -> SqlEvidence:
        """What was seen at incidents."""
        return SqlEvidence(self.connection)
