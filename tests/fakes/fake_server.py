"""A simulated managed server for tests of the action machine: process, HTTP answers and traffic, on a fake clock.

`FakeDriver` and `FakeProbe` are two views of one `FakeServer`, which outlives both as a real server outlives a daemon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from monitor.drivers.protocol import Check, DriverStatus, PortOwner, ServerState
from monitor.errors import ActionError
from monitor.model.counts import Counts, Gauges, SpeculationCounts, TrafficCounts
from monitor.model.life import Setting
from monitor.model.reading import EngineReading, Reading, Verdict
from monitor.model.server import ServerName
from monitor.scrape.probe import Probed
from tests.fakes.fake_clock import FakeClock
from tests.fakes.fake_launcher import FakeLauncher


@dataclass
class Behaviour:
    """How the server behaves from now on; numbers of tokens name the settings a trouble belongs to."""

    start_seconds: float = 30.0
    stop_seconds: float = 3.0
    #: Requests that run while traffic flows, and how long they take to end once it does not.
    running: float = 2.0
    drain_seconds: float = 8.0
    crashes_at: frozenset[int] = frozenset()
    crash_log: str = "RuntimeError: something broke"
    crash_code: int | None = 1
    #: Transient: the next so many starts fail, whatever the setting.
    failing_starts: int = 0
    never_ready_at: frozenset[int] = frozenset()
    mute_at: frozenset[int] = frozenset()
    #: Dies that long after it became ready (a first request that kills the engine, or later).
    dies_at: dict[int, float] = field(default_factory=dict)
    shows_instead: dict[int, int] = field(default_factory=dict)
    ignores_term: bool = False
    unkillable: bool = False
    orphans: bool = False
    page_broken: bool = False
    running_unknown: bool = False
    #: Its page says that nothing runs, while it counts one token after the other.
    page_lags: bool = False
    health_broken: bool = False
    unauthorized: bool = False
    #: How long requests go on after SIGTERM; they end by themselves after `drain_seconds`.
    grace_seconds: float = 0.0
    #: Names that /v1/models lists once it was restarted.
    loses_models: tuple[str, ...] = ()


@dataclass
class _Process:
    pid: int
    setting: Setting
    token: str
    born: float
    command_hash: str
    wants_to_end: float | None = None
    stop_asked: bool = False
    ready_at: float | None = None


class FakeServer:
    """One server and its host; time is the clock's monotonic time."""

    def __init__(self, clock: FakeClock, name: str = "s1", behaviour: Behaviour | None = None) -> None:
        self.name = ServerName(name)
        self.clock = clock
        self.behaviour = behaviour or Behaviour()
        self.launcher = FakeLauncher(("vllm", "serve", "tiny", "--lora", "adapter"))
        self.models: tuple[str, ...] = ("tiny",)
        self.traffic_allowed = True
        #: Whether clients send requests as long as they are allowed to.
        self.clients = True
        self.foreign = False
        self.process: _Process | None = None
        self.orphans_left = False
        self.record: DriverStatus | None = None
        self.starts: list[tuple[float, Setting, str]] = []
        self.stops: list[float] = []
        self.kills: list[float] = []
        self.cut_requests = 0.0
        #: How often it went away by itself while it served.
        self.fell = 0
        self.log = ""
        self._pid = 100
        self._last_pid_exit: int | None = None
        self._held_since: float | None = None
        #: Whether its clients happen to send nothing at that moment.
        self.quiet: Callable[[float], bool] = lambda _: False
        self.on_stop: Callable[[], None] = lambda: None

    # What happens by itself.

    def settle(self) -> None:
        """Let everything happen that is due by now."""
        process, now, behaviour = self.process, self.clock.monotonic(), self.behaviour
        if process is None:
            return
        tokens = process.setting.num_speculative_tokens or 0
        if process.wants_to_end is not None and now >= process.wants_to_end:
            self._gone(0)
        elif now >= process.born + behaviour.start_seconds and process.ready_at is None:
            if tokens in behaviour.crashes_at or behaviour.failing_starts > 0:
                behaviour.failing_starts = max(0, behaviour.failing_starts - 1)
                self.log += behaviour.crash_log + "\n"
                self._gone(behaviour.crash_code)
            elif tokens not in behaviour.never_ready_at:
                process.ready_at = now
                self.models = tuple(m for m in self.models if m not in behaviour.loses_models)
        elif process.ready_at is not None and now >= process.ready_at + behaviour.dies_at.get(tokens, float("inf")):
            self.log += "EngineDeadError\n"
            self.fell += 1
            self._gone(1)

    def _gone(self, code: int | None) -> None:
        self._last_pid_exit = code
        self.process = None
        self.orphans_left = self.behaviour.orphans

    # What the outside does.

    def running(self) -> float:
        """Requests in flight now."""
        process, now = self.process, self.clock.monotonic()
        if process is None or process.ready_at is None or process.stop_asked or not self.clients or self.quiet(now):
            return 0.0
        if self.traffic_allowed:
            self._held_since = None
            return self.behaviour.running
        if self._held_since is None:
            self._held_since = now
        return self.behaviour.running if now < self._held_since + self.behaviour.drain_seconds else 0.0

    def boot(self, tokens: int = 2, token: str = "boot") -> None:
        """Start it as if long ago: ready now."""
        self.start(Setting(method="ngram", num_speculative_tokens=tokens), token)
        self.starts.clear()
        assert self.process is not None
        self.process.ready_at = self.clock.monotonic()

    def restart_by_hand(self, tokens: int) -> None:
        """Someone else restarts it."""
        self.process = None
        self.start(Setting(method="ngram", num_speculative_tokens=tokens), "by hand")
        self.starts.pop()
        assert self.process is not None
        self.process.ready_at = self.clock.monotonic()

    def crash(self) -> None:
        """It goes away by itself."""
        if self.process is not None:
            self.process.stop_asked = False
            self._gone(-11)

    @property
    def serves(self) -> bool:
        """Whether a request would be answered now."""
        self.settle()
        process = self.process
        if process is None or process.ready_at is None:
            return False
        return (process.setting.num_speculative_tokens or 0) not in self.behaviour.mute_at

    @property
    def tokens(self) -> int | None:
        """The setting of the running process."""
        return self.process.setting.num_speculative_tokens if self.process else None

    # What the driver does.

    def start(self, setting: Setting, token: str) -> None:
        self.settle()
        self.launcher.render(setting)
        if self.process is not None:
            raise ActionError(f"{self.name}: already runs", reason="running", retryable=True)
        if self.orphans_left or self.foreign:
            what = "left processes behind" if self.orphans_left else "its port is held"
            raise ActionError(f"{self.name}: not started, {what}", reason="in_the_way", retryable=True)
        self._pid += 1
        self._last_pid_exit = None
        self.log = f"serving, key <secret>, pid {self._pid}\n"
        born = self.clock.monotonic()
        self.process = _Process(self._pid, setting, token, born, self.launcher.base_hash)
        # Where traffic is held away, none of it has reached this process.
        self._held_since = None if self.traffic_allowed else -1e9
        self.record = DriverStatus(
            state=ServerState.EXITED, started_at=self.clock.now(), setting=setting, token=token,
            command_hash=self.launcher.base_hash,
        )  # fmt: skip
        self.starts.append((born, setting, token))

    def stop(self, force: bool) -> None:
        self.settle()
        now = self.clock.monotonic()
        (self.kills if force else self.stops).append(now)
        if self.process is not None and not self.process.stop_asked:
            self.on_stop()
        if force and not self.behaviour.unkillable:
            self.orphans_left = False
            if self.process is not None:
                self._count_cut()
                self.process.stop_asked = True
                self._gone(-9)
                self.orphans_left = False
        elif self.process is not None and not self.process.stop_asked:
            behaviour, lasts = self.behaviour, self.behaviour.stop_seconds
            if behaviour.grace_seconds < behaviour.drain_seconds:
                self._count_cut()
            if self.running() > 0:
                lasts += min(behaviour.grace_seconds, behaviour.drain_seconds)
            self.process.stop_asked = True
            if not behaviour.ignores_term:
                self.process.wants_to_end = now + lasts

    def _count_cut(self) -> None:
        # Requests of a server that does not serve are lost already, whoever stops it.
        if self.serves and not self.behaviour.health_broken:
            self.cut_requests += self.running()

    def status(self) -> DriverStatus:
        self.settle()
        process, record = self.process, self.record
        if process is not None:
            return DriverStatus(
                state=ServerState.RUNNING, process=f"pid {process.pid}", pid=process.pid,
                started_at=record.started_at if record else None, setting=process.setting, token=process.token,
                command_hash=process.command_hash, stop_asked=process.stop_asked, port_owner=PortOwner.OURS,
            )  # fmt: skip
        state = ServerState.EXITED if record is not None else ServerState.STOPPED
        if self._last_pid_exit == 0:
            state = ServerState.STOPPED
        if self.orphans_left:
            state = ServerState.LEFTOVERS
        elif self.foreign:
            state = ServerState.FOREIGN
        return DriverStatus(
            state=state, setting=record.setting if record else None, token=record.token if record else "",
            command_hash=record.command_hash if record else "", exit_code=self._last_pid_exit,
            stop_asked=state is ServerState.STOPPED and record is not None,
            leftovers=("VLLM::EngineCore (pid 999)",) if self.orphans_left else (),
        )  # fmt: skip


