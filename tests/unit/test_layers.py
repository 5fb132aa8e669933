"""A module of `monitor` imports only from lower ranks and from its own package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

MONITOR = Path(__file__).resolve().parents[2] / "monitor"

RANKS: list[set[str]] = [
    {"errors", "clock", "names", "shipped", "watchdog", "__init__"},
    {"model"},
    {"exposition", "launch"},
    {"dialects"},
    {"intervals"},
    {"signals"},
    {"slo", "policy", "tuning", "show"},
    {"targets", "scrape", "store", "drivers", "notify", "telemetry", "advise"},
    {"actions", "report", "web", "simulator", "units", "benchmark"},
    {"config"},
    {"cycle", "doctor"},
    {"app", "schedule", "cli", "__main__"},
]
RANK = {name: rank for rank, names in enumerate(RANKS) for name in names}


def part_of(path: Path) -> str:
    return path.relative_to(MONITOR).parts[0].removesuffix(".py")


def imported_parts(path: Path, source: str) -> Iterator[tuple[int, str]]:
    package = ("monitor", *path.relative_to(MONITOR).parts[:-1])
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "monitor" else [module]
        for name in names:
            parts = name.split(".")
            if parts[0] == "monitor" and len(parts) > 1:
                yield node.lineno, "__init__" if parts[1] == "__version__" else parts[1]


def breaches(path: Path, source: str) -> list[str]:
    own = part_of(path)
    found = []
    for line, part in imported_parts(path, source):
        if part == own or (RANK.get(part) == 0 and own in RANKS[0]):
            continue
        if part not in RANK:
            found.append(f"{path.name}:{line}: imports unknown part {part}")
        elif own not in ("app", "schedule", "cli", "__main__") and RANK[part] >= RANK[own]:
            found.append(f"{path.name}:{line}: {own} (rank {RANK[own]}) imports {part} (rank {RANK[part]})")
    return found


@pytest.mark.parametrize("path", sorted(MONITOR.rglob("*.py")), ids=lambda p: str(p.relative_to(MONITOR)))
def test_module_imports_only_from_lower_ranks(path: Path) -> None:
    assert part_of(path) in RANK, f"{path} belongs to no rank"
    assert breaches(path, path.read_text()) == []


def test_a_breach_is_seen() -> None:
    source = "from monitor.store.tables import Row\nfrom monitor import store\nimport monitor.store.x\n"
    assert len(breaches(MONITOR / "signals" / "acceptance.py", source)) == 3


def test_relative_imports_are_resolved() -> None:
    assert breaches(MONITOR / "signals" / "acceptance.py", "from ..store import tables\nfrom . import windows\n") != []
