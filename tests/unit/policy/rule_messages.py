"""The messages about each bad rule file; `python -m tests.unit.policy.rule_messages` writes them anew."""

from __future__ import annotations

from pathlib import Path

from monitor.errors import ConfigError
from monitor.policy.load import load_rules
from tests.unit.policy.words import WORDS

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "rules"
BAD = sorted((FOLDER / "bad").glob("*.yaml"))


def messages(path: Path) -> str:
    try:
        load_rules({path.name: path.read_text()}, WORDS)
    except ConfigError as error:
        return f"{error}\n"
    return "accepted\n"


if __name__ == "__main__":
    for bad in BAD:
        bad.with_suffix(".txt").write_text(messages(bad))
