"""A small fleet for tests of the action machine: simulated servers, a store in memory, a daemon that can die."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from monitor.actions.events import EventKind, RolloutEvent
from monitor.actions.executor import Executor
from monitor.actions.fleet import Fleet, Managed
from monitor.actions.inspection import Inspector, NoInspector
from monitor.actions.judge import Judgement, Verdict
from monitor.actions.orders import Orders
from monitor.actions.step import Timing
from monitor.model.decision import Action, Decision, DecisionId, DecisionState, Precondition, Reason
from monitor.model.life import Setting
from monitor.model.record import EVERYTHING, AuditEntry, Pause
from monitor.model.rollout import Change, Measured, Outcome, Rollout, RolloutId
from monitor.model.server import ActionLimits, Group, GroupName, Mode, Server
from monitor.store.api import Store, Unit
from tests.fakes.fake_clock import FakeClock
from tests.fakes.fake_server import Behaviour, FakeBalancer, FakeDriver, FakeProbe, FakeServer
from tests.fakes.memory_store import MemoryStore
from tests.fakes.mortal import MortalBalancer, MortalDriver, MortalStore

GROUP = GroupName("g")
_SINK = "sunk events"
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
LIMITS = ActionLimits(
    allow_off=True, allow_downtime=True, changes_per_day=5, cooldown_seconds=0, drain_seconds=60, stop_seconds=30,
    start_seconds=300, first_start_seconds=100, warmup_seconds=60, observe_seconds=300, restarts_per_day=6,
)  # fmt: skip


def sink(unit: Unit, event: RolloutEvent) -> None:
    """Store an event where tests find it again."""
    unit.audit.add(AuditEntry(event.at, "sink", event.kind, _SINK, event.sentence))


def tokens(number: int | None) -> Setting:
    """A setting of the simulated servers."""
    return Setting(method="ngram", num_speculative_tokens=number)


def measured(gain: float) -> Measured:
    """A measured gain of that ratio, with an interval of two points around it."""
    return Measured(
        gain=gain, gain_low=gain - 0.02, gain_high=gain + 0.02, method="test", minutes=5.0, sentence=f"{gain:+.0%}"
    )


@dataclass
class FakeJudge:
    """Says what it is told, by server, from `after_seconds` of observation on; watches until then."""

    says: dict[str, Judgement] = field(default_factory=dict)
    default: Judgement = field(
        default_factory=lambda: Judgement(Verdict.PROMOTE, "8 % more", measured(0.08), Outcome.MEASURED_BETTER)
    )
    after_seconds: float = 120.0
    breaks: bool = False

    def judge(self, change: Change, now: datetime) -> Judgement:
        if self.breaks:
            raise ZeroDivisionError("a bug in the judge")
        if now < change.entered_at + timedelta(seconds=self.after_seconds):
            return Judgement(Verdict.WATCH, "too early", measured(0.01))
        return self.says.get(change.server, self.default)


WORSE = Judgement(Verdict.ROLL_BACK, "12 % less", measured(-0.12), Outcome.MEASURED_WORSE)


class FakeGate:
    """Refuses as long as it has a reason."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def refusal(self, group: Group, change: Change, now: datetime) -> str | None:
        return self.reason


