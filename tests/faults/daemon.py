"""A daemon under faults: it watches counted servers and can be limited; and what it stored, beside the truth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from monitor.model.life import Life
from monitor.model.server import ServerName
from monitor.store import Store
from tests.acceptance.daemon import LONG_AGO, Daemon, environ
from tests.faults.counted import CountedServer, Counts
from tests.faults.forked import ForkedDaemon, Limits

SCRAPE = {"interval": "200ms", "timeout": "200ms"}


class FaultyDaemon(Daemon):
    """`acceptd run` on servers that it only watches."""

    def __init__(
        self, folder: Path, *servers: CountedServer, scrape: Mapping[str, object] | None = None,
        limits: Limits | None = None, **settings: Any,
    ) -> None:
        super().__init__(folder, None, mode="observe", scrape=scrape or SCRAPE)
        self.servers = servers
        self.limits = dict(limits or {})
        #: Where its data folder can be seen from here.
        self.seen_at = self.data_dir
        #: The process in whose mounts it runs.
        self.mounts_of: int | None = None
        self.settings["servers"] = [{"name": server.name, "url": server.url} for server in servers]
        self.settings["groups"] = []
        self.settings |= settings
        self.write()

    def spawn(self) -> subprocess.Popen[bytes]:
        """One more daemon on this configuration, forked."""
        made = ForkedDaemon(self.config, self.log, self.folder, environ(self.folder), self.limits, self.mounts_of)
        return made  # type: ignore[return-value]

    def running(self) -> dict[str, Any]:
        """What the daemon left for the command line."""
        return dict(json.loads((self.seen_at / "running.json").read_text()))

    def start(self) -> None:
        """Start the daemon and wait until it says that it runs."""
        (self.seen_at / "running.json").unlink(missing_ok=True)
        self.process = self.spawn()
        self.wait((self.seen_at / "running.json").is_file, "the daemon runs")

    def metric(self, beginning: str) -> float:
        """The sum of its own series that begin so; 0 where there is none."""
        page = self.page("/metrics") or ""
        return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(beginning))

    def cycles(self, count: int = 3) -> None:
        """Wait until it has evaluated so many times more."""
        wanted = self.metric("acceptd_cycles_total") + count
        self.wait(lambda: self.metric("acceptd_cycles_total") >= wanted or None, f"{count} more evaluations")

    def read_on(self, pages: int) -> None:
        """Wait until it has asked every server so many times more."""
        before = [len(server.asked) for server in self.servers]
        self.wait(
            lambda: all(len(one.asked) >= was + pages for one, was in zip(self.servers, before, strict=True)) or None,
            "pages are read",
        )

    def comes_out_whole(self, *, clocks_apart: float = 0.5) -> None:
        """Let its servers rest until it has stored what each counts, and check that every count is there once."""
        truth = {server.name: server.freeze() for server in self.servers}
        with self.store() as store:
            self.wait(
                lambda: all(head_of(store, one) == truth[one.name] for one in self.servers) or None, "counts are whole"
            )
            for server in self.servers:
                check_whole(store, server, truth[server.name], clocks_apart=clocks_apart)

    def suspend(self, seconds: float) -> None:
        """Stop its process for so long, as a suspend, a debugger or a hypervisor that moves the machine does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def memory_bytes(self) -> int:
        """Its resident memory."""
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def lives_of(store: Store, server: CountedServer) -> list[Life]:
    """Its lives, oldest first."""
    with store.read() as unit:
        return unit.lives.of(ServerName(server.name), LONG_AGO, LONG_AGO.replace(year=2100))


def head_of(store: Store, server: CountedServer) -> Counts | None:
    """What the newest page that was stored said; None where none was."""
    with store.read() as unit:
        lives = unit.lives.open_of(ServerName(server.name))
        head = unit.heads.get(lives[-1].id) if lives else None
    if head is None or head.counts.speculation is None or head.counts.traffic is None:
        return None
    seen = head.counts.speculation
    assert seen.num_drafts is not None and seen.accepted_per_pos is not None
    assert head.counts.traffic.generation_tokens is not None
    return Counts(
        int(seen.num_drafts), tuple(int(one) for one in seen.accepted_per_pos),
        int(head.counts.traffic.generation_tokens),
    )


def check_whole(store: Store, server: CountedServer, truth: Counts, *, clocks_apart: float = 0.5) -> None:
    """Nothing of the newest life is lost or doubled, and of those before nothing that never was.

    The newest life must have begun while it was watched, so that it counts from 0. Wall and monotonic clock are read
    one after the other, on a busy machine so far apart (seconds): intervals of two daemons may overlap by that.
    """
    lives = lives_of(store, server)
    newest = lives[-1]
    assert newest.counts_from_zero, f"{newest} was first met in the middle of its life"
    with store.read() as unit:
        totals = unit.intervals.totals(newest.id)
        intervals = unit.intervals.between([ServerName(server.name)], LONG_AGO, LONG_AGO.replace(year=2100))
        sums = {life.id: unit.intervals.totals(life.id) for life in lives}
    assert (totals.num_drafts, totals.num_accepted_tokens, totals.generation_tokens) == (
        truth.drafts, sum(truth.accepted), truth.generated,
    ), f"{server.name}: stored sums differ from its own counters"  # fmt: skip
    for life in lives:
        own = sorted((one for one in intervals if one.life == life.id), key=lambda one: one.end)
        for before, after in pairwise(own):
            overlap = (before.end - after.start).total_seconds()
            assert overlap <= clocks_apart, f"{server.name}: {before} and {after} cover the same time"
    ended = sorted((sums[life.id].num_drafts or 0 for life in lives[:-1]), reverse=True)
    # A life that was never seen is missing; none has more than it counted.
    true = sorted((one.drafts for one in server.ended), reverse=True)
    for mine, theirs in zip(ended, true, strict=False):
        assert mine <= theirs, f"{server.name}: an ended life has {mine} drafts of {theirs}"
