"""Owns the command line, environment and life of a server of the vLLM rig, as data and as a context manager.

    argv, env = vllm_argv(8000, speculation=ngram(2)), vllm_env()
    with running_server(speculation=draft_model(3)) as server: ...
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.rigs.cache import RigError
from tests.rigs.processes import Process, free_port
from tests.rigs.running import RunningServer, log_file, running
from tests.rigs.vllm.build import is_built, model_folder, rig_python

Speculation = Mapping[str, object]

#: The name on the page and in requests, so that pages do not hold the cache's path.
SERVED_MODEL_NAME = "rig-target"


def ngram(num_speculative_tokens: int) -> Speculation:
    """Prompt lookup of 2–4 tokens. The target's greedy output loops, so nearly all is accepted: raising pays."""
    return {
        "method": "ngram",
        "num_speculative_tokens": num_speculative_tokens,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    }


def draft_model(num_speculative_tokens: int, draft: str = "draft-good") -> Speculation:
    """A draft as big as the target: `draft-good` fits it, `draft-bad` never; both are slower than none."""
    return {
        "method": "draft_model",
        "model": str(model_folder(draft)),
        "num_speculative_tokens": num_speculative_tokens,
    }


def dies_on_first_request(num_speculative_tokens: int) -> Speculation:
    """A setting that starts healthy and takes the server down with its first request (no such sampler on the CPU)."""
    return {
        **draft_model(num_speculative_tokens),
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 2.0,
    }


def vllm_argv(
    port: int,
    *,
    speculation: Speculation | None = None,
    model: str = "target",
    extra: Sequence[str] = (),
) -> list[str]:
    """The command line of a server of this rig; `speculation=None` is off, `extra` goes before the speculation flag.

    The module and not the `vllm` script, which looks for metadata of a package named vllm and fails.
    """
    argv = [
        str(rig_python()), "-m", "vllm.entrypoints.openai.api_server",
        "--host", "127.0.0.1", "--port", str(port),
        "--model", str(model_folder(model)), "--served-model-name", SERVED_MODEL_NAME,
        "--enforce-eager", "--dtype", "bfloat16", "--max-model-len", "1024", "--max-num-seqs", "16",
        *extra,
    ]
    if speculation is not None:
        argv += ["--speculative-config", json.dumps(dict(speculation))]
    return argv


def vllm_env() -> dict[str, str]:
    """What must be added to the environment of such a server."""
    return {
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GB
        # The engine computes in its own process, in one thread: the usual worker process beside it is waited for by
        # spinning, and the two of them leave a machine of two cores nothing; a daemon, a check of a command line or a
        # second server there got a hundredth of a core (Linux 6.18), and a start took twice as long.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        # Without it `-m` looks into the working directory first, where a folder `vllm` would be taken for vLLM.
        "PYTHONSAFEPATH": "1",
    }


@contextmanager
def running_server(
    *,
    speculation: Speculation | None = None,
    port: int | None = None,
    model: str = "target",
    extra: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    ready: Callable[[str], bool] | None = None,
) -> Iterator[RunningServer]:
    """A vLLM server that has generated a token (or is `ready`); ended at the end with all its processes, orphans too.

    Raises:
        RigError: the rig is not built, or the server does not start.
    """
    if not is_built():
        raise RigError("the vLLM rig is not built: python3.11 tests/rigs/vllm/build.py")
    port = port or free_port()
    argv = vllm_argv(port, speculation=speculation, model=model, extra=extra)
    with (
        log_file(log, "vllm.log") as file,
        running(argv, {**vllm_env(), **(env or {})}, port, file, ready=ready) as server,
    ):
        yield server


def engine_core(server: RunningServer) -> Process:
    """The process that schedules and counts.

    Raises:
        RigError: there is none, or several.
    """
    found = [process for process in server.processes() if process.title.startswith("VLLM::EngineCore")]
    if len(found) != 1:
        raise RigError(f"expected one VLLM::EngineCore, found {[process.title for process in server.processes()]}")
    return found[0]


def resume_engine(server: RunningServer) -> None:
    """Let a stopped engine go on as if nothing had been."""
    os.kill(engine_core(server).pid, signal.SIGCONT)


def stop_engine_at_work(server: RunningServer, timeout: float = 30.0) -> None:
    """SIGSTOP the engine, under a load, at a moment when its page says that requests run, and keep it stopped.

    The page lags behind the engine, and clients in step finish together, so the last count may be 0: then try again.

    Raises:
        RigError: the page never said so; is there a load?
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        os.kill(engine_core(server).pid, signal.SIGSTOP)
        # What the engine said before it stopped must have reached the page.
        time.sleep(1.0)
        if running_requests(server.metrics()) > 0:
            return
        resume_engine(server)
        time.sleep(0.3)
    raise RigError(f"{server.url} never said that a request runs while its engine was stopped")


def running_requests(page: str) -> float:
    """`vllm:num_requests_running` on a page; 0 where there is no sample."""
    return sum(float(value) for value in re.findall(r"^vllm:num_requests_running\{[^}]*\} (\S+)$", page, re.MULTILINE))
