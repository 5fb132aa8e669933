"""Owns the command line and life of a server of the llama-server rig, as data and as a context manager."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.rigs.llamacpp.build import model_file, server_binary
from tests.rigs.processes import free_port
from tests.rigs.running import RunningServer, log_file, running


def draft_simple(num_speculative_tokens: int, draft: str = "draft") -> list[str]:
    """The flags of a plain draft model; the type is named, as `-md` alone takes it from the draft's file."""
    return [
        "--spec-type", "draft-simple",
        "-md", str(model_file(draft)),
        "--spec-draft-n-max", str(num_speculative_tokens),
    ]


def llamacpp_argv(port: int, *, speculation: Sequence[str] = (), extra: Sequence[str] = ()) -> list[str]:
    """The command line of a server of this rig; no `speculation` is off.

    Two requests at a time; one thread, as two that spin for each other crawl where others use the cores.

    Raises:
        RigError: the rig is not built, so the server's place is not known.
    """
    return [
        str(server_binary()), "--host", "127.0.0.1", "--port", str(port),
        "-m", str(model_file("target")), "--alias", "rig-target", "--metrics", "-c", "2048", "-np", "2", "-t", "1",
        *extra, *speculation,
    ]


def llamacpp_env() -> dict[str, str]:
    """What must be added to the environment of such a server: nothing."""
    return {}


@contextmanager
def running_server(
    *,
    speculation: Sequence[str] = (),
    port: int | None = None,
    extra: Sequence[str] = (),
    log: Path | None = None,
    ready: Callable[[str], bool] | None = None,
) -> Iterator[RunningServer]:
    """A llama-server that has generated a token (or is `ready`); ended with all of its processes on the way out.

    Raises:
        RigError: the rig is not built, or the server does not start.
    """
    port = port or free_port()
    argv = llamacpp_argv(port, speculation=speculation, extra=extra)
    with (
        log_file(log, "llama-server.log") as file,
        running(argv, llamacpp_env(), port, file, ready=ready) as server,
    ):
        yield server
