"""A fleet of simulated replicas on a fake clock: real pages, real intervals, the real judge, gate and machine.

Only time, processes and HTTP are made up: clients share the servers that are in the balancer and serve, so that one
server's part falls to its peers while it is away.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from monitor.actions.executor import Executor
from monitor.actions.fleet import Fleet, Managed
from monitor.actions.orders import Orders
from monitor.cycle.collect import Collector
from monitor.cycle.gate import FleetGate
from monitor.cycle.history import History
from monitor.cycle.judge import StoredJudge
from monitor.cycle.settings import SettingFinder
from monitor.cycle.survivors import Survivors
from monitor.dialects import Dialects
from monitor.drivers.launcher import CommandLauncher
from monitor.drivers.protocol import Check, DriverStatus, PortOwner, ServerState
from monitor.errors import ActionError, Unreachable
from monitor.intervals.track import Track, resume
from monitor.model.decision import Action, Decision, DecisionId, DecisionState, Precondition, Reason
from monitor.model.life import LifeId, Setting
from monitor.model.reading import Reading, Verdict
from monitor.model.rollout import Change, Rollout, RolloutId
from monitor.model.server import ActionLimits, Engine, Group, GroupName, Server, ServerName
from monitor.scrape.client import Answer
from monitor.scrape.probe import Probed
from monitor.simulator.load import Load
from monitor.simulator.options import parse_options
from monitor.simulator.server import Phase, SimServer
from monitor.store import Store
from monitor.store.spool import Spool
from monitor.targets.told import Told
from tests.fakes.fake_clock import FakeClock

GROUP = GroupName("chat")
#: Seconds between two pages, until a server is ready, and after SIGTERM until it is gone.
SCRAPE, START, STOP = 5.0, 20.0, 2.0
LIMITS = ActionLimits(
    max_speculative_tokens=16, cooldown_seconds=0, drain_seconds=60, stop_seconds=30, start_seconds=120,
    first_start_seconds=0, warmup_seconds=15, observe_seconds=450, restarts_per_day=6,
)  # fmt: skip


def setting(tokens: int) -> Setting:
    return Setting(method="eagle3", num_speculative_tokens=tokens, draft_model="draft")


class SimReplica:
    """One server: its process of the simulator, as driver, probe and balancer see it."""

    kind = "sim"
    acts = True
    has_control = True

    def __init__(self, clock: FakeClock, number: int, tokens: int) -> None:
        self.clock = clock
        self.name = ServerName(f"chat-{number}")
        self.port = 8000 + number
        line = ["vllm", "serve", "m", "--port", str(self.port), "--max-num-seqs", "64", *_speculation(tokens)]
        self.launcher = CommandLauncher(Engine.VLLM, line, version=lambda: "0.32.0")
        self.in_traffic = True
        self.process: SimServer | None = None
        self.pid = 100 * number
        self.token = ""
        self.setting = setting(tokens)
        self.ends_at: float | None = None
        self.starts: list[int] = []
        self.cut = 0
        self.reader = Dialects().reader(self.name)
        self._spawn(self.setting, "boot")
        self.process.get_ready()  # type: ignore[attr-defined]

    def _spawn(self, wanted: Setting, token: str) -> None:
        argv = ["serve", "m", "--port", str(self.port), "--max-num-seqs", "64", "--sim-seed", str(self.pid)]
        options = parse_options([*argv, *_speculation(wanted.num_speculative_tokens or 0)], {})
        self.process, self.pid = SimServer(options, self.clock), self.pid + 1
        self.born, self.setting, self.token, self.ends_at = self.clock.monotonic(), wanted, token, None

    @property
    def serves(self) -> bool:
        return self.process is not None and self.process.phase is Phase.READY and self.ends_at is None

    def settle(self) -> None:
        now, process = self.clock.monotonic(), self.process
        if process is None:
            return
        if self.ends_at is not None and now >= self.ends_at:
            process.die()
            self.process = None
        elif process.phase is Phase.STARTING and now >= self.born + START:
            process.get_ready()
        else:
            process.advance()

    def generated(self) -> float:
        return float(self.process.engine.counts.generation_tokens) if self.process is not None else 0.0

    # The driver.

    def status(self) -> DriverStatus:
        self.settle()
        if self.process is None:
            return DriverStatus(state=ServerState.STOPPED, stop_asked=True, setting=self.setting, token=self.token)
        return DriverStatus(
            state=ServerState.RUNNING, process=f"pid {self.pid}", pid=self.pid, setting=self.setting, token=self.token,
            command_hash=self.launcher.base_hash, stop_asked=self.ends_at is not None, port_owner=PortOwner.OURS,
        )  # fmt: skip

    def start(self, wanted: Setting, token: str) -> None:
        if self.process is not None:
            raise ActionError("runs", reason="running", retryable=True)
        self.launcher.render(wanted)
        self.starts.append(wanted.num_speculative_tokens or 0)
        self._spawn(wanted, token)

    def stop(self, *, force: bool = False) -> None:
        if self.process is not None and self.ends_at is None:
            self.cut += self.process.engine.running + self.process.engine.waiting
            self.process.drain()
            self.ends_at = self.clock.monotonic() + (0.0 if force else STOP)

    def log_tail(self, lines: int = 40) -> str:
        return ""

    def checks(self) -> tuple[Check, ...]:
        return ()

    # The probe.

    def health(self) -> Probed:
        self.settle()
        return Probed(self.serves, "/health")

    def models(self) -> tuple[str, ...] | None:
        return ("m",) if self.serves else None

    def generate(self) -> Probed | None:
        return Probed(self.serves, "one token generated")

    def page(self) -> Reading:
        self.settle()
        if not self.serves or self.process is None:
            return Reading(
                server=self.name, scraped_at=self.clock.now(), monotonic=self.clock.monotonic(), dialect="none",
                verdict=Verdict.SCRAPE_ERROR, reason="refused",
            )  # fmt: skip
        return self.reader.read(
            self.process.page().encode(), scraped_at=self.clock.now(), monotonic=self.clock.monotonic(), status=200
        )

    # The client of the scrapes.

    def get(self, url: str, *, deadline_seconds: float, accept: str = "*/*") -> Answer:
        self.settle()
        if not self.serves or self.process is None:
            raise Unreachable(f"{url}: connection refused")
        return Answer(200, "text/plain; version=0.0.4", self.process.page().encode(), url)

    # The balancer.

    def take_out(self) -> None:
        self.in_traffic = False

    def is_out(self) -> bool:
        return True

    def put_back(self) -> None:
        self.in_traffic = True


def _speculation(tokens: int) -> list[str]:
    config = {"method": "eagle3", "model": "draft", "num_speculative_tokens": tokens}
    return ["--speculative-config", json.dumps(config)] if tokens else []


class Nothing:
    """Counters that count nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


