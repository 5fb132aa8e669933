"""Block Kit messages keep Slack's limits whatever a server calls its model."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.alert import Severity
from monitor.model.notice import Notice, NoticeId, NoticeKind
from monitor.notify.blocks import cut, escape, render
from tests.fakes.slack_blocks import message_fault

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def notice(**changes: object) -> Notice:
    base: dict[str, object] = {
        "id": NoticeId("n1"),
        "kind": NoticeKind.ALERT_FIRING,
        "dedupe_key": "k",
        "thread": "t",
        "severity": Severity.PAGE,
        "title": "Server chat-1 is down",
        "text": "No answer for 2 minutes.",
        "created_at": NOW,
    }
    return Notice(**{**base, **changes})  # type: ignore[arg-type]


def test_a_channel_mention_in_a_model_name_is_only_text() -> None:
    message = render(notice(text="model <!channel> & co", title="<!channel>"))
    assert "<!channel>" not in message["text"]
    assert message["blocks"][1]["text"]["text"].endswith("model &lt;!channel&gt; &amp; co")


def test_a_page_mentions_the_user_group_and_a_resolve_does_not() -> None:
    assert "<!subteam^S1>" in render(notice(), mention="S1")["text"]
    assert "<!subteam^S1>" not in render(notice(kind=NoticeKind.ALERT_RESOLVED), mention="S1")["text"]
    assert "<!subteam^S1>" not in render(notice(severity=Severity.TICKET), mention="S1")["text"]
    # An edit says that things got better, and its copy in the thread would wake everybody for that.
    assert "<!subteam^S1>" not in render(notice(edits_root=True), mention="S1")["text"]


def test_simulated_stands_in_front() -> None:
    assert render(notice(simulated=True))["blocks"][0]["text"]["text"].startswith("SIMULATED ")


@pytest.mark.parametrize("limit", [60, 100, 3000])
def test_a_long_text_is_cut_between_characters_and_says_how_much_is_missing(limit: int) -> None:
    text = "<" * 5000
    short = cut(text, limit)
    assert len(short) <= limit
    shown = short.split("…")[0]
    assert shown == escape("<" * (len(shown) // 4))
    assert short.endswith(f"({5000 - len(shown) // 4} more characters)")


def test_a_text_of_several_sections_is_parted_between_lines_and_keeps_its_end() -> None:
    lines = [f"{number} " + "<x>" * 100 for number in range(9)]
    message = render(notice(text="\n".join([*lines, "What to do: `acceptd runbook x`"])), mention="S1")
    texts = [block["text"]["text"] for block in message["blocks"][1:-1]]
    assert len(texts) == 3
    shown = "\n".join(texts).removeprefix(":red_circle: <!subteam^S1> ")
    assert shown.split("\n") == [*map(escape, lines), "What to do: `acceptd runbook x`"]


def test_one_line_that_is_too_long_hides_no_other() -> None:
    texts = [block["text"]["text"] for block in render(notice(text="x" * 9000 + "\nWhat to do: y"))["blocks"][1:-1]]
    assert "more characters)" in texts[0] and texts[1] == "What to do: y"


def test_a_title_that_the_header_cuts_is_told_whole() -> None:
    title = "acceptance fell on " + "a" * 200
    header, body = render(notice(title=title))["blocks"][:2]
    assert header["text"]["text"].endswith("…")
    assert body["text"]["text"] == f":red_circle: {title}\nNo answer for 2 minutes."


@given(
    title=st.text(max_size=400),
    text=st.text(max_size=9000),
    fields=st.lists(st.tuples(st.text(max_size=300), st.text(max_size=2500)), max_size=30),
)
def test_no_text_breaks_a_limit(title: str, text: str, fields: list[tuple[str, str]]) -> None:
    message = render(notice(title="x" + title, text=text, fields=tuple(fields)), mention="S1")
    assert message_fault(message) is None
    assert len(message["text"]) <= 4000
