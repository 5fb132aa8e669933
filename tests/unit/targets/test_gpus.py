"""GPUs as nvidia-smi lists them; a host without one has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.targets.gpus import Gpu, gpus

MIB = 1024.0**2


def program(tmp_path: Path, script: str) -> str:
    path = tmp_path / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_each_line_is_one(tmp_path: Path) -> None:
    lines = "echo 'NVIDIA L4, 23034, 512'; echo 'NVIDIA H100, SXM, 81559, 4'; echo 'x, [N/A], [N/A]'; echo"
    assert gpus(program(tmp_path, lines)) == (
        Gpu("NVIDIA L4", 23034 * MIB, 512 * MIB), Gpu("NVIDIA H100, SXM", 81559 * MIB, 4 * MIB),
    )  # fmt: skip


def test_it_is_asked_for_what_is_read(tmp_path: Path) -> None:
    script = f'echo "$@" > {tmp_path}/asked'
    assert gpus(program(tmp_path, script)) == ()
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["--query-gpu=name,memory.total,memory.used", "--format=csv,noheader,nounits"]


@pytest.mark.parametrize("script", ["exit 9", "kill -9 $$"])
def test_one_that_fails_says_nothing(tmp_path: Path, script: str) -> None:
    assert gpus(program(tmp_path, script)) == ()


def test_without_the_program_there_is_none() -> None:
    assert gpus("acceptd-no-such-program") == ()
