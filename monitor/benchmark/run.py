"""Runs vLLM's own serving benchmark by the interpreter that runs the server. It knows neither store nor terminal.

The benchmark is part of vLLM since 0.9 (`vllm bench serve`, module `vllm.benchmarks.serve`). Its module is called, not
the script `vllm`: that one wants metadata of a package of this very name. Options that a version lacks are left out
where it can do without them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from monitor.benchmark.workload import Workload
from monitor.errors import MonitorError

#: Nothing is downloaded and nobody is told of it.
_ENVIRON: Final = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
_PROGRESS: Final = re.compile(r"(\d+)/(\d+)")
#: What runs inside the server's interpreter: standard input holds the options, so that no secret stands in a command.
_SCRIPT: Final = """
import argparse, json, sys
order = json.load(sys.stdin)
try:
    from vllm.benchmarks.serve import add_cli_args, main
except ImportError as error:
    sys.exit("acceptd: no benchmark: " + str(error))
parser = argparse.ArgumentParser()
add_cli_args(parser)
known = {text for action in parser._actions for text in action.option_strings}
missing = [name for name in order["needed"] if name not in known]
if missing:
    sys.exit("acceptd: no option: " + ", ".join(missing))
for run in range(order["runs"]):
    argv = []
    for name, value in {**order["needed"], **order["wanted"]}.items():
        if name in known:
            argv += [name] if value is None else [name, value]
    main(parser.parse_args(argv + ["--result-filename", "run%d.json" % run]))
"""


class BenchmarkFailed(MonitorError):
    """The benchmark could not be run, or ended without a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server, and what runs its benchmark. `python` is the server's interpreter, `model` the name it serves under.

    `tokenizer` is where its model lies (a folder or a name), since lengths are counted in its tokens.
    """

    base_url: str
    python: str
    model: str
    tokenizer: str
    environ: Mapping[str, str]
    api_key: str | None = None
    verify_tls: bool = True


#: Told of progress: run (from 0), requests that ended, requests in all.
Progress = Callable[[int, int, int], None]


def run_benchmark(
    target: Target, workload: Workload, *, runs: int, progress: Progress = lambda run, done, total: None,
    timeout_seconds: float = 3600.0,
) -> list[dict[str, Any]]:
    """One result of vLLM's for each run, as it writes them.

    Raises:
        BenchmarkFailed: it did not start, broke off, took too long, or every request failed.
    """
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as name:
        folder = Path(name)
        order = {"runs": runs, "needed": _needed(target, workload, folder), "wanted": _wanted(target)}
        _work(target, order, workload.requests, progress, timeout_seconds)
        files = [folder / f"run{run}.json" for run in range(runs)]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise BenchmarkFailed(f"vLLM's benchmark wrote no {missing[0]}")
        results: list[dict[str, Any]] = [json.loads(file.read_text()) for file in files]
    if any(not result.get("completed") for result in results):
        raise BenchmarkFailed(f"no request was answered by {target.base_url}")
    return results


def _needed(target: Target, workload: Workload, folder: Path) -> dict[str, str | None]:
    needed: dict[str, str | None] = {
        "--backend": "openai", "--base-url": target.base_url, "--endpoint": "/v1/completions", "--model": target.model,
        "--tokenizer": target.tokenizer, "--num-prompts": str(workload.requests),
        "--max-concurrency": str(workload.concurrency), "--seed": "0", "--save-result": None,
        "--result-dir": str(folder),
    }  # fmt: skip
    if workload.rate is not None:
        needed["--request-rate"] = f"{workload.rate:g}"
    return {**needed, **workload.write(folder)}


def _wanted(target: Target) -> dict[str, str | None]:
    wanted: dict[str, str | None] = {
        # What the tokens are is the model's matter: a prompt goes as it is, and the seed decides nothing at 0.
        "--skip-chat-template": None, "--custom-skip-chat-template": None, "--temperature": "0",
        "--num-warmups": "2", "--percentile-metrics": "ttft,tpot,itl,e2el", "--metric-percentiles": "50,95,99",
    }  # fmt: skip
    return wanted if target.verify_tls else {**wanted, "--insecure": None}


def _work(target: Target, order: Mapping[str, Any], requests: int, progress: Progress, timeout: float) -> None:
    environ = {**target.environ, **_ENVIRON, **({"OPENAI_API_KEY": target.api_key} if target.api_key else {})}
    try:
        process = subprocess.Popen(
            [target.python, "-c", _SCRIPT], env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, start_new_session=True, cwd=tempfile.gettempdir(),
        )  # fmt: skip
    except OSError as error:
        raise BenchmarkFailed(f"{target.python} cannot be run ({error.strerror})") from error
    assert process.stdin is not None and process.stderr is not None
    watch = _Watch(process.stderr, requests, progress)
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(order).encode())
            process.stdin.close()
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise BenchmarkFailed(f"the benchmark was not over after {timeout:g} s") from None
    finally:
        # Ended by whoever breaks off (Ctrl-C too): with its helpers, and before the folder goes.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        watch.join()
    if code != 0:
        raise BenchmarkFailed(_why(watch.last_lines, target))


class _Watch:
    """Reads what the benchmark prints of itself: the bar of each run, and the last lines in case it breaks off."""

    def __init__(self, pipe: IO[bytes], requests: int, progress: Progress) -> None:
        self._requests = requests
        self._progress = progress
        self._run = self._done = 0
        self.last_lines: list[str] = []
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until everything is read."""
        self._thread.join(5.0)

    def _read(self, pipe: IO[bytes]) -> None:
        rest = b""
        with pipe:
            while chunk := os.read(pipe.fileno(), 4096):
                *lines, rest = re.split(rb"[\r\n]+", rest + chunk)
                for line in lines:
                    self._take(line.decode(errors="replace").strip())
        self._take(rest.decode(errors="replace").strip())

    def _take(self, line: str) -> None:
        found = _PROGRESS.search(line)
        if found is None or "%|" not in line:
            self.last_lines = [*self.last_lines[-20:], line] if line else self.last_lines
        elif int(found[2]) == self._requests:  # warm-ups have a bar of their own
            done = int(found[1])
            self._run += done < self._done
            self._done = done
            self._progress(self._run, done, self._requests)


def _why(lines: Sequence[str], target: Target) -> str:
    """Why it ended, in a sentence, from the last that it printed."""
    said = next((line for line in reversed(lines) if line.startswith("acceptd: ")), None)
    if said is not None and "no benchmark" in said:
        return f"the vLLM of {target.python} has no serving benchmark ({said.removeprefix('acceptd: no benchmark: ')})"
    if said is not None:
        return f"the serving benchmark of this vLLM has {said.removeprefix('acceptd: ')}"
    last = next((line for line in reversed(lines) if line), "nothing")
    secret = target.api_key
    return f"vLLM's benchmark broke off: {last.replace(secret, '<secret>') if secret else last}"[:500]
