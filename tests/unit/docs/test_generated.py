"""The tables that are made from the code say what the code says now. `python -m docs.generate` renews them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel

from docs import generate, manpage
from docs.commands import commands
from monitor.config.model import Config
from monitor.config.reference import reference, setting_paths, type_words
from monitor.policy.facts import FACTS
from monitor.signals.vocabulary import VOCABULARY
from monitor.telemetry import Telemetry


@pytest.mark.parametrize(("page", "part", "make"), generate.PARTS, ids=[part for _, part, _ in generate.PARTS])
def test_a_page_is_up_to_date(page: str, part: str, make: Callable[[], str]) -> None:
    told = generate.found((generate.DOCS / page).read_text(), part)
    assert told == make(), f"docs/{page} is out of date: run `python -m docs.generate`"


class TestManPage:
    def page(self) -> str:
        return manpage.man_page((generate.DOCS / "cli.md").read_text())

    def test_it_is_up_to_date(self) -> None:
        assert manpage.FILE.read_text() == self.page(), "docs/acceptd.1 is out of date: run `python -m docs.generate`"

    def test_it_has_every_command_and_every_exit_code(self) -> None:
        shown = subprocess.run(
            ["man", "-l", str(manpage.FILE)], capture_output=True, text=True, check=True,
            env={**os.environ, "MANWIDTH": "200", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8"},
        ).stdout if shutil.which("man") else self.page().replace("\\-", "-")
        for name, _ in commands():
            assert f"acceptd {name} " in shown
        assert "130" in shown and "EXIT STATUS" in shown

    @pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
    def test_groff_finds_nothing_wrong_with_it(self) -> None:
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", str(manpage.FILE)], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_a_page_without_markers_is_named() -> None:
    with pytest.raises(ValueError, match="no markers of settings"):
        generate.found("# A page", "settings")


class TestSettings:
    def sections(self, model: type[BaseModel]) -> Iterator[type[BaseModel]]:
        yield model
        for field in model.model_fields.values():
            for inner in (field.annotation, *getattr(field.annotation, "__args__", ())):
                if isinstance(inner, type) and issubclass(inner, BaseModel):
                    yield from self.sections(inner)

    def test_every_setting_has_a_description(self) -> None:
        bare = [
            f"{section.__name__}.{name}"
            for section in self.sections(Config)
            for name, field in section.model_fields.items()
            if not (field.description or "").strip()
        ]
        assert bare == []

    def test_every_setting_has_a_row(self) -> None:
        rows = set(re.findall(r"^\| `([^`]+)` ", reference(), re.MULTILINE))
        assert set(setting_paths()) <= rows
        assert {"data_dir", "servers[].driver.kind", "groups[].limits.drain_limit", "slack.bot_token"} <= rows

    def test_types_and_defaults_are_in_words(self) -> None:
        text = reference()
        assert "| `scrape.interval` | duration above 0s | `15s` |" in text
        assert "| `scrape.workers` | whole number, at least 1, at most 512 | `32` |" in text
        assert "| `scrape.size_limit` | size | `16MiB` |" in text
        assert "| `report.at` | time of day | `09:00` |" in text
        assert "| `servers[].name` | name | **required** |" in text
        assert "| `mode` | one of `observe`, `recommend`, `approve`, `auto` | `recommend` |" in text

    def test_no_default_of_a_secret_is_shown(self) -> None:
        assert re.findall(r"\| secret \| (?!none)", reference()) == []

    def test_a_type_without_words_is_refused(self) -> None:
        with pytest.raises(ValueError, match="a type without words"):
            type_words(complex)


class TestSignals:
    def test_every_signal_and_every_fact_has_a_row(self) -> None:
        rows = set(re.findall(r"^\| `([a-z_0-9]+)(?:\[\])?` ", generate.signal_tables(), re.MULTILINE))
        assert rows == set(VOCABULARY) | set(FACTS)


class TestMetrics:
    def test_every_metric_of_a_real_page_has_a_row(self) -> None:
        rows = set(re.findall(r"^\| `([a-z_0-9]+)` ", generate.metric_table(), re.MULTILINE))
        families = text_string_to_metric_families(Telemetry().page().decode())
        assert {f"{f.name}_total" if f.type == "counter" else f.name for f in families} == rows

    def test_every_name_that_is_reserved_is_on_the_page(self) -> None:
        rows = set(re.findall(r"^\| `(acceptd_[a-z_0-9]+)` ", generate.metric_table(), re.MULTILINE))
        assert generate.metric_names() == rows

    def test_every_metric_is_shown_with_its_labels(self) -> None:
        page = generate.exercised().page().decode()
        silent = [family.name for family in text_string_to_metric_families(page) if not family.samples]
        assert silent == [], "give it a value in docs.generate.exercised"

    def test_the_page_names_only_metrics_that_exist(self) -> None:
        text = (generate.DOCS / "metrics.md").read_text()
        named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"acceptd_[a-z_0-9]+", text)}
        assert named <= generate.metric_names()
