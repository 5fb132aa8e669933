from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.model.outcome import Truth
from monitor.model.server import GroupName, ServerName
from monitor.model.slo import SLICED, Indicator
from monitor.slo.book import SloBook, freezes
from monitor.slo.burn import SloStatus
from monitor.slo.load import load_slos
from tests.unit.signals.windows import life
from tests.unit.slo.slos import histogram, interval, seconds

GROUPS = {GroupName("chat"): [ServerName("a"), ServerName("b")], GroupName("code"): [ServerName("c")]}
TTFT = "name: ttft, indicator: time_to_first_token, threshold: 1s, objective: 0.99"
UPTIME = "name: up, indicator: uptime, objective: 0.99"
ACCEPTANCE = "name: acc, indicator: acceptance, threshold: 0.6, objective: 0.9"
AVAILABILITY = "name: av, indicator: availability, objective: 0.99"


def book(*entries: str) -> SloBook:
    text = "slos:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries)
    return SloBook(load_slos({"s.yaml": text}), GROUPS)


def status(found: SloBook, at: float, group: str = "chat") -> SloStatus:
    (only,) = [s for s in found.statuses(seconds(at)) if s.scope["group"] == group]
    return only


def test_an_slo_without_a_scope_is_kept_for_each_group_and_adds_its_servers() -> None:
    found = book(TTFT)
    found.add_interval(interval(15, server="a", ttft=histogram(1, 9, 10, 10)))
    found.add_interval(interval(15, server="b", ttft=histogram(1, 5, 10, 10)))
    found.add_interval(interval(15, server="c", ttft=histogram(0, 0, 1, 1)))
    found.add_interval(interval(15, server="stranger", ttft=histogram(0, 0, 99, 99)))
    chat, code = status(found, 60).attainment, status(found, 60, "code").attainment
    assert (chat.good, chat.valid) == (14.0, 20.0)
    assert (code.good, code.valid) == (0.0, 1.0)


def test_an_slo_of_one_server_counts_that_server() -> None:
    found = book(f"{TTFT}, server: b")
    found.add_interval(interval(15, server="a", ttft=histogram(0, 0, 9, 9)))
    found.add_interval(interval(15, server="b", ttft=histogram(1, 5, 5, 5)))
    one = status(found, 60)
    assert (one.attainment.good, one.attainment.valid, one.scope) == (5.0, 5.0, {"server": "b", "group": "chat"})


def test_an_slo_of_one_group_leaves_the_others_alone() -> None:
    assert [s.scope for s in book(f"{TTFT}, group: code").statuses(seconds(0))] == [{"group": "code"}]


class TestOfAModel:
    """One model on all servers of the fleet, counted together."""

    def book(self) -> SloBook:
        found = book(f"{TTFT}, model: llama, minimum_events: 1")
        found.learn(
            replace(life(server, number=number), model=model)
            for server, number, model in (("a", 1, "llama"), ("a", 2, "qwen"), ("c", 1, "llama"), ("b", 1, "qwen"))
        )
        return found

    def serve(self, found: SloBook, server: str, number: int, good: float, at: float = 15) -> None:
        name = f"{server}-0-{number}"
        found.add_interval(interval(at, server=server, life=name, ttft=histogram(good, good, 10, 10)))

    def test_it_counts_the_lives_of_that_model_on_whatever_server(self) -> None:
        found = self.book()
        for server, number, good in (("a", 1, 9), ("a", 2, 0), ("b", 1, 0), ("c", 1, 5)):
            self.serve(found, server, number, good)
        (one,) = found.statuses(seconds(60))
        assert (one.attainment.good, one.attainment.valid) == (14.0, 20.0)
        assert (one.scope, one.groups) == ({"model": "llama"}, {"chat", "code"})

    def test_a_life_that_nobody_told_of_counts_for_none(self) -> None:
        found = self.book()
        self.serve(found, "a", 7, 0)
        (one,) = found.statuses(seconds(60))
        assert one.attainment.valid == 0.0 and one.groups == frozenset()

    def test_its_burn_freezes_the_groups_that_have_it_and_names_the_model(self) -> None:
        found = self.book()
        for at in range(15, 7200, 15):
            self.serve(found, "c", 1, 0, at=at)
        statuses = found.statuses(seconds(7200))
        assert "burns its error budget" in freezes(statuses, "code") and freezes(statuses, "chat") == ""
        burning = [o for o in found.outcomes(statuses) if o.truth is Truth.TRUE]
        assert burning[0].labels["model"] == "llama" and burning[0].annotations["summary"].startswith("llama: ttft")