class FakeDriver:
    """A driver over a `FakeServer`; `acts` False makes it a dry run that is asked by mistake."""

    kind = "fake"

    def __init__(self, server: FakeServer, *, acts: bool = True) -> None:
        self.server = server
        self.acts = acts
        #: Raised by the next calls of that name, one each.
        self.failures: dict[str, list[ActionError]] = {}
        self.found: tuple[Check, ...] = ()

    @property
    def launcher(self) -> FakeLauncher:
        return self.server.launcher

    def status(self) -> DriverStatus:
        self._fail("status")
        return self.server.status()

    def start(self, setting: Setting, token: str) -> None:
        assert self.acts
        self._fail("start")
        self.server.start(setting, token)

    def stop(self, *, force: bool = False) -> None:
        assert self.acts
        self._fail("stop")
        self.server.stop(force)

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.server.log.splitlines()[-lines:])

    def checks(self) -> tuple[Check, ...]:
        return self.found

    def _fail(self, call: str) -> None:
        if self.failures.get(call):
            raise self.failures[call].pop(0)


class FakeProbe:
    """A probe of a `FakeServer`."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server

    @property
    def _ready(self) -> bool:
        self.server.settle()
        return self.server.process is not None and self.server.process.ready_at is not None

    def health(self) -> Probed:
        if not self._ready or self.server.behaviour.health_broken:
            return Probed(False, "connection refused")
        return Probed(True, "/health says 200")

    def models(self) -> tuple[str, ...] | None:
        return self.server.models if self._ready else None

    def generate(self) -> Probed | None:
        if self.server.behaviour.unauthorized:
            return Probed(False, "401", unauthorized=True)
        return Probed(True, "one token generated") if self.server.serves else Probed(False, "completions say 500")

    def page(self) -> Reading:
        server, now = self.server, self.server.clock
        engines: tuple[EngineReading, ...] = ()
        verdict = Verdict.SCRAPE_ERROR
        if self._ready and not server.behaviour.page_broken:
            tokens = server.tokens or 0
            shown = server.behaviour.shows_instead.get(tokens, tokens)
            running = None if server.behaviour.running_unknown else server.running()
            tokens_so_far = 100.0 * now.monotonic() if running else 0.0
            counts = Counts(
                speculation=SpeculationCounts(0, 0, 0) if shown else None,
                traffic=TrafficCounts(generation_tokens=tokens_so_far),
            )
            running = 0.0 if server.behaviour.page_lags else running
            engine = EngineReading(
                model="tiny", engine="0", counts=counts, gauges=Gauges(running=running, waiting=0.0),
                num_speculative_tokens=shown or None,
            )  # fmt: skip
            engines = (engine,)
            verdict = Verdict.OK if shown else Verdict.NOT_SPEC_DECODE
        return Reading(
            server=server.name, scraped_at=now.now(), monotonic=now.monotonic(), dialect="vllm-v1", verdict=verdict,
            reason="fake", engines=engines,
        )  # fmt: skip


class FakeBalancer:
    """Keeps traffic from a `FakeServer`; `fails` makes the next so many calls fail."""

    def __init__(self, server: FakeServer, *, has_control: bool = True) -> None:
        self.server = server
        self.has_control = has_control
        self.fails_out = 0
        self.fails_back = 0
        self.told: list[str] = []
        #: Whether the balancer is known to have heard of it.
        self.knows = True

    def take_out(self) -> None:
        self.told.append("out")
        if self.fails_out > 0:
            self.fails_out -= 1
            raise ActionError("the balancer says no", reason="hook", retryable=True)
        if self.has_control:
            self.server.traffic_allowed = False

    def is_out(self) -> bool:
        return self.knows

    def put_back(self) -> None:
        self.told.append("back")
        if self.fails_back > 0:
            self.fails_back -= 1
            raise ActionError("the balancer says no", reason="hook", retryable=True)
        self.server.traffic_allowed = True
