"""kill -9 of the daemon in the middle of things: the next one finishes or undoes them, and no count is lost."""

from __future__ import annotations

from collections.abc import Callable

from tests.acceptance.daemon import Daemon, Simulated
from tests.fakes.slack_server import CHANNEL

BUSY = "closed:clients=16,prompt=64,output=200"
Counted = tuple[float | None, float | None, tuple[float, ...] | None, float | None]
STEPS = ("draining", "restarting", "warming", "observing")
FINAL = ("promoted", "rolled_back", "abandoned")


def test_a_change_ends_and_the_server_serves_though_the_daemon_is_killed_at_every_step(
    make_daemon: Callable[..., Daemon],
) -> None:
    server = Simulated("chat", tokens=1, load=BUSY, more=("--sim-start-seconds", "2"))
    daemon = make_daemon(server, limits={"drain_limit": "3s", "warmup": "3s", "observe": "8s"})
    # By its id a channel can be searched from the first message on, by its name once something has been posted.
    daemon.settings["slack"]["channel"] = CHANNEL
    daemon.write()
    daemon.start()
    for number, state in enumerate(STEPS):
        # A machine that is slow may be past a step by the time it is looked at.
        daemon.wait(lambda number=number: daemon.change_in(server, *STEPS[number:], *FINAL), state)  # type: ignore[misc]
        daemon.kill()
        daemon.start()
    change = daemon.wait(lambda: daemon.change_in(server, *FINAL), "the change ends")
    daemon.wait(server.generates, "the server serves")
    # What it serves with is what the records say.
    expected = change.proposed if change.state.value == "promoted" else change.current
    daemon.wait(lambda: server.tokens() == expected.num_speculative_tokens, "the server has the setting of the records")
    daemon.wait(lambda: daemon.told("rollout finished") or None, "the end is told")
    with daemon.store() as store, store.read() as unit:
        assert unit.rollouts.active() == []
    # One that was on its way when the daemon was killed is looked for in the channel, not said again.
    assert len(daemon.told("rollout finished")) == len(daemon.told("rollout started")) == 1
    assert daemon.told("someone must act") == []


def test_what_is_stored_equals_the_servers_own_counters_to_the_digit(make_daemon: Callable[..., Daemon]) -> None:
    server = Simulated("chat", tokens=3, load=BUSY)
    daemon = make_daemon(server, mode="observe")

    def stored() -> Counted | None:
        with daemon.store() as store, store.read() as unit:
            lives = unit.lives.open_of(server.name)  # type: ignore[arg-type]
            head = unit.heads.get(lives[0].id) if lives else None
        if head is None or head.counts.speculation is None or head.counts.traffic is None:
            return None
        counts = head.counts.speculation
        return (counts.num_drafts, counts.num_accepted_tokens, counts.accepted_per_pos,
                head.counts.traffic.generation_tokens)

    for _ in range(3):
        before = stored() if daemon.data_dir.is_dir() else None
        daemon.start()
        daemon.wait(lambda before=before: stored() != before or None, "pages are read")  # type: ignore[misc]
        daemon.kill()
    daemon.start()
    server.load("none")
    idle = daemon.wait(
        lambda: state if (state := server.state()) and not state["running"] and not state["waiting"] else None,
        "the server is idle",
    )
    expected: Counted = (
        float(idle["num_drafts"]), float(idle["num_accepted_tokens"]),
        tuple(map(float, idle["accepted_per_position"])), float(idle["generation_tokens"]),
    )  # fmt: skip
    daemon.wait(lambda: stored() == expected, "the newest head is what the server counts")
    with daemon.store() as store, store.read() as unit:
        (life,) = unit.lives.open_of(server.name)  # type: ignore[arg-type]
        totals = unit.intervals.totals(life.id)
    assert life.counts_from_zero
    assert (totals.num_drafts, totals.num_accepted_tokens, totals.generation_tokens) == (
        expected[0], expected[1], expected[3],
    )  # fmt: skip
