"""How systemd reads environment files, variables in command lines and unit files, and how to write for it. Pure text.

Three grammars lie between a word and a process: the environment file (`parse_env_file_internal` in systemd's
`src/basic/env-file.c`), the splitting of `$NAME` in `ExecStart=` (`replace_env_argv` in `env-util.c`, which calls
`extract_first_word`), and the unit file itself (`config_parse_exec`). All were read in v252 and are tested against a
real systemd.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from monitor.errors import LaunchError

#: Word separators; what ends a line.
_WHITESPACE, _NEWLINES = " \t\n\r", "\n\r"
#: What a backslash escapes within double quotes of an environment file; before anything else it stays.
_ESCAPED_IN_ENV = '"\\`$'
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Characters that no grammar gives a meaning to.
_PLAIN = re.compile(r"[A-Za-z0-9_@:,./+=-]+")


def quote_words(words: Sequence[str]) -> str:
    """The value of a variable for which `$NAME` becomes exactly `words`; empty for none.

    Raises LaunchError for a word that cannot be passed (line ends and other control characters).
    """
    return " ".join(_quoted(word) for word in words)


def split_words(value: str) -> tuple[str, ...]:
    """The words that `$NAME` becomes for this value: none for an empty one."""
    words: list[str] = []
    word: list[str] | None = None
    quote, escaped = "", False
    for letter in value:
        if escaped:
            word, escaped = [*(word or []), letter], False
        elif letter == "\\":
            word, escaped = word or [], True
        elif quote:
            if letter == quote:
                quote = ""
            else:
                word = [*(word or []), letter]
        elif letter in "'\"":
            word, quote = word or [], letter
        elif letter in _WHITESPACE:
            if word is not None:
                words.append("".join(word))
            word = None
        else:
            word = [*(word or []), letter]
    if word is not None:
        words.append("".join(word))
    return tuple(words)


def env_line(name: str, value: str) -> str:
    """One line of an environment file. Raises LaunchError for a value that no such file can carry."""
    _check(value)
    escaped = "".join(f"\\{letter}" if letter in _ESCAPED_IN_ENV else letter for letter in value)
    return f'{name}="{escaped}"\n'


def read_env(text: str) -> dict[str, str]:
    """The variables of an environment file; a name given twice has its last value, names that are none are left out."""
    found = {}
    for name, value in _assignments(text):
        if _NAME.fullmatch(name):
            found[name] = value
    return found


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    state, name, value = "before", "", ""
    # Length of the value without blanks at its end, which only quotes and backslashes keep.
    kept = 0
    for letter in text:
        ends = letter in _NEWLINES
        if state == "before":
            if letter in "#;":
                state = "comment"
            elif letter not in _WHITESPACE:
                state, name = "name", letter
        elif state == "name":
            if ends:
                state = "before"
            elif letter == "=":
                state, value, kept = "value begins", "", 0
            else:
                name += letter
        elif state in ("value begins", "value"):
            if ends:
                yield name.rstrip(_WHITESPACE), value[:kept] if state == "value" else value
                state = "before"
            elif letter == "\\":
                state = "escape"
            elif state == "value begins" and letter in "'\"":
                state = "single" if letter == "'" else "double"
            elif state == "value" or letter not in _WHITESPACE:
                state, value = "value", value + letter
                kept = kept if letter in _WHITESPACE else len(value)
        elif state == "escape":
            state = "value"
            value += "" if ends else letter
            kept = len(value)
        elif state == "single":
            state, value = ("value begins", value) if letter == "'" else ("single", value + letter)
        elif state == "double":
            if letter == '"':
                state = "value begins"
            elif letter == "\\":
                state = "double escape"
            else:
                value += letter
        elif state == "double escape":
            state = "double"
            value += letter if letter in _ESCAPED_IN_ENV else "" if letter == "\n" else f"\\{letter}"
        elif state == "comment" and ends:
            state = "before"
    if state not in ("before", "name", "comment"):
        yield name.rstrip(_WHITESPACE), value[:kept] if state == "value" else value


def expand(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The arguments that a process gets for the items of `ExecStart=`: `$NAME` split into words, `${NAME}` in place.

    A variable that is not set becomes no word, or nothing within one.
    """
    words: list[str] = []
    for item in argv:
        name = variable_of(item)
        if name is not None:
            words += split_words(environ.get(name, ""))
        else:
            words.append(_replaced(item, environ))
    return tuple(words)


def variable_of(item: str) -> str | None:
    """The name of the variable that this whole item is (`$NAME`), which is split into words; None for other items."""
    return item[1:] if item.startswith("$") and not item.startswith(("${", "$$")) else None


def variables_in(item: str) -> tuple[str, ...]:
    """Names of the variables that systemd puts into this item."""
    whole = variable_of(item)
    return (whole,) if whole is not None else tuple(re.findall(r"(?<!\$)(?:\$\$)*\$\{([A-Za-z_][A-Za-z0-9_]*)\}", item))


def _replaced(item: str, environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else environ.get(match[1], "")

    return re.sub(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value, item)


def unit_words(items: Sequence[str]) -> str:
    """Items of a command as a unit file writes them: quoted, specifiers escaped; variables in them stay variables.

    Raises LaunchError for one with a control character.
    """
    return " ".join(_unit_word(item) for item in items)


def _unit_word(item: str) -> str:
    _check(item)
    text = item.replace("%", "%%")
    if _PLAIN.fullmatch(item) or (variable_of(item) or "").isidentifier():
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted(word: str) -> str:
    _check(word)
    if _PLAIN.fullmatch(word):
        return word
    # A backslash stands for the next character within quotes too, of either kind.
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _check(text: str) -> None:
    bad = next((letter for letter in text if unicodedata.category(letter) in ("Cc", "Cs")), None)
    if bad is not None:
        raise LaunchError(f"{text!r} holds {bad!r}, which a launch file cannot carry")
