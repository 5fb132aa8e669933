"""What the kernel says of memory, of the host and of a server with all its children."""

from __future__ import annotations

import os
from pathlib import Path

from monitor.targets.host_memory import HostMemory, Taken, host_memory, taken_by

KIB = 1024.0


def proc(root: Path, **processes: str) -> Path:
    (root / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 40 kB\nSwapTotal: 8 kB\nSwapFree: 3 kB\n")
    for pid, status in processes.items():
        (root / pid[1:]).mkdir()
        (root / pid[1:] / "status").write_text(status)
    return root


def test_the_hosts_memory_is_in_bytes_and_unknown_where_it_is_not_said(tmp_path: Path) -> None:
    assert host_memory(tmp_path) is None
    assert host_memory(proc(tmp_path)) == HostMemory(40 * KIB, 8 * KIB, 3 * KIB)


def test_a_server_and_its_descendants_are_added_and_mapped_files_are_not(tmp_path: Path) -> None:
    root = proc(
        tmp_path,
        p7="PPid:\t1\nVmRSS:\t90 kB\nRssAnon:\t10 kB\nRssFile:\t75 kB\nRssShmem:\t5 kB\nVmSwap:\t2 kB\n",
        p8="PPid:\t7\nVmRSS:\t30 kB\nRssAnon:\t20 kB\nVmSwap:\t1 kB\n",
        p9="PPid:\t8\nVmRSS:\t4 kB\n",
        p10="PPid:\t1\nVmRSS:\t500 kB\n",
    )
    assert taken_by(7, root) == Taken((15 + 20 + 4) * KIB, 3 * KIB)
    assert taken_by(11, root) is None


def test_this_very_process_holds_something() -> None:
    here, found = host_memory(), taken_by(os.getpid())
    assert here is not None and here.available_bytes > 0
    assert found is not None and found.resident_bytes > 1e6
