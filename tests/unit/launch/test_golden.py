"""Command lines at every boundary of the tables, compared with the files of tests/golden/launch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.launch import llamacpp_flags, vllm_flags, vllm_keys, vllm_methods
from monitor.launch.versions import Span, bound, parse_version
from monitor.model.server import Engine
from tests.unit.launch.golden import BOUNDARIES, files, read


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_command_lines_are_as_reviewed(path: Path) -> None:
    golden = read(path)
    assert golden.ask() == golden.answers


def spans_of(*modules: object) -> Iterator[Span]:
    """Every range that stands in the tables of these modules."""
    for module in modules:
        for name, value in vars(module).items():
            if name.startswith("_"):
                continue
            rows = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
            for row in rows:
                if isinstance(row, Span):
                    yield row
                yield from (part for part in parts_of(row) if isinstance(part, Span))


def parts_of(row: object) -> list[object]:
    names = getattr(type(row), "__dataclass_fields__", {})
    return [getattr(row, name) for name in names]


@pytest.mark.parametrize(
    ("engine", "spans"),
    [
        (Engine.VLLM, list(spans_of(vllm_flags, vllm_keys, vllm_methods))),
        (Engine.LLAMACPP, list(spans_of(llamacpp_flags))),
    ],
    ids=["vllm", "llamacpp"],
)
def test_every_boundary_of_the_tables_is_asked(engine: Engine, spans: list[Span]) -> None:
    asked = [parse_version(engine, version) for version in BOUNDARIES[engine.value]]
    releases = {version.release for version in asked}
    bounds = {text for span in spans for text in (span.first, span.last) if text is not None}
    assert len(bounds) > 3
    assert sorted(text for text in bounds if bound(text) not in releases) == []
    for span in spans:
        last = max((bound(text) for text in bounds), default=())
        if span.last is not None and bound(span.last) < last:
            assert any(span.is_before(version) for version in asked), f"nothing newer than {span} is asked"


def test_every_engine_and_method_has_a_file() -> None:
    names = {path.stem for path in files()}
    missing = {method.name for method in vllm_methods.METHODS if f"vllm-{method.name}" not in names}
    assert missing == set()
    assert {engine for engine in BOUNDARIES if f"{engine}-off" not in names} == set()
