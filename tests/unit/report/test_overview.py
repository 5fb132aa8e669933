"""How everything stands, as plain data: right with and without data, the same numbers as the counts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from monitor.model.alert import Alert, AlertState, fingerprint
from monitor.model.decision import DecisionId
from monitor.model.life import LastReading, Setting
from monitor.model.reading import Flag, Reading, State, Verdict
from monitor.model.record import EVERYTHING, Pause, group_scope, server_scope
from monitor.model.rollout import Change, ChangeId, ChangeState, Rollout, RolloutId
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.report.figures import FIGURES
from monitor.report.history import history_rows, load_pairs
from monitor.report.overview import Known, overview, read_known
from tests.fakes.memory_store import MemoryStore
from tests.unit.signals.windows import NOON, interval, life, run_of

A, B = ServerName("a"), ServerName("b")
GROUP = Group(name=GroupName("g"), servers=(A, B))
SERVERS = [
    Server(name=name, group=GROUP.name, base_url=f"http://{name}", metrics_url=f"http://{name}/metrics")
    for name in (A, B)
]


class Desk:
    """A store with a server that serves and one that was never read."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.life = life("a")
        with self.store.write() as unit:
            unit.lives.add(self.life)
            unit.intervals.add([one for _, one in run_of(self.life, 40)])
            page = Reading(
                server=A, scraped_at=NOON - timedelta(seconds=3), monotonic=1.0, dialect="vllm_v1",
                verdict=Verdict.OK, reason="fine", state=State.IDLE,
                flags=frozenset({Flag.QUANTIZED_COUNTERS, Flag.BAD_SAMPLE}),
            )
            unit.readings.put(LastReading(page, NOON - timedelta(seconds=3)))

    def view(self, **more: Any) -> dict[str, Any]:
        with self.store.read() as unit:
            made = overview(unit, [GROUP], SERVERS, NOON, **more)
        # It goes to programs as it is.
        json.dumps(made, allow_nan=False)
        return made

    def servers(self, **more: Any) -> list[dict[str, Any]]:
        return list(self.view(**more)["groups"][0]["servers"])


def test_what_an_evaluation_leaves_for_the_page_shows_the_same_and_holds_nothing_else() -> None:
    desk = Desk()
    with desk.store.read() as unit:
        computed = read_known(unit, SERVERS, NOON, 300.0)
    kept = {name: Known.to_keep(one.signals, one.life) for name, one in computed.items()}
    assert desk.view(known=kept) == desk.view()
    assert type(kept[A].signals.scalars) is type(kept[A].signals.vectors) is dict
    assert len(kept[A].signals.scalars) == len(FIGURES) + 1


class TestServers:
    def test_figures_are_those_of_the_counts_in_the_window(self) -> None:
        for window, drafts in ((300.0, 20_000.0), (60.0, 4000.0)):
            figures = Desk().servers(window_seconds=window)[0]["figures"]
            assert figures["num_drafts"] == drafts
            assert figures["acceptance_rate"] == pytest.approx(0.5)
            assert figures["acceptance_length"] == pytest.approx(2.5)
            assert set(figures) == set(FIGURES)

    def test_what_the_page_said_and_how_old_it_is(self) -> None:
        one = Desk().servers()[0]
        assert (one["verdict"], one["state"], one["age_seconds"]) == ("ok", "idle", 3.0)
        assert one["flags"] == ["bad_sample", "quantized_counters"]
        assert (one["method"], one["num_speculative_tokens"], one["engine_version"]) == ("eagle3", 3, "0.11.0")

    def test_a_server_that_was_never_read_has_reasons_and_no_numbers(self) -> None:
        one = Desk().servers()[1]
        assert one["reason"] == "not read yet"
        assert set(one["figures"].values()) == {None}
        assert one["reasons"]["acceptance_rate"] == "no intervals in the window"
        assert {one[key] for key in ("verdict", "model", "setting", "read_at", "last_ok", "age_seconds")} == {None}

    def test_the_setting_is_that_of_the_newest_life(self) -> None:
        desk = Desk()
        newer = life("a", tokens=5, number=2)
        with desk.store.write() as unit:
            unit.lives.update(replace(desk.life, ended=NOON - timedelta(seconds=15)))
            unit.lives.add(newer)
            unit.intervals.add([interval(newer, 1e-3, per_pos=(700.0,) * 5)])
            made = overview(unit, [GROUP], SERVERS, NOON + timedelta(seconds=1))
        assert made["groups"][0]["servers"][0]["num_speculative_tokens"] == 5


