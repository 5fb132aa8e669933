"""Owns a machine with acceptd installed as a service, its configuration and looks at both; judges nothing."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import requests
import yaml

from tests.fakes.slack_server import CHANNEL_NAME, TOKEN, SlackServer
from tests.rigs.systemd.machine import Machine

Found = TypeVar("Found")
#: A deadline, never a measure (seconds).
PATIENCE = 180.0
#: Rules and limits by which seconds show what takes hours in earnest.
RULES = {
    "tuning": "threshold", "interval": "1s", "baseline_window": "4s",
    "parameters": {
        "raise-tokens.window": "4s", "raise-tokens.for": "1s", "lower-tokens.window": "4s", "lower-tokens.for": "1s",
    },
}  # fmt: skip
LIMITS = {
    "allow_downtime": True, "changes_per_day": 20, "cooldown": "10m", "drain_limit": "2s", "cut_after_drain": True,
    "stop_limit": "45s", "start_limit": "3m", "warmup": "1s", "observe": "20s", "restarts_per_day": 50,
}  # fmt: skip


def at_once(when: str, tokens: str) -> str:
    """A rule file that changes the number of tokens (`"+1"`, `"-1"`) after seconds, however little was seen."""
    return f"""
groups:
  - name: at-once
    rules:
      - tune: at-once
        when: {when}
        window: 5s
        need: {{num_drafts: 50}}
        do: {{num_speculative_tokens: "{tokens}"}}
        annotations: {{summary: "acceptance of {{{{ $labels.group }}}}"}}
"""


class Host:
    """The machine with acceptd on it."""

    def __init__(self, machine: Machine, slack: SlackServer, *units: str) -> None:
        self.machine = machine
        self.slack = slack
        self.units = units
        # Others may have used the machine before.
        shown = machine.journal("--lines=1", "--show-cursor")
        self._since = [f"--after-cursor={line.partition(': ')[2]}" for line in shown.splitlines() if "cursor" in line]

    def acceptd(self, *words: str, user: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """One command, as root or as the daemon's user."""
        return self.machine.run("acceptd", *words, user=user, check=check)

    def daemon(self, verb: str) -> None:
        """Start, stop or restart the service; systemd waits until it says that it is ready."""
        done = self.machine.run("systemctl", verb, "acceptd", seconds=PATIENCE, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{self.journal()[-6000:]}"

    def decide_at_once(self, when: str, tokens: str) -> dict[str, object]:
        """Put such a rule in place; what `rules:` must say so that it is the only one that tunes."""
        self.machine.write("/etc/acceptd/at_once.yaml", at_once(when, tokens))
        return {"tuning": "at_once", "files": ["/etc/acceptd/at_once.yaml"], "interval": "1s", "baseline_window": "4s"}

    def configure(self, servers: Sequence[Mapping[str, object]], **more: object) -> None:
        """Write the configuration: these servers in mode auto, each with its `limits`; Slack's token for root alone."""
        limits = {str(one["name"]): {**LIMITS, **dict(one.get("limits", {}))} for one in servers}  # type: ignore[call-overload]
        config: dict[str, Any] = {
            "mode": "auto", "host": "test-host",
            "servers": [{key: value for key, value in one.items() if key != "limits"} for one in servers],
            "groups": [{"name": name, "limits": limit} for name, limit in limits.items()],
            "scrape": {"interval": "500ms", "timeout": "500ms"}, "rules": RULES,
            "slack": {"bot_token_file": "/etc/acceptd/credentials/slack", "channel": CHANNEL_NAME,
                      "api_url": self.slack.api_url},
            "web": {"listen": "127.0.0.1:0"},
            **more,
        }  # fmt: skip
        self.machine.write("/etc/acceptd/acceptd.yaml", yaml.safe_dump(config), 0o640)
        self.machine.write("/etc/acceptd/credentials/slack", f"{TOKEN}\n", 0o600)

    def pids(self) -> tuple[str, ...]:
        """Main processes of the servers' units; all must run."""
        found = tuple(self.machine.show(unit, "MainPID")["MainPID"] for unit in self.units)
        assert "0" not in found, found
        return found

    def arguments(self, unit: str) -> list[str]:
        """The command line of a unit's main process."""
        pid = self.machine.show(unit, "MainPID")["MainPID"]
        return self.machine.path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")

    def state(self, group: str) -> str:
        """How the newest change of a group stands; empty where there was none."""
        story = json.loads(self.acceptd("history", group, "--json", user="acceptd").stdout)
        states = [str(one) for one in _values(story, "state")]
        return next((s for s in states if s in ("promoted", "rolled_back", "abandoned", "observing")), "")

    def journal(self) -> str:
        """What the daemon, and systemd of it, wrote."""
        return self.machine.journal(*self._since, "-u", "acceptd")

    def wait(self, look: Callable[[], Found | None], what: str, seconds: float = PATIENCE) -> Found:
        """Look until there is something; fail with what everybody wrote."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = look()
            if found is not None and found is not False:
                return found
            time.sleep(0.2)
        servers = self.machine.journal(*(word for unit in self.units for word in ("-u", unit)))[-2000:]
        raise AssertionError(f"never: {what}\n{self.journal()[-6000:]}\n{servers}")


def positions(port: int) -> int | None:
    """Positions on a server's page; None while it does not answer."""
    try:
        page = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5)
    except requests.RequestException:
        return None
    found = [line for line in page.text.splitlines() if "accepted_tokens_per_pos_total{" in line]
    return len(found) if page.ok else None


def _values(value: object, key: str) -> list[object]:
    """Every value of that key in a JSON document, outermost first."""
    if isinstance(value, dict):
        own = [value[key]] if key in value else []
        return own + [found for below in value.values() for found in _values(below, key)]
    return [found for below in value for found in _values(below, key)] if isinstance(value, list) else []
