"""Owns one daemon under test: its configuration, its process, its simulated servers; judges nothing.

The daemon is the real command as a subprocess; Slack is the stand-in of `tests/fakes`; servers are simulated ones that
the daemon starts itself. Everything waits for what must happen, with time to spare for a slow machine.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import requests
import yaml

from monitor.app.parts import stop_all
from monitor.clock import SystemClock
from monitor.config.load import load
from monitor.model.life import Setting
from monitor.model.rollout import Change
from monitor.store import Store, open_readonly
from tests.fakes.slack_server import APP_TOKEN, CHANNEL_NAME, TOKEN, Message, SlackServer

Found = TypeVar("Found")
CLOCK = SystemClock()
#: How long anything may take before a test fails (seconds): a deadline, never a measure.
PATIENCE = 180.0
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

#: The group of people that a page names.
PAGER = "S0PAGER"
#: Rules, limits and intervals by which a minute shows what takes hours in earnest.
SCRAPE = {"interval": "500ms", "timeout": "500ms"}
RULES = {
    "tuning": "threshold", "interval": "1s", "baseline_window": "4s",
    "parameters": {
        "raise-tokens.window": "6s", "raise-tokens.for": "2s", "lower-tokens.window": "6s", "lower-tokens.for": "2s",
        "AcceptanceCliff.window": "6s", "AcceptanceCliff.for": "1s",
    },
}  # fmt: skip
LIMITS = {
    "max_speculative_tokens": 8, "allow_downtime": True, "changes_per_day": 20, "cooldown": "10m",
    "drain_limit": "2s", "cut_after_drain": True, "stop_limit": "5s", "start_limit": "30s", "warmup": "1s",
    "observe": "45s", "restarts_per_day": 50,
}  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(look: Callable[[], Found | None], what: str, *, seconds: float = PATIENCE, tell: Callable[[], str]) -> Found:
    """Look until there is something; fail with what `tell` says where there is nothing in time."""
    deadline = CLOCK.monotonic() + seconds
    while CLOCK.monotonic() < deadline:
        found = look()
        if found is not None and found is not False:
            return found
        CLOCK.sleep(0.1)
    raise AssertionError(f"not within {seconds:g} s: {what}\n{tell()}")


class Simulated:
    """One simulated server, as its control interface shows it."""

    def __init__(self, name: str, *, tokens: int, method: str = "mtp", load: str, faults: tuple[str, ...] = (),
                 more: tuple[str, ...] = ()) -> None:
        self.name = name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        config = {"method": method, "num_speculative_tokens": tokens}
        self.command = [sys.executable, "-m", "monitor.simulator", "--host", "127.0.0.1", "--port", str(self.port)]
        self.command += ["--model", name, "--speculative-config", json.dumps(config), "--max-num-seqs", "64"]
        self.command += ["--sim-load", load, "--sim-start-seconds", "1", *more]
        for fault in faults:
            self.command += ["--sim-fault", fault]

    def state(self) -> dict[str, Any] | None:
        """What is true of it; None while it does not answer."""
        try:
            answer = requests.get(f"{self.url}/-/sim/state", timeout=5)
            return dict(answer.json()) if answer.ok else None
        except requests.RequestException:
            return None

    def tokens(self) -> int | None:
        """The number of speculative tokens that its page shows; None while it does not serve."""
        try:
            page = requests.get(f"{self.url}/metrics", timeout=5)
        except requests.RequestException:
            return None
        positions = [line for line in page.text.splitlines() if "accepted_tokens_per_pos_total{" in line]
        return len(positions) if page.ok else None

    def generates(self) -> bool:
        """Whether it generates a token."""
        body = {"model": self.name, "prompt": "Hi", "max_tokens": 1}
        try:
            return requests.post(f"{self.url}/v1/completions", json=body, timeout=20).ok
        except requests.RequestException:
            return False

    def load(self, load: str) -> None:
        """Put it under another load."""
        answer = requests.post(f"{self.url}/-/sim/load", json={"load": load}, timeout=5)
        assert answer.ok, answer.text

    def order(self, kind: str, value: str = "") -> None:
        """Order a fault now."""
        answer = requests.post(f"{self.url}/-/sim/fault", json={"kind": kind, "value": value}, timeout=5)
        assert answer.ok, answer.text


class Daemon:
    """`acceptd run` on managed simulated servers."""

    def __init__(
        self, folder: Path, slack: SlackServer | None, *servers: Simulated, mode: str = "auto",
        limits: Mapping[str, object] | None = None, rules: Mapping[str, object] | None = None, managed: bool = True,
        scrape: Mapping[str, object] | None = None,
    ) -> None:
        self.folder = folder
        self.slack = slack
        self.servers = servers
        self.data_dir = folder / "data"
        self.config = folder / "acceptd.yaml"
        self.log = folder / "acceptd.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.settings: dict[str, Any] = {
            "data_dir": str(self.data_dir),
            "host": "test-host",
            "mode": mode,
            "servers": [self._server(server, managed) for server in servers],
            "groups": [{"name": server.name, "limits": {**LIMITS, **(limits or {})}} for server in servers],
            "scrape": dict(scrape or SCRAPE),
            "rules": {**RULES, **(rules or {})},
            # A scrape missed on a busy machine is an outage where a minute stands for hours.
            "slo": {"shipped": False},
            "web": {"listen": "127.0.0.1:0"},
        }
        if slack is not None:
            self.settings["slack"] = {
                "bot_token": TOKEN, "channel": CHANNEL_NAME, "api_url": slack.api_url, "mention": PAGER,
            }  # fmt: skip
        self.write()

    def _server(self, server: Simulated, managed: bool) -> dict[str, Any]:
        driver = {"kind": "process", "command": server.command, "env": {"OPENBLAS_NUM_THREADS": "1"}}
        return {"name": server.name, "url": server.url, **({"driver": driver} if managed else {})}

    def with_buttons(self, *users: str) -> None:
        """Let messages have buttons, which these users may press."""
        self.settings["slack"] |= {"app_token": APP_TOKEN, "users": list(users)}
        self.write()

    def write(self) -> None:
        """Write the configuration as `settings` stand."""
        self.config.write_text(yaml.safe_dump(self.settings))

    def start(self) -> None:
        """Start the daemon and wait until it says that it runs."""
        running = self.data_dir / "running.json"
        running.unlink(missing_ok=True)
        self.process = self.spawn()
        self.wait(running.is_file, "the daemon runs")

    def spawn(self) -> subprocess.Popen[bytes]:
        """One more process of the command `acceptd run` on this configuration."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "monitor", "--config", str(self.config), "run"], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, env=environ(self.folder), cwd=self.folder,
            )

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(timeout=PATIENCE)
        self.process = None

    def hang_up(self) -> None:
        """SIGHUP: read the configuration again."""
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """SIGTERM; the exit code must be 0."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(timeout=PATIENCE) == 0, self.tell()
        self.process = None

    def tear_down(self) -> None:
        """Stop daemon and servers, whatever state they are in."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=PATIENCE)
        self.write()
        stop_all(load(self.config, {}), CLOCK, patience_seconds=5.0)

    def wait(self, look: Callable[[], Found | None], what: str, *, seconds: float = PATIENCE) -> Found:
        """Look until there is something; fails at once where the daemon has died."""

        def alive() -> Found | None:
            assert self.process is None or self.process.poll() is None, f"the daemon died:\n{self.tell()}"
            return look()

        return until(alive, what, seconds=seconds, tell=self.tell)

    def tell(self) -> str:
        """The ends of the logs of daemon and servers, and what Slack was told."""
        parts = [f"--- {self.log}", self.said()[-6000:]]
        for path in sorted((self.data_dir / "logs").glob("*")) if (self.data_dir / "logs").is_dir() else []:
            parts += [f"--- {path}", path.read_text(errors="replace")[-1500:]]
        parts += ["--- Slack", *(message.text for message in self.messages())]
        return "\n".join(parts)

    def said(self) -> str:
        """Everything that the daemons of this folder logged."""
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    @contextmanager
    def store(self) -> Iterator[Store]:
        """What it stored, for reading."""
        store = open_readonly(self.data_dir / "local.db")
        try:
            yield store
        finally:
            store.close()

    def running(self) -> dict[str, Any]:
        """What the daemon left for the command line."""
        return dict(json.loads((self.data_dir / "running.json").read_text()))

    def page(self, path: str) -> str | None:
        """One of its own pages; None while it does not answer 200."""
        try:
            answer = requests.get(f"http://{self.running()['listen']}{path}", timeout=20)
        except requests.RequestException:
            return None
        return answer.text if answer.ok else None

    def changes(self, server: Simulated) -> list[Change]:
        """Changes of a server, oldest first."""
        with self.store() as store, store.read() as unit:
            found = unit.changes.of_server(server.name, LONG_AGO)  # type: ignore[arg-type]
        return sorted(found, key=lambda change: change.entered_at)

    def change_in(self, server: Simulated, *states: str) -> Change | None:
        """The newest change of a server, if it is in one of these states."""
        found = self.changes(server)
        return found[-1] if found and found[-1].state.value in states else None

    def setting(self, server: Simulated) -> Setting | None:
        """The setting that the newest life of a server is known to have."""
        with self.store() as store, store.read() as unit:
            lives = unit.lives.open_of(server.name)  # type: ignore[arg-type]
        return lives[-1].setting if lives else None

    def messages(self) -> list[Message]:
        """Everything posted to Slack, oldest first."""
        return list(self.slack.messages) if self.slack is not None else []

    def told(self, *words: str) -> list[Message]:
        """Messages that hold all these words."""
        return [message for message in self.messages() if all(word in message.whole() for word in words)]

    def pages(self) -> list[str]:
        """The first lines of what woke someone, oldest first."""
        texts = [text for message in self.messages() for text in (*message.edits, message.text)]
        return [text.partition("> ")[2].splitlines()[0] for text in texts if text.startswith(f"<!subteam^{PAGER}>")]

    def starts(self, server: Simulated) -> int:
        """How often daemons of this folder have started a server."""
        with self.store() as store, store.read() as unit:
            return len(unit.restarts.since(server.name, LONG_AGO))  # type: ignore[arg-type]

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line on this daemon's folder."""
        return subprocess.run(
            [sys.executable, "-m", "monitor", "--config", str(self.config), *arguments], capture_output=True, text=True,
            env=environ(self.folder), cwd=self.folder, timeout=PATIENCE,
        )


def environ(folder: Path) -> dict[str, str]:
    """The environment without settings of acceptd in it, and a state folder of its own."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("ACCEPTD_")}
    return {**known, "XDG_STATE_HOME": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
