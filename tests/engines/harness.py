"""Owns one daemon under test: its configuration, its process, and looks at what it stored; judges nothing.

The daemon is the real command as a subprocess, Slack is the stand-in of `tests/fakes`, the server is started by the
daemon itself with its process driver.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import requests
import yaml

from monitor.app.parts import stop_all
from monitor.clock import SystemClock
from monitor.config.load import load
from monitor.model.rollout import Change, ChangeState
from monitor.store import Store, open_readonly
from tests.fakes.slack_server import CHANNEL_NAME, TOKEN, Message, SlackServer

Found = TypeVar("Found")

#: The name of the one server and of its group.
NAME = "rig"


class Daemon:
    """`acceptd run` on one managed server."""

    def __init__(
        self, folder: Path, slack: SlackServer, *, command: Sequence[str], env: Mapping[str, str], port: int,
        mode: str = "auto", rules: Mapping[str, object], limits: Mapping[str, object], interval: str = "2s",
    ) -> None:
        self.folder = folder
        self.slack = slack
        self.url = f"http://127.0.0.1:{port}"
        self.data_dir = folder / "data"
        self.config = folder / "acceptd.yaml"
        self.log = folder / "acceptd.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.config.write_text(
            yaml.safe_dump(
                {
                    "data_dir": str(self.data_dir),
                    "host": "test-host",
                    "mode": mode,
                    "servers": [
                        {
                            "name": NAME, "url": self.url,
                            "driver": {"kind": "process", "command": list(command), "env": dict(env)},
                        }
                    ],
                    "groups": [{"name": NAME, "limits": dict(limits)}],
                    "scrape": {"interval": interval, "timeout": interval},
                    "rules": dict(rules),
                    "slack": {"bot_token": TOKEN, "channel": CHANNEL_NAME, "api_url": slack.api_url},
                    "web": {"listen": "127.0.0.1:0"},
                }
            )
        )

    def start(self) -> None:
        """Start the daemon and wait until it says that it runs."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "monitor", "--config", str(self.config), "run"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=_environ(),
            )
        self.wait(lambda: (self.data_dir / "running.json").is_file() or None, 60, "the daemon runs")

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=10)

    def stop(self) -> None:
        """SIGTERM, and the exit code must be 0."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            assert self._process.wait(timeout=60) == 0, self.said()
        self._process = None

    def tear_down(self) -> None:
        """Stop daemon and server, whatever state they are in."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(timeout=10)
        stop_all(load(self.config, {}), SystemClock(), patience_seconds=5.0)

    def wait(self, look: Callable[[], Found | None], seconds: float, what: str) -> Found:
        """Look until there is something; fail with the daemon's log where there is nothing in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self._process is None or self._process.poll() is None, f"the daemon died:\n{self.said()}"
            found = look()
            if found is not None:
                return found
            time.sleep(0.2)
        raise AssertionError(f"not within {seconds:g} s: {what}\n{self.said()}\n{self.server_log()}")

    def said(self) -> str:
        """The end of the daemon's log."""
        return self.log.read_text(errors="replace")[-6000:]

    def server_log(self) -> str:
        """The end of the server's log."""
        logs = sorted((self.data_dir / "logs").glob("*")) if (self.data_dir / "logs").is_dir() else []
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in logs)

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The daemon's store, for looking."""
        store = open_readonly(self.data_dir / "local.db")
        try:
            yield store
        finally:
            store.close()

    def run(self, *arguments: str) -> str:
        """The output of one command."""
        done = subprocess.run(
            [sys.executable, "-m", "monitor", "--config", str(self.config), *arguments],
            capture_output=True, text=True, timeout=120, check=False, env=_environ(),
        )
        assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """The JSON that one command prints."""
        return json.loads(self.run(*arguments, "--json"))

    def changes(self) -> list[Change]:
        """Every change so far, oldest first."""
        with self.store() as store, store.read() as unit:
            rollouts = unit.rollouts.since(None, _LONG_AGO)
            return [change for rollout in rollouts for change in unit.changes.of_rollout(rollout.id)]

    def change_in(self, *states: ChangeState, number: int = 1) -> Callable[[], Change | None]:
        """A look for the change of that number (from 1) in one of these states."""

        def look() -> Change | None:
            changes = self.changes()
            return changes[number - 1] if len(changes) >= number and changes[number - 1].state in states else None

        return look

    def finished(self, number: int = 1) -> Callable[[], Change | None]:
        """A look for the end of the change of that number."""
        return self.change_in(
            ChangeState.PROMOTED, ChangeState.ROLLED_BACK, ChangeState.ABANDONED, number=number
        )

    def serves(self) -> bool | None:
        """Whether the server generates a token; None where not."""
        try:
            models = requests.get(f"{self.url}/v1/models", timeout=5).json()["data"]
            answer = requests.post(
                f"{self.url}/v1/completions", timeout=20,
                json={"model": models[0]["id"], "prompt": "Hi", "max_tokens": 1, "temperature": 0},
            )
        except (requests.RequestException, ValueError, KeyError, IndexError):
            return None
        return True if answer.status_code == 200 else None

    def tokens_on_page(self) -> int:
        """num_speculative_tokens as the server's own page shows it; 0 where it does not speculate."""
        page = requests.get(f"{self.url}/metrics", timeout=10).text
        return page.count("vllm:spec_decode_num_accepted_tokens_per_pos_total{")

    def counter(self, name: str) -> float:
        """The sum of a counter's samples on the server's own page."""
        page = requests.get(f"{self.url}/metrics", timeout=10).text
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name + "{"))

    def posts(self) -> list[Message]:
        """Messages in the channel itself, thread replies left out."""
        return [message for message in self.slack.messages if message.thread_ts is None]

    def pages(self) -> list[Message]:
        """Messages that were pages when they were posted."""
        return [message for message in self.posts() if " · page" in message.first()]


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ACCEPTD_")}


_LONG_AGO = SystemClock().now().replace(year=2020)
