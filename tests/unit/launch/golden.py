"""Golden command lines: each file of tests/golden/launch holds a question for many versions, and the answers.

The head of a file is the question (`# engine:`, `# speculation:`, `# target:`, `# versions:`); `ALL` versions are the
boundaries of the tables. Write the answers anew with `python -m tests.unit.launch.golden` and read the difference.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from monitor.launch import render_json

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "launch"

#: First and last release of every range in the tables, the neighbours beyond them, and one newer than all.
VLLM_VERSIONS = (
    "0.4.0 0.4.1 0.4.2 0.4.3 0.5.0 0.5.1 0.5.2 0.5.3 0.5.4 0.5.5 0.6.2 0.6.3 0.6.4 0.7.1 0.7.3 0.8.0 0.8.1 0.8.2 0.8.3"
    " 0.8.5 0.8.5.post1 0.9.0 0.9.0.1 0.9.1 0.9.2 0.10.0 0.10.2 0.11.0 0.11.1 0.14.1 0.15.0 0.15.1 0.16.0 0.17.0"
    " 0.18.0 0.18.1 0.19.0 0.19.1 0.20.0 0.20.2 0.21.0 0.22.0 0.23.0 0.24.0 0.25.0 0.26.0 0.28.0 0.32.0 0.33.0 0.34.0"
).split()
LLAMACPP_VERSIONS = "b9092 b9093 b9094 b9200 b9296 b9297 b9800 b10204 b10205 b10289 b11434 b11500".split()
SGLANG_VERSIONS = "0.5.22 0.5.23 0.5.23.post1 0.6.0".split()
BOUNDARIES = {"vllm": VLLM_VERSIONS, "llamacpp": LLAMACPP_VERSIONS, "sglang": SGLANG_VERSIONS}


@dataclass(frozen=True, slots=True)
class Golden:
    """One file: its head, the question in it and the answers below."""

    path: Path
    head: str
    answers: str

    @property
    def question(self) -> dict[str, str]:
        pairs = (line.removeprefix("# ").partition(": ") for line in self.head.splitlines() if line.startswith("# "))
        return {key: value for key, _, value in pairs}

    @property
    def versions(self) -> list[str]:
        versions = self.question["versions"]
        return BOUNDARIES[self.question["engine"]] if versions == "ALL" else versions.split()

    def ask(self) -> str:
        """The answers, where neighbours that differ in the version's name only stand together."""
        answers = [(version, "\n".join(self._answer(version))) for version in self.versions]
        blocks = []
        for answer, group in groupby(answers, key=lambda pair: pair[1]):
            blocks.append(f"{' '.join(version for version, _ in group)}\n{answer}\n")
        return "".join(blocks)

    def _answer(self, version: str) -> Iterator[str]:
        question = self.question
        code, answer = render_json(question["engine"], version, question["speculation"], question["target"])
        shown = version.removeprefix("v")
        if code:
            yield f"  error: {answer['error']}".replace(f" {shown} ", " VERSION ")
            return
        argv, env, warnings = answer["argv"], answer["env"], answer["warnings"]
        assert isinstance(argv, list) and isinstance(env, dict) and isinstance(warnings, list)
        yield f"  $ {' '.join([*(f'{name}={value}' for name, value in env.items()), shlex.join(argv)])}"
        yield from (f"  warning: {warning}".replace(f" {shown} ", " VERSION ") for warning in warnings)


def read(path: Path) -> Golden:
    head, _, answers = path.read_text().partition("\n\n")
    return Golden(path, head, answers)


def files() -> list[Path]:
    return sorted(FOLDER.glob("*.txt"))


if __name__ == "__main__":
    for path in files():
        golden = read(path)
        path.write_text(f"{golden.head}\n\n{golden.ask()}")
