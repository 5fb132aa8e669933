"""The list of parts is whole, and the audit knows what it could not ask."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.supply.audit import report
from tests.supply.sbom import document, needed

ROOT = Path(__file__).resolve().parents[3]


def test_every_dependency_is_a_part_and_every_part_is_of_something() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    made = document()
    names = {part["name"] for part in made["components"]}
    assert {Requirement(one).name.lower() for one in wanted} <= names
    assert {"werkzeug", "urllib3", "psycopg-binary"} <= names, "what the dependencies need themselves"
    assert "pytest" not in names and "vllm" not in names
    references = {part["bom-ref"] for part in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    pointed = {one for entry in made["dependencies"] for one in entry["dependsOn"]}
    assert pointed <= references
    assert references - pointed == {made["metadata"]["component"]["bom-ref"]}
    assert next(iter(needed())) == "acceptd"


def test_a_known_flaw_fails_and_an_unreachable_database_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    fine = [{"name": name, "version": "1", "vulns": []} for name in ("a", "b")]
    assert report(fine) == 0
    assert report([*fine, {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}]) == 1
    assert "VULNERABLE c 2: PYSEC-1 (fixed in 3)" in capsys.readouterr().out
    assert report([{"name": name, "skip_reason": "not found"} for name in ("a", "b")]) == 0
    assert "NOT AUDITED" in capsys.readouterr().err
