"""Benchmarks are run by hand: that they still run is tested with a few servers, what they measure is not."""

from __future__ import annotations

import re

import pytest

from tests.bench import cycle, replay, simulator


def test_a_turn_is_timed_with_either_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert cycle.main(["--servers", "4", "--group-size", "2", "--turns", "2"]) == 0
    told = capsys.readouterr().out
    assert [name for name in ("guarded", "goodput") if f"4 servers, 2 groups, rules {name}:" in told] == [
        "guarded", "goodput"
    ]  # fmt: skip
    assert len(re.findall(r"a turn takes \d+\.\d\d CPU s", told)) == 2


def test_a_replay_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.main(["--servers", "2", "--group-size", "2", "--days", "0.1"]) == 0
    assert re.search(r"2 servers x 0.1 days: \d+\.\d s, \d+\.\d CPU s", capsys.readouterr().out)


def test_a_simulated_week_is_timed_with_either_load(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulator.main(["--servers", "2", "--minutes", "0.5", "--clients", "4"]) == 0
    told = capsys.readouterr().out
    assert re.findall(r"2 servers, (\w+):", told) == ["closed", "open"]
    assert len(re.findall(r"a week of all in \d+ CPU min, \d+\.\d a server", told)) == 2
