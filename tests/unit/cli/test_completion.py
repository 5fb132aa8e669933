"""Completion as documented: the script of each shell is there, and what it asks is answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def acceptd(**environ: str) -> str:
    """What the command prints when a shell's script calls it."""
    done = subprocess.run(
        [sys.executable, "-c", "from monitor.cli.main import main; main([])"], capture_output=True, text=True,
        env={**os.environ, **environ}, timeout=120,
    )
    return done.stdout


#: What the script of each shell sets when somebody has typed `acceptd db u`.
ASKED = {
    "bash": {"COMP_WORDS": "acceptd db u", "COMP_CWORD": "2"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "acceptd db u"},
    "fish": {"_TYPER_COMPLETE_ARGS": "acceptd db u", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


@pytest.mark.parametrize("shell", ASKED)
def test_words_are_completed(shell: str) -> None:
    answer = acceptd(_ACCEPTD_COMPLETE=f"complete_{shell}", **ASKED[shell])
    assert "upgrade" in answer and "recover" not in answer


@pytest.mark.parametrize("shell", ASKED)
def test_the_script_of_a_shell_calls_the_command_in_its_way(shell: str) -> None:
    script = acceptd(_ACCEPTD_COMPLETE=f"source_{shell}")
    assert f"_ACCEPTD_COMPLETE=complete_{shell}" in script and "acceptd" in script
    for name in ASKED[shell]:
        assert name in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_with_its_script(tmp_path: Path) -> None:
    (tmp_path / "acceptd.sh").write_text(acceptd(_ACCEPTD_COMPLETE="source_bash"))
    command = tmp_path / "acceptd"
    command.write_text(f"#!{sys.executable}\nfrom monitor.cli.main import main\nmain()\n")
    command.chmod(0o700)
    script = (
        "source acceptd.sh; COMP_WORDS=(acceptd doc); COMP_CWORD=1; "
        "$(complete -p acceptd | sed 's/.*-F \\([^ ]*\\).*/\\1/') acceptd; echo \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=120,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.split() == ["doctor"], done.stderr
