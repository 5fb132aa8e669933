"""What a request says in its address: spans and numbers of days, refused with what was expected."""

from __future__ import annotations

from flask import abort, request

#: Spans that charts can show, as in the source.
SPANS = ("1h", "6h", "24h", "7d", "30d", "90d")
#: Furthest that lists go back (days): as long as decisions are kept.
_MOST_DAYS = 400.0


def span() -> str:
    """The span asked for, a day if none was."""
    given = request.args.get("span", "24h")
    return given if given in SPANS else abort(400, f"span {given!r}: expected one of {', '.join(SPANS)}")


def days(usual: float) -> float:
    """How far back a list is asked for."""
    given = request.args.get("days", "")
    try:
        found = float(given) if given else usual
    except ValueError:
        found = -1.0
    if not 0 < found <= _MOST_DAYS:
        abort(400, f"days {given!r}: expected a number above 0 and at most {_MOST_DAYS:g}")
    return found


def group() -> str | None:
    """The one group asked for; None for all."""
    return request.args.get("group") or None
