"""The daemon: whether it runs, works, and runs what is configured now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import requests

from monitor import __version__
from monitor.config.running import Running, is_running, read_running
from monitor.doctor.finding import Area, Finding, Subject
from monitor.errors import MonitorError

_TIMEOUT_SECONDS = 5.0


def check_daemon(folder: Path, token: str | None) -> Iterator[Finding]:
    """The daemon of a data folder; `token` is what its endpoints ask for."""
    of = Subject(Area.DAEMON, "acceptd")
    if not is_running(folder):
        yield of.problem(f"no daemon runs on {folder}", "systemctl start acceptd, or acceptd run")
        return
    try:
        running = read_running(folder)
    except MonitorError as error:
        yield of.problem(f"runs and cannot be seen: {error}", "free some space; the daemon writes the file again")
        return
    yield of.ok(f"runs as pid {running.pid} since {running.started_at:%Y-%m-%d %H:%M} UTC")
    if running.version != __version__:
        yield of.note(f"runs version {running.version}, this command is {__version__}", "systemctl restart acceptd")
    yield from _newer_file(of, running)
    yield from _endpoints(running, token)


def _newer_file(of: Subject, running: Running) -> Iterator[Finding]:
    if running.config_file is None:
        return
    try:
        changed = datetime.fromtimestamp(Path(running.config_file).stat().st_mtime, UTC)
    except OSError as error:
        yield of.problem(f"its configuration {running.config_file} is gone ({error.strerror})",
                         "put it back: the next start needs it")
        return
    if changed > running.started_at:
        yield of.note(f"{running.config_file} was changed after it was read",
                      "acceptd check, then systemctl reload acceptd")


def _endpoints(running: Running, token: str | None) -> Iterator[Finding]:
    with requests.Session() as session:
        # Neither a proxy nor a .netrc of the environment has a part in what goes to our own daemon, its token least.
        session.trust_env = False
        if token:
            session.headers["Authorization"] = f"Bearer {token}"
        for path, todo in (
            ("/-/healthy", "journalctl -u acceptd -p warning; a loop that stands still is ended by the watchdog"),
            ("/-/ready", "wait for the first page of every server; SERVERS below says which one does not answer"),
        ):
            yield _endpoint(session, Subject(Area.DAEMON, f"http://{running.listen}{path}"), todo)


def _endpoint(session: requests.Session, of: Subject, todo: str) -> Finding:
    try:
        answer = session.get(of.name, timeout=_TIMEOUT_SECONDS, allow_redirects=False)
    except requests.RequestException:
        return of.problem("does not answer", "journalctl -u acceptd; is the daemon stopped or overloaded?")
    if answer.status_code == 200:
        return of.ok(answer.text.strip())
    if answer.status_code == 401:
        return of.note("asks for a token that this user cannot read", "run the doctor as the daemon's user or root")
    return of.problem(answer.text.strip()[:200] or f"HTTP {answer.status_code}", todo)
