"""Label matchers as people write them: `server="a"`, `severity=~"page|ticket"`. It owns no silences."""

from __future__ import annotations

import re

from monitor.model.alert import Matcher

MATCHER_FORM = 'a matcher such as server="chat-1" or severity=~"page|ticket" (operators = != =~ !~)'
_MATCHER = re.compile(r"""\s*([A-Za-z_]\w*)\s*(=~|!~|!=|=)\s*(?:"((?:\\.|[^"\\])*)"|([^\s"=~][^\s"]*))\s*""")


def parse_matcher(text: str) -> Matcher:
    """The matcher in `text`, quoted or bare, as amtool reads it.

    Raises ValueError where it is none, or RE2 refuses its regular expression.
    """
    match = _MATCHER.fullmatch(text)
    if not match:
        raise ValueError(MATCHER_FORM)
    label, operator, quoted, bare = match.groups()
    value = bare if quoted is None else re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], quoted)
    made = Matcher(label, operator, value)
    if made.refusal:
        raise ValueError(f"a regular expression that RE2 can read ({made.refusal})")
    return made
