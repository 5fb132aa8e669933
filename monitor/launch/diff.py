"""What changes between two command lines, for people. Secrets are hidden."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from monitor.launch.argv import is_flag
from monitor.launch.redact import redact


def diff_command(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Lines `- flag value` and `+ flag value` for what was removed and added, in order; empty when nothing changes."""
    before, after = list(_units(redact(old))), list(_units(redact(new)))
    lines: list[str] = []
    for change, old_from, old_to, new_from, new_to in SequenceMatcher(None, before, after, False).get_opcodes():
        if change != "equal":
            lines += [f"- {shlex.join(unit)}" for unit in before[old_from:old_to]]
            lines += [f"+ {shlex.join(unit)}" for unit in after[new_from:new_to]]
    return lines


def _units(argv: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The line cut before each flag, so that a flag stands with its values."""
    unit: list[str] = []
    for item in argv:
        if unit and is_flag(item):
            yield tuple(unit)
            unit = []
        unit.append(item)
    if unit:
        yield tuple(unit)
