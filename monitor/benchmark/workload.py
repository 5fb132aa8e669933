"""What a benchmark sends: prompts or a dataset of the user's, how many requests at once, how long the answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitor.errors import ConfigError, Problem

#: Sent where the user names no prompts: everyday requests of several kinds, so that acceptance is not that of one.
PROMPTS = (
    "Explain in simple words why the sky is blue and the sunset is red.",
    "Write a Python function that merges two sorted lists into one sorted list, with a docstring and tests.",
    "Summarise the causes of the French Revolution in five short points.",
    "A train leaves at 9:40 and arrives at 13:05 after two stops of 7 minutes. How long did it drive? Show each step.",
    "Translate into German: The meeting was moved to Thursday because the room was not free on Tuesday.",
    "Write a polite e-mail to a customer whose parcel was lost, and offer a refund or a second delivery.",
    "List the steps to restore a PostgreSQL database from a backup, with the commands.",
    "Tell a short story about a lighthouse keeper who finds a message in a bottle.",
)
#: Files that the benchmark reads as conversations (ShareGPT's form), by what their first entry has.
_CONVERSATIONS = "conversations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is sent. `prompts` are one request each, in turn; empty where `dataset` is a file of conversations.

    `rate` is requests a second (None: as fast as `concurrency` allows), `output_tokens` the most of one answer.
    """

    source: str
    prompts: tuple[tuple[str, int | None], ...] = ()
    dataset: Path | None = None
    requests: int
    concurrency: int
    output_tokens: int
    rate: float | None = None

    @property
    def digest(self) -> str:
        """A name for what is sent and how: results compare only where it is equal."""
        what = [
            self.prompts or hashlib.sha256((self.dataset or Path()).read_bytes()).hexdigest(), self.requests,
            self.concurrency, self.output_tokens, self.rate,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]

    def describe(self) -> str:
        """In words for people."""
        pace = "" if self.rate is None else f", {self.rate:g} a second"
        return (
            f"{self.requests} requests of {self.source}, {self.concurrency} at once{pace}, answers of at most "
            f"{self.output_tokens} tokens"
        )

    def write(self, folder: Path) -> Mapping[str, str]:
        """Write what the benchmark reads into `folder`; its options for that."""
        if self.dataset is not None:
            return {
                "--dataset-name": "sharegpt", "--dataset-path": str(self.dataset),
                "--sharegpt-output-len": str(self.output_tokens),
            }
        path = folder / "prompts.jsonl"
        lines = (
            {"prompt": prompt, "output_tokens": min(tokens or self.output_tokens, self.output_tokens)}
            for prompt, tokens in self.prompts
        )
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        # -1 is each line's own length; versions that know no such lines take the number.
        own = any(tokens is not None for _, tokens in self.prompts)
        return {
            "--dataset-name": "custom", "--dataset-path": str(path),
            "--custom-output-len": "-1" if own else str(self.output_tokens),
        }


def read_workload(
    path: Path | None, *, requests: int, concurrency: int, output_tokens: int, rate: float | None
) -> Workload:
    """The workload of a file: prompts (a line each, or JSON lines with `prompt`), or ShareGPT's conversations.

    Raises:
        ConfigError: the file cannot be read or holds none of the three; names the place and what was expected.
    """
    shape = {"requests": requests, "concurrency": concurrency, "output_tokens": output_tokens, "rate": rate}
    if path is None:
        prompts = tuple((prompt, None) for prompt in PROMPTS)
        return Workload(source="acceptd's own prompts", prompts=prompts, **shape)  # type: ignore[arg-type]
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, "", str(error), "a readable file of prompts in UTF-8") from error
    if path.suffix == ".json":
        _check_conversations(path, text)
        return Workload(source=path.name, dataset=path, **shape)  # type: ignore[arg-type]
    read = _json_line if path.suffix == ".jsonl" else _text_line
    found = tuple(read(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())
    if not found:
        raise _wrong(path, "", "no line", "a prompt a line")
    return Workload(source=path.name, prompts=found, **shape)  # type: ignore[arg-type]


def _text_line(path: Path, number: int, line: str) -> tuple[str, int | None]:
    return line, None


def _json_line(path: Path, number: int, line: str) -> tuple[str, int | None]:
    expected = 'an object such as {"prompt": "Why is the sky blue?", "output_tokens": 200}'
    try:
        entry: Any = json.loads(line)
    except ValueError as error:
        raise _wrong(path, f"line {number}", str(error), expected) from error
    prompt = entry.get("prompt") if isinstance(entry, dict) else None
    tokens = entry.get("output_tokens") if isinstance(entry, dict) else None
    if not isinstance(prompt, str) or not prompt or not (tokens is None or (isinstance(tokens, int) and tokens > 0)):
        raise _wrong(path, f"line {number}", line[:60], expected)
    return prompt, tokens


def _check_conversations(path: Path, text: str) -> None:
    expected = f'a list of objects with "{_CONVERSATIONS}", as ShareGPT\'s'
    try:
        entries: Any = json.loads(text)
    except ValueError as error:
        raise _wrong(path, "", str(error), expected) from error
    is_list = isinstance(entries, list) and bool(entries)
    if not is_list or not all(isinstance(entry, dict) and _CONVERSATIONS in entry for entry in entries):
        raise _wrong(path, "", text[:60], expected)


def _wrong(path: Path, where: str, found: str, expected: str) -> ConfigError:
    return ConfigError([Problem(where or "file", found, expected, file=str(path))])
