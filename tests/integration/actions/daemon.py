"""A daemon that only acts: real store, real processes, real HTTP, ticking until no rollout is active.

    python -m tests.integration.actions.daemon FOLDER PORT [BASE…]

Tests start it as a process, kill it, and start it again; `Setup` is what they share with it. TEST_HOLDER names the
daemon where there are several, TEST_STORE is the URL of a store that they share, TEST_LEASE the age of its leases.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from monitor.actions.executor import Executor
from monitor.actions.fleet import Fleet, Managed
from monitor.actions.judge import Judgement, Verdict
from monitor.actions.orders import Orders
from monitor.actions.probe import LiveProbe
from monitor.actions.step import Timing
from monitor.clock import SystemClock
from monitor.dialects import Dialects
from monitor.drivers.process import ProcessDriver, ProcessOptions
from monitor.errors import ScrapeError
from monitor.model.reading import Reading
from monitor.model.reading import Verdict as PageVerdict
from monitor.model.rollout import Change, Outcome
from monitor.model.server import ActionLimits, Group, GroupName, Server, ServerName
from monitor.scrape.client import ServerClient
from monitor.scrape.probe import ServerProbe
from monitor.store import Store, open_store
from monitor.watchdog import Watchdog
from tests.fakes.fake_launcher import FakeLauncher

TINY = Path(__file__).resolve().parents[2] / "fakes" / "tiny_server.py"
NAME, GROUP = ServerName("tiny"), GroupName("g")
CLOCK = SystemClock()
LIMITS = ActionLimits(
    allow_off=True, allow_downtime=True, changes_per_day=50, cooldown_seconds=0, drain_seconds=5, stop_seconds=1.5,
    start_seconds=20, first_start_seconds=0, warmup_seconds=0.6, observe_seconds=0.6, restarts_per_day=6,
)  # fmt: skip
TIMING = Timing(
    settle_seconds=0, quiet_seconds=0, kill_seconds=5, leftover_seconds=0.5, port_seconds=10, backoff_seconds=0.3,
    unhealthy_seconds=1.0, judge_seconds=0.1, lease_seconds=30,
)  # fmt: skip


class Keep:
    """Finds every change better, in the second half of the observation."""

    def judge(self, change: Change, now: datetime) -> Judgement:
        return Judgement(Verdict.PROMOTE, "fine", None, Outcome.MEASURED_BETTER)


@dataclass
class Setup:
    """The parts of one daemon on `folder`, with one server on `port`."""

    folder: Path
    port: int
    troubles: tuple[str, ...] = ()
    store_url: str = ""
    holder: str = "test-host"
    lease_seconds: float = TIMING.lease_seconds

    def __post_init__(self) -> None:
        base = [sys.executable, str(TINY), "--port", str(self.port), "--api-key", "hunter22"]
        for trouble in self.troubles:
            base += ["--trouble", trouble]
        self.launcher = FakeLauncher(tuple(base), secrets=("hunter22",))
        options = ProcessOptions(
            state_folder=self.folder / "state", log_folder=self.folder / "logs", environ=os.environ, port=self.port
        )
        self.driver = ProcessDriver(NAME, self.launcher, options, CLOCK)
        self.store: Store = open_store(self.store_url or f"sqlite:///{self.folder}/local.db")
        self.watchdog = Watchdog(CLOCK)
        url = f"http://127.0.0.1:{self.port}"
        self.client = ServerClient(self.watchdog, size_limit=2**20)
        self.url = url
        probe = LiveProbe(ServerProbe(self.client, url, timeout_seconds=2.0), self.page, generate_seconds=5.0)
        server = Server(name=NAME, group=GROUP, base_url=url, metrics_url=f"{url}/metrics", managed=True)
        fleet = Fleet(
            groups={GROUP: Group(name=GROUP, servers=(NAME,), limits=LIMITS)},
            managed={NAME: Managed(server, self.driver, probe)},
        )
        timing = replace(TIMING, lease_seconds=self.lease_seconds)
        self.executor = Executor(self.store, CLOCK, fleet, Keep(), holder=self.holder, timing=timing)
        self.orders = Orders(self.store, fleet, holder=self.holder, timing=timing)

    def page(self) -> Reading:
        try:
            answer = self.client.get(f"{self.url}/metrics", deadline_seconds=2.0)
        except ScrapeError as error:
            return Reading(
                server=NAME, scraped_at=CLOCK.now(), monotonic=CLOCK.monotonic(), dialect="none",
                verdict=PageVerdict.SCRAPE_ERROR, reason=str(error),
            )  # fmt: skip
        return Dialects().reader(NAME).read(
            answer.body, scraped_at=CLOCK.now(), monotonic=CLOCK.monotonic(), status=answer.status
        )

    def open(self) -> Setup:
        self.store.upgrade()
        self.watchdog.start()
        return self

    def close(self) -> None:
        self.client.close()
        self.watchdog.stop()
        self.store.close()

    def is_quiet(self) -> bool:
        with self.store.read() as unit:
            return not unit.rollouts.active()

    def tick(self) -> bool:
        """One turn; whether nothing is left to do."""
        self.executor.tick(CLOCK.now())
        return self.is_quiet()


def main() -> None:
    given = os.environ
    setup = Setup(
        Path(sys.argv[1]), int(sys.argv[2]), tuple(sys.argv[3:]), given.get("TEST_STORE", ""),
        given.get("TEST_HOLDER", "test-host"), float(given.get("TEST_LEASE", TIMING.lease_seconds)),
    ).open()  # fmt: skip
    print("up", flush=True)
    while not setup.tick():
        CLOCK.sleep(0.02)
    print("quiet", flush=True)
    # The server must not end with us, and neither must the handles that say so keep us.
    os._exit(0)


if __name__ == "__main__":
    main()
