"""What acceptd writes and reads of systemd's grammars, held against a real systemd: nasty words, random files."""

from __future__ import annotations

import json
import random

import pytest

from monitor.launch.unit_text import env_line, expand, quote_words, read_env, split_words, unit_words
from tests.rigs.systemd.machine import Machine

pytestmark = pytest.mark.systemd

#: Prints its arguments, each with a NUL behind it.
PRINT = "/bin/sh -c 'for word; do printf \"%%s\\\\0\" \"$$word\"; done' sh"
NASTY = {
    "method": "ngram", "it's": '"quoted"', "path": "C:\\dir\\", "dollar": "$HOME ${HOME} $$", "percent": "100% %n %%",
    "shell": "`id`; # | & > <", "unicode": "é ü \u3000 \u2028", "escape": "\\n \\\\ \\u00e9", "blank": "  ",
}  # fmt: skip
WORDS: list[list[str]] = [
    [], [""], ["", ""], ["a b"], ["--speculative-config", json.dumps(NASTY, ensure_ascii=False)],
    ["--speculative-config", json.dumps(NASTY)], ["\\"], ["'"], ['"'], ["$X", "${X}", "$$"], ["%i", "%%"], ["#c"],
    [";", "\\;"], ["  lead", "trail  "], ["-", "--"], ["x" * 5000], ["$ACCEPTD_SPECULATION"], ["\u00a0"],
]  # fmt: skip
LETTERS = "ab=\\\\'\"\"# ;$`%\t{}é"


def random_words(chance: random.Random) -> list[str]:
    letters = [letter for letter in LETTERS if letter != "\t"]
    return ["".join(chance.choices(letters, k=chance.randrange(12))) for _ in range(chance.randrange(4))]


def random_file(chance: random.Random) -> str:
    lines = []
    for _ in range(chance.randrange(1, 6)):
        text = "".join(chance.choices([*LETTERS, "\n", "\\\n"], k=chance.randrange(14)))
        lines.append(chance.choice(["A=", "B=", " A =", "C", "#", "", "A=\"", "B='"]) + text)
    return "\n".join(lines) + chance.choice(["", "\n"])


def run_all(machine: Machine, units: dict[str, str]) -> None:
    """Start these one-shot services together and wait for all."""
    for name, text in units.items():
        machine.write(f"/etc/systemd/system/{name}.service", text)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", *units)
    for name in units:
        machine.path(f"/etc/systemd/system/{name}.service").unlink()


def printed(machine: Machine, name: str) -> list[str]:
    return machine.path(f"/run/printed/{name}").read_text().split("\0")[:-1]


def test_words_arrive_as_they_were_written_through_file_and_variable_or_through_the_unit(machine: Machine) -> None:
    chance = random.Random(5)
    cases = [*WORDS, *(random_words(chance) for _ in range(40))]
    machine.path("/run/printed").mkdir(exist_ok=True)
    units = {}
    for number, words in enumerate(cases):
        machine.write(f"/etc/words/{number}.env", "# comment\n" + env_line("ACCEPTD_SPECULATION", quote_words(words)))
        common = f"[Service]\nType=oneshot\nStandardOutput=truncate:/run/printed/{{}}-{number}\n"
        units[f"file-{number}"] = (
            common.format("file") + "Environment=ACCEPTD_SPECULATION=operator\n"
            f"EnvironmentFile=-/etc/words/{number}.env\nExecStart={PRINT} first $ACCEPTD_SPECULATION last\n"
        )
        # As a drop-in has it: the operator's value in Environment=, the fixed words in ExecStart=.
        given = unit_words([f"ACCEPTD_SPECULATION={quote_words(words)}"])
        fixed = unit_words([word.replace("$", "$$") for word in words])
        units[f"unit-{number}"] = (
            common.format("unit") + f"Environment={given}\nExecStart={PRINT} {fixed} $ACCEPTD_SPECULATION last\n"
        )
    run_all(machine, units)
    for number, words in enumerate(cases):
        text = machine.path(f"/etc/words/{number}.env").read_text()
        assert printed(machine, f"file-{number}") == ["first", *words, "last"], words
        assert printed(machine, f"unit-{number}") == [*words, *words, "last"], words
        assert expand(["$ACCEPTD_SPECULATION"], read_env(text)) == tuple(words)


def test_an_operators_file_is_read_as_systemd_reads_it(machine: Machine) -> None:
    chance = random.Random(7)
    machine.path("/run/printed").mkdir(exist_ok=True)
    texts = [random_file(chance) for _ in range(60)]
    units = {}
    for number, text in enumerate(texts):
        machine.write(f"/etc/texts/{number}.env", text)
        units[f"env-{number}"] = (
            f"[Service]\nType=oneshot\nStandardOutput=truncate:/run/printed/env-{number}\n"
            f"EnvironmentFile=/etc/texts/{number}.env\n"
            f"ExecStart=/bin/sh -c 'printf \"%%s\\\\0%%s\\\\0\" \"${{A-none}}\" \"${{B-none}}\"; for word; do"
            f" printf \"%%s\\\\0\" \"$$word\"; done' sh $A ${{A}} x${{B}}y $B\n"
        ).replace("${A-none}", "$${A-none}").replace("${B-none}", "$${B-none}")
    run_all(machine, units)
    for number, text in enumerate(texts):
        known = read_env(text)
        a, b = known.get("A"), known.get("B")
        first, second, *words = printed(machine, f"env-{number}")
        assert (first, second) == ("none" if a is None else a, "none" if b is None else b), repr(text)
        expected = [*split_words(a or ""), a or "", f"x{b or ''}y", *split_words(b or "")]
        assert words == expected == list(expand(["$A", "${A}", "x${B}y", "$B"], known)), repr(text)
