"""Owns where built rigs live and how a build is stamped, locked and shown; knows nothing of any engine.

Only the standard library: this runs before there is any environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

#: Seconds between two signs of life while a step runs; short enough that nobody thinks it hangs.
HEARTBEAT_SECONDS = 10.0
#: Lines of a failed step's log that are shown.
TAIL_LINES = 25


class RigError(Exception):
    """A rig could not be built or started; the message names the step, what was found and what to do."""


def cache_root() -> Path:
    """Where every rig lives: `ACCEPTD_CACHE`, by default `~/.cache/acceptd`."""
    return Path(os.environ.get("ACCEPTD_CACHE") or Path.home() / ".cache" / "acceptd")


def is_current(stamp: Path, wanted: Mapping[str, object]) -> bool:
    """Whether what the stamp describes was finished, and with exactly the wanted versions.

    A stamp is written last, so a build that was cut off has none; an unreadable one counts as none.
    """
    try:
        return bool(json.loads(stamp.read_text()) == dict(wanted))
    except (OSError, ValueError):
        return False


def write_stamp(stamp: Path, wanted: Mapping[str, object]) -> None:
    """Say that the build is finished. Renamed into place, so that half a stamp cannot exist."""
    partial = stamp.with_suffix(".partial")
    partial.write_text(json.dumps(dict(wanted), indent=2, sort_keys=True) + "\n")
    partial.rename(stamp)


def start_over(*paths: Path) -> None:
    """Remove what an unfinished or outdated build left; stamps first, so that a crash here leaves none."""
    for path in sorted(paths, key=lambda path: path.is_dir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def build_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's build lock, waiting for another build of it and saying so.

    The kernel drops the lock with the last process that has the file open. The steps inherit it: when a build is killed
    and its step lives on, the next build waits for that step instead of clearing the folder under it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another build of {folder} is running: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Print one line of progress at once, also into a pipe."""
    print(text, flush=True)


def make_venv(folder: Path, log: Path) -> Path:
    """Make an empty environment from the running interpreter and return its Python.

    Raises:
        RigError: where this Python cannot make one (Debian keeps `ensurepip` in a package of its own).
    """
    try:
        import ensurepip  # noqa: F401
    except ImportError as error:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        raise RigError(f"{sys.executable} has no ensurepip: apt-get install {package}") from error
    run_step("make the environment", [sys.executable, "-m", "venv", "--clear", str(folder)], log)
    return folder / "bin" / "python"


def run_step(title: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
    """Run one build command with its output in `log`, showing every few seconds how far it is.

    `env` is added to our own environment. The command runs at low priority, as builds are long and hosts shared.

    Raises:
        RigError: the command failed; carries the last lines of what it printed.
    """
    say(f"  {title} …")
    began = time.monotonic()
    with log.open("a") as file:
        file.write(f"\n$ {' '.join(argv)}\n")
    offset = log.stat().st_size
    # `nice` by argv, not preexec_fn, which is unsafe next to threads.
    with log.open("a") as file:
        process = subprocess.Popen(
            ["nice", "-n", "5", *argv], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            close_fds=False,  # only the build's lock is inheritable
        )
        done = threading.Event()
        watcher = threading.Thread(target=_show_heartbeat, args=(log, offset, began, done), daemon=True)
        watcher.start()
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            done.set()
            watcher.join()
    if code != 0:
        tail = "\n".join(f"    {line}" for line in _lines_after(log, offset)[-TAIL_LINES:])
        raise RigError(f"{title}: exit code {code}; the whole log is {log}; it ends:\n{tail}")
    say(f"  {title}: done in {time.monotonic() - began:.0f} s")


def _show_heartbeat(log: Path, offset: int, began: float, done: threading.Event) -> None:
    while not done.wait(HEARTBEAT_SECONDS):
        # pip warns about every index that has no such package; that says nothing of how far it is.
        lines = [line for line in _lines_after(log, offset) if not line.startswith("WARNING")]
        say(f"    {time.monotonic() - began:4.0f} s  {lines[-1].strip()[:100] if lines else ''}")


def _lines_after(log: Path, offset: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(offset)
        text = file.read().decode(errors="replace").replace("\r", "\n")
    return [line for line in text.splitlines() if line.strip()]
