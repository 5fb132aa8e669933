"""The machine's clocks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from monitor.clock import SystemClock


def test_the_steady_clock_counts_the_time_in_which_the_machine_slept() -> None:
    # A name space of clocks in which the machine has slept for an hour since it was booted.
    script = "import time\nfrom monitor.clock import SystemClock\nprint(SystemClock().monotonic() - time.monotonic())"
    command = ["unshare", "--time", "--boottime", "3600", "--fork", sys.executable, "-c", script]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    if "unshare:" in done.stderr:
        why = f"no name spaces of clocks here: {done.stderr.strip()}"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
    assert abs(float(done.stdout) - 3600.0) < 60.0, done.stderr


def test_it_never_goes_back_and_the_wall_clock_is_aware() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)
    assert clock.now().utcoffset() is not None
