"""A vLLM on the GPU behind the driver that the daemon would use, and what the card says of it; judges nothing."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import requests

from monitor.clock import SystemClock
from monitor.drivers.gpu_guard import GpuGuard
from monitor.drivers.launcher import CommandLauncher
from monitor.drivers.nvml import Nvml, open_nvml
from monitor.drivers.process import ProcessDriver, ProcessOptions
from monitor.drivers.procfs import ProcFs
from monitor.drivers.protocol import DriverStatus, ServerState
from monitor.model.server import Engine, ServerName
from tests.rigs.processes import free_port

#: Seconds. A large model with CUDA graphs takes minutes at its first start.
START = 1800.0
#: Memory that may differ between two idle moments of a card (bytes): contexts of other programs come and go.
SLACK = 256 * 1024**2
NGRAM: Mapping[str, object] = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}


def missing() -> str:
    """What keeps the suite from running here; empty where nothing does."""
    if open_nvml() is None:
        return "no NVIDIA GPU that NVML sees"
    if not interpreter():
        return "no interpreter that can import vllm (ACCEPTD_GPU_PYTHON)"
    return ""


def interpreter() -> str:
    """The interpreter of vLLM's environment; empty where there is none."""
    found = os.environ.get("ACCEPTD_GPU_PYTHON") or shutil.which("python") or ""
    if not found:
        return ""
    probe = [found, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"]
    return found if subprocess.run(probe, check=False, capture_output=True).returncode == 0 else ""


def model() -> str:
    """The target model."""
    return os.environ.get("ACCEPTD_GPU_MODEL", "Qwen/Qwen3-0.6B")


class GpuServer:
    """One server, as the daemon would manage it."""

    def __init__(self, folder: Path, speculation: Mapping[str, object], *extra: str) -> None:
        nvml = open_nvml()
        assert nvml is not None
        self.nvml: Nvml = nvml
        self.port = free_port()
        more = shlex.split(os.environ.get("ACCEPTD_GPU_ARGS", ""))
        argv = [
            interpreter(), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(self.port),
            "--model", model(), "--max-model-len", "4096", *more, *extra, "--speculative-config",
            json.dumps(dict(speculation)),
        ]  # fmt: skip
        self.launcher = CommandLauncher(Engine.VLLM, argv, version=self.version)
        options = ProcessOptions(
            state_folder=folder / "state", log_folder=folder / "logs", environ=os.environ, port=self.port
        )
        inner = ProcessDriver(ServerName("gpu"), self.launcher, options, SystemClock())
        self.driver = GpuGuard(inner, nvml.holders, ProcFs(), SystemClock())

    def version(self) -> str | None:
        """The version of the vLLM that is started."""
        code = "from importlib.metadata import version; print(version('vllm'))"
        done = subprocess.run([interpreter(), "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or None

    def wait(self, until: Callable[[DriverStatus], bool], seconds: float = START) -> DriverStatus:
        """Look until the status satisfies `until`."""
        deadline = time.monotonic() + seconds
        while True:
            status = self.driver.status()
            if until(status):
                return status
            assert time.monotonic() < deadline, (status, self.driver.log_tail())
            time.sleep(0.5)

    def start(self, token: str) -> float:
        """Start it with the operator's own setting; seconds until it generated a token."""
        began = time.monotonic()
        self.driver.start(self.launcher.base_setting, token)
        self.wait(self._serves)
        took = time.monotonic() - began
        # So that what it holds on the card has been noted.
        time.sleep(11)
        self.driver.status()
        return took

    def _serves(self, status: DriverStatus) -> bool:
        assert status.state is ServerState.RUNNING, self.driver.log_tail()
        body = {"model": model(), "prompt": "import", "max_tokens": 1}
        try:
            return requests.post(f"http://127.0.0.1:{self.port}/v1/completions", json=body, timeout=60).ok
        except requests.RequestException:
            return False

    def used_settles(self, before: int) -> None:
        """Wait until the card has no more memory in use than `before`."""
        deadline = time.monotonic() + 120
        while self.nvml.used_bytes() > before + SLACK:
            assert time.monotonic() < deadline, (self.nvml.used_bytes(), before, self.nvml.holders())
            time.sleep(0.5)


def note(**figures: object) -> None:
    """Add figures to the report."""
    path = Path(os.environ.get("ACCEPTD_GPU_REPORT", "build/gpu.json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(known | figures, indent=2) + "\n")
    print(figures)


def giant_draft(folder: Path) -> Path:
    """A draft that no card holds: the target's own configuration with a thousand wide layers, to be made up at load."""
    code = (
        "import sys; from transformers import AutoConfig; c = AutoConfig.from_pretrained(sys.argv[1]);"
        " c.num_hidden_layers = 1000; c.hidden_size = 16384; c.intermediate_size = 65536; c.num_attention_heads = 128;"
        " c.num_key_value_heads = 8; c.head_dim = 128; c.layer_types = None; c.save_pretrained(sys.argv[2])"
    )
    subprocess.run([interpreter(), "-c", code, model(), str(folder)], check=True)
    return folder
