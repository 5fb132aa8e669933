"""`python -m tests.soak [--minutes 60] [--speed 60] [--servers 12] [--output FOLDER]`: a daemon in simulated time.

For three quarters of the run nothing happens but traffic, nights, hours and restarts of servers: memory must be flat.
In the last quarter the daemon is killed, stopped and continued, and servers hang or restart with every page. At the end
what is stored must equal the servers' own counters to the digit. Memory, the age of the newest data, late scrapes and
the size of the store are drawn over simulated time (`soak.svg`).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from monitor.store import open_readonly
from tests.acceptance.daemon import environ
from tests.fakes import reaper
from tests.faults.counted import CountedServer, serving
from tests.faults.daemon import FaultyDaemon, check_whole, head_of
from tests.faults.test_hostile import hang, reborn
from tests.soak.fast import FastTime
from tests.soak.record import MIB, Sample, draw, growth, write

#: Memory may grow so much a simulated day in the quiet part, once warm (bytes): a leak of a page an hour is more.
GROWTH_A_DAY = 4 * MIB
#: The quiet part's share.
QUIET = 0.75


class Soak:
    """One run."""

    def __init__(self, folder: Path, minutes: float, speed: float, servers: int, seed: int) -> None:
        self.folder = folder
        self.seconds = minutes * 60.0
        self.speed = speed
        self.epoch = time.time()
        self.time = FastTime(speed, self.epoch)
        self.dice = random.Random(seed)
        self.servers = [
            CountedServer(f"s{number}", 20.0 + 3 * number, now=self.time.unix, monotonic=self.time.monotonic)
            for number in range(servers)
        ]
        self.samples: list[Sample] = []
        self.events: list[tuple[float, str]] = []

    def run(self) -> int:
        """Run it; the exit code."""
        with serving(*self.servers):
            daemon = SoakingDaemon(self.folder, *self.servers, speed=self.speed, epoch=self.epoch)
            try:
                daemon.start()
                self._quietly(daemon)
                self._badly(daemon)
                return self._judge(daemon)
            finally:
                daemon.tear_down()

    @property
    def hours(self) -> float:
        """Simulated hours since the beginning."""
        return self.time.monotonic() / 3600.0

    def _quietly(self, daemon: SoakingDaemon) -> None:
        restart_at = self.hours + 6.0
        while time.time() - self.epoch < QUIET * self.seconds:
            self._sample(daemon)
            if self.hours >= restart_at:
                restart_at += 6.0
                self._restart(self.dice.choice(self.servers))
            time.sleep(2.0)

    def _badly(self, daemon: SoakingDaemon) -> None:
        faults = (self._kill, self._suspend, self._hang, self._flood)
        number = 0
        while time.time() - self.epoch < self.seconds:
            faults[number % len(faults)](daemon)
            number += 1
            self._restart(self.dice.choice(self.servers))
            for _ in range(3):
                self._sample(daemon)
                time.sleep(self.dice.uniform(0.5, 2.0))

    def _restart(self, server: CountedServer) -> None:
        self._note(f"{server.name} restarts")
        server.restart()

    def _kill(self, daemon: SoakingDaemon) -> None:
        self._note("kill -9")
        daemon.kill()
        daemon.start()

    def _suspend(self, daemon: SoakingDaemon) -> None:
        self._note("suspend")
        daemon.suspend(self.dice.uniform(0.5, 5.0))

    def _hang(self, daemon: SoakingDaemon) -> None:
        self._for_a_while(hang)

    def _flood(self, daemon: SoakingDaemon) -> None:
        self._for_a_while(reborn)

    def _for_a_while(self, behaviour: object) -> None:
        server = self.dice.choice(self.servers)
        self._note(f"{server.name}: {getattr(behaviour, '__name__', '')}")
        server.answer = behaviour  # type: ignore[assignment]
        time.sleep(self.dice.uniform(2.0, 5.0))
        server.answer = None

    def _note(self, what: str) -> None:
        self.events.append((self.hours, what))
        print(f"{self.hours:7.1f} h  {what}", flush=True)

    def _sample(self, daemon: SoakingDaemon) -> None:
        now = self.time.monotonic()
        oldest = min((server.asked_at(-1) for server in self.servers), default=now)
        sample = Sample(
            hours=self.hours, memory=daemon.memory_bytes(), data_age=max(0.0, now - oldest),
            late=daemon.metric("acceptd_scrapes_late_total"), missed=daemon.metric("acceptd_scrapes_missed_total"),
            store=sum(path.stat().st_size for path in daemon.data_dir.glob("local.db*")), process=daemon.pid,
        )  # fmt: skip
        self.samples.append(sample)

    def _judge(self, daemon: SoakingDaemon) -> int:
        for server in self.servers:
            self._restart(server)
        daemon.wait(lambda: daemon.metric("acceptd_spool_pages") == 0 or None, "nothing waits")
        time.sleep(4 * 15.0 / self.speed + 1.0)
        truth = {server.name: server.freeze() for server in self.servers}
        store = open_readonly(daemon.data_dir / "local.db")
        bad = 0
        try:
            daemon.wait(lambda: all(head_of(store, one) == truth[one.name] for one in self.servers) or None, "counts")
            for server in self.servers:
                check_whole(store, server, truth[server.name], clocks_apart=0.5 * self.speed)
        except AssertionError as error:
            print(f"COUNTS ARE NOT WHOLE: {error}", file=sys.stderr)
            bad += 1
        finally:
            store.close()
        draw(self.samples, self.events, self.folder / "soak.svg")
        write(self.samples, self.folder / "samples.csv")
        a_day = growth(self.samples) * 24.0
        quiet = [one for one in self.samples if one.process == self.samples[0].process]
        print(f"{self.hours:.0f} simulated hours, {len(self.servers)} servers, {len(self.events)} faults and restarts")
        print(f"memory {quiet[0].memory / MIB:.0f} -> {quiet[-1].memory / MIB:.0f} MiB in the quiet part, "
              f"grows {a_day / MIB:+.2f} MiB a day (at most {GROWTH_A_DAY / MIB:g})")
        print(f"late scrapes {quiet[-1].late:.0f}, missed {quiet[-1].missed:.0f} in the quiet part; oldest data "
              f"{max(one.data_age for one in quiet[3:] or quiet):.0f} simulated s (scrapes are 15 s apart)")
        print(f"counts {'are NOT whole' if bad else 'are whole'}; drawn in {self.folder / 'soak.svg'}")
        if a_day > GROWTH_A_DAY:
            print("MEMORY GROWS", file=sys.stderr)
            bad += 1
        if "Traceback" in daemon.said():
            print(f"THE LOG HAS TRACEBACKS: {daemon.log}", file=sys.stderr)
            bad += 1
        return int(bool(bad))


class SoakingDaemon(FaultyDaemon):
    """A daemon in simulated time."""

    def __init__(self, folder: Path, *servers: CountedServer, speed: float, epoch: float) -> None:
        self._numbers = (str(speed), repr(epoch))
        super().__init__(
            folder, *servers, scrape={"interval": "15s", "timeout": "15s"}, rules={"interval": "60s"},
            log={"level": "warning"},
        )

    @property
    def pid(self) -> int:
        """Its process."""
        assert self.process is not None
        return self.process.pid

    def spawn(self) -> subprocess.Popen[bytes]:
        """One more process of it."""
        command = [sys.executable, "-m", "tests.soak.fast", *self._numbers, "--", "--config", str(self.config), "run"]
        # The root of the checkout first: the daemon's own folder is another.
        root = str(Path(__file__).resolve().parents[2])
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
                env={**environ(self.folder), "PYTHONPATH": root},
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak; 0 where all held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--speed", type=float, default=60.0)
    parser.add_argument("--servers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--output", type=Path, default=Path("build/soak"))
    options = parser.parse_args(arguments)
    folder = options.output.resolve() / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    print(f"seed {options.seed}, in {folder}", flush=True)
    with reaper.tidied():
        return Soak(folder, options.minutes, options.speed, options.servers, options.seed).run()


if __name__ == "__main__":
    sys.exit(main())
