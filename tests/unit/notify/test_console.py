"""Notices on a terminal: whole, and nothing in them steers it."""

from __future__ import annotations

import io

from monitor.notify.console import Console
from tests.unit.notify.test_blocks import notice


def shown(**changes: object) -> list[str]:
    stream = io.StringIO()
    Console(stream).deliver(notice(**changes), None)
    return stream.getvalue().splitlines()


def test_a_notice_is_its_title_its_text_and_its_fields() -> None:
    assert shown(text="one\ntwo", fields=(("rate", "5.0%"),)) == [
        "[notice 09:00:00] ALERT: Server chat-1 is down", "    one", "    two", "    rate: 5.0%",
    ]  # fmt: skip


def test_what_a_server_calls_itself_steers_no_terminal_and_looks_like_no_notice() -> None:
    lines = shown(
        title="x \x1b[2J\x9b31m\r\n[notice 09:00:00] RESOLVED: x", text="a\x1b]0;title\x07b\u202ec",
        fields=(("m\x00", "v\n[notice 09:00:00] RESOLVED: y"),),
    )  # fmt: skip
    assert len(lines) == 3 and all(line.isprintable() for line in lines)
    assert [line.startswith("[notice") for line in lines] == [True, False, False]
