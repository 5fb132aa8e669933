"""A test run that is killed leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.acceptance.daemon import until
from tests.fakes import reaper

ROOT = Path(__file__).resolve().parents[2]

#: A run that starts something in a session of its own, says which process that is, and is killed.
RUN = """
import subprocess, sys, time
from tests.conftest import nothing_left_behind

run = nothing_left_behind.__wrapped__()
next(run)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_what_a_killed_run_started_is_killed_too() -> None:
    environ = {name: value for name, value in os.environ.items() if name != reaper.VARIABLE}
    with subprocess.Popen([sys.executable, "-c", RUN], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environ) as run:
        assert run.stdout is not None
        child = int(run.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        run.kill()
    until(lambda: not Path(f"/proc/{child}").exists() or None, "its child is gone", tell=lambda: str(child))
