"""The command itself: help, version, wrong commands, and that a command imports only what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from monitor import __version__
from monitor.cli.main import COMMANDS
from tests.unit.cli.conftest import Folder, Run


def test_its_version(acceptd: Run) -> None:
    said = acceptd("--version")
    assert (said.code, said.out) == (0, f"acceptd {__version__}\n")


def test_help_lists_every_command_with_a_sentence(acceptd: Run) -> None:
    said = acceptd("--help")
    assert said.code == 0
    listed = said.out.partition("Commands:")[2]
    for name in COMMANDS:
        (line,) = [line for line in listed.splitlines() if line.split()[:1] == [name]]
        assert len(line.split()) > 3


SUBCOMMANDS = ("launch render", "db upgrade", "db size", "db check", "db export", "db import")


@pytest.mark.parametrize("command", [*COMMANDS, *SUBCOMMANDS])
def test_every_command_has_help_of_its_own(acceptd: Run, command: str) -> None:
    said = acceptd(*command.split(), "--help")
    assert said.code == 0
    assert said.out.startswith(f"Usage: acceptd {command}")


def test_an_unknown_command_is_refused_with_the_one_that_may_be_meant(acceptd: Run) -> None:
    said = acceptd("statsu")
    assert said.code == 2
    assert "No such command 'statsu'" in said.err and "'status'" in said.err


@pytest.mark.parametrize("arguments", [("status", "--nope"), ("history",), ("launch", "render"), ("read",)])
def test_wrong_options_are_wrong_input(acceptd: Run, arguments: tuple[str, ...]) -> None:
    assert acceptd(*arguments).code == 2


def test_nothing_asked_shows_the_help(acceptd: Run) -> None:
    said = acceptd()
    assert "Commands:" in said.out + said.err


def test_reading_a_page_waits_for_no_database_and_no_charts() -> None:
    code = (
        "import sys\n"
        "from monitor.cli.main import main\n"
        "try:\n    main(['read', '/dev/null'])\nexcept SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'alembic', 'matplotlib', 'flask', 'numpy', 'slack_sdk'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr.splitlines()[-1] == "[]"


def test_looking_at_the_store_waits_for_no_charts_and_no_web_server() -> None:
    code = (
        "import sys\n"
        "from monitor.cli.main import main\n"
        "try:\n    main(['--data-dir', '/nope', 'status'])\nexcept SystemExit: pass\n"
        "print(sorted({'matplotlib', 'flask', 'waitress', 'slack_sdk'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_reader_that_has_seen_enough_is_no_error(folder: Folder) -> None:
    command = f"{sys.executable} -m monitor --data-dir {folder.path} history chat-1 --step 15s --json | head -c 10"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
