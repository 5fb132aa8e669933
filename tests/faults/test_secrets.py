"""Secrets stay where they were put: not in log, store, files, pages, commands, messages, nor in the process list."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from monitor.targets.listeners import command_line
from tests.acceptance.daemon import free_port
from tests.fakes.slack_server import CHANNEL_NAME, TOKEN, SlackServer
from tests.faults.counted import CountedServer, serving
from tests.faults.daemon import FaultyDaemon

TINY = Path(__file__).resolve().parents[1] / "fakes" / "tiny_server.py"
WORD = "Xq7-hidden"
#: Each names where it is put, so that a leak says what leaked.
KEY, BEARER, PASSWORD, WEB, SWITCH, HOOK = (
    f"{WORD}-{place}" for place in ("api-key", "bearer", "password", "web-token", "switch", "webhook")
)


def test_no_secret_is_seen_anywhere(watching: Callable[..., FaultyDaemon]) -> None:
    port = free_port()
    argv = [sys.executable, str(TINY), "--port", str(port), "--api-key", KEY, "--trouble", "die-on-request",
            "--speculative-config", '{"num_speculative_tokens": 2}']  # fmt: skip
    down = free_port()
    plain = CountedServer("plain")
    with serving(plain), SlackServer() as slack:
        daemon = watching(plain)
        daemon.slack = slack
        secrets = daemon.folder / "bearer"
        secrets.write_text(BEARER + "\n")
        secrets.chmod(0o600)
        daemon.settings |= {
            "mode": "recommend",
            "servers": [
                {"name": "tiny", "url": f"http://127.0.0.1:{port}", "driver": {"kind": "process", "command": argv,
                 "env": {"HF_TOKEN": f"{WORD}-env"}}},
                {"name": "plain", "url": plain.url, "auth": {"bearer_token_file": str(secrets)}},
                {"name": "down", "url": f"http://127.0.0.1:{down}", "auth": {"username": "me", "password": PASSWORD}},
            ],
            "slack": {"bot_token": TOKEN, "channel": CHANNEL_NAME, "api_url": slack.api_url},
            "web": {"listen": "127.0.0.1:0", "token": WEB},
            "notify": {"dead_mans_switch_url": f"http://127.0.0.1:{down}/{SWITCH}"},
            "webhooks": [{"name": "own", "url": f"http://127.0.0.1:{down}/{HOOK}", "secret": f"{WORD}-signing-key"}],
            "rules": {"interval": "500ms", "parameters": {"ServerDown.for": "1s"}},
            "log": {"level": "debug"},
        }  # fmt: skip
        daemon.write()
        daemon.start()
        daemon.wait(lambda: len(plain.asked) > 3 or None, "pages are read")
        daemon.wait(lambda: "dead man" in daemon.said() or "switch" in daemon.said() or None, "the switch fails")
        daemon.wait(lambda: daemon.told("down does not answer") or None, "somebody is told")
        said = [daemon.said(), *(message.whole() for message in slack.messages)]
        for arguments in (["status", "--json"], ["doctor"], ["check", "--json"]):
            done = daemon.command(*arguments)
            said += [done.stdout, done.stderr]
        ours = [daemon.process.pid] if daemon.process is not None else []
        said += [" ".join(command_line(pid)) for pid in ours]
        # What the kernel shows of the server itself is its own affair: --api-key was the operator's choice.
        daemon.stop()
        files = [path for path in daemon.data_dir.rglob("*") if path.is_file()]
        assert any(path.name == "local.db" for path in files)
        for path in files:
            if "logs" in path.parts:
                continue  # the server's own log
            said.append(path.read_bytes().decode(errors="replace"))
        for text in said:
            place = text.find(WORD)
            assert place < 0, text[max(0, place - 300) : place + 60]
            assert TOKEN not in text
        assert not daemon.data_dir.stat().st_mode & 0o007, "others may look into the data folder"
