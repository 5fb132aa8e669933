"""Whatever happens around it, the action machine ends, leaves servers serving, keeps its budget and heeds pauses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monitor.actions.judge import Judgement, Verdict
from monitor.actions.records import AWAY
from monitor.errors import ActionError
from monitor.model.decision import Reason
from monitor.model.maintenance import Window
from monitor.model.rollout import ChangeState, Outcome, RolloutState
from tests.fakes.fake_launcher import FakeLauncher
from tests.fakes.fake_server import FakeServer
from tests.fakes.fake_world import GROUP, LIMITS, WORSE, World
from tests.fakes.mortal import Died

WATCH = Judgement(Verdict.WATCH, "", None)

#: Ends after which a person must act: the server may be down then.
GIVEN_UP = (Outcome.UNDO_FAILED, Outcome.STOP_FAILED)

faults = st.sampled_from(
    [
        ("crashes_at", frozenset({3})), ("crashes_at", frozenset({2})), ("crashes_at", frozenset()),
        ("failing_starts", 1), ("failing_starts", 3), ("never_ready_at", frozenset({3})),
        ("never_ready_at", frozenset()), ("mute_at", frozenset({3})), ("mute_at", frozenset()),
        ("dies_at", {3: 5.0}), ("dies_at", {3: 90.0}), ("dies_at", {}), ("shows_instead", {3: 2}),
        ("shows_instead", {}), ("ignores_term", True), ("ignores_term", False), ("orphans", True), ("orphans", False),
        ("page_broken", True), ("page_broken", False), ("running_unknown", True), ("running_unknown", False),
        ("health_broken", True), ("health_broken", False), ("drain_seconds", 500.0), ("drain_seconds", 5.0),
        ("start_seconds", 250.0), ("start_seconds", 10.0), ("unauthorized", True), ("unauthorized", False),
        ("crash_log", "Connection reset by peer"), ("crash_log", "CUDA out of memory"),
    ]
)  # fmt: skip

operations = st.one_of(
    st.tuples(st.just("fault"), st.integers(0, 1), faults),
    st.tuples(st.just("die"), st.integers(0, 12)),
    st.tuples(st.just("jump"), st.sampled_from([-7200, -60, 60, 3600])),
    st.tuples(st.just("pause"), st.sampled_from(["*", "group:g", "server:s1"])),
    st.tuples(st.just("lift"), st.sampled_from(["*", "group:g", "server:s1"])),
    st.tuples(st.just("begin"), st.sampled_from([0, 3, 3, 3])),
    st.tuples(st.just("roll back")),
    st.tuples(st.just("restart"), st.integers(0, 1)),
    st.tuples(st.just("crash"), st.integers(0, 1)),
    st.tuples(st.just("by hand"), st.integers(0, 1), st.sampled_from([2, 5])),
    st.tuples(st.just("gate"), st.booleans()),
    st.tuples(st.just("judge"), st.sampled_from(["better", "worse", "watch", "breaks"])),
    st.tuples(st.just("balancer"), st.integers(0, 1), st.sampled_from([0, 1, 7])),
    st.tuples(st.just("clients"), st.booleans()),
    st.tuples(st.just("driver"), st.integers(0, 1), st.sampled_from(["start", "stop", "status"]),
              st.sampled_from([1, 5, 90])),
    st.tuples(st.just("window"), st.sampled_from([-1, 30, None])),
    st.tuples(st.just("heard"), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("grace"), st.integers(0, 1), st.sampled_from([0.0, 600.0])),
)
#: Something happens, then time passes: a few seconds or long enough for a start.
steps = st.lists(st.tuples(operations, st.sampled_from([0, 1, 4, 12, 40, 100])), min_size=2, max_size=20)


class Play:
    """One random history, watched all the time."""

    def __init__(self, servers: int, has_control: bool) -> None:
        self.world = World(servers, limits=replace(LIMITS, changes_per_day=50), has_control=has_control)
        self.fatal: int | None = None
        #: Down by no doing of ours: by another hand, or by themselves while nothing of theirs was under way.
        self.by_hand: set[str] = set()
        self.falls: Counter[str] = Counter()
        self.world.reap = self._reap
        for server in self.world.servers:
            if not has_control:
                # Its clients leave gaps: a drain ends, and a stop at another moment cuts requests.
                server.quiet = lambda now: now % 60 < 20
            server.on_stop = lambda server=server: self._stopped(server)

    def _reap(self, moment: str) -> None:
        if self.fatal is None:
            return
        self.fatal -= 1
        if self.fatal < 0:
            self.fatal = None
            raise Died(moment)

    def _stopped(self, server: FakeServer) -> None:
        with self.world.store.read() as unit:
            scopes = {pause.scope for pause in unit.pauses.active(self.world.clock.now())}
        covered = scopes & {"*", "group:g", f"server:{server.name}"}
        assert not (covered and server.serves and not server.behaviour.health_broken), f"stopped while paused {covered}"

    def tick(self) -> None:
        try:
            self.world.tick()
        except Died:
            self.world.new_daemon()
        self._watch()

    def _note_falls(self) -> None:
        with self.world.store.read() as unit:
            ours = {change.server for change in unit.changes.active() if change.state is not ChangeState.PLANNED}
        for server in self.world.servers:
            server.settle()
            if server.fell > self.falls[server.name] and server.name not in ours:
                self.by_hand.add(server.name)
            self.falls[server.name] = server.fell

    def _watch(self) -> None:
        self._note_falls()
        with self.world.store.read() as unit:
            active = unit.rollouts.active()
            away = [c for c in unit.changes.active() if c.state in AWAY]
        assert len(active) <= 1
        assert len(away) <= 1, away
        for server in self.world.servers:
            assert server.cut_requests == 0
            assert len(server.starts) <= LIMITS.restarts_per_day

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.tick()
            self.world.clock.advance(3)

    def do(self, step: tuple[object, ...]) -> None:
        world, what = self.world, step[0]
        server = world.servers[step[1] % len(world.servers)] if len(step) > 1 and isinstance(step[1], int) else None
        now = world.clock.now()
        try:
            if what == "fault" and server is not None:
                name, value = step[2]  # type: ignore[misc]
                if (name, value) == ("health_broken", False):
                    self._let_stop(world.servers.index(server))
                setattr(server.behaviour, name, value)
            elif what == "die":
                self.fatal = int(str(step[1]))
            elif what == "jump":
                world.clock.jump(float(str(step[1])))
            elif what == "pause":
                world.pause(str(step[1]))
            elif what == "lift":
                world.lift(str(step[1]))
            elif what == "begin":
                current = world.server.tokens
                if current is not None and current != step[1]:
                    world.begin(int(str(step[1])), current=current, by_operator=True)
            elif what == "roll back":
                world.orders.roll_back(GROUP, "ann", now)
            elif what == "restart" and server is not None:
                world.orders.restart(server.name, "x", now, requested_by="a", reason=Reason.REQUESTED_BY_OPERATOR)
            elif what == "crash" and server is not None:
                server.crash()
                self.by_hand.add(server.name)
            elif what == "by hand" and server is not None:
                server.restart_by_hand(int(str(step[2])))
                self.by_hand.add(server.name)
            elif what == "gate":
                world.gate.reason = "an objective burns" if step[1] else None
            elif what == "judge":
                world.judge.breaks = step[1] == "breaks"
                world.judge.says = {
                    s.name: {"worse": WORSE, "watch": WATCH}.get(str(step[1]), world.judge.default)
                    for s in world.servers
                }
            elif what == "balancer" and server is not None:
                world.balancers[int(str(step[1])) % len(world.servers)].fails_back = int(str(step[2]))
            elif what == "driver":
                calls, number = world.drivers[int(str(step[1])) % len(world.servers)].failures, int(str(step[3]))
                calls[str(step[2])] = [ActionError("no", reason="bus", retryable=True) for _ in range(number)]
            elif what == "window":
                world.with_limits(maintenance=() if step[1] is None else (self._window(int(str(step[1]))),))
            elif what == "heard":
                world.balancers[int(str(step[1])) % len(world.servers)].knows = bool(step[2])
            elif what == "grace" and server is not None:
                server.behaviour.grace_seconds = float(str(step[2]))
                server.launcher = FakeLauncher((*server.launcher.base[:5], "--shutdown-timeout", str(step[2])))
            elif what == "clients" and isinstance(step[1], bool):
                for each in world.servers:
                    each.clients = step[1]
        except ActionError:
            pass  # refused, with a reason: also an answer
        self._watch()

    def _let_stop(self, number: int) -> None:
        """A server that was found broken is stopped: that it recovers while stopping it fails is one fault too many."""
        if self.world.drivers[number].failures.pop("stop", None):
            self.run(5)

    def _window(self, minutes: int) -> Window:
        """An hour a day that opens so many minutes from now."""
        at = self.world.clock.now() + timedelta(minutes=minutes)
        return Window(f"{at.minute} {at.hour} * * *", 3600.0)

    def heal(self) -> None:
        """The faults end; what is under way must end too."""
        for number in range(len(self.world.servers)):
            self._let_stop(number)
        for server in self.world.servers:
            # What its command line promises it goes on doing.
            grace = server.behaviour.grace_seconds
            server.behaviour = type(server.behaviour)(drain_seconds=5.0, grace_seconds=grace)
            server.clients = True
        for balancer in self.world.balancers:
            balancer.fails_out = balancer.fails_back = 0
            balancer.knows = True
        for driver in self.world.drivers:
            driver.failures.clear()
        self.world.with_limits(maintenance=())
        for scope in ("*", "group:g", "server:s1"):
            self.world.lift(scope)
        self.world.gate.reason = None
        for _ in range(12_000):
            self.tick()
            if self.world.is_quiet():
                return
            self.world.clock.advance(5)
        raise AssertionError(f"no end: {self.world.rollout()} {self.world.changes()}")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    first=st.lists(st.tuples(st.just("fault"), st.integers(0, 1), faults), max_size=3),
    steps=steps,
    servers=st.integers(1, 2),
    has_control=st.sampled_from([True, True, False]),
)
@example(
    first=[("fault", 0, ("shows_instead", {3: 2}))],
    steps=[(("die", 0), 12), (("pause", "*"), 12)],
    servers=1,
    has_control=True,
)
def test_every_history_ends_well(
    first: list[tuple[object, ...]], steps: list[tuple[tuple[object, ...], int]], servers: int, has_control: bool
) -> None:
    play = Play(servers, has_control)
    for fault in first:
        play.do(fault)
    play.do(("begin", 3))
    for step, ticks in steps:
        play.do(step)
        play.run(ticks)
    play.heal()
    world = play.world
    with world.store.read() as unit:
        assert unit.changes.active() == []
        ends = unit.rollouts.since(None, world.rollout().created_at.replace(year=2000))
        outcomes = {c.outcome for r in ends for c in unit.changes.of_rollout(r.id)}
    assert all(r.state is not RolloutState.ACTIVE and r.finished_at is not None for r in ends)
    paged = {kind for kind, _ in world.sunk() if kind.is_page}
    for server in world.servers:
        if not server.serves:
            # Down: only by another hand, or given up after all tries, and then someone was told.
            assert server.name in play.by_hand or (outcomes & set(GIVEN_UP) and paged)
        if not server.traffic_allowed:
            assert paged, "traffic is held away and nobody knows"
