"""The disk is full: pages wait, none is lost, the log makes it no worse, and who starts on it says why it cannot.

The daemon runs in a mount namespace with a small file system of its own, which the test reaches through /proc.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.store import Store, open_readonly
from tests.acceptance.daemon import PATIENCE
from tests.faults.counted import CountedServer, serving
from tests.faults.daemon import FaultyDaemon, check_whole, head_of

MIB = 1024**2
#: Room for the database, the queue and what else is left there.
DISK = "8m"


def needs_mounts() -> None:
    """Skip, loudly, where this user may not mount; in CI that is an error."""
    done = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    if done.returncode:
        why = f"no mount namespaces here: {done.stderr.decode().strip()}"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)


class SmallDisk:
    """Daemons, one after the other, on one small file system; it is held by a process that sleeps."""

    def __init__(self, daemon: FaultyDaemon) -> None:
        self.daemon = daemon
        daemon.data_dir.mkdir()
        script = f"mount -t tmpfs -o size={DISK} none '{daemon.data_dir}' && echo ready && exec sleep 1000"
        self.holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdout=subprocess.PIPE)
        assert self.holder.stdout is not None and self.holder.stdout.readline() == b"ready\n"
        daemon.mounts_of = self.holder.pid
        daemon.seen_at = self.folder = Path(f"/proc/{self.holder.pid}/root{daemon.data_dir}")

    def fill(self) -> None:
        """Leave no byte free."""
        with (self.folder / "filler").open("ab", buffering=0) as file:
            for size in (MIB, 65536, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue

    def free(self) -> None:
        """Make room again."""
        (self.folder / "filler").unlink()

    def store(self) -> Store:
        """What a daemon that has ended stored there (a copy: SQLite finds no way into another namespace)."""
        copy = self.daemon.folder / "copy.db"
        shutil.copy(self.folder / "local.db", copy)
        return open_readonly(copy)

    def end(self) -> None:
        """Let go of it."""
        if self.daemon.process is not None:
            self.daemon.process.kill()
            self.daemon.process.wait()
            self.daemon.process = None
        self.holder.kill()
        self.holder.wait()
        assert self.holder.stdout is not None
        self.holder.stdout.close()


def test_pages_wait_while_the_disk_is_full_and_none_is_lost(watching: Callable[..., FaultyDaemon]) -> None:
    needs_mounts()
    servers = [CountedServer(f"s{number}") for number in range(3)]
    with serving(*servers):
        daemon = watching(*servers, store={"spool_size": "1MiB"})
        disk = SmallDisk(daemon)

        try:
            daemon.start()
            daemon.read_on(3)
            for server in servers:
                server.restart()
            daemon.read_on(2)
            disk.fill()
            daemon.wait(lambda: "they wait on disk" in daemon.said() or None, "it is said that pages wait")
            daemon.read_on(8)
            assert daemon.said().count("disk is full") < 30, "it says so with every page"
            disk.free()
            daemon.wait(lambda: "store takes pages again" in daemon.said() or None, "they go in")
            # Killed on a full disk: the next daemon says what it lacks and ends, until there is room.
            disk.fill()
            daemon.read_on(2)
            daemon.kill()
            daemon.log.unlink()
            assert daemon.spawn().wait(timeout=PATIENCE) == 1
            assert "the disk is full" in daemon.said() and "Traceback" not in daemon.said()
            disk.free()
            daemon.start()
            truth = {server.name: server.freeze() for server in servers}
            daemon.read_on(3)
            daemon.wait(lambda: daemon.metric("acceptd_spool_pages") == 0 or None, "nothing waits")
            daemon.stop()
            store = disk.store()
            for server in servers:
                assert head_of(store, server) == truth[server.name]
                check_whole(store, server, truth[server.name])
            store.close()
            assert "Traceback" not in daemon.said()
        finally:
            disk.end()
