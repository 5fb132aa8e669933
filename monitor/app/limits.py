"""What the process takes for itself: files, memory, turns of Python's collector. It owns no connection."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import resource
import sys

log = logging.getLogger(__name__)

#: Files that are open whatever is watched: store, log, sockets of page and receivers, libraries; with room to spare.
_BASE_FILES = 256
#: Connections that one server can have open at once: scrape, question, probe, and one that is being replaced.
_FILES_EACH = 4
#: Objects made before the collector looks at young ones, and how many such looks before it looks at older ones. Ours:
#: with Python's own (700, 10, 10) it took half of a turn of rules and tuner over a fleet, and found nothing.
_COLLECT = (20_000, 20, 100)

#: How long a thread may compute while others wait for the interpreter (seconds).
_GIVE_WAY_SECONDS = 0.0002

#: Number of glibc's option M_ARENA_MAX (`malloc.h`).
_MOST_HEAPS = -8


def share_one_heap() -> None:
    """Let all threads take memory from one heap; before they are born.

    glibc gives up to eight heaps to each processor, and what is free in one is of no use to the threads of another: the
    scrapes of 1,000 servers left 84 of 175 MB so. Python lets one thread at a time ask for memory anyway. Another C
    library has one heap, or none that can be asked.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MOST_HEAPS, 1)


def share_the_interpreter() -> None:
    """Let threads that compute give way sooner to those that wait to read a page.

    Python runs one thread at a time, and asks one that computes to give way after this long. A page that is stored
    waits so at each of some twenty calls of SQLite, with the others behind it: with Python's own 5 ms, a daemon that
    read back the past of 1,000 servers stored 15 pages a second of the 67 that came; with 1 ms 60 on a busy machine.
    """
    sys.setswitchinterval(_GIVE_WAY_SECONDS)


def collect_seldom() -> None:
    """Let the collector of cycles look less often: what is remembered of a fleet lives long and has none."""
    gc.set_threshold(*_COLLECT)


def raise_file_limit(servers: int) -> bool:
    """Raise the soft limit of open files as far as so many servers may need, within the hard one; whether it suffices.

    Only as far as needed: servers that the daemon starts inherit it.
    """
    wanted = _BASE_FILES + _FILES_EACH * servers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return True
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning("open files are limited to %d, and %d servers may need %d: raise LimitNOFILE (ulimit -Hn); pages"
                    " that cannot be asked for count as not asked", allowed, servers, wanted)
    return allowed >= wanted
