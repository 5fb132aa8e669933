"""Finding what runs a server's benchmark: its interpreter, environment and model, from its process on this host."""

from __future__ import annotations

import os
from pathlib import Path

from monitor.benchmark.run import BenchmarkFailed, Target
from monitor.drivers.own_check import interpreter_of
from monitor.drivers.procfs import ProcFs
from monitor.launch.argv import option_value
from monitor.model.server import Engine
from monitor.targets.local import LocalServer, server_behind

#: What a server's environment may hold that is not for a client.
_NOT_FOR_CLIENTS = ("CUDA_VISIBLE_DEVICES", "INVOCATION_ID", "NOTIFY_SOCKET", "LISTEN_FDS")


def find_target(
    base_url: str, *, python: str | None = None, tokenizer: str | None = None, api_key: str | None = None,
    verify_tls: bool = True, proc: Path = Path("/proc"),
) -> Target:
    """The server at `base_url` with its interpreter; `python` and `tokenizer` stand in for what cannot be seen.

    Raises:
        BenchmarkFailed: it is no vLLM of this host, and they are not given.
    """
    found = server_behind(base_url, proc)
    if found is not None and found.engine is not Engine.VLLM:
        raise BenchmarkFailed(f"{base_url} is {found.engine.value}: only vLLM has a benchmark of its own")
    if found is None and (python is None or tokenizer is None):
        raise BenchmarkFailed(
            f"no vLLM process of this host that this user may look at answers at {base_url}: run this on its host as "
            "its user, or name an interpreter with vLLM (--python) and the model's folder or name (--tokenizer)"
        )
    environ = dict(os.environ)
    if found is not None:
        environ = ProcFs(proc).environ(found.pid) or environ
        python = python or _python_of(found, environ, proc)
        tokenizer = tokenizer or _tokenizer_of(found, proc)
    if python is None or tokenizer is None:
        raise BenchmarkFailed(f"the Python of the server at {base_url} is not known: name it (--python)")
    served = found.command.served_model_name if found is not None else None
    key = api_key or environ.get("VLLM_API_KEY")
    for name in _NOT_FOR_CLIENTS:
        environ.pop(name, None)
    return Target(
        base_url=base_url, python=python, model=served or tokenizer, tokenizer=tokenizer, environ=environ, api_key=key,
        verify_tls=verify_tls,
    )


def _python_of(server: LocalServer, environ: dict[str, str], proc: Path) -> str | None:
    program = _absolute(server.argv[0], server.pid, proc) if "/" in server.argv[0] else server.argv[0]
    return interpreter_of(program, environ.get("PATH"))


def _tokenizer_of(server: LocalServer, proc: Path) -> str | None:
    name = option_value(server.argv, "--tokenizer") or server.command.model
    if name is None:
        return None
    folder = _absolute(name, server.pid, proc)
    return folder if Path(folder).is_dir() else name


def _absolute(path: str, pid: int, proc: Path) -> str:
    """A path as the process sees it: from its working directory."""
    try:
        return str(Path(os.readlink(proc / str(pid) / "cwd")) / path)
    except OSError:
        return path
