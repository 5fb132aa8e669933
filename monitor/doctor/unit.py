"""The daemon's systemd unit: whether it is there, runs, starts at boot, and is the one that belongs to this version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from monitor.doctor.finding import Area, Finding, Subject
from monitor.doctor.host import Run, run
from monitor.shipped import systemd_folder

UNIT = "acceptd.service"
_SHOWN = ("LoadState", "ActiveState", "UnitFileState", "WatchdogUSec", "NRestarts", "FragmentPath", "User")
#: The watchdog must allow so many evaluations (as the unit says).
_TURNS = 5.0


def check_unit(interval_seconds: float, ask: Run = run) -> Iterator[Finding]:
    """What systemd says of the unit; a note where there is no systemd or no unit."""
    of = Subject(Area.UNIT, UNIT)
    answer = ask(["systemctl", "show", UNIT, *(f"--property={name}" for name in _SHOWN)])
    shown = dict(line.split("=", 1) for line in (answer or "").splitlines() if "=" in line)
    if shown.get("LoadState") != "loaded":
        why = "no systemd here" if answer is None else "not installed"
        yield of.note(why, "docs/install.md installs it; without a supervisor nobody starts the daemon again")
        return
    if shown.get("ActiveState") == "active":
        restarts = int(shown["NRestarts"]) if shown.get("NRestarts", "").isdigit() else 0
        if restarts:
            yield of.note(f"runs, and was started again {restarts} times since boot or reset",
                          f"journalctl -u {UNIT} -p warning")
        else:
            yield of.ok("runs")
    else:
        yield of.problem(f"is {shown.get('ActiveState', 'not active')}", f"journalctl -u {UNIT} -n 50, then systemctl"
                         " start acceptd")
    if shown.get("UnitFileState") not in ("enabled", "static", "linked", ""):
        yield of.problem(f"is {shown.get('UnitFileState')}: it does not start at boot", "systemctl enable acceptd")
    watchdog = seconds(shown.get("WatchdogUSec", ""))
    if watchdog is not None and watchdog < _TURNS * interval_seconds:
        yield of.problem(
            f"WatchdogSec is {watchdog:g} s and rules.interval {interval_seconds:g} s: a slow turn would be killed",
            f"systemctl edit acceptd: WatchdogSec={_TURNS * interval_seconds:.0f} or more",
        )
    yield from _same_text(of, shown.get("FragmentPath", ""))


def _same_text(of: Subject, path: str) -> Iterator[Finding]:
    shipped = systemd_folder() / UNIT
    try:
        same = _digest(Path(path)) == _digest(shipped)
    except OSError:
        return
    if not same:
        yield of.note(f"{path} differs from the one of this version",
                      f"compare with {shipped}; changes of your own belong in `systemctl edit acceptd`")


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def seconds(text: str) -> float | None:
    """Seconds of a duration as systemd prints it (`5min`, `1min 30s`, `infinity`); None where there is no limit."""
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
    total = 0.0
    for part in text.split():
        digits = part.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = part[len(digits) :]
        if unit not in units or not digits.replace(".", "", 1).isdigit():
            return None
        total += float(digits) * units[unit]
    return total or None
