"""Notices on the terminal or in the journal: where they go without Slack, and when Slack has failed."""

from __future__ import annotations

import sys
from typing import TextIO

from monitor.model.notice import Notice, NoticeKind
from monitor.notify.receiver import FIRST, Attempt, Root, markers
from monitor.notify.words import printable

_WORDS = {
    NoticeKind.ALERT_FIRING: "ALERT",
    NoticeKind.ALERT_REPEAT: "ALERT (still firing)",
    NoticeKind.ALERT_RESOLVED: "RESOLVED",
    NoticeKind.RECOMMENDATION: "RECOMMENDATION",
    NoticeKind.ROLLOUT: "ROLLOUT",
    NoticeKind.REPORT: "REPORT",
    NoticeKind.SILENCE: "SILENCE",
    NoticeKind.ALERT_NOTE: "ALERT",
}


class Console:
    """Writes notices as indented text, each marked as a notice of acceptd."""

    name = "console"
    pause_seconds = 0.0

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
        """Write the notice; never fails for what the terminal cannot show."""
        stream = self._stream or sys.stdout
        stamp = notice.created_at.strftime("%H:%M:%S")
        lines = [f"[notice {stamp}] {markers(notice)}{_WORDS[notice.kind]}: {_line(notice.title)}"]
        lines += [f"    {line}" for line in notice.text.splitlines()]
        lines += [f"    {_line(name)}: {_line(value)}" for name, value in notice.fields]
        text = printable("\n".join(lines) + "\n")
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
        return None


def _line(text: str) -> str:
    """One line: what a server calls itself must not look like a notice of its own."""
    return " ".join(text.splitlines())
