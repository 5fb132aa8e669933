"""Which objectives a configuration asks for, and that their mistakes are named with those of the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.config.load import load
from monitor.config.model import Config
from monitor.config.rules import load_configured_rules, load_objectives, slo_paths
from monitor.errors import ConfigError

OURS = "slos:\n  - {name: ours, indicator: uptime, objective: 0.99}\n"


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    path = tmp_path / "ours.yaml"
    path.write_text(OURS)
    return path


def config(text: str, tmp_path: Path) -> Config:
    path = tmp_path / "acceptd.yaml"
    path.write_text(text)
    return load(path, {})


def names(of: Config) -> list[str]:
    return [policy.slo.name for policy in load_configured_rules(of).slos]


def test_the_shipped_ones_hold_until_others_are_given(tmp_path: Path, ours: Path) -> None:
    shipped = names(config("", tmp_path))
    assert shipped == ["availability", "uptime", "first-token", "token-pace", "acceptance"]
    assert names(config(f"slo: {{files: [{ours}]}}", tmp_path)) == ["ours"]
    assert names(config(f"slo: {{shipped: true, files: [{ours}]}}", tmp_path)) == [*shipped, "ours"]
    assert names(config("slo: {shipped: false}", tmp_path)) == []


def problems(text: str, tmp_path: Path) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load_configured_rules(config(text, tmp_path))
    return [str(problem) for problem in error.value.problems]


SERVER = "servers: [{name: chat-1, url: 'http://127.0.0.1:8000', group: chat}]\n"


def test_a_group_or_a_server_that_does_not_exist_is_a_mistake(tmp_path: Path, ours: Path) -> None:
    ours.write_text(
        OURS + "  - {name: x, indicator: uptime, objective: 0.99, group: chatt}\n"
        "  - {name: y, indicator: uptime, objective: 0.99, server: chat-1}\n"
        "  - {name: z, indicator: uptime, objective: 0.99, server: chat-2}\n"
    )
    group, server = problems(f"{SERVER}slo: {{files: [{ours}]}}", tmp_path)
    assert group.startswith(f"{ours}:3: SLO x: group: found 'chatt', expected one of chat")
    assert server.startswith(f"{ours}:5: SLO z: server: found 'chat-2', expected one of chat-1")


def test_mistakes_of_rules_and_objectives_are_listed_together(tmp_path: Path, ours: Path) -> None:
    a, b = "{name: a, indicator: uptime, objective: 99}", "{name: b, indicator: uptimes, objective: 0.9}"
    ours.write_text(f"slos: [{a}, {b}]")
    found = problems(f"rules: {{tuning: best}}\nslo: {{files: [{ours}]}}", tmp_path)
    assert len(found) == 3
    assert any("rules.tuning" in problem for problem in found)
    assert any("objective: found 99" in problem for problem in found)
    assert any("did you mean uptime?" in problem for problem in found)


def test_a_file_that_is_not_there_is_named_when_it_is_checked_and_when_it_has_gone(tmp_path: Path, ours: Path) -> None:
    with pytest.raises(ConfigError, match=r"slo\.files\[0\]: found '/nowhere/s\.yaml', expected an existing file"):
        config("slo: {files: [/nowhere/s.yaml]}", tmp_path)
    made = config(f"slo: {{files: [{ours}]}}", tmp_path)
    ours.unlink()
    with pytest.raises(ConfigError, match="a readable file"):
        load_objectives(slo_paths(made))
