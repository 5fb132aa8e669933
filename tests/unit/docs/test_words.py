"""docs/words.md has every word that the code can print, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from docs import generate
from monitor.model.alert import AlertState, Severity
from monitor.model.decision import Action, DecisionState, Reason
from monitor.model.reading import Flag, State, Verdict
from monitor.model.rollout import ChangeState, Outcome, RolloutState
from monitor.model.signal import NoData

PAGE = (generate.DOCS / "words.md").read_text()
MONITOR = generate.DOCS.parent / "monitor"


def words(name: str) -> set[str]:
    """The words of one table: what stands in backquotes in its first column."""
    found = re.search(rf"<!-- words: {name} -->\n(.*?)<!-- end of words -->", PAGE, re.DOTALL)
    assert found is not None, f"docs/words.md has no table of {name}"
    rows = [line.split("|")[1] for line in found[1].splitlines() if line.startswith("| `")]
    return {word for cell in rows for word in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(
    ("name", "enum"),
    [
        ("verdict", Verdict), ("state", State), ("flag", Flag), ("action", Action), ("reason", Reason),
        ("decision state", DecisionState), ("rollout state", RolloutState), ("change state", ChangeState),
        ("outcome", Outcome), ("alert state", AlertState), ("severity", Severity),
    ],
)
def test_a_table_has_every_word(name: str, enum: type[StrEnum]) -> None:
    assert words(name) == {word.value for word in enum}


def test_every_reason_of_absence_is_explained() -> None:
    page = (generate.DOCS / "signals.md").read_text()
    part = page.partition("<!-- reasons of absence -->\n")[2].partition("<!-- end of reasons of absence -->")[0]
    rows = [line.split("|")[1].strip() for line in part.splitlines() if line.startswith("| ")][2:]
    assert rows == [reason.value for reason in NoData]


def refusals(folder: Path) -> Iterator[str]:
    """Reason words of `ActionError` in a package: what stands behind `reason=`."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ActionError":
                yield from (
                    keyword.value.value
                    for keyword in node.keywords
                    if keyword.arg == "reason" and isinstance(keyword.value, ast.Constant)
                )


def test_every_refusal_is_explained() -> None:
    ours = {word for package in ("actions", "cycle") for word in refusals(MONITOR / package)}
    drivers = set(refusals(MONITOR / "drivers"))
    assert {"paused", "downtime"} <= ours and "under_unit" in drivers
    assert words("refusal") | words("driver refusal") == ours | drivers