class SimFleet:
    """Replicas, the parts of one daemon that watch and change them, and the clients that share them."""

    def __init__(self, store: Store, *, tokens: int, replicas: int = 4, clients: int = 12) -> None:
        self.clock = FakeClock()
        self.store = store
        self.clients = clients
        self.replicas = [SimReplica(self.clock, n + 1, tokens) for n in range(replicas)]
        self.groups = {GROUP: Group(name=GROUP, servers=tuple(r.name for r in self.replicas), limits=LIMITS)}
        servers = {
            r.name: Server(
                name=r.name, group=GROUP, base_url=f"http://127.0.0.1:{r.port}", managed=True,
                metrics_url=f"http://127.0.0.1:{r.port}/metrics",
            )
            for r in self.replicas
        }  # fmt: skip
        self.history = History(86_400.0)
        finder = SettingFinder(
            ask=lambda server, engine: Told("0.32.0"), process=lambda server: None, configured={},
            launched=lambda name: next(r.setting for r in self.replicas if r.name == name),
        )  # fmt: skip
        tracks: dict[ServerName, Track] = {name: resume(name, [], {}) for name in servers}
        self.collector = Collector(
            servers, {r.name: r for r in self.replicas},  # type: ignore[misc]
            Spool(store, None, self.clock).keep, self.history, readers=Dialects().reader, tracks=tracks, last_ok={},
            settings=finder, interval_seconds=SCRAPE, timeout_seconds=5.0, boot_id="b", clock=self.clock,
            counters=Nothing(),  # type: ignore[arg-type]
        )  # fmt: skip
        managed = {r.name: Managed(servers[r.name], r, r, r) for r in self.replicas}
        self.fleet = Fleet(groups=self.groups, managed=managed)
        judge = StoredJudge(store, lambda name: self.groups[GROUP], scrape_seconds=SCRAPE)
        survivors = Survivors(store, lambda name: 64)
        gate = FleetGate(lambda group: "", self.history, survivors.carrying)
        self.executor = Executor(store, self.clock, self.fleet, judge, holder="h", gate=gate)
        self.orders = Orders(store, self.fleet, holder="h")
        #: Servers in traffic and serving, and tokens generated in all, second by second.
        self.serving: list[int] = []
        self.generated: list[float] = []
        self._shared: tuple[ServerName, ...] = ()
        self._last = {r.name: (r.pid, r.generated()) for r in self.replicas}

    def second(self, act: bool = True) -> None:
        """One second passes: requests, a page of each where due, a turn of the machine."""
        self.clock.advance(1.0)
        for replica in self.replicas:
            replica.settle()
        self._share()
        if round(self.clock.monotonic()) % SCRAPE == 0:
            for replica in self.replicas:
                self.collector.scrape(replica.name)
        if act:
            self.executor.tick(self.clock.now())
        self.serving.append(sum(r.serves and r.in_traffic for r in self.replicas))
        self.generated.append(self._tokens())

    def _share(self) -> None:
        """Clients spread over whoever takes them; those of a server that is taken out leave with their answers."""
        open_now = tuple(r.name for r in self.replicas if r.serves and r.in_traffic)
        if open_now == self._shared:
            return
        self._shared = open_now
        for replica in self.replicas:
            if replica.process is None or replica.process.phase is not Phase.READY:
                continue
            mine = self.clients / len(open_now) if replica.name in open_now else 0.0
            load = Load(kind="closed", peak=mine, trough=mine, prompt=100.0, output=120.0) if mine else Load()
            replica.process.engine.traffic.change(load, replica.process.engine.now)

    def _tokens(self) -> float:
        made = 0.0
        for replica in self.replicas:
            pid, before = self._last[replica.name]
            now = replica.generated()
            made += now - before if pid == replica.pid and now >= before else now
            self._last[replica.name] = (replica.pid, now)
        return made

    def watch(self, seconds: int) -> None:
        for _ in range(seconds):
            self.second(act=False)

    def begin(self, to: int) -> RolloutId:
        now = self.clock.now()
        current = self.replicas[0].setting
        lives = {r.name: tuple(LifeId(life.id) for life in self.history.newest_lives(r.name)) for r in self.replicas}
        decision = Decision(
            id=DecisionId(f"d-{to}"), group=GROUP, servers=tuple(lives), rule="raise-tokens", action=Action.RAISE,
            reason=Reason.PREDICTED_GAIN, sentence="try it", current=current,
            proposed=replace(current, num_speculative_tokens=to), precondition=Precondition(lives, current),
            made_at=now, expires_at=now + timedelta(hours=1), state=DecisionState.APPROVED,
        )  # fmt: skip
        rollout, _ = self.orders.begin(decision, "test", now)
        return rollout.id

    def run(self, rollout: RolloutId, most: int = 7200) -> Rollout:
        """Seconds pass until the rollout is over."""
        for _ in range(most):
            self.second()
            with self.store.read() as unit:
                found = unit.rollouts.get(rollout)
            if found is not None and found.finished_at is not None:
                return found
        raise AssertionError(f"no end: {self.changes(rollout)}")

    def changes(self, rollout: RolloutId) -> list[Change]:
        with self.store.read() as unit:
            return unit.changes.of_rollout(rollout)
