"""Real Prometheus and VictoriaMetrics for tests: each with a folder and a port of its own, gone afterwards.

Where one is not installed, tests that need it are skipped, saying so; in CI that is an error.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from monitor.clock import SystemClock

#: A store is ready within seconds; a busy machine gets more.
PATIENCE = 90.0
_CLOCK = SystemClock()
PACKAGES = {"prometheus": "prometheus", "victoria-metrics": "victoria-metrics"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _command(program: str, folder: Path, config: Path, port: int) -> list[str]:
    if program == "prometheus":
        return [
            program, f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
    return [
        program, f"-promscrape.config={config}", f"-storageDataPath={folder}/data",
        f"-httpListenAddr=127.0.0.1:{port}", "-search.latencyOffset=1s", "-loggerLevel=WARN",
    ]  # fmt: skip


@contextmanager
def metric_store(
    program: str, folder: Path, targets: Sequence[str], *, interval: str = "1s", rules: Path | None = None
) -> Iterator[str]:
    """A store that scrapes the targets as job `vllm`; its base URL.

    `rules` are evaluated by Prometheus; data that lies in `folder/data` already is served too.
    """
    if shutil.which(program) is None:
        missing = f"{program} is not installed (Debian: apt-get install {PACKAGES[program]})"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    folder.mkdir(exist_ok=True)
    scrape = {"job_name": "vllm", "static_configs": [{"targets": list(targets), "labels": {"pool": 'a "b"\\c'}}]}
    config = folder / "scrape.yml"
    settings, files = {"scrape_interval": interval}, {}
    if rules is not None:
        # VictoriaMetrics, which evaluates none, refuses settings of rules.
        settings["evaluation_interval"] = interval
        files["rule_files"] = [str(rules)]
    config.write_text(json.dumps({"global": settings, "scrape_configs": [scrape], **files}))
    port = _free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(_command(program, folder, config, port), stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = _CLOCK.monotonic() + PATIENCE
        while not _has_scraped(url, len(targets)):
            if process.poll() is not None or _CLOCK.monotonic() > deadline:
                raise RuntimeError(f"{program} did not start:\n{(folder / 'log').read_text(errors='replace')}")
            _CLOCK.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def _has_scraped(url: str, targets: int) -> bool:
    try:
        answer = requests.get(f"{url}/api/v1/query", params={"query": 'up{job="vllm"} == 1'}, timeout=5)
        return answer.ok and len(answer.json()["data"]["result"]) >= targets
    except (requests.RequestException, ValueError):
        return False
