"""A private PostgreSQL for tests: its own data folder, its own socket, no port, gone afterwards.

It runs as an unprivileged user, since PostgreSQL refuses root. Where no server is installed, tests that need one are
skipped, saying so; in CI that is an error.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from monitor.clock import SystemClock

#: Where Debian puts the server's programs, newest first; other systems have them in the path.
_FOLDERS = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
#: A fresh server answers within a second; a busy machine gets more.
_START_SECONDS = 60.0
_CLOCK = SystemClock()


class PostgresServer:
    """A running server. `url(name)` addresses one of its databases as the superuser `acceptd`."""

    def __init__(self, programs: Path, folder: Path, user: str | None) -> None:
        self.folder = folder
        self._programs = programs
        self.user = user
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str, user: str = "acceptd") -> str:
        """Address of a database for `open_store`."""
        return f"postgresql+psycopg://{user}@/{database}?host={self.folder}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """A connection of the test's own, outside the store."""
        return psycopg.connect(host=str(self.folder), dbname=database, user="acceptd", autocommit=True)

    def new_database(self, template: str = "template0") -> str:
        """Name of a fresh database, a copy of `template`."""
        name = f"test_{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        return name

    def initialise(self) -> None:
        """Make the data folder."""
        arguments = ["--pgdata", str(self.folder / "data"), "--username=acceptd", "--auth=trust", "--no-sync"]
        done = subprocess.run(
            [self._programs / "initdb", "--encoding=UTF8", "--no-locale", *arguments],
            user=self.user, cwd=self.folder, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr.decode(errors='replace')}")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "max_connections": "40",
            "shared_buffers": "32MB",
            "deadlock_timeout": "100ms",
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.folder / "data", *arguments],
                user=self.user, cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = _CLOCK.monotonic() + _START_SECONDS
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or _CLOCK.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text(errors="replace")) from None
                _CLOCK.sleep(0.05)

    def stop(self, *, for_good: bool = False) -> None:
        """End the server, cutting every connection; `for_good` without writing down what is in memory."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT if for_good else signal.SIGINT)
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _programs() -> Path | None:
    found = [folder for folder in _FOLDERS if (folder / "initdb").exists()]
    if found:
        return found[0]
    path = shutil.which("initdb")
    return Path(path).parent if path else None


def _unprivileged() -> str | None:
    """A user who may run PostgreSQL: None (ourselves) unless we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise RuntimeError("root may not run PostgreSQL and neither of the users postgres and nobody exists")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server for the whole run; make a database of your own with `new_database`."""
    with running_server() as server:
        if server is None:
            missing = "PostgreSQL is not installed (Debian: apt-get install postgresql)"
            if os.environ.get("CI") == "true":
                pytest.fail(missing)
            pytest.skip(missing)
        yield server


@contextlib.contextmanager
def running_server() -> Iterator[PostgresServer | None]:
    """A server that is gone afterwards; None where PostgreSQL is not installed."""
    programs = _programs()
    if programs is None:
        yield None
        return
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="acceptd-pg-"))
    if user is not None:
        shutil.chown(folder, user)
    server = PostgresServer(programs, folder, user)
    try:
        server.initialise()
        server.start()
        yield server
    finally:
        server.stop(for_good=True)
        shutil.rmtree(folder, ignore_errors=True)
