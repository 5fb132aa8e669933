"""The weekly report: numbers equal to the counts they come from, every state in words, nothing unescaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from types import MappingProxyType

import pytest

from monitor.intervals.loads import Loads
from monitor.model.alert import Alert, AlertState, fingerprint
from monitor.model.counts import SpeculationCounts, TrafficCounts
from monitor.model.decision import (
    Action,
    Decision,
    DecisionId,
    DecisionState,
    Precondition,
    Reason,
    ThresholdAnswer,
)
from monitor.model.interval import Interval
from monitor.model.life import Life, LifeId, Setting, StartEvidence
from monitor.model.rollout import Change, ChangeId, ChangeState, Measured, Outcome, RolloutId
from monitor.model.server import Group, GroupName, ServerName
from monitor.report.build import Inputs, group_report, whole
from monitor.report.charts import marks, trend_charts
from monitor.report.content import WeeklyReport
from monitor.report.reading import TREND_POINTS, Read
from monitor.report.render import change_text, to_html, to_json, to_markdown
from monitor.show.picture import picture
from monitor.signals.track import Pair
from tests.fakes import story

START = datetime(2026, 3, 2, tzinfo=UTC)
END = START + timedelta(days=7)
SERVER = ServerName("chat-1")
CHAT = Group(name=GroupName("chat"), servers=(SERVER,))
NGRAM = Setting(method="ngram", num_speculative_tokens=2)


def history(start: datetime, *, count: int = 40, accepted: float = 600.0, model: str = "m") -> list[Pair]:
    life = Life(
        id=LifeId(f"l{start}"), server=SERVER, model=model, engine="0", first_seen=start,
        evidence=StartEvidence.FIRST_SEEN, counts_from_zero=False, setting=NGRAM, engine_version="0.32.0",
    )
    pairs = []
    for index in range(count):
        begin = start + timedelta(hours=index)
        pairs.append(
            (
                life,
                Interval(
                    life=life.id, server=SERVER, start=begin, end=begin + timedelta(hours=1), elapsed_seconds=3600.0,
                    speculation=SpeculationCounts(500.0, 1000.0, accepted, (350.0, accepted - 350.0)),
                    speculation_seconds=3600.0,
                    traffic=TrafficCounts(generation_tokens=500.0 + accepted, finished={"stop": 10.0}),
                    traffic_seconds=3600.0,
                ),
            )
        )
    return pairs


def decision() -> Decision:
    return Decision(
        id=DecisionId("d1"), group=GroupName("chat"), servers=(SERVER,), rule="raise-tokens", action=Action.RAISE,
        reason=Reason.ABOVE_RAISE_THRESHOLD, sentence="Acceptance is 99 % over 30 min.", current=NGRAM,
        proposed=replace(NGRAM, num_speculative_tokens=3), precondition=Precondition({}, NGRAM), made_at=END,
        expires_at=END, gain=0.2, gain_low=0.1, gain_high=0.3,
        threshold=ThresholdAnswer(Action.RAISE, 3, "raise to 3"),
    )


def change(state: ChangeState, outcome: Outcome, gain: float) -> Change:
    return Change(
        id=ChangeId("c1"), rollout=RolloutId("r1"), server=SERVER, position=0, state=state, current=NGRAM,
        proposed=replace(NGRAM, num_speculative_tokens=3), entered_at=START + timedelta(hours=20), outcome=outcome,
        sentence="Kept: it is faster.",
        measured=Measured(gain=gain, gain_low=gain - 0.05, gain_high=gain + 0.05, method="matched", minutes=12,
                          sentence=""),
    )


def built(
    groups: Sequence[Group] = (CHAT,), pairs: dict[ServerName, list[Pair]] | None = None,
    loads: Mapping[ServerName, Loads] = MappingProxyType({}), **changes: object,
) -> WeeklyReport:
    base: dict[str, object] = {
        "key": "2026-W10", "start": START, "end": END, "made_at": END, "host": "h",
        "decisions": {"chat": decision()},
        "changes": [change(ChangeState.PROMOTED, Outcome.MEASURED_BETTER, 0.18)],
    }
    inputs = Inputs(**{**base, **changes})  # type: ignore[arg-type]
    if pairs is None:
        pairs = {SERVER: history(START - timedelta(days=3), accepted=500.0) + history(START)}
    found = Read(pairs, pairs, points=TREND_POINTS, loads=loads, loads_before={})
    return whole(inputs, [group_report(inputs, group, found) for group in groups])


def test_the_figures_are_the_counts() -> None:
    report = built()
    server = report.groups[0].servers[0]
    assert server.figures["acceptance_rate"] == pytest.approx(0.6)
    assert server.figures["acceptance_length"] == pytest.approx(2.2)
    assert server.before["acceptance_rate"] == pytest.approx(0.5)
    assert server.survival == pytest.approx((0.7, 0.5))
    assert server.generation_tokens == 40 * 1100
    assert server.setting == "ngram, 2 tokens"


def test_the_trend_keeps_its_gaps_and_its_rates() -> None:
    pairs = history(START, count=5) + history(START + timedelta(days=3), count=5)
    trend = built(pairs={SERVER: pairs}).groups[0].servers[0].trend
    rates = [point.acceptance_rate for point in trend]
    assert None in rates
    assert all(rate == pytest.approx(0.6) for rate in rates if rate is not None)
    assert sum(rate is not None for rate in rates) == 10


def test_what_to_do_comes_first_with_its_worth_and_a_command() -> None:
    report = built()
    assert report.todo[0].command == "acceptd plan d1"
    speed = report.groups[0].generation_tokens_per_second
    assert speed is not None and report.todo[0].worth == pytest.approx(0.2 * speed)
    assert "1 change: 1 kept, 0 undone" in report.headline
    assert "+18.0%" in report.headline


@pytest.mark.parametrize(
    "change", [{"gain": -0.1}, {"state": DecisionState.ACTED_ON}, {"state": DecisionState.REJECTED}], ids=str
)
def test_what_loses_or_is_settled_is_nothing_to_do(change: dict[str, object]) -> None:
    settled = replace(decision(), **change)  # type: ignore[arg-type]
    assert built(decisions={"chat": settled}).todo == ()


def test_a_firing_alert_is_something_to_do() -> None:
    labels = {"alertname": "ServerDown", "severity": "page", "server": "chat-1", "group": "chat"}
    alert = Alert(
        fingerprint=fingerprint(labels), labels=labels, annotations={"summary": "chat-1 is down"},
        state=AlertState.FIRING, active_since=START, fired_at=START, notified_at=START, incident="i",
    )
    report = built(alerts=[alert], decisions={})
    assert [(item.text, item.command) for item in report.todo] == [
        ("chat: ServerDown has been firing for 7 d (chat-1).", "acceptd alerts")
    ]
    assert "1 page" in report.headline


def test_what_fires_is_told_pages_first_and_what_is_of_no_group_too() -> None:
    alerts = [
        story.alert("AcceptanceSlowFall", "ticket", END, hours=3, server="chat-1", group="chat"),
        *(story.alert("ServerDown", "page", END, hours=n, server=f"chat-{n}", group="chat") for n in (1, 2)),
        story.alert("HostSilent", "page", END, hours=5, host="gpu-7"),
        story.alert("Saturated", "info", END, hours=5, server="chat-1", group="chat"),
    ]
    report = built(alerts=alerts, decisions={})
    assert [item.text for item in report.todo] == [
        "HostSilent has been firing for 5 h (gpu-7).",
        "chat: ServerDown has been firing for 2 h (chat-1, chat-2).",
        "chat: AcceptanceSlowFall has been firing for 3 h (chat-1).",
    ]
    for text in (to_html(report), to_markdown(report)):
        assert "Incidents of hosts and of acceptd itself" in text and "fleet: HostSilent" in text
    assert [alert.name for alert in report.alerts] == ["HostSilent"]
    assert "; 3 pages;" in report.headline and report.groups[0].pages == 2


def test_servers_without_data_are_something_to_look_into() -> None:
    groups = [Group(name=GroupName("chat"), servers=tuple(ServerName(f"chat-{n}") for n in range(1, 9)))]
    report = built(groups=groups, decisions={}, changes=[])
    (todo,) = report.todo
    assert todo.text == (
        "Find out why there is no data of chat-2, chat-3, chat-4, chat-5, chat-6 and 2 more in the whole period."
    )
    assert report.headline.startswith("8 servers in 1 group; no data of 7 of them; no changes")


def test_an_incident_says_how_long_it_was_and_whether_it_called_anybody() -> None:
    over = story.alert("ServerDown", "page", END, hours=5, resolved=4.5, server="chat-1", group="chat")
    silent = replace(story.alert("NoSamples", "page", END, hours=5, resolved=4, server="chat-1", group="chat"),
                     notified_at=None)
    report = built(alerts=[over, silent])
    for text in (to_html(report), to_markdown(report)):
        assert "(for 30 min)" in text and "(for 1 h; silenced or told as part of another)" in text
    assert "; 1 page;" in report.headline


def test_figures_move_in_units_that_say_what_moved() -> None:
    assert change_text(0.65, 0.72, "share") == "-7.0 points"
    assert change_text(3.0, 2.0, "count") == "from 2"
    assert change_text(3.0, 3.0, "count") == ""
    assert change_text(110.0, 100.0, "number") == "+10%"
    assert change_text(110.0, 0.0, "number") == change_text(None, 1.0, "time") == ""


def test_markdown_keeps_its_paragraphs_apart() -> None:
    lines = to_markdown(built()).splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("**", "Noise", "#")) and number:
            assert lines[number - 1] == "", line


def test_a_change_is_dated_by_its_beginning_though_going_back_took_time() -> None:
    begun = START + timedelta(hours=20)
    undone = replace(
        change(ChangeState.ROLLED_BACK, Outcome.MEASURED_WORSE, -0.3),
        entered_at=begun + timedelta(hours=1), started_at=begun + timedelta(minutes=50),
        history=(f"{begun:%Y-%m-%dT%H:%M:%SZ} draining: draining chat-1", "later"),
    )
    assert built(changes=[undone]).groups[0].changes[0].at == begun


@pytest.mark.parametrize("render", [to_html, to_markdown, to_json])
def test_a_report_without_data_says_so(render: object) -> None:
    report = built(pairs={}, decisions={}, changes=[])
    text = render(report)  # type: ignore[operator]
    assert "No data in this period." in text
    assert "nan" not in text.lower().replace("nano", "")


def test_each_form_tells_the_change_and_its_measured_gain() -> None:
    report = built()
    for text in (to_html(report), to_markdown(report)):
        assert "ngram, 3 tokens" in text
        assert "+18.0%" in text
        assert "+13.0% to +23.0%" in text
        assert "Kept: it is faster." in text
    assert json.loads(to_json(report))["groups"][0]["changes"][0]["gain"] == pytest.approx(0.18)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_a_model_name_cannot_inject_markup_or_reach_outside() -> None:
    evil = "<script src='http://x'>|*a*"
    pairs = {SERVER: history(START, model=evil)}
    report = built(pairs=pairs)
    tags = Tags()
    tags.feed(to_html(report))
    assert not [tag for tag, _ in tags.seen if tag in ("script", "img", "link", "iframe")]
    assert not [v for _, attrs in tags.seen for k, v in attrs.items() if k in ("src", "href") and (v or "")[0] != "#"]
    assert "\\<script" in to_markdown(report)
    assert "\\|\\*a\\*" in to_markdown(report)


def test_a_model_name_steers_no_terminal_on_which_the_report_is_printed() -> None:
    report = built(pairs={SERVER: history(START, model="m\x1b[2J\x9b31m\u202e|x")})
    assert all(line.isprintable() for line in to_markdown(report).splitlines())
    assert "m\\x1b" in to_markdown(report)


def test_simulated_is_marked() -> None:
    report = built(simulated=True)
    assert "SIMULATED" in to_html(report)
    assert to_markdown(report).startswith("# SIMULATED")


def test_a_chart_is_a_picture() -> None:
    report = built()
    group = report.groups[0]
    charts = trend_charts(group.servers[0].trend, group.changes, 0.6, report.start, report.end)
    assert picture("a $week$", charts).startswith(b"\x89PNG")


def test_what_was_given_up_or_goes_back_is_undone_in_the_headline_the_table_and_the_charts() -> None:
    ends = (
        (ChangeState.PROMOTED, Outcome.MEASURED_BETTER), (ChangeState.ROLLED_BACK, Outcome.MEASURED_WORSE),
        (ChangeState.ABANDONED, Outcome.DRAIN_TIMED_OUT), (ChangeState.UNDOING, Outcome.MEASURED_WORSE),
        (ChangeState.OBSERVING, None),
    )  # fmt: skip
    report = built(changes=[replace(change(state, Outcome.NOT_PROVED, 0.1), outcome=why) for state, why in ends])
    changes = report.groups[0].changes
    assert [one.ending for one in changes] == ["kept", "undone", "undone", "undone", "open"]
    assert "5 changes: 1 kept, 3 undone" in report.headline
    assert '<td class="n">1 / 3</td>' in to_html(report)
    assert [mark.kind for mark in marks(changes)] == [one.ending for one in changes]
    assert json.loads(to_json(report))["groups"][0]["changes"][2]["ending"] == "undone"
