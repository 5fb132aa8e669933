"""The tuner on a real engine: every setting measured in turn, then the daemon in auto from 5 tokens, against the best.

    python -m tests.bench.engines --engine vllm|llamacpp [--method ngram] [--loads 1,2] [--rounds 2] [--seconds 15]
        [--loop-minutes 30] [--no-loop]

The machine is noisy, so settings are measured in rounds, each setting once a round and every other round backwards,
and compared within a round. Then the daemon starts the server at 5 tokens with `goodput.yaml` in mode auto and is left
alone until it has kept a setting for five minutes. The aim: at most 5 % below the best of the sweep, off included,
after at most four restarts. Needs the rig (`make test-vllm`, `make test-llamacpp` build it).
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from monitor.model.rollout import ChangeState
from tests.engines.harness import NAME, Daemon
from tests.fakes.slack_server import SlackServer
from tests.rigs.llamacpp import server as llamacpp
from tests.rigs.llamacpp.build import BUILD as LLAMACPP_BUILD
from tests.rigs.load import Load
from tests.rigs.processes import free_port
from tests.rigs.running import RunningServer
from tests.rigs.vllm import server as vllm

SETTINGS = (0, 1, 2, 3, 5)
START_TOKENS = 5
MOST_LOSS, MOST_RESTARTS = 0.05, 4
#: Seconds that a server is warmed up before it counts, and that a setting must be kept for the loop to be over.
WARM_SECONDS, QUIET_SECONDS = 4.0, 300.0
#: Seconds for the first token; real engines start slowly on a busy machine.
START_SECONDS = 300.0

LIMITS: dict[str, object] = {
    "max_speculative_tokens": 8, "allow_off": True, "allow_downtime": True, "cut_after_drain": True,
    "changes_per_day": 20, "cooldown": "10s", "drain_limit": "3s", "stop_limit": "45s", "start_limit": "300s",
    "warmup": "5s", "observe": "180s", "restarts_per_day": 40,
}  # fmt: skip
#: A minute shows what a day would: the load is steady.
RULES: dict[str, object] = {
    "tuning": "goodput", "interval": "5s", "baseline_window": "10s", "parameters": {"goodput-tuner.window": "3m"},
}


@dataclass(frozen=True, slots=True)
class Rig:
    """One engine: a server of it at a setting, and the command line that the daemon is given."""

    name: str
    serve: Callable[[int], AbstractContextManager[RunningServer]]
    command: Callable[[int], Sequence[str]]
    env: dict[str, str]
    #: The version to render flags for, where the server does not tell its own.
    version: str | None = None


def rig(engine: str, method: str) -> Rig:
    """The rig of an engine with a method (n-gram or a draft model; llama-server has the latter alone)."""
    if engine == "llamacpp":
        return Rig(
            engine,
            lambda tokens: llamacpp.running_server(speculation=llamacpp.draft_simple(tokens) if tokens else ()),
            lambda port: llamacpp.llamacpp_argv(port, speculation=llamacpp.draft_simple(START_TOKENS)),
            llamacpp.llamacpp_env(), LLAMACPP_BUILD,
        )  # fmt: skip
    make = vllm.ngram if method == "ngram" else vllm.draft_model
    return Rig(
        engine, lambda tokens: vllm.running_server(speculation=make(tokens) if tokens else None),
        lambda port: vllm.vllm_argv(port, speculation=make(START_TOKENS)), vllm.vllm_env(),
    )  # fmt: skip


def sweep(of: Rig, clients: int, rounds: int, seconds: float) -> dict[int, list[float]]:
    """Tokens per second of every setting, one number a round."""
    found: dict[int, list[float]] = {tokens: [] for tokens in SETTINGS}
    for number in range(rounds):
        for tokens in SETTINGS if number % 2 == 0 else SETTINGS[::-1]:
            with of.serve(tokens) as server:
                found[tokens].append(throughput(server.url, clients, seconds))
            speed = found[tokens][-1]
            print(f"  load {clients}, round {number + 1}, {tokens} tokens: {speed:.0f} tokens/s", flush=True)
    return found


def throughput(url: str, clients: int, seconds: float) -> float:
    """Tokens per second of closed-loop clients."""
    with Load(url, clients=clients) as load:
        time.sleep(WARM_SECONDS)
        since = time.monotonic()
        time.sleep(seconds)
        until = time.monotonic()
        load.wait_for_requests(clients, 60.0)  # those that run at the end count by the part before it
        return load.tokens_per_second(since, until) or 0.0


def relative(found: dict[int, list[float]]) -> dict[int, float]:
    """Each setting's throughput over that of speculation off in the same round, geometric mean of the rounds."""
    return {
        tokens: math.exp(statistics.mean(math.log(value / off) for value, off in zip(values, found[0], strict=True)))
        for tokens, values in found.items()
    }


