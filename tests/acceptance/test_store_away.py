"""The database is held by another program, and the daemon dies meanwhile: no count is lost or doubled."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable

from tests.acceptance.daemon import Daemon, Simulated

BUSY = "closed:clients=16,prompt=64,output=200"


def waiting(daemon: Daemon) -> int:
    """Pages that wait on disk, as its own metrics say."""
    found = re.search(r"^acceptd_spool_pages ([0-9.]+)$", daemon.page("/metrics") or "", re.MULTILINE)
    return int(float(found[1])) if found else 0


def test_pages_wait_on_disk_across_the_daemon_s_death_and_go_in_once(make_daemon: Callable[..., Daemon]) -> None:
    server = Simulated("chat", tokens=3, load=BUSY)
    daemon = make_daemon(server, mode="observe")

    def intervals() -> int:
        with daemon.store() as store:
            return next(table.rows for table in store.sizes().tables if table.name == "intervals")

    daemon.start()
    daemon.wait(lambda: intervals() >= 2, "intervals are stored")
    holder = sqlite3.connect(daemon.data_dir / "local.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    stored = intervals()
    daemon.wait(lambda: waiting(daemon) >= 4, "pages wait")
    assert intervals() == stored
    daemon.kill()
    holder.execute("COMMIT")
    holder.close()
    daemon.start()
    assert intervals() >= stored + 3  # before the first page of the new daemon
    assert "store takes pages again" in daemon.said()
    server.load("none")
    idle = daemon.wait(
        lambda: state if (state := server.state()) and not state["running"] and not state["waiting"] else None,
        "the server is idle",
    )

    def counted() -> tuple[float | None, float | None]:
        with daemon.store() as store, store.read() as unit:
            (life,) = unit.lives.open_of(server.name)  # type: ignore[arg-type]
            totals = unit.intervals.totals(life.id)
        return totals.num_drafts, totals.generation_tokens

    expected = (idle["num_drafts"], idle["generation_tokens"])
    daemon.wait(lambda: counted() == expected, "every count is in the store once")
