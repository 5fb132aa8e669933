"""What a report alone works out: throughput at equal load, noise, coverage, hindrances, confidence; a fleet of 500."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from monitor.intervals.loads import by_load
from monitor.model.decision import Action, DecisionState, Reason
from monitor.model.server import Group, GroupName, ServerName
from monitor.report.render import SMALL_FLEET, summary_picture, to_html, to_markdown
from monitor.report.weekly import LOAD_EDGES, confidence, covered_share, equal_load_change, hindrance, noise
from monitor.signals.track import Pair
from tests.fakes.story import alert
from tests.unit.report.test_report import END, SERVER, START, built, decision, history
from tests.unit.signals.windows import NOON, interval, life

WEEK = timedelta(days=7)


def served(end: float, tokens: float, running: float) -> Pair:
    one = life("a")
    return one, interval(one, end, seconds=60.0, generation=tokens * 60, running=running)


class TestEqualLoad:
    def change(self, before: list[tuple[float, float]], now: list[tuple[float, float]]) -> float | None:
        """Tokens a second and running requests, a minute each, of two periods."""
        found = [
            by_load([served(60.0 * number, *one)[1] for number, one in enumerate(period)], LOAD_EDGES)
            for period in (now, before)
        ]
        return equal_load_change(*(loads.get(ServerName("a"), {}) for loads in found))

    def test_more_load_is_no_gain(self) -> None:
        curve = {2.0: 200.0, 8.0: 600.0, 16.0: 900.0}
        light = [(curve[2.0], 2.0)] * 10 + [(curve[8.0], 8.0)] * 3
        heavy = [(curve[16.0], 16.0)] * 10 + [(curve[8.0], 8.0)] * 3
        assert self.change(light, heavy) == pytest.approx(0.0)

    def test_a_gain_at_every_load_is_found_whatever_the_mix(self) -> None:
        curve = {2.0: 200.0, 8.0: 600.0, 16.0: 900.0}
        light = [(curve[2.0], 2.0)] * 10 + [(curve[8.0], 8.0)] * 3
        heavy = [(curve[8.0] * 1.1, 8.0)] * 10 + [(curve[2.0] * 1.1, 2.0)]
        assert self.change(light, heavy) == pytest.approx(0.1)

    def test_loads_that_never_met_say_nothing(self) -> None:
        assert self.change([(200.0, 2.0)], [(900.0, 16.0)]) is None
        assert self.change([], [(900.0, 16.0)]) is None
        assert self.change([(5.0, 0.1)], [(9.0, 0.1)]) is None


def test_noise_counts_pages_a_shift_and_the_worst_one() -> None:
    end = NOON + WEEK
    pages = [alert("A", "page", end, hours=hours, resolved=0.1, server=str(hours)) for hours in (1, 2, 3, 50)]
    tickets = [alert("B", "ticket", end, hours=5, server="x")]
    found = noise([*pages, *tickets, alert("Old", "page", end, hours=200, server="y")], NOON, end)
    assert (found.pages, found.tickets, found.shifts, found.busiest) == (4, 1, 21.0, 3)


def test_what_one_message_told_is_one_call_and_what_nobody_was_told_is_none() -> None:
    end = NOON + WEEK
    storm = [replace(alert("Down", "page", end, hours=9, server=f"s-{n}"), incident="storm") for n in range(24)]
    later = replace(alert("Down", "page", end, hours=8.5, server="s-25"), incident="storm")
    silenced = replace(alert("Down", "page", end, hours=7, server="s-26"), notified_at=None)
    found = noise([*storm, later, silenced], NOON, end)
    assert (found.pages, found.busiest) == (2, 2)


def test_coverage_counts_engines_once_and_gaps_not_at_all() -> None:
    one, two = life("a"), life("a", engine="1")
    pairs = [(owner, interval(owner, end, seconds=600.0)) for owner in (one, two) for end in (600.0, 1200.0)]
    pairs.append((one, interval(one, 3600.0, seconds=2400.0, is_gap=True)))
    assert covered_share(pairs, NOON, NOON + timedelta(hours=1)) == pytest.approx(1200 / 3600)
    assert covered_share([], NOON, END) == 0.0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"action": Action.KEEP, "reason": Reason.TOO_LITTLE_DATA}, "too little traffic"),
        ({"action": Action.KEEP, "reason": Reason.ENGINE_ADAPTS_ITSELF}, "moves the number itself"),
        ({"state": DecisionState.REFUSED, "note": "not done: drain timed out"}, "drain timed out"),
        ({"action": Action.KEEP, "reason": Reason.BETWEEN_THRESHOLDS}, ""),
        ({}, ""),
    ],
    ids=str,
)  # fmt: skip
def test_why_a_group_could_not_be_tuned(more: dict[str, object], words: str) -> None:
    found = hindrance(replace(decision(), **more))  # type: ignore[arg-type]
    assert words in found and bool(found) == bool(words)
    assert hindrance(None) == "nothing was concluded yet"


def test_confidence_is_where_the_interval_lies() -> None:
    one = decision()
    intervals = ((0.2, 0.1, 0.3), (0.2, -0.1, 0.3), (-0.1, -0.2, 0.1), (0.1, None, None), (None, None, None))
    words = [confidence(replace(one, gain=gain, gain_low=low, gain_high=high)) for gain, low, high in intervals]
    assert [word.split(":")[0].split()[0] for word in words] == ["sure", "likely", "doubtful", "without", "not"]


class Balanced(HTMLParser):
    """Fails where a tag is closed that was not opened."""

    VOID = frozenset({"meta", "br", "path", "circle", "rect", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_of_500_servers_is_one_page_by_groups_and_of_one_server_has_its_charts() -> None:
    shared = history(START - timedelta(days=3)) + history(START)
    names = [ServerName(f"s-{number}") for number in range(500)]
    groups = [Group(name=GroupName(f"g-{n}"), servers=tuple(names[n * 100 : n * 100 + 100])) for n in range(5)]
    pairs = {name: [(own, replace(one, server=name)) for own, one in shared[::8]] for name in names}
    large = built(groups=groups, pairs=pairs, decisions={}, changes=[])
    text = to_html(large)
    Balanced(text)
    assert len(names) > SMALL_FLEET and text.count("<svg") == 5 * 3 + 500
    assert all(f">{name}<" in text for name in names)
    assert len(text) < 2_000_000
    small = to_html(built())
    Balanced(small)
    assert small.count("<svg") == 3 and "at equal load" in small


def test_what_is_new_is_in_page_and_text() -> None:
    # Sixty hours at some load, and twenty of nothing.
    loads = {SERVER: {0: (0.0, 72_000.0), 5: (1e6, 216_000.0)}}
    report = built(loads=loads)
    (todo,) = report.todo
    assert todo.server_hours == pytest.approx(60 * (1 - 1 / 1.2))
    for text in (to_html(report), to_markdown(report)):
        assert "or 10 server-hours a week" in text and "Confidence: sure" in text
        assert "pages a shift of eight hours" in text
    # Where nothing is known of loads nothing is known of hours.
    assert built().todo[0].server_hours is None
    picture = summary_picture(report)
    assert picture is not None and picture.startswith(b"\x89PNG")
    assert summary_picture(built(pairs={}, decisions={}, changes=[])) is None