@contextmanager
def daemon_on(of: Rig, folder: Path) -> Iterator[Daemon]:
    """A daemon in auto that has started its server at `START_TOKENS`."""
    port = free_port()
    with SlackServer() as slack:
        daemon = Daemon(folder, slack, command=of.command(port), env=of.env, port=port, rules=RULES, limits=LIMITS)
        config = yaml.safe_load(daemon.config.read_text())
        config["servers"][0]["engine"] = of.name
        if of.version is not None:
            config["servers"][0]["driver"]["engine_version"] = of.version
        daemon.config.write_text(yaml.safe_dump(config))
        try:
            daemon.start()
            daemon.wait(daemon.serves, START_SECONDS, "the server serves")
            yield daemon
        finally:
            daemon.tear_down()


def loop(of: Rig, clients: int, minutes: float) -> tuple[int, int]:
    """The setting that the daemon ends at, and the restarts it took."""
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as name, daemon_on(of, Path(name)) as daemon:
        began = quiet_since = time.monotonic()
        with Load(daemon.url, clients=clients):
            told = 0
            while time.monotonic() - began < 60.0 * minutes and time.monotonic() - quiet_since < QUIET_SECONDS:
                time.sleep(2.0)
                changes = daemon.changes()
                if any(not change.state.is_final for change in changes):
                    quiet_since = time.monotonic()
                for change in changes[told:]:
                    if change.state.is_final:
                        print(f"  {change.proposed.describe()}: {change.state.value}. {change.sentence}", flush=True)
                        told += 1
        started = [change for change in daemon.changes() if change.started_at is not None]
        undone = [change for change in started if change.state is ChangeState.ROLLED_BACK]
        for decision in daemon.json("why", NAME).get("decisions", [])[:1]:
            print(f"  at the end: {decision['sentence']}", flush=True)
        return _setting(daemon), len(started) + len(undone)


def _setting(daemon: Daemon) -> int:
    with daemon.store() as store, store.read() as unit:
        lives = unit.lives.open_of(NAME)  # type: ignore[arg-type]
    return lives[-1].setting.num_speculative_tokens or 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("vllm", "llamacpp"), required=True)
    parser.add_argument("--method", choices=("ngram", "draft_model"), default="draft_model")
    parser.add_argument("--loads", default="1,2", help="clients of each sweep; the loop runs at the first")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--loop-minutes", type=float, default=30.0)
    parser.add_argument("--no-loop", action="store_true")
    given = parser.parse_args(arguments)
    of = rig(given.engine, given.method)
    loads = [int(clients) for clients in given.loads.split(",")]
    tables = {clients: relative(sweep(of, clients, given.rounds, given.seconds)) for clients in loads}
    for clients, table in tables.items():
        shown = ", ".join(f"{tokens}: {value:.2f}" for tokens, value in table.items())
        print(f"{given.engine}, load {clients}: throughput over off by setting: {shown}")
    if given.no_loop:
        return 0
    table = tables[loads[0]]
    ended, restarts = loop(of, loads[0], given.loop_minutes)
    if ended not in table:
        with_rest = {tokens: [] for tokens in (0, ended)}  # type: dict[int, list[float]]
        for tokens in with_rest:
            with of.serve(tokens) as server:
                with_rest[tokens].append(throughput(server.url, loads[0], given.seconds))
        table[ended] = relative(with_rest)[ended]
    loss = 1.0 - table[ended] / max(table.values())
    is_met = loss <= MOST_LOSS and restarts <= MOST_RESTARTS
    print(
        f"{given.engine}, load {loads[0]}: from {START_TOKENS} tokens the daemon ended at {ended or 'off'}, {loss:.1%} "
        f"below the best, after {restarts} restarts: {'met' if is_met else 'NOT met'}"
    )
    return 0 if is_met else 1


if __name__ == "__main__":
    raise SystemExit(main())
