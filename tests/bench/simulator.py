"""How long a simulated fleet takes for its week: busy servers with a clock that runs as fast as they can follow.

    python -m tests.bench.simulator [--servers 20] [--minutes 10] [--clients 16]

Every server is asked for its page every 15 simulated seconds, as a daemon would. Printed is what a week of all of them
takes in one process, worked out from the minutes that were run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from monitor.simulator.options import parse_options
from monitor.simulator.server import SimServer
from tests.fakes.fake_clock import FakeClock

WEEK_SECONDS, PAGE_SECONDS = 604_800.0, 15.0
_SPECULATION = '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3}'
#: Loads of a busy server: clients that never rest, and requests that come at random through a day and a night.
LOADS = (
    "closed:clients={clients},prompt=200,output=150",
    "open:rate={rate:g},trough={trough:g},prompt=200,output=150",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=16)
    given = parser.parse_args(arguments)
    for load in LOADS:
        clock = FakeClock()
        words = load.format(clients=given.clients, rate=given.clients / 2, trough=given.clients / 8)
        servers = [
            SimServer(parse_options(["--speculative-config", _SPECULATION, "--sim-load", words, "--sim-seed", str(n)]),
                      clock)
            for n in range(given.servers)
        ]  # fmt: skip
        for server in servers:
            server.get_ready()
        steps, size = round(given.minutes * 60 / PAGE_SECONDS), 0
        began = time.process_time()
        for _ in range(steps):
            clock.advance(PAGE_SECONDS)
            for server in servers:
                size += len(server.page())
        cpu = time.process_time() - began
        simulated = steps * PAGE_SECONDS
        drafts = sum(server.engine.counts.num_drafts for server in servers)
        week = cpu * WEEK_SECONDS / simulated / 60
        print(
            f"{given.servers} servers, {words}: {drafts / simulated / given.servers:.0f} drafts a second each; "
            f"{simulated / 60:g} minutes of all with {steps} pages each in {cpu:.1f} CPU s; a week of all in "
            f"{week:.0f} CPU min, {week / given.servers:.1f} a server; {size / steps / given.servers:.0f} B a page",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
