"""What is pruned, and what must not be, on every kind of store."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from monitor.model.alert import AlertState
from monitor.model.decision import Action, DecisionState
from monitor.model.notice import DeliveryState
from monitor.model.record import (
    AuditEntry,
    Baseline,
    Checks,
    Command,
    CommandKind,
    Evidence,
    Pause,
    Rejection,
    Restart,
)
from monitor.model.rollout import RolloutState
from monitor.store import Retention, Store
from tests.integration.store.values import (
    EAST,
    T0,
    A,
    B,
    alert,
    at,
    change,
    decision,
    head,
    interval,
    life,
    notice,
    reading,
    rollout,
    silence,
)

DAY = 86400.0
KEEP = Retention(
    raw_hours=48, history_days=10, keep_decisions_days=2, notices_days=5, evidence_days=3
)



def test_intervals_go_by_their_end_with_their_side_rows(store: Store) -> None:
    with store.write() as unit:
        for each in (life("a1"), life("b1", server=B)):
            unit.lives.add(each)
            unit.intervals.add([interval(each, 0), interval(each, 15), interval(each, 15 + 48 * 3600)])
    deleted = store.prune(at(15 + 48 * 3600), KEEP)
    assert deleted["intervals"] == 2
    assert set(deleted) <= {"intervals", "interval_details"}
    with store.read() as unit:
        kept = unit.intervals.between(None, at(-999), at(99 * DAY))
        assert [(each.life, each.end) for each in kept] == [
            ("a1", at(15)), ("b1", at(15)), ("a1", at(15 + 48 * 3600)), ("b1", at(15 + 48 * 3600)),
        ]  # fmt: skip
        assert kept[0] == interval(life("a1"), 15)
    sizes = {table.name: table.rows for table in store.sizes().tables}
    assert sizes.get("interval_details", 4) == 4
    assert store.prune(at(15 + 48 * 3600), KEEP) == {}


def test_checks_stay_as_long_as_rollups_of_five_minutes(store: Store) -> None:
    keep = replace(KEEP, five_minutes_days=30)
    with store.write() as unit:
        unit.checks.add([Checks(A, at(0), 20, 0), Checks(A, at(300), 19, 1)])
    assert store.prune(at(300 + 30 * DAY), keep) == {"checks": 1}
    with store.read() as unit:
        assert unit.checks.between(None, at(-DAY), at(DAY)) == [Checks(A, at(300), 19, 1)]


def test_open_lives_stay_and_ended_ones_go_with_their_heads(store: Store) -> None:
    open_, over, fresh = life("open"), life("over", ended=at(0)), life("fresh", ended=at(9 * DAY))
    with store.write() as unit:
        for each in (open_, over, fresh):
            unit.lives.add(each)
            unit.heads.put([head(each)])
    store.prune(at(9.5 * DAY), KEEP)
    with store.read() as unit:
        assert [unit.lives.get(each.id) for each in (open_, over, fresh)] == [open_, over, fresh]
        assert [unit.heads.get(each.id) is None for each in (open_, over, fresh)] == [False, True, False]
    store.prune(at(10.1 * DAY), KEEP)
    with store.read() as unit:
        assert [unit.lives.get(each.id) for each in (open_, over, fresh)] == [open_, None, fresh]


def test_an_ended_life_stays_while_its_intervals_or_rollups_do(store: Store) -> None:
    keep = replace(KEEP, history_days=1, raw_hours=240, five_minutes_days=1, hours_days=20, days_days=20)
    with store.write() as unit:
        unit.lives.add(life(ended=at(15)))
        unit.intervals.add([interval(life(), 15)])
    for day, stays in ((5, True), (11, True), (22, False)):
        store.prune(at(day * DAY), keep)
        with store.read() as unit:
            assert (unit.lives.get(life().id) is not None) is stays
    assert store.prune(at(23 * DAY), keep) == {}


def test_readings_of_servers_that_are_gone_go(store: Store) -> None:
    with store.write() as unit:
        unit.readings.put(reading(A))
        unit.readings.put(reading(B, at(2 * DAY)))
    store.prune(at(3 * DAY), KEEP)
    with store.read() as unit:
        assert [each.reading.server for each in unit.readings.all()] == [B]


def test_decisions_that_kept_go_first_and_the_newest_and_the_awaited_stay(store: Store) -> None:
    rows = [
        decision("keep-old", action=Action.KEEP, state=DecisionState.STANDING),
        decision("raise-old", made_at=at(1), state=DecisionState.ACTED_ON),
        decision("awaited", made_at=at(2), state=DecisionState.AWAITING_APPROVAL),
        decision("keep-newest", made_at=at(3), action=Action.KEEP, state=DecisionState.STANDING),
    ]
    with store.write() as unit:
        for row in rows:
            unit.decisions.add(row)
    store.prune(at(3 * DAY), KEEP)
    with store.read() as unit:
        assert [row.id for row in unit.decisions.since(EAST, T0)] == ["raise-old", "awaited", "keep-newest"]
    store.prune(at(11 * DAY), KEEP)
    with store.read() as unit:
        assert [row.id for row in unit.decisions.since(EAST, T0)] == ["awaited", "keep-newest"]


def test_rollouts_and_changes_are_never_pruned(store: Store) -> None:
    done = rollout("r", state=RolloutState.PROMOTED)
    with store.write() as unit:
        unit.rollouts.add(done)
        unit.changes.add([change("c", done)])
    store.prune(at(9999 * DAY), KEEP)
    with store.read() as unit:
        assert unit.rollouts.get(done.id) == done
        assert unit.changes.of_rollout(done.id) == [change("c", done)]


def test_alerts_go_once_they_are_long_over(store: Store) -> None:
    with store.write() as unit:
        unit.alerts.put(
            [
                alert("firing"),
                alert("over", state=AlertState.RESOLVED, resolved_at=at(1)),
                alert("lately", state=AlertState.RESOLVED, resolved_at=at(9 * DAY)),
            ]
        )
    store.prune(at(11 * DAY), KEEP)
    with store.read() as unit:
        assert {each.name for each in unit.alerts.all()} == {"firing", "lately"}


def test_notices_go_with_their_deliveries_unless_one_is_pending(store: Store) -> None:
    with store.write() as unit:
        unit.outbox.queue(notice("sent"), ["slack"], T0)
        ((_, delivery),) = unit.outbox.due(T0, 1)
        unit.outbox.update(replace(delivery, state=DeliveryState.SENT, sent_at=T0, external_id="C1:1"))
        unit.outbox.queue(notice("pending"), ["slack", "console"], T0)
    store.prune(at(6 * DAY), KEEP)
    with store.read() as unit:
        assert [(n.id, len(deliveries)) for n, deliveries in unit.outbox.recent(9)] == [("pending", 2)]
        assert unit.outbox.sent_in("t1", "slack") == []
    sizes = {table.name: table.rows for table in store.sizes().tables}
    assert sizes["deliveries"] == 2


def test_small_records_go_once_they_are_over(store: Store) -> None:
    with store.write() as unit:
        unit.silences.add(silence("1", 0, 60))
        unit.pauses.set(Pause("group:a", "anna", "x", T0, at(60)))
        unit.pauses.set(Pause("group:b", "anna", "x", T0))
        unit.commands.add(Command("done", CommandKind.REPORT, "", "anna", T0))
        unit.commands.finish("done", at(1), "made")
        unit.commands.add(Command("open", CommandKind.REPORT, "", "anna", T0))
        unit.restarts.add(Restart(A, T0, "x", "y"))
        unit.rejections.add(Rejection(EAST, 4, None, T0, at(DAY), 1, "x"))
        unit.audit.add(AuditEntry(T0, "anna", "x", "y", "z"))
        unit.evidence.add(Evidence("1", A, T0, "x", {"log": "y"}))
        unit.baselines.put(Baseline(A, "k", 2.0, 0.5, None, 9.0, T0, 1))
    assert store.prune(at(2 * DAY), KEEP) == {}
    assert set(store.prune(at(12 * DAY), KEEP)) == {
        "silences", "pauses", "commands", "restarts", "rejections", "audit", "evidence", "baselines",
    }  # fmt: skip
    with store.read() as unit:
        assert [pause.scope for pause in unit.pauses.active(at(0))] == ["group:b"]
        assert [command.id for command in unit.commands.pending()] == ["open"]


def test_an_empty_store_has_nothing_to_prune(store: Store) -> None:
    assert store.prune(at(timedelta(days=999).total_seconds()), Retention()) == {}


@pytest.mark.parametrize("name", [field.name for field in fields(Retention)])
def test_a_retention_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Retention(**{name: 0.0})


def test_what_nights_have_left_is_overdue_until_it_is_pruned(store: Store) -> None:
    with store.write() as unit:
        unit.lives.add(life())
        unit.intervals.add([interval(life(), 15), interval(life(), 9 * DAY)])
    store.roll_up(at(9 * DAY))
    # Two days are its time; days go whole, and once a day.
    assert not store.is_overdue(at(4 * DAY), KEEP)
    assert store.is_overdue(at(5 * DAY), KEEP)
    store.prune(at(5 * DAY), KEEP)
    assert not store.is_overdue(at(5 * DAY), KEEP)