class TestAlertsAndPauses:
    def alert(self, name: str, state: AlertState) -> Alert:
        labels = {"alertname": name, "severity": "page", "server": "a"}
        return Alert(
            fingerprint=fingerprint(labels), labels=labels, annotations={"summary": f"{name}!"}, state=state,
            active_since=NOON, fired_at=NOON if state is not AlertState.PENDING else None,
            resolved_at=NOON if state is AlertState.RESOLVED else None,
        )

    def test_only_what_is_pending_or_firing(self) -> None:
        desk = Desk()
        with desk.store.write() as unit:
            unit.alerts.put([self.alert(str(state), state) for state in AlertState])
        assert [(one["name"], one["summary"]) for one in desk.view()["alerts"]] == [
            ("pending", "pending!"), ("firing", "firing!")
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("scope", "group", "first", "second"),
        [
            (EVERYTHING, True, True, True), (group_scope("g"), True, False, False),
            (server_scope("b"), False, False, True), (server_scope("x"), False, False, False),
        ],
    )  # fmt: skip
    def test_a_pause_is_shown_where_it_holds(self, scope: str, group: bool, first: bool, second: bool) -> None:
        desk = Desk()
        with desk.store.write() as unit:
            unit.pauses.set(Pause(scope, "ann", "incident", NOON))
        view = desk.view()
        shown = view["groups"][0]
        found = [shown["paused"], *(server["paused"] for server in shown["servers"])]
        assert [text == "incident (ann)" for text in found] == [group, first, second]
        assert [pause["scope"] for pause in view["pauses"]] == [scope]


def test_what_is_under_way_stands_beside_its_server() -> None:
    desk = Desk()
    two, three = (Setting(method="eagle3", num_speculative_tokens=n) for n in (2, 3))
    with desk.store.write() as unit:
        unit.rollouts.add(
            Rollout(id=RolloutId("r"), group=GROUP.name, decision=DecisionId("d"), current=two, proposed=three,
                    created_at=NOON, requested_by="ann")
        )
        unit.changes.add(
            [Change(id=ChangeId("c"), rollout=RolloutId("r"), server=B, position=0, state=ChangeState.WARMING,
                    current=two, proposed=three, entered_at=NOON)]
        )
    group = desk.view()["groups"][0]
    assert group["rollout"]["id"] == "r"
    assert [server["change"] and server["change"]["state"] for server in group["servers"]] == [None, "warming"]


def test_no_servers_is_an_empty_view() -> None:
    with MemoryStore().read() as unit:
        made = overview(unit, [], [], NOON)
    assert (made["groups"], made["alerts"], made["pauses"], made["slos"]) == ([], [], [], None)


class TestHistory:
    def test_every_interval_is_in_one_step_and_none_is_lost(self) -> None:
        one = life("a")
        pairs = run_of(one, 40)
        rows = history_rows(pairs, NOON - timedelta(seconds=600), NOON, 60.0)
        assert [row["num_drafts"] for row in rows] == [4000.0] * 10
        assert rows[-1]["at"] == NOON.isoformat()
        odd = history_rows(pairs, NOON - timedelta(seconds=600), NOON, 75.0)
        assert sum(row["num_drafts"] for row in odd) == 40_000

    def test_a_span_that_is_no_multiple_of_the_step_ends_with_the_newest(self) -> None:
        rows = history_rows(run_of(life("a"), 40), NOON - timedelta(seconds=600), NOON, 250.0)
        assert [row["at"] for row in rows] == [
            (NOON - timedelta(seconds=seconds)).isoformat() for seconds in (500, 250, 0)
        ]  # fmt: skip
        assert rows[-1]["num_drafts"] == pytest.approx(16_500, abs=500)

    def test_a_step_without_data_has_none(self) -> None:
        rows = history_rows(run_of(life("a"), 4), NOON - timedelta(seconds=180), NOON, 60.0)
        assert [row["acceptance_rate"] for row in rows] == [None, None, pytest.approx(0.5)]
        assert set(rows[0]) >= {"at", "num_speculative_tokens", "acceptance_length", "step_seconds"}

    def test_an_interval_keeps_its_life_though_that_ended_before_the_span(self) -> None:
        store, old = MemoryStore(), life("a")
        with store.write() as unit:
            unit.lives.add(replace(old, ended=NOON - timedelta(hours=5)))
            unit.intervals.add([interval(old, 0.0)])
            found = load_pairs(unit, [A], NOON - timedelta(hours=1), NOON)
        assert [pair[0].id for pair in found[A]] == [old.id]
