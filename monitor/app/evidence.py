"""What a person looks at first when an engine hangs: its page, the end of its log, the states of its processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from monitor.actions.fleet import Managed
from monitor.errors import MonitorError
from monitor.model.server import Server
from monitor.targets.local import server_behind

#: Longest page that is kept (characters), and lines of the log.
_PAGE_CHARACTERS, _LOG_LINES = 200_000, 200


def gather(server: Server, page: bytes, managed: Managed | None) -> Mapping[str, str]:
    """Titled texts on one server; a part that cannot be had says why. Secrets of its command line are hidden."""
    parts = {"page": page.decode(errors="replace")[:_PAGE_CHARACTERS]}
    pid = None
    if managed is not None:
        try:
            status = managed.driver.status()
            pid = status.pid
            parts["log"] = managed.driver.log_tail(_LOG_LINES)
            parts["process"] = status.describe()
        except MonitorError as error:
            parts["process"] = str(error)
    local = server_behind(server.base_url)
    pid = pid or (local.pid if local is not None else None)
    if pid is not None:
        parts["process state"] = process_states(pid)
    return parts


def process_states(pid: int, proc: Path = Path("/proc")) -> str:
    """Name, state and parent of a process and of all in its session, one a line, as far as they may be read."""
    try:
        session = _stat(proc / str(pid))[3]
    except (OSError, IndexError):
        return f"process {pid} cannot be looked at"
    lines = []
    for entry in sorted((e for e in proc.iterdir() if e.name.isdigit()), key=lambda e: int(e.name)):
        try:
            state, parent, _, own = _stat(entry)
            if own == session:
                name = (entry / "comm").read_text().strip()
                lines.append(f"{entry.name} {name}: state {state}, parent {parent}")
        except (OSError, ValueError, IndexError):
            continue
    return "\n".join(lines)


def _stat(entry: Path) -> tuple[str, str, str, str]:
    """State, parent, process group and session of a process (`proc_pid_stat(5)`); the name may hold anything."""
    fields = (entry / "stat").read_text().rpartition(")")[2].split()
    return fields[0], fields[1], fields[2], fields[3]
