"""Daemons that share a database: each server has one of them, hosts that go silent are noticed, nobody holds on."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from monitor.app.membership import GONE, Candidate, Host, Member
from monitor.errors import StoreError
from monitor.model.server import ServerName
from monitor.store.naming import NameTaken
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore

FOUND = [Candidate(ServerName(f"s{number}"), "pool") for number in range(40)]


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.shared = MemoryStore()

    def member(self, name: str) -> Member:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        return Member(self.shared, name, home, self.clock, lease_seconds=60.0)

    def twin(self, name: str, place: str = "elsewhere") -> Member:
        """Another daemon of that name, on a folder of its own."""
        home = self.folder / place / name
        home.mkdir(parents=True, exist_ok=True)
        return Member(self.shared, name, home, self.clock, lease_seconds=60.0)

    def seen_from(self, name: str) -> tuple[Host, ...]:
        """Hosts that somebody else finds."""
        return self.member(name).beat([], [], []).hosts

    def beats(self, *members: Member, times: int = 1, busy: Iterable[ServerName] = ()) -> None:
        for _ in range(times):
            for member in members:
                member.beat(FOUND, ["pool"], list(busy))
            self.clock.advance(15.0)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def shares(*members: Member) -> list[int]:
    owned = [member.standing.leases.keys() for member in members]
    assert set().union(*owned) == {one.server for one in FOUND}
    assert sum(map(len, owned)) == len(FOUND)  # nobody holds what another holds
    return [len(one) for one in owned]


def test_found_servers_are_divided_and_move_when_hosts_come_and_go(bench: Bench) -> None:
    first, second, third = (bench.member(f"h{n}") for n in (1, 2, 3))
    bench.beats(first)
    assert shares(first) == [40]
    bench.beats(first, second, third, times=3)
    before = shares(first, second, third)
    assert min(before) >= 5
    kept = set(first.standing.leases)
    bench.beats(first, third, times=6)  # the second is gone; its leases end after a minute
    assert shares(first, third)[0] >= before[0]
    assert kept <= set(first.standing.leases)  # nothing moves that need not
    hosts = [(host.name, host.silent_since is not None) for host in first.standing.hosts]
    assert hosts == [("h2", True), ("h3", False)]


def test_servers_of_a_file_stay_with_their_daemon_and_one_of_two_has_them(bench: Bench) -> None:
    own = [Candidate(ServerName("mine"), None)]
    first, second = bench.member("h1"), bench.member("h2")
    first.beat(own, [], [])
    second.beat(own, [], [])
    assert list(first.standing.leases) == ["mine"]
    assert (second.standing.leases, second.standing.others) == ({}, {"mine": "h1"})
    bench.clock.advance(61)
    second.beat(own, [], [])
    assert list(second.standing.leases) == ["mine"]
    assert second.standing.unknown == {"mine"}  # what the first one counted must be taken over


def test_a_server_is_given_back_only_when_nothing_of_it_is_under_way(bench: Bench) -> None:
    first, second = bench.member("h1"), bench.member("h2")
    bench.beats(first)
    everything = [one.server for one in FOUND]
    bench.beats(first, second, times=2, busy=everything)
    leaving = first.standing.leaving
    assert leaving and leaving < set(everything)
    assert len(first.standing.leases) == 40 and second.standing.leases == {}
    bench.beats(first, second, times=2)
    assert set(second.standing.leases) == leaving
    assert second.standing.unknown == leaving
    second.adopted(leaving)
    assert second.standing.unknown == frozenset()


def test_a_restart_keeps_what_it_had_and_one_alone_in_between_needs_nothing(bench: Bench) -> None:
    first = bench.member("h1")
    bench.beats(first)
    again = bench.member("h1")
    assert again.remembered() == {one.server for one in FOUND}
    bench.clock.advance(500)  # its leases are over, but nobody came
    bench.beats(again)
    assert (len(again.standing.leases), again.standing.unknown) == (40, frozenset())


def test_lost_fences_mean_that_everything_is_taken_over_once_more(bench: Bench) -> None:
    first = bench.member("h1")
    bench.beats(first)
    bench.clock.advance(500)
    bench.beats(first)
    (bench.folder / "h1" / "fences.json").write_text("no JSON")
    again = bench.member("h1")
    bench.beats(again)
    assert len(again.standing.unknown) == 40


def test_who_says_goodbye_is_not_called_silent_and_one_gone_for_long_is_forgotten(bench: Bench) -> None:
    first, second, third = (bench.member(f"h{n}") for n in (1, 2, 3))
    bench.beats(first, second, third)
    second.leave()
    bench.clock.advance(61)
    bench.beats(first)
    assert [host.name for host in first.standing.hosts] == ["h3"]
    bench.clock.advance(GONE.total_seconds())
    bench.beats(first)
    assert first.standing.hosts == ()


def test_one_of_all_is_the_watchman_and_work_of_the_fleet_has_one_holder(bench: Bench) -> None:
    first, second = bench.member("h1"), bench.member("h2")
    bench.beats(first, second)
    assert (first.standing.is_watchman, second.standing.is_watchman) == (True, False)
    assert first.role("report", 60) and not second.role("report", 60)
    bench.clock.advance(61)
    bench.beats(second, first)
    assert second.standing.is_watchman and second.role("report", 60)


class TestTwoOfOneName:
    def test_the_second_is_refused_and_holds_nothing_until_the_first_is_gone(self, bench: Bench) -> None:
        first, second = bench.member("h1"), bench.twin("h1")
        bench.beats(first)
        with pytest.raises(NameTaken, match=r"another acceptd has this name in the fleet \(.+@.+:.*/h1\)"):
            bench.beats(second)
        assert (second.name, second.standing.leases, second.standing.is_watchman) == (None, {}, False)
        # It watches nothing that anybody does, though the holder's name is its own.
        assert second.standing.others == {one.server: "h1" for one in FOUND}
        with pytest.raises(NameTaken):
            second.role("report", 60)
        bench.beats(first)
        second.leave()  # says no goodbye in the other's name
        assert [one.name for one in bench.seen_from("h9")] == ["h1"]
        bench.clock.advance(61)
        bench.beats(second)
        assert len(second.standing.leases) == 40
        assert len(second.standing.unknown) == 40  # what the first one counted must be taken over
        with pytest.raises(NameTaken):
            bench.beats(first)  # it slept, and wakes up too late

    def test_a_restart_on_the_same_folder_is_not_kept_waiting(self, bench: Bench) -> None:
        bench.beats(bench.member("h1"))
        again = bench.member("h1")
        bench.beats(again)
        assert (len(again.standing.leases), again.standing.unknown) == (40, frozenset())

    def test_after_a_goodbye_another_folder_may_have_it_at_once(self, bench: Bench) -> None:
        first, second = bench.member("h1"), bench.twin("h1")
        bench.beats(first)
        first.leave()
        bench.beats(second)
        # Leases of servers are still in force, under the same name: not taken for its own past.
        assert len(second.standing.unknown) == 40

    def test_a_copied_folder_is_told_apart(self, bench: Bench) -> None:
        first = bench.member("h1")
        bench.beats(first)
        shutil.copytree(bench.folder / "h1", bench.folder / "copy" / "h1")
        bench.beats(bench.twin("h1", "copy"))
        with pytest.raises(NameTaken, match="runs on a copy of this data folder"):
            bench.beats(first)


def test_while_the_database_is_away_what_was_found_last_stands(bench: Bench) -> None:
    first = bench.member("h1")
    bench.beats(first)
    bench.shared.away = StoreError("away")
    with pytest.raises(StoreError):
        first.beat(FOUND, ["pool"], [])
    assert len(first.standing.leases) == 40
