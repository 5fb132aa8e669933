"""A real vLLM in development mode: its page, its command line and its own configuration say the same setting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from monitor.clock import SystemClock
from monitor.cycle.settings import SettingFinder
from monitor.dialects import Dialects
from monitor.intervals.server import advance
from monitor.intervals.track import Context, Track
from monitor.model.life import Setting, SettingSource
from monitor.model.server import GroupName, Server, ServerName
from monitor.scrape.client import ACCEPT_PAGE, ServerClient
from monitor.scrape.probe import ServerProbe
from monitor.targets.local import server_behind
from monitor.targets.told import ask_server
from monitor.watchdog import Watchdog
from tests.rigs.vllm.build import is_built
from tests.rigs.vllm.server import ngram, running_server

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        not is_built() and not os.environ.get("CI"), reason="not built: python3.11 tests/rigs/vllm/build.py"
    ),
]

SAID = {SettingSource.COMMAND_LINE, SettingSource.SERVER_INFO}


def test_every_source_of_the_setting_agrees(tmp_path: Path) -> None:
    clock = SystemClock()
    watchdog = Watchdog(clock)
    watchdog.start()
    client = ServerClient(watchdog, size_limit=1 << 22)
    env = {"VLLM_SERVER_DEV_MODE": "1"}
    try:
        with running_server(speculation=ngram(3), env=env, log=tmp_path / "vllm.log") as running:
            server = Server(
                name=ServerName("s"), group=GroupName("g"), base_url=running.url, metrics_url=f"{running.url}/metrics"
            )
            probe = ServerProbe(client, running.url, timeout_seconds=30.0)
            finder = SettingFinder(
                ask=lambda _, engine: ask_server(engine, probe.document),
                process=lambda one: server_behind(one.base_url), launched=lambda _: None, configured={},
            )  # fmt: skip
            answer = client.get(server.metrics_url, deadline_seconds=30.0, accept=ACCEPT_PAGE)
            reading = Dialects().reader(server.name).read(
                answer.body, scraped_at=clock.now(), monotonic=clock.monotonic(), content_type=answer.content_type
            )
            known = finder.of(server, reading)
            assert known is not None
            assert {one.source for one in known.said} == SAID
            assert {one.setting for one in known.said} == {Setting(method="ngram", num_speculative_tokens=3)}
            assert known.engine_version == "0.32.0"
            context = Context(said=known.said, engine_version=known.engine_version)
            [life] = advance(Track(server=server.name), reading, boot_id="b", context=context).lives
            assert life.setting == Setting(method="ngram", num_speculative_tokens=3)
            assert life.sources["num_speculative_tokens"] is SettingSource.PAGE
            assert (life.setting_notes, life.adapts) == ((), None)
            text = requests.get(f"{running.url}/server_info?config_format=text", timeout=30).json()
            assert "SpeculativeConfig(method='ngram'" in text["vllm_config"]
            done = subprocess.run(
                [sys.executable, "-m", "monitor", "read", running.url, "--between", "0"],
                capture_output=True, text=True, timeout=120, check=True,
            )  # fmt: skip
            assert "setting   ngram, 3 tokens (num_speculative_tokens from page, method from command" in done.stdout
            assert "disagrees" not in done.stdout
    finally:
        client.close()
        watchdog.stop()
