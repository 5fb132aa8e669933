"""Files and folders: who may read secrets, whether the data folder can be used, how much room there is."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, SecretStr

from monitor.doctor.finding import Area, Finding, Subject

#: Free space below which the store may soon stand still (bytes), and as a share of the disk.
_LEAST_FREE, _LEAST_SHARE = 1024**3, 0.05
_GIB = 1024.0**3


def check_secrets(file: Path | None, config: BaseModel) -> Iterator[Finding]:
    """Whether files that hold secrets can be read by everybody on this host."""
    inline, files = _secrets(config)
    if file is not None and inline:
        of = Subject(Area.FILES, str(file))
        if _open_to_all(file):
            yield of.problem(f"holds {', '.join(inline)} and may be read by everybody on this host",
                             f"chmod o-r {file}, or move them to files of their own (`*_file`)")
        else:
            yield of.note(f"holds {', '.join(inline)}", "secrets in files of their own (`*_file`) do not end up in"
                          " backups and version control of the configuration")
    for name, path in files:
        of = Subject(Area.FILES, str(path))
        if _open_to_all(path):
            yield of.problem(f"is {name} and may be read by everybody on this host", f"chmod 640 {path}, with the group"
                             " of the daemon")
        elif path.exists():
            yield of.ok(f"{name}, not readable by everybody")


def check_data_folder(folder: Path) -> Iterator[Finding]:
    """Whether the data folder can be used, is closed to others, and has room."""
    of = Subject(Area.FILES, str(folder))
    if not folder.is_dir():
        parent = next((one for one in folder.parents if one.is_dir()), Path("/"))
        if os.access(parent, os.W_OK):
            yield of.note("is not there yet", "the daemon makes it at its first start")
        else:
            yield of.problem(f"is not there, and {parent} does not let this user make it",
                             f"give it to the daemon's user: install -d -m 750 -o acceptd -g acceptd {folder}")
        return
    if folder.stat().st_mode & stat.S_IROTH:
        yield of.problem("may be read by everybody: logs and evidence in it can hold prompts", f"chmod 750 {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        yield of.note("this user may not write there", "right for looking; commands that act need the daemon's user or"
                      " root (`sudo acceptd …`)")
    room = shutil.disk_usage(folder)
    free = f"{room.free / _GIB:,.1f} GiB free of {room.total / _GIB:,.1f}"
    if room.free < _LEAST_FREE or room.free < _LEAST_SHARE * room.total:
        yield of.problem(f"little room: {free}", "free some, or shorten `store.retention`; `acceptd db size` shows what"
                         " takes it")
    else:
        yield of.ok(free)


def _secrets(section: BaseModel, path: str = "") -> tuple[list[str], list[tuple[str, Path]]]:
    """Secrets that stand in the configuration itself, and files that hold one, with the names of their settings."""
    inline: list[str] = []
    files: list[tuple[str, Path]] = []
    for name in type(section).model_fields:
        value, here = getattr(section, name), f"{path}.{name}" if path else name
        if isinstance(value, SecretStr):
            inline.append(here)
        elif name.endswith("_file") and isinstance(value, Path) and _is_secret_file(section, name):
            files.append((here, value))
        for index, below in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(below, BaseModel):
                more = _secrets(below, f"{here}[{index}]" if isinstance(value, tuple) else here)
                inline += more[0]
                files += more[1]
    return inline, files


def _is_secret_file(section: BaseModel, name: str) -> bool:
    """Files beside a setting of the same name without `_file` hold its secret; keys of certificates are one too."""
    return name.removesuffix("_file") in type(section).model_fields or name == "key_file"


def _open_to_all(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
