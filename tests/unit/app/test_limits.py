"""What the process takes for itself, tried in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from monitor.store import open_store

_HEAPS = """
import ctypes, sys, threading
from monitor.app.limits import share_one_heap

if sys.argv[1] == "shared":
    share_one_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(4)

def take():
    together.wait()
    libc.malloc(ctypes.c_size_t(4096))
    together.wait()

threads = [threading.Thread(target=take) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fopen.restype = ctypes.c_void_p
told = libc.fopen(sys.argv[2].encode(), b"w")
libc.malloc_info(0, ctypes.c_void_p(told))
libc.fclose(ctypes.c_void_p(told))
"""


def _heaps(how: str, folder: Path) -> int:
    """Heaps of a process in which four threads ask for memory."""
    subprocess.run([sys.executable, "-c", _HEAPS, how, str(folder / how)], check=True, timeout=120)
    return (folder / how).read_text().count("<heap nr=")


def test_threads_share_one_heap(tmp_path: Path) -> None:
    assert _heaps("shared", tmp_path) == 1
    assert _heaps("own", tmp_path) > 1


_DAEMON = """
import sys
import monitor.cli.running, monitor.app.run
from monitor.store import open_store

store = open_store(sys.argv[1])
assert store.upgrade() == []
store.close()
print(*(name for name in ("alembic", "mako", "psycopg", "prompt_toolkit", "pygments", "matplotlib")
        if name in sys.modules))
"""


def test_a_daemon_loads_nothing_that_only_others_need(tmp_path: Path) -> None:
    """On the embedded store at its newest revision; each of them is 2 to 9 MB for as long as the daemon runs."""
    url = f"sqlite:///{tmp_path / 'local.db'}"
    store = open_store(url)
    store.upgrade()
    store.close()
    done = subprocess.run([sys.executable, "-c", _DAEMON, url], check=True, timeout=120, capture_output=True, text=True)
    assert done.stdout.split() == []
