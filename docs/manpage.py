"""The manual page `acceptd(1)`, made from the program's own commands and from `cli.md`: it says what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.commands import commands, is_argument, parameters, program, usage
from monitor import __version__
from monitor.cli.context import CONFIG_PLACES

FILE = Path(__file__).resolve().parent / "acceptd.1"
_EXIT_CODES = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)


def man_page(cli_page: str) -> str:
    """The page as roff; `cli_page` is the text of cli.md, whose table of exit codes it takes."""
    top = program()
    lines = [
        '.\\" Made by docs/generate.py.',
        f'.TH ACCEPTD 1 "" "acceptd {__version__}" "User Commands"',
        ".SH NAME", f"acceptd \\- {_text(top.help.rstrip('.'))}",
        ".SH SYNOPSIS", ".B acceptd", "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]",
        ".SH DESCRIPTION",
        _text("Scrapes the metrics of inference servers, keeps the history of acceptance and efficiency, applies rules"
              " to it, pages on-call, changes the speculation settings of the servers it manages where that pays, and"
              " proves whether it did. Options of the program come before the command."),
        ".SH OPTIONS", *_options(top),
        ".SH COMMANDS",
    ]  # fmt: skip
    for name, command in commands():
        lines += [f".SS {_text(usage(name, command))}", _text(command.help), *_options(command)]
    lines += [".SH EXIT STATUS"]
    for code, meaning in _EXIT_CODES.findall(cli_page):
        lines += [".TP", f".B {code}", _text(meaning)]
    places = ", ".join(str(place) for place in CONFIG_PLACES)
    lines += [
        ".SH ENVIRONMENT", ".TP", ".B ACCEPTD_CONFIG", _text("The configuration file, where no --config is given."),
        ".SH FILES", ".TP", f".I {_text(places)}", _text("The configuration, the first that is there."),
        ".TP", ".I /var/lib/acceptd", _text("The data folder of the service: its store, what it started, its reports."),
        ".SH SEE ALSO", ".BR systemctl (1), journalctl (1), promtool (1)",
    ]
    return "\n".join(lines) + "\n"


def _options(command: Any) -> Iterator[str]:
    for one in parameters(command):
        yield ".TP"
        if is_argument(one):
            yield f".I {_text(one.name.upper())}"
        else:
            value = "" if one.is_flag else f" {one.name.upper()}"
            yield f".B {_text(', '.join((*one.opts, *one.secondary_opts)) + value)}"
        default = "" if one.required or one.default in (None, False, "", ()) else f" Default: {_value(one.default)}."
        yield _text((one.help or "") + default + (" May be repeated." if getattr(one, "multiple", False) else ""))


def _value(default: Any) -> str:
    return "on" if default is True else str(default)


def _text(text: str) -> str:
    """Words as roff: nothing in them is a request, and a hyphen is one that can be copied into a shell."""
    words = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{words}" if words.startswith((".", "'")) else words