class World:
    """Servers `s1`, `s2` …, all of one group and running with two tokens."""

    def __init__(
        self,
        servers: int = 1,
        *,
        limits: ActionLimits = LIMITS,
        timing: Timing | None = None,
        has_control: bool = True,
        store: Store | None = None,
        acts: bool = True,
    ) -> None:
        self.clock = FakeClock()
        self.store: Store = store or MemoryStore()
        self.timing = timing or Timing()
        self.servers = [FakeServer(self.clock, f"s{n + 1}", Behaviour()) for n in range(servers)]
        for server in self.servers:
            server.boot()
        self.drivers = [FakeDriver(server, acts=acts) for server in self.servers]
        self.balancers = [FakeBalancer(server, has_control=has_control) for server in self.servers]
        self.inspectors: dict[str, Inspector] = {}
        self.judge = FakeJudge()
        self.gate = FakeGate()
        self.limits = limits
        #: Called before and after whatever the daemon stores or does; raises where the daemon dies.
        self.reap: Callable[[str], None] = lambda _: None
        self.events: list[RolloutEvent] = []
        self.ids = 0
        self.new_daemon()

    @property
    def server(self) -> FakeServer:
        return self.servers[0]

    @property
    def group(self) -> Group:
        return Group(
            name=GROUP, servers=tuple(s.name for s in self.servers), mode=Mode.AUTO, limits=self.limits
        )

    def new_daemon(self, holder: str = "host-1") -> None:
        """The daemon starts (again): nothing of the last one is left but store and servers."""
        managed = {
            server.name: Managed(
                Server(
                    name=server.name, group=GROUP, base_url="http://127.0.0.1:1", metrics_url="http://127.0.0.1:1/metrics",
                    managed=True,
                ),
                MortalDriver(driver, self._reap) if driver.acts else driver,
                FakeProbe(server),
                MortalBalancer(balancer, self._reap),
                self.inspectors.get(server.name, NoInspector()),
            )
            for server, driver, balancer in zip(self.servers, self.drivers, self.balancers, strict=True)
        }  # fmt: skip
        self.fleet = Fleet(groups={GROUP: self.group}, managed=managed)
        self.executor = Executor(
            MortalStore(self.store, self._reap), self.clock,  # type: ignore[arg-type]
            self.fleet, self.judge, holder=holder, gate=self.gate, timing=self.timing,
            on_event=sink,
        )  # fmt: skip
        self.orders = Orders(
            self.store, self.fleet, holder=holder, timing=self.timing,
            on_event=sink, make_id=self._id,
        )  # fmt: skip

    def _reap(self, moment: str) -> None:
        self.reap(moment)

    def _id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"

    def decision(
        self,
        to: int,
        *,
        current: int = 2,
        servers: Sequence[FakeServer] | None = None,
        lives_for: float = 3600.0,
        action: Action = Action.RAISE,
    ) -> Decision:
        now = self.clock.now()
        return Decision(
            id=DecisionId(self._id("d")), group=GROUP, servers=tuple(s.name for s in servers or self.servers),
            rule="raise-tokens", action=action, reason=Reason.PREDICTED_GAIN, sentence=f"{current} -> {to}",
            current=tokens(current), proposed=tokens(to), precondition=Precondition({}, tokens(current)), made_at=now,
            expires_at=now + timedelta(seconds=lives_for), state=DecisionState.APPROVED, evidence={"batch": 4.0},
        )  # fmt: skip

    def begin(self, to: int, **more: object) -> Rollout:
        operator = bool(more.pop("by_operator", False))
        rollout, events = self.orders.begin(
            self.decision(to, **more),  # type: ignore[arg-type]
            "test", self.clock.now(), by_operator=operator,
        )  # fmt: skip
        self.events += events
        return rollout

    def tick(self) -> list[RolloutEvent]:
        events = self.executor.tick(self.clock.now())
        self.events += events
        return events

    def run(self, seconds: float = 7200.0, until: Callable[[], bool] | None = None, step: float = 1.0) -> bool:
        """Tick every `step` seconds; True as soon as `until` holds (by default: no rollout is active)."""
        done = until or self.is_quiet
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.tick()
            if done():
                return True
            self.clock.advance(step)
        return False

    def is_quiet(self) -> bool:
        with self.store.read() as unit:
            return not unit.rollouts.active()

    def until_state(self, state: str, server: int = 0) -> bool:
        """Run until the newest change of a server is in `state`."""
        return self.run(until=lambda: self.change(server).state == state)

    def rollout(self, rollout: RolloutId | None = None) -> Rollout:
        with self.store.read() as unit:
            found = unit.rollouts.get(rollout) if rollout else unit.rollouts.since(None, _LONG_AGO)[-1]
        assert found is not None
        return found

    def changes(self) -> list[Change]:
        with self.store.read() as unit:
            return unit.changes.of_rollout(self.rollout().id)

    def change(self, server: int = 0) -> Change:
        return [c for c in self.changes() if c.server == self.servers[server].name][-1]

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    def sunk(self) -> list[tuple[EventKind, str]]:
        """Events as the sink stored them, in the transactions they belong to."""
        return [(EventKind(entry.what), entry.sentence) for entry in self.audit(_SINK)]

    def pages(self) -> list[RolloutEvent]:
        return [event for event in self.events if event.kind.is_page]

    def audit(self, subject: str) -> list[AuditEntry]:
        with self.store.read() as unit:
            return unit.audit.of(subject)

    def pause(self, scope: str = EVERYTHING) -> None:
        with self.store.write() as unit:
            unit.pauses.set(Pause(scope, "ann", "incident", self.clock.now()))

    def lift(self, scope: str = EVERYTHING) -> None:
        with self.store.write() as unit:
            unit.pauses.clear(scope)

    def with_limits(self, **changes: object) -> None:
        """Change the group's limits, as a reload does."""
        self.limits = replace(self.limits, **changes)  # type: ignore[arg-type]
        self.new_daemon()
