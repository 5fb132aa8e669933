"""Runs a function as a user who may read a store's files but not write them, in a child process."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

#: Debian's `nobody`.
NOBODY = 65534


def as_reader(folder: Path, work: Callable[[], Result]) -> Result:
    """The result of `work`, run where files of `folder` can be read but nothing in it can be written.

    As root the child becomes `nobody` in the group of the files, which is what a person in that group is; as another
    user it cannot become anyone else, so the folder and its files lose their write permission meanwhile.
    """
    is_root = os.geteuid() == 0
    for path in (folder, *folder.iterdir()):
        if is_root:
            os.chown(path, -1, NOBODY)
        else:
            path.chmod(path.stat().st_mode & ~0o222)
    if is_root:
        _let_in(folder)
    try:
        return _in_child(work, drop=is_root)
    finally:
        if not is_root:
            for path in (folder, *folder.iterdir()):
                path.chmod(path.stat().st_mode | 0o200)


def _let_in(folder: Path) -> None:
    """Folders above may be entered: temporary ones are their user's alone."""
    for parent in folder.parents:
        if parent.stat().st_mode & 0o001:
            break
        parent.chmod(parent.stat().st_mode | 0o011)


def _in_child(work: Callable[[], Result], *, drop: bool) -> Result:
    # A fork and not a new interpreter: `nobody` may be unable to read the one that runs us.
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if drop:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        written = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "the reader failed; see its traceback above"
    result: Result = pickle.loads(written)
    return result
