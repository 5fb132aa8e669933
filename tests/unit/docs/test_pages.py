"""Pages as a reader meets them: links lead somewhere, examples load, lists are complete, versions agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from docs import generate
from monitor import __version__
from monitor.config.load import load
from monitor.config.rules import load_configured_rules
from monitor.config.servers import DriverKind
from monitor.store.tables import Base
from tests.unit.test_layers import RANKS

ROOT = generate.DOCS.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(generate.DOCS.rglob("*.md"))]
ADRS = sorted((generate.DOCS / "adr").glob("*.md"))


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        name, _, part = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), target
        assert not part or part in anchors(place), target


def configurations() -> list[str]:
    """Every YAML block of the pages that is a configuration of acceptd."""
    texts = [(generate.DOCS / name).read_text() for name in ("configuration.md", "install.md")]
    return [block for text in texts for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


@pytest.mark.parametrize("text", configurations())
def test_an_example_of_a_configuration_loads(text: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("xoxb-1\n")
    (tmp_path / "url").write_text("https://pager.example/in\n")
    (tmp_path / "key").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    path = tmp_path / "acceptd.yaml"
    path.write_text(re.sub(r"/etc/acceptd/[a-z-]*(token|url|key)", rf"{tmp_path}/\1", text))
    assert load_configured_rules(load(path, {}))


def test_the_table_of_drivers_has_every_kind() -> None:
    page = (generate.DOCS / "configuration.md").read_text()
    part = page.partition("| `kind` | what it does |\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE)) == {kind.value for kind in DriverKind}


class TestArchitecture:
    PAGE = (generate.DOCS / "architecture.md").read_text()

    def test_the_ranks_are_those_that_are_tested(self) -> None:
        rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", self.PAGE, re.MULTILINE)
        told = {int(rank): set(re.findall(r"`(\w+)`", packages)) for rank, packages in rows}
        assert told == {rank: names - {"__init__"} for rank, names in enumerate(RANKS)}

    def test_every_table_is_there(self) -> None:
        part = self.PAGE.partition("| table | what | kept |")[2].partition("\n\n")[0]
        cells = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
        assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(Base.metadata.tables)


@pytest.mark.parametrize("path", ADRS, ids=lambda path: path.stem)
def test_a_decision_is_told_whole(path: Path) -> None:
    text = path.read_text()
    number = path.name[:4]
    assert text.startswith(f"# {number}: ")
    titles = ["Context", "Options", "Decision", "Consequences", "How we would know it was wrong"]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == titles
    assert len(text.splitlines()) <= 110, "a page"


def test_decisions_are_numbered_without_gaps() -> None:
    assert [path.name[:4] for path in ADRS] == [f"{n:04}" for n in range(1, len(ADRS) + 1)]


class TestVersion:
    TEXT = (ROOT / "CHANGELOG.md").read_text()

    def test_the_newest_entry_is_this_version(self) -> None:
        newest = re.search(r"^## \[([^\]]+)\] - (unreleased|\d{4}-\d{2}-\d{2})$", self.TEXT, re.MULTILINE)
        assert newest is not None
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert newest[1] == __version__ == project["version"]

    def test_entries_are_of_the_known_kinds(self) -> None:
        kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Known limits"}
        assert set(re.findall(r"^### (.*)$", self.TEXT, re.MULTILINE)) <= kinds
