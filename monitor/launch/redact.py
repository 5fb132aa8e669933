"""Hiding secrets of command lines and logs before they reach a screen, a log, the store or Slack.

It errs on the side of hiding. It looks at names (`--api-key`, `HF_TOKEN=`, `"password":`) and at the shape of known
tokens; a secret that has neither cannot be told from another word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "<secret>"

#: The last words of a name that holds a secret. Not `tokens` (counts), `tokenizer`, `-file` or `-path` (places).
_LAST_WORDS = (
    "api[-_]?keys?",
    "(?:access|auth|secret|account|private|signing|license)[-_]keys?",
    "token",
    "secrets?",
    "password",
    "passwd",
    "passphrase",
    "credentials?",
)
_NAME = rf"(?:[A-Za-z0-9]+[-_.])*?(?:{'|'.join(_LAST_WORDS)})"
_FLAG = re.compile(rf"--?{_NAME}", re.IGNORECASE)
_SHORT_FLAGS = frozenset({"-hft"})
_ASSIGNMENT = re.compile(rf"((?:--?)?{_NAME})=(.*)", re.IGNORECASE | re.DOTALL)
_LOOKS_LIKE_FLAG = re.compile(r"--[A-Za-z][\w.-]*(?:=.*)?|-[A-Za-z]{1,4}", re.DOTALL)

#: Shapes of tokens that are secrets wherever they stand.
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}"
    r"|gh[opsu]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
    r"|https://hooks\.slack\.com/[^\s\"'<>]+"
)
_URL_LOGIN = re.compile(r"(?<=://)[^\s/@\"']+(?=@)")
#: `Authorization: Bearer x`, `authorization=x`, and a bearer token that stands alone.
_BEARER = re.compile(
    r"\b(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?|bearer\s+(?=[^\s\"']{6}))[^\s\"',;]+",
    re.IGNORECASE,
)
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
#: `"api_key": "x"`, `api_key='x'`, `'api_key': ['x', 'y']`, `api_key=x`, `API_KEY: x`.
_PAIR = re.compile(
    rf"(?P<name>(?<![\w.-])[\"']?(?:--?)?{_NAME}[\"']?)(?P<between>\s*[:=]\s*)"
    rf"(?P<value>\[[^\]]*\]|{_QUOTED}|[^\s,;)}}\]\"'\[]+)",
    re.IGNORECASE,
)
#: `--api-key x y` and `--api-key 'x'` in a line of text: everything up to the next flag or the end of the line.
_FLAG_IN_TEXT = re.compile(rf"(?<![\w-])(--{_NAME}|-hft)([ \t]+)((?:{_QUOTED}|[^\s\"'-]\S*)(?:[ \t]+[^\s-]\S*)*)", re.I)
_NOTHING = frozenset({"none", "null", "true", "false", "[]", '""', "''", HIDDEN})


def redact(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` with every secret replaced; as many items as before, so that it still reads as a command line.

    After a flag for a secret every item up to the next flag is hidden, since vLLM takes several API keys.
    """
    shown: list[str] = []
    hiding = False
    for item in argv:
        assignment = _ASSIGNMENT.fullmatch(item)
        if assignment is not None:
            shown.append(f"{assignment[1]}={HIDDEN}" if assignment[2] else item)
            hiding = False
        elif hiding and not _LOOKS_LIKE_FLAG.fullmatch(item):
            shown.append(HIDDEN)
        else:
            shown.append(redact_text(item))
            hiding = item in _SHORT_FLAGS or _FLAG.fullmatch(item) is not None
    return tuple(shown)


def redact_text(text: str) -> str:
    """`text` (a log line, a page, an error) with every secret that can be recognised replaced by `<secret>`."""
    text = _FLAG_IN_TEXT.sub(rf"\1\2{HIDDEN}", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    text = _PAIR.sub(_hide_pair, text)
    text = _URL_LOGIN.sub(HIDDEN, text)
    return _SHAPES.sub(HIDDEN, text)


def redact_url(url: str) -> str:
    """A URL that may be shown: without login, and of what it asks for only the names, since any value can be a key."""
    base, mark, query = url.partition("?")
    parts = [part.partition("=") for part in query.split("&") if part]
    return redact_text(base) + mark + "&".join(f"{name}={HIDDEN}" if equals else HIDDEN for name, equals, _ in parts)


def _hide_pair(found: re.Match[str]) -> str:
    value = found["value"]
    if value.lower() in _NOTHING:
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found['name']}{found['between']}{quote}{HIDDEN}{quote}"
