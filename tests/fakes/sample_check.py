"""Compares what was read with what a sample's JSON file expects: only what it states, numbers to 1e-4."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from monitor.intervals.pages import PageInput, read_pages


def read_sample(path: pathlib.Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A sample's JSON and what `read_pages` says of its pages."""
    sample = json.loads(path.read_text())
    http = sample.get("http", {})
    elapsed = sample.get("elapsed_seconds", [])
    pages = [
        PageInput((path.parent / page).read_bytes(), http.get("content_type"), http.get("status", 200))
        for page in sample["pages"]
    ]
    said = read_pages(
        pages,
        elapsed=elapsed if isinstance(elapsed, list) else [elapsed],
        scraped_at=sample.get("scraped_at", ()),
    )
    return sample, json.loads(json.dumps(said, allow_nan=False))


def differs(want: Any, got: Any) -> bool:
    if isinstance(want, list):
        return not isinstance(got, list) or len(want) != len(got) or any(map(differs, want, got))
    if isinstance(want, bool) or not isinstance(want, int | float):
        return bool(want != got)
    is_number = isinstance(got, int | float) and not isinstance(got, bool)
    return not is_number or not math.isclose(want, got, rel_tol=1e-4, abs_tol=1e-6)


def complaints(expected: Mapping[str, Any], said: Mapping[str, Any]) -> Iterator[str]:
    """What is said differently from what is expected."""
    for key in ("verdict", "state"):
        if key in expected and expected[key] != said[key]:
            yield f"{key}: want {expected[key]!r}, got {said[key]!r}"
    missing = set(expected.get("flags", ())) - set(said["flags"])
    if missing:
        yield f"flags missing: {sorted(missing)}, got {said['flags']}"
    models = {model["model"]: model for model in said["models"]}
    for name, fields in expected.get("models", {}).items():
        model = next(iter(models.values())) if name == "*" and len(models) == 1 else models.get(name)
        if model is None:
            yield f"model {name!r} missing, got {list(models)}"
            continue
        yield from _model_complaints(name, fields, model)


def _model_complaints(name: str, fields: Mapping[str, Any], model: Mapping[str, Any]) -> Iterator[str]:
    for key, want in fields.items():
        pairs = {key: (want, model[key])}
        if isinstance(want, dict):
            pairs = {f"{key}.{part}": (one, (model[key] or {}).get(part)) for part, one in want.items()}
        for where, (one, got) in pairs.items():
            nothing = isinstance(one, list) and got is None and all(item is None for item in one)
            if differs(one, got) and not nothing:
                yield f"{name}.{where}: want {one}, got {got}"
