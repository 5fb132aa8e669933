"""Notices as Slack Block Kit, within Slack's documented limits.

Limits (https://docs.slack.dev/reference/block-kit/blocks): 50 blocks a message, 150 characters in a header, 3,000 in a
section's text, 10 fields of 2,000 characters in a section; `text` of a message 40,000 characters, shown at 4,000.
"""

from __future__ import annotations

from typing import Any

from monitor.model.alert import Severity
from monitor.model.notice import Notice, NoticeKind
from monitor.notify.buttons import actions_block
from monitor.notify.receiver import markers

HEADER_LIMIT = 150
TEXT_LIMIT = 3000
FIELD_LIMIT = 2000
FIELDS_LIMIT = 10
FALLBACK_LIMIT = 3000
#: Sections that a text is parted into: ten alerts with their causes fit, and what to do stands last.
SECTIONS_LIMIT = 6

_SIGNS = {
    NoticeKind.ALERT_FIRING: ":red_circle:",
    NoticeKind.ALERT_REPEAT: ":red_circle:",
    NoticeKind.ALERT_RESOLVED: ":large_green_circle:",
    NoticeKind.RECOMMENDATION: ":bulb:",
    NoticeKind.ROLLOUT: ":arrows_counterclockwise:",
    NoticeKind.REPORT: ":bar_chart:",
    NoticeKind.SILENCE: ":bell:",
    NoticeKind.ALERT_NOTE: ":speech_balloon:",
}


def escape(text: str) -> str:
    """Text that Slack shows as it is: control characters of mrkdwn escaped, so no name can mention a channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, limit: int) -> str:
    """`text` escaped and at most `limit` characters, cut before escaping so that no entity is torn."""
    whole = escape(text)
    if len(whole) <= limit:
        return whole
    kept: list[str] = []
    size = 0
    # The note's number has at most as many digits as the text's length.
    room = limit - len(f"… ({len(text)} more characters)")
    for character in text:
        size += len(escape(character))
        if size > room:
            break
        kept.append(character)
    return f"{escape(''.join(kept))}… ({len(text) - len(kept)} more characters)"


def parts(text: str, limit: int, most: int) -> list[str]:
    """`text` escaped, in at most `most` parts of `limit` characters, parted between lines; what is longer is cut."""
    found: list[str] = []
    for line in text.split("\n"):
        if found and (len(found) == most or len(escape(f"{found[-1]}\n{line}")) <= limit):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return [cut(part, limit) for part in found]


def headline(notice: Notice) -> str:
    """The first line of a notice, as plain text."""
    state = {NoticeKind.ALERT_REPEAT: "Still firing: ", NoticeKind.ALERT_RESOLVED: "Resolved: "}.get(notice.kind, "")
    return f"{markers(notice)}{state}{notice.title}"


def render(notice: Notice, *, mention: str | None = None, buttons: bool = False) -> dict[str, Any]:
    """`text` and `blocks` of a message. `mention` is a user group id named in pages; `buttons`: whether they work."""
    is_news = notice.kind in (NoticeKind.ALERT_FIRING, NoticeKind.ALERT_REPEAT)
    loud = notice.severity is Severity.PAGE and is_news and not (notice.edits_root or notice.in_thread)
    call = f"<!subteam^{mention}> " if mention and loud else ""
    title = headline(notice)
    # A header is plain text: Slack shows it unescaped, so it is cut but not escaped.
    header = title if len(title) <= HEADER_LIMIT else title[: HEADER_LIMIT - 1] + "…"
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": header, "emoji": False}},
    ]
    # A title that the header cuts is told whole below it.
    whole = f"{title}\n{notice.text}" if len(title) > HEADER_LIMIT else notice.text
    first, *others = parts(whole, TEXT_LIMIT - len(call) - 40, SECTIONS_LIMIT)
    for text in (f"{_SIGNS[notice.kind]} {call}{first}".strip(), *filter(str.strip, others)):
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text}})
    shown = notice.fields[:FIELDS_LIMIT]
    if shown:
        fields = [
            {"type": "mrkdwn", "text": f"*{cut(name, 200)}*\n{cut(value, FIELD_LIMIT - 300) or '-'}"}
            for name, value in shown
        ]
        blocks.append({"type": "section", "fields": fields})
    if buttons and notice.buttons:
        blocks.append(actions_block(notice.buttons, notice.thread))
    left_out = len(notice.fields) - len(shown)
    stamp = notice.created_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    note = f"{stamp} · {notice.severity}" + (f" · {left_out} more fields" if left_out else "")
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": escape(note)}]})
    return {"text": call + cut(f"{title}\n{notice.text}", FALLBACK_LIMIT), "blocks": blocks}
