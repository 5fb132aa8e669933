"""A person who mends a file hears of every mistake at once."""

from __future__ import annotations

from pathlib import Path

from monitor.config.everything import every_problem

RULES = """
groups:
  - name: g
    rules:
      - alert: One
        when: no_such_signal > 1.0
        labels: {severity: page}
"""
SLOS = "slos:\n  - {name: x, indicator: no_such, objective: 0.9}\n"


def problems(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "acceptd.yaml"
    (tmp_path / "mine.yaml").write_text(RULES)
    (tmp_path / "slos.yaml").write_text(SLOS)
    file.write_text(text.replace("FOLDER", str(tmp_path)))
    found, config, rules = every_problem(file, {})
    assert (config is None) == (rules is None) == bool(found)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in found]


def test_settings_rules_objectives_and_contradictions_come_together(tmp_path: Path) -> None:
    found = problems(tmp_path, """
servers:
  - {name: a, url: 'http://127.0.0.1:1'}
  - {name: b, url: 'http://127.0.0.1:1'}
groups: [{name: nobody}]
scrape: {interval: 15}
web: {listen: '0.0.0.0:80'}
rules: {files: [FOLDER/mine.yaml], tuning: unknown, parameters: {NoRule.for: 1m}}
slo: {files: [FOLDER/slos.yaml]}
report: {day: monday}
""")
    text = "\n".join(found)
    for words in (
        "scrape.interval: found 15", "web: ", "report.day", "the same metrics URL", "groups[0].name: found 'nobody'",
        "no_such_signal", "rules.tuning: found 'unknown'", "no_such",
    ):
        assert words in text, (words, text)
    assert len(found) == len(set(found))


def test_what_only_seems_wrong_without_a_faulty_section_is_not_said(tmp_path: Path) -> None:
    found = problems(tmp_path, """
servers: [{name: a, url: 'ftp://x', group: chat}]
groups: [{name: chat}]
slo: {files: [FOLDER/fine.yaml]}
""")
    assert len(found) == 1 and "servers[0].url" in found[0], found


def test_faulty_rules_do_not_hide_a_faulty_section_nor_the_other_way_round(tmp_path: Path) -> None:
    found = problems(tmp_path, "rules: {files: [FOLDER/mine.yaml]}\nnonsense: 1\n")
    assert "nonsense: found an unknown key" in "\n".join(found) and "no_such_signal" in "\n".join(found)
    found = problems(tmp_path, "rules: {files: 3}\nscrape: {interval: 1}\n")
    assert len(found) == 2


def test_a_missing_rule_file_is_named_once(tmp_path: Path) -> None:
    found = problems(tmp_path, "rules: {files: [FOLDER/gone.yaml]}\n")
    assert len(found) == 1 and "rules.files[0]" in found[0]


def test_a_file_that_is_no_yaml_and_one_without_mistakes(tmp_path: Path) -> None:
    assert len(problems(tmp_path, "servers: [")) == 1
    assert problems(tmp_path, "servers: [{name: a, url: 'http://127.0.0.1:1'}]\n") == []