class TestPlannedWork:
    def test_latencies_and_slices_of_a_server_we_change_do_not_count(self) -> None:
        found = book(TTFT, ACCEPTANCE)
        slow = interval(15, ttft=histogram(0, 0, 9, 9), drafts=500, draft_tokens=500, accepted=0)
        found.add_interval(slow, planned=True)
        assert [s.attainment.valid for s in found.statuses(seconds(400)) if s.scope["group"] == "chat"] == [0.0, 0.0]

    def test_failed_requests_do_since_users_feel_them(self) -> None:
        found = book(AVAILABILITY)
        found.add_interval(interval(15, responses={"2xx": 5, "5xx": 5}), planned=True)
        assert status(found, 60).attainment.sli == 0.5

    def test_missed_checks_do_not_and_answered_ones_do(self) -> None:
        found = book(UPTIME)
        found.add_check(ServerName("a"), seconds(15), False, planned=True)
        found.add_check(ServerName("a"), seconds(30), True, planned=True)
        found.add_check(ServerName("a"), seconds(45), False)
        assert (status(found, 60).attainment.good, status(found, 60).attainment.valid) == (1.0, 2.0)


class TestHistoryReadAgain:
    def test_events_and_slices_may_come_from_different_spans(self) -> None:
        found = book(TTFT, ACCEPTANCE)
        hour = interval(3600, elapsed=3600.0, ttft=histogram(0, 9, 10, 10), drafts=900, draft_tokens=900, accepted=0)
        found.add_interval(hour, only={Indicator.TIME_TO_FIRST_TOKEN})
        for end in (300, 600):
            found.add_interval(interval(end, elapsed=300.0, drafts=500, draft_tokens=500, accepted=400), only=SLICED)
        by_name = {s.slo.name: s.attainment for s in found.statuses(seconds(3600)) if s.scope["group"] == "chat"}
        assert (by_name["ttft"].good, by_name["ttft"].valid) == (9.0, 10.0)
        assert (by_name["acc"].good, by_name["acc"].valid) == (2.0, 2.0)
        assert {str(one) for one in found.indicators} == {"time_to_first_token", "acceptance"}

    def test_a_slice_that_stands_for_many_weighs_as_many(self) -> None:
        found = book(f"{ACCEPTANCE}, slice: 1m")
        found.add_interval(interval(300, elapsed=300.0, drafts=1000, draft_tokens=1000, accepted=900))
        found.add_interval(interval(360, elapsed=15.0, drafts=1000, draft_tokens=1000, accepted=100))
        one = status(found, 421).attainment
        assert (one.good, one.valid) == (5.0, 6.0)

    def test_checks_come_as_they_were_counted(self) -> None:
        found = book(UPTIME, TTFT)
        found.add_checks(ServerName("a"), seconds(300), answered=18, missed=2)
        up = next(s for s in found.statuses(seconds(400)) if s.slo.name == "up" and s.scope["group"] == "chat")
        assert (up.attainment.good, up.attainment.valid) == (18.0, 20.0)


def test_slices_are_judged_for_each_server_and_added_to_its_group() -> None:
    found = book(ACCEPTANCE)
    for server, accepted in (("a", 700), ("b", 300)):
        found.add_interval(interval(100, server=server, drafts=1000, draft_tokens=1000, accepted=accepted))
    assert status(found, 200).attainment.valid == 0.0
    assert (status(found, 301).attainment.good, status(found, 301).attainment.valid) == (1.0, 2.0)


def test_the_least_budget_comes_first_and_what_is_not_known_last() -> None:
    found = book(TTFT, UPTIME)
    found.add_interval(interval(15, server="a", ttft=histogram(1, 9, 10, 10)))
    found.add_check(ServerName("c"), seconds(15), True)
    order = [(s.slo.name, s.scope["group"]) for s in found.statuses(seconds(60))]
    assert order[:2] == [("ttft", "chat"), ("up", "code")]


def test_a_burning_latency_freezes_its_group_and_a_burning_acceptance_none() -> None:
    found = book(TTFT, f"{ACCEPTANCE}, report_only: false")
    for m in range(1, 601):
        bad = interval(m * 60.0, server="a", ttft=histogram(0, 0, 9, 9), drafts=500, draft_tokens=500, accepted=0)
        found.add_interval(bad)
    statuses = found.statuses(seconds(36_000))
    assert freezes(statuses, "chat") == "SLO ttft of chat burns its error budget"
    assert freezes(statuses, "code") == ""
    burning = {o.labels["slo"] for o in found.outcomes(statuses) if o.truth is Truth.TRUE}
    assert burning == {"ttft", "acc"}
    only_acceptance = [s for s in statuses if s.slo.name == "acc"]
    assert freezes(only_acceptance, "chat") == ""


def test_how_far_back_the_store_must_be_read() -> None:
    assert book(TTFT, f"{UPTIME}, period: 90d").longest_seconds == pytest.approx(90 * 86400)
    assert SloBook((), GROUPS).longest_seconds == 0.0
