"""`acceptd run` on a machine with nothing: within two minutes everything it can do is on the screen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from monitor.targets.listeners import command_line, listeners
from monitor.targets.local import find_servers
from tests.acceptance.daemon import PATIENCE, environ, until

#: The demo needs two minutes by itself (seconds).
WHOLE = 240.0


class Demo:
    """The command in an empty folder, with nothing configured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "out.log"
        # On a machine that serves something already, `run` rightly watches that instead.
        command = "run" if not find_servers() else "demo"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "monitor", command], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=environ(folder), cwd=folder, start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, words: str, seconds: float = WHOLE) -> None:
        until(lambda: words in self.said() or self.process.poll() is not None, words, seconds=seconds, tell=self.said)
        assert words in self.said(), self.said()

    def servers(self) -> set[int]:
        """Ids of its simulated servers that listen now."""
        names = {f"sim-{name}" for name in ("chat", "code", "rag", "summary")}
        ours = set()
        for listener in listeners():
            words = set(command_line(listener.pid))
            if "monitor.simulator" in words and names & words and str(self.folder) in self._log_of(listener.pid):
                ours.add(listener.pid)
        return ours

    def _log_of(self, pid: int) -> str:
        try:
            return os.readlink(f"/proc/{pid}/fd/1")
        except OSError:
            return ""

    def command(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "monitor", *arguments], capture_output=True, text=True, env=environ(self.folder),
            cwd=self.folder, timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    made = Demo(tmp_path)
    yield made
    if made.process.poll() is None:
        made.process.send_signal(signal.SIGINT)
        made.process.wait(timeout=PATIENCE)
    for pid in made.servers():
        os.kill(pid, signal.SIGKILL)


def test_everything_is_shown_and_ctrl_c_stops_all_of_it(demo: Demo) -> None:
    demo.wait("Status page")
    url = demo.said().partition("Status page")[2].split()[0]
    demo.wait("SIMULATED RECOMMENDATION: sim-chat: raise num_speculative_tokens 2 -> 3")
    status = json.loads(demo.command("status", "--json"))
    assert status["daemon"]["simulated"] is True and status["daemon"]["running"] is True
    assert "SIMULATED" in demo.command("status")
    assert "SIMULATED" in requests.get(url, timeout=20).text
    demo.wait("change rolled back")
    demo.wait("SIMULATED ALERT: sim-rag: acceptance fell")
    demo.wait("change kept")
    assert "measured goodput" in demo.said()
    report = demo.command("report", "--week")
    assert "SIMULATED" in report and "sim-chat" in report
    # One of them may be restarting just now.
    until(lambda: len(demo.servers()) == 4, "all its servers listen", tell=demo.said)
    # What a terminal sends to everything in the foreground.
    os.killpg(demo.process.pid, signal.SIGINT)
    assert demo.process.wait(timeout=PATIENCE) == 0, demo.said()
    assert demo.said().rstrip().endswith("Demo stopped, simulated servers too.")
    assert "Traceback" not in demo.said()
    assert demo.servers() == set()


def test_a_demo_that_was_killed_leaves_no_servers_to_the_next(demo: Demo) -> None:
    demo.wait("Status page")
    until(lambda: len(demo.servers()) == 4, "its servers listen", tell=demo.said)
    left = demo.servers()
    demo.process.kill()
    demo.process.wait(timeout=PATIENCE)
    assert demo.servers() == left
    second = Demo(demo.folder)
    try:
        second.wait("Status page")
        until(lambda: len(second.servers()) == 4, "its own servers listen", tell=second.said)
        assert not second.servers() & left
    finally:
        second.process.send_signal(signal.SIGINT)
        assert second.process.wait(timeout=PATIENCE) == 0, second.said()
    assert second.servers() == set()
