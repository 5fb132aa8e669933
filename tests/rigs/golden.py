"""Owns taking pages of a real server and storing them as golden files with what a correct reader says beside them.

A page is stored as the server sent it, but for HELP texts, which are others' prose. What is expected of a reader is
counted here by plain regular expressions, deliberately not by the reader under test.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.rigs.cache import RigError, cache_root, say
from tests.rigs.running import RunningServer

#: Where golden pages lie, a folder an engine and version.
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "exposition"
#: What only a speculating server counts.
SPECULATION = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What an engine calls the things that are counted, and under which name it is filed."""

    engine: str
    version: str
    prefix: str
    generation_tokens: str
    prompt_tokens: str
    running: str
    waiting: str

    @property
    def folder(self) -> Path:
        """Its golden folder."""
        return GOLDEN / f"{self.engine}-{self.version}"


@dataclass(frozen=True, slots=True)
class Page:
    """One scrape: its text, when (UNIX and monotonic seconds), and its content type."""

    text: str
    scraped_at: float
    monotonic: float
    content_type: str

    @classmethod
    def take(cls, server: RunningServer) -> Page:
        """Scrape now."""
        answer = requests.get(f"{server.url}/metrics", headers={"Accept": "text/plain"}, timeout=10)
        answer.raise_for_status()
        return cls(answer.text, time.time(), time.monotonic(), answer.headers["Content-Type"])


@dataclass(frozen=True, slots=True)
class Counts:
    """What a page has counted; `None` where it has no such counter."""

    totals: Mapping[str, float | None]
    per_position: Sequence[float]


def counter(page: str, name: str) -> float | None:
    """The sum of a counter's samples on a page, `None` when it has none."""
    found = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE)
    return sum(float(value) for value in found) if found else None


def per_position(dialect: Dialect, page: Page) -> list[float]:
    """Accepted tokens at each position, from 0."""
    name = re.escape(f"{dialect.prefix}spec_decode_num_accepted_tokens_per_pos_total")
    found = re.findall(rf'^{name}\{{[^}}]*position="(\d+)"[^}}]*\}} (\S+)$', page.text, re.MULTILINE)
    return [float(value) for _, value in sorted((int(position), value) for position, value in found)]


def counts(dialect: Dialect, page: Page) -> Counts:
    """Since the start of the server."""
    names = {
        **{key: f"{dialect.prefix}spec_decode_{key}_total" for key in SPECULATION},
        "generation_tokens": dialect.generation_tokens,
        "prompt_tokens": dialect.prompt_tokens,
    }
    return Counts({key: counter(page.text, name) for key, name in names.items()}, per_position(dialect, page))


def reading(after: Counts, before: Counts | None = None) -> dict[str, object]:
    """What a reader says of these counts, or of the difference to earlier ones of the same server."""
    positions = [
        now - (before.per_position[index] if before is not None and index < len(before.per_position) else 0.0)
        for index, now in enumerate(after.per_position)
    ]
    said: dict[str, object] = {}
    for key, now in after.totals.items():
        earlier = before.totals[key] if before is not None else 0.0
        said[key] = None if now is None or earlier is None else now - earlier
    drafts, drafted, accepted = (said[key] for key in SPECULATION)
    if isinstance(drafts, float) and isinstance(drafted, float) and isinstance(accepted, float):
        return said | {
            "acceptance_rate": round(accepted / drafted, 6) if drafted else None,
            "acceptance_length": round(1 + accepted / drafts, 6) if drafts else None,
            "acceptance_rate_per_position": [round(one / drafts, 6) if drafts else None for one in positions],
        }
    return {key: value for key, value in said.items() if key not in SPECULATION}


def write(
    dialect: Dialect,
    scene: str,
    how: str,
    server: RunningServer,
    pages: list[Page],
    *,
    verdict: str,
    state: str | None = None,
    num_speculative_tokens: int | None = None,
    interval: Mapping[str, object] | None = None,
    truth: Mapping[str, object] | None = None,
    **facts: object,
) -> None:
    """Store one scene, a page or a pair; `truth` must be what the page says, `facts` are what it does not.

    Raises:
        RigError: the page says otherwise than the clients that made it.
    """
    last = counts(dialect, pages[-1])
    if wrong := {key: last.totals[key] for key, value in (truth or {}).items() if last.totals[key] != value}:
        raise RigError(f"{scene}: the page says {wrong}, the clients {truth}")
    names = [f"{scene}.prom"] if len(pages) == 1 else [f"{scene}.t{turn}.prom" for turn in range(len(pages))]
    for name, page in zip(names, pages, strict=True):
        text = re.sub(r"^(# HELP \S+) .*$", r"\1 (text left out)", page.text, flags=re.MULTILINE)
        (dialect.folder / name).write_text(text)
    model: dict[str, object] = {
        "num_speculative_tokens": num_speculative_tokens,
        "running": counter(pages[-1].text, dialect.running),
        "waiting": counter(pages[-1].text, dialect.waiting),
        "lifetime": reading(last),
    }
    if interval is not None:
        model["interval"] = interval
    content: dict[str, object] = {
        "name": scene,
        "pages": names,
        "engine": dialect.engine,
        "engine_version": dialect.version,
        "how": how,
        "argv": [part.replace(str(cache_root()), "CACHE") for part in server.argv[1:]],
        "http": {"status": 200, "content_type": pages[-1].content_type},
        "scraped_at": [round(page.scraped_at, 3) for page in pages],
        "expected": {"verdict": verdict, **({"state": state} if state else {}), "models": {"*": model}},
        "truth": {**(truth or {}), **facts},
    }
    if len(pages) == 2:
        content["elapsed_seconds"] = round(pages[1].monotonic - pages[0].monotonic, 3)
    (dialect.folder / f"{scene}.json").write_text(json.dumps(content, indent=1) + "\n")
    say(f"  {scene}: {dict(last.totals)} {list(last.per_position)}")


