"""The pages about rules say what the code says, and every alert has its runbook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
import yaml

from monitor.cli.main import app
from monitor.policy.alerts import NO_DATA_ALERT
from monitor.policy.load import load_rules
from monitor.policy.rule import AlertRule, TuneRule
from monitor.policy.rule_test import check_rule_test, load_rule_test
from monitor.policy.rule_test_run import run_rule_test
from monitor.policy.schema import AlertModel, TuneModel, keys_of
from monitor.shipped import rules_folder
from monitor.slo.burn import BURN_ALERT
from monitor.slo.load import SloModel, load_slos
from tests.unit.policy import signal_table
from tests.unit.policy.words import WORDS

DOCS = Path(__file__).resolve().parents[3] / "docs"
RUNBOOKS = sorted(path for path in (DOCS / "runbooks").glob("*.md") if path.name != "README.md")
#: Alerts that no rule file raises, and their pages.
BUILT_IN = {
    NO_DATA_ALERT: "alert-has-no-data", BURN_ALERT: "error-budget-burn", "StoreAway": "store-away",
    "HostSilent": "host-silent",
}  # fmt: skip


def shipped_alerts() -> dict[str, AlertRule]:
    name = "alerts.yaml"
    found = load_rules({name: (rules_folder() / name).read_text()}, WORDS)
    return {rule.name: rule for rule in found.alerts}


def blocks(page: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)


class TestRulesPage:
    PAGE = (DOCS / "rules.md").read_text()

    def test_it_lists_every_signal_as_the_code_has_it(self) -> None:
        assert signal_table.found(self.PAGE) == signal_table.expected()

    def test_it_names_every_key(self) -> None:
        keys = {key for model in (AlertModel, TuneModel, SloModel) for key in keys_of(model)}
        assert {key for key in keys - {"name", "description"} if f"`{key}`" not in self.PAGE} == set()

    def test_its_example_of_rules_loads_and_its_example_of_tests_passes(self) -> None:
        found = load_rules({"ours.yaml": next(b for b in blocks(self.PAGE) if b.startswith("groups:"))}, WORDS)
        assert [type(rule) for rule in found] == [TuneRule, AlertRule]
        tests = load_rule_test(next(b for b in blocks(self.PAGE) if b.startswith("rule_files:")), "ours.test.yaml")
        assert check_rule_test(tests, found, WORDS) == []
        report = run_rule_test(tests, found)
        assert (report.checked, report.failures) == (3, ())

    def test_its_example_of_an_slo_loads(self) -> None:
        text = next(b for b in blocks(self.PAGE) if b.startswith("slos:"))
        assert load_slos({"slo.yaml": text})[0].slo.threshold == 2.0

    def test_its_example_of_a_configuration_is_yaml(self) -> None:
        text = next(b for b in blocks(self.PAGE) if b.startswith("rules:"))
        assert set(yaml.safe_load(text)["rules"]) == {"tuning", "alerts", "files", "parameters"}


class TestRunbooks:
    def test_every_alert_names_a_page_that_exists_and_every_page_belongs_to_an_alert(self) -> None:
        named = {rule.name: rule.annotations["runbook"].source for rule in shipped_alerts().values()} | BUILT_IN
        assert sorted(named.values()) == [path.stem for path in RUNBOOKS]
        for alert, page in named.items():
            assert (DOCS / "runbooks" / f"{page}.md").read_text().startswith(f"# {alert}\n")

    def test_the_index_lists_each_with_its_severity(self) -> None:
        index = (DOCS / "runbooks" / "README.md").read_text()
        for rule in shipped_alerts().values():
            page = rule.annotations["runbook"].source
            assert f"| {rule.name} | {rule.labels['severity']} | [{page}]({page}.md) |" in index
        for alert, page in BUILT_IN.items():
            assert f"| {alert} |" in index
            assert f"({page}.md)" in index

    @pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
    def test_a_page_says_what_it_means_why_and_what_to_do(self, path: Path) -> None:
        text = path.read_text()
        titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
        assert titles == ["What it means", "Probable causes", "What to do"]
        severity = re.search(r"^(Page|Ticket|Info)\b", text, re.MULTILINE)
        assert severity is not None
        rule = shipped_alerts().get(text.splitlines()[0].removeprefix("# "))
        if rule is not None:
            assert severity[1].lower() == rule.labels["severity"]

    @pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
    def test_every_command_of_ours_exists(self, path: Path) -> None:
        commands = set(typer.main.get_command(app).list_commands(None))  # type: ignore[attr-defined]
        asked = set(re.findall(r"`acceptd ([a-z-]+)", path.read_text()))
        assert asked - commands == set()

    @pytest.mark.parametrize("path", [*RUNBOOKS, DOCS / "rules.md"], ids=lambda path: path.stem)
    def test_links_lead_somewhere(self, path: Path) -> None:
        for target in re.findall(r"\]\(([^)#:]+\.md)\)", path.read_text()):
            assert (path.parent / target).is_file(), target

    @pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
    def test_signals_named_are_signals(self, path: Path) -> None:
        """Words in backquotes that look like signals are signals, settings of the engine, or ours."""
        settings = {"num_speculative_tokens", "max_speculative_tokens", "restart_stuck", "start_limit",
                    "rejection_sample_method", "no_engine_metrics", "no_service", "invalid_auth", "token_revoked",
                    "account_inactive", "channel_not_found", "is_archived", "not_in_channel", "per_engine",
                    "acceptd_spool_pages", "acceptd_spool_fill_ratio"}
        words = {w for w in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", path.read_text())}
        assert words - set(WORDS) - settings == set()
