"""What every test run has: somebody who tidies up after it, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import reaper


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Processes that tests start do not outlive the run, also where it is killed or runs into a time limit."""
    mark = uuid.uuid4().hex
    os.environ[reaper.VARIABLE] = mark
    # Without site packages and in a session of its own: it starts in no time, and Ctrl-C is not meant for it.
    watcher = subprocess.Popen(
        [sys.executable, "-S", "-E", str(Path(reaper.__file__)), mark], stdin=subprocess.PIPE, start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != reaper.VARIABLE},
    )
    try:
        yield
    finally:
        assert watcher.stdin is not None
        watcher.stdin.close()
        watcher.wait()
        os.environ.pop(reaper.VARIABLE, None)
