"""Small parts of the daemon: what endpoints show, the outbox as threads see it, evidence, the supervisor, receivers."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from monitor.app.evidence import gather, process_states
from monitor.app.heart import Heart
from monitor.app.inspecting import draft_of
from monitor.app.outbox import StoreOutbox
from monitor.app.parts import environ_for_servers
from monitor.app.receivers import make_receivers, make_router
from monitor.app.supervisor import Supervisor
from monitor.app.view import DaemonView
from monitor.config.model import Config
from monitor.drivers.launcher import CommandLauncher
from monitor.errors import ActionError, LaunchError, StoreError
from monitor.model.alert import Severity
from monitor.model.notice import DeliveryState, Notice, NoticeId, NoticeKind
from monitor.model.server import Engine, Group, GroupName, Server, ServerName
from monitor.notify.receiver import Root
from monitor.targets.drafts import DraftFacts
from monitor.telemetry import Telemetry
from tests.fakes.fake_clock import FakeClock
from tests.fakes.fake_world import World
from tests.fakes.memory_store import MemoryStore

A = Server(name=ServerName("a"), group=GroupName("g"), base_url="http://10.0.0.1:1", metrics_url="http://10.0.0.1:1/m")


class TestView:
    @pytest.fixture(autouse=True)
    def _heard(self) -> None:
        self.refused: list[ServerName] = []

    def view(self, store: MemoryStore, clock: FakeClock, tried: bool = True) -> tuple[DaemonView, Heart]:
        heart = Heart(clock, 120.0)
        group = Group(name=GroupName("g"), servers=(A.name,))
        return DaemonView(
            store, Telemetry(), [group], [A], clock, heart, tried_all=lambda: tried,
            report_file=lambda key, ending: None, live_report=lambda: "<html>", refused=self.refused.append,
        ), heart  # fmt: skip

    def test_it_is_unhealthy_when_the_loop_stands_still_or_the_store_is_away(self) -> None:
        store, clock = MemoryStore(), FakeClock()
        view, heart = self.view(store, clock)
        assert view.unhealthy() is None
        clock.advance(121)
        assert view.unhealthy() == "the loop has not finished a turn for 121 s"
        heart.beat()
        assert view.unhealthy() is None
        store.away = StoreError("disk full")
        assert view.unhealthy() == "the store cannot be read: disk full"

    def test_it_is_ready_once_every_server_was_asked(self) -> None:
        store, clock = MemoryStore(), FakeClock()
        assert self.view(store, clock, tried=False)[0].unready() is not None
        assert self.view(store, clock)[0].unready() is None

    def test_a_server_it_does_not_know_is_neither_serving_nor_not(self) -> None:
        view, _ = self.view(MemoryStore(), FakeClock())
        assert (view.serving("a"), view.serving("b")) == (True, None)

    def test_a_balancer_that_was_told_to_send_nothing_is_remembered_to_know(self) -> None:
        """Given a change that holds the server away, each answer of 503 is counted and no other is."""
        world = World()
        view = DaemonView(
            world.store, Telemetry(), [world.group], [replace(A, name=world.server.name)], world.clock,
            Heart(world.clock, 120.0), tried_all=lambda: True, report_file=lambda key: None,
            live_report=lambda: "", refused=self.refused.append,
        )  # fmt: skip
        assert view.serving("s1") is True
        world.begin(3)
        world.until_state("draining")
        assert [view.serving("s1"), view.serving("s1"), view.serving("b")] == [False, False, None]
        assert world.run()
        assert view.serving("s1") is True
        assert self.refused == ["s1", "s1"]

    def test_everything_at_a_glance(self) -> None:
        view, _ = self.view(MemoryStore(), FakeClock())
        seen = view.overview()
        assert [server["name"] for server in seen["groups"][0]["servers"]] == ["a"]


class TestOutbox:
    def notice(self, name: str) -> Notice:
        return Notice(
            id=NoticeId(name), kind=NoticeKind.ALERT_FIRING, dedupe_key=name, thread="t", severity=Severity.PAGE,
            title="x", text="x", created_at=FakeClock().now(),
        )  # fmt: skip

    def test_what_a_receiver_refuses_for_good_goes_to_the_console_and_no_further(self) -> None:
        store, clock, woken = MemoryStore(), FakeClock(), []
        outbox = StoreOutbox(store, clock, lambda: woken.append(1), fallback="console")
        notice = self.notice("n")
        with store.write() as unit:
            unit.outbox.queue(notice, ["slack"], clock.now())
        outbox.fall_back(notice, "slack")
        assert [found.id for found, _ in outbox.due("console", 10)] == ["n"]
        outbox.fall_back(notice, "console")
        outbox.fall_back(notice, "slack")
        assert len(outbox.due("console", 10)) == 1
        assert woken

    def test_another_receiver_may_take_over_and_the_console_takes_what_that_refuses(self) -> None:
        store, clock = MemoryStore(), FakeClock()
        outbox = StoreOutbox(store, clock, lambda: None, fallback="pager")
        notice = self.notice("n")
        with store.write() as unit:
            unit.outbox.queue(notice, ["slack"], clock.now())
        outbox.fall_back(notice, "slack")
        assert [len(outbox.due(name, 10)) for name in ("pager", "console")] == [1, 0]
        outbox.fall_back(notice, "pager")
        assert [len(outbox.due(name, 10)) for name in ("pager", "console")] == [1, 1]

    def test_what_waits_for_a_receiver_that_is_gone_is_taken_over_once(self) -> None:
        store, clock = MemoryStore(), FakeClock()
        outbox = StoreOutbox(store, clock, lambda: None, fallback="console")
        with store.write() as unit:
            unit.outbox.queue(self.notice("n"), ["pager", "slack"], clock.now())
        assert outbox.take_over(["slack", "console"]) == 1
        assert outbox.take_over(["slack", "console"]) == 0
        assert [len(outbox.due(name, 10)) for name in ("pager", "slack", "console")] == [0, 1, 1]

    def test_a_thread_has_its_first_message_once_that_has_a_name(self) -> None:
        store, clock = MemoryStore(), FakeClock()
        outbox = StoreOutbox(store, clock, lambda: None, fallback="console")
        with store.write() as unit:
            unit.outbox.queue(self.notice("n"), ["slack"], clock.now())
        assert outbox.root_of("t", "slack") is None
        ((_, delivery),) = outbox.due("slack", 10)
        sent = type(delivery)(
            notice=delivery.notice, receiver="slack", state=DeliveryState.SENT, next_attempt_at=clock.now(),
            external_id="C1:17.5", sent_at=clock.now() + timedelta(seconds=1),
        )  # fmt: skip
        outbox.update(sent)
        root = outbox.root_of("t", "slack")
        assert root is not None and root.external_id == "C1:17.5"
        assert outbox.due("slack", 10) == []

    def test_posts_that_say_that_something_fires_are_open_until_its_end(self) -> None:
        store, clock = MemoryStore(), FakeClock()
        outbox = StoreOutbox(store, clock, lambda: None, fallback="console")
        firing, repeat, resolved = NoticeKind.ALERT_FIRING, NoticeKind.ALERT_REPEAT, NoticeKind.ALERT_RESOLVED
        story = (
            ("first", firing, False, ("first",)),
            ("more", firing, False, ("first", "more")),
            # What only got better is an edit of those.
            ("better", firing, True, ("first", "more")),
            ("again", repeat, False, ("first", "more", "again")),
            ("over", resolved, True, ()),
            ("back", firing, False, ("back",)),
        )
        for name, kind, edits, expected in story:
            said = replace(self.notice(name), kind=kind, edits_root=edits)
            with store.write() as unit:
                unit.outbox.queue(said, ["slack"], clock.now())
            ((_, delivery),) = outbox.due("slack", 10)
            clock.advance(1)
            outbox.update(replace(delivery, state=DeliveryState.SENT, sent_at=clock.now(), external_id=name))
            assert outbox.root_of("t", "slack") == Root("first", expected)


class Driver:
    def __init__(self, pid: int | None = None, error: ActionError | None = None) -> None:
        self.pid, self.error = pid, error

    def status(self) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(pid=self.pid, describe=lambda: f"runs as pid {self.pid}")

    def log_tail(self, lines: int) -> str:
        return "the end of its log"


class TestEvidence:
    def test_page_log_and_states_of_everything_in_its_session(self) -> None:
        managed: Any = SimpleNamespace(driver=Driver(os.getpid()))
        parts = gather(A, b"vllm:x 1\n\xff", managed)
        assert parts["page"] == "vllm:x 1\n\ufffd"
        assert parts["log"] == "the end of its log"
        assert parts["process"] == f"runs as pid {os.getpid()}"
        (line,) = [line for line in parts["process state"].splitlines() if line.startswith(f"{os.getpid()} ")]
        assert "state R" in line or "state S" in line

    def test_a_part_that_cannot_be_had_says_why(self) -> None:
        managed: Any = SimpleNamespace(driver=Driver(error=ActionError("its state file cannot be read")))
        assert gather(A, b"", managed) == {"page": "", "process": "its state file cannot be read"}

    def test_a_watched_server_has_its_page_alone(self) -> None:
        assert gather(A, b"x" * 300_000, None) == {"page": "x" * 200_000}

    def test_a_process_that_is_gone(self, tmp_path: Path) -> None:
        assert process_states(42, tmp_path) == "process 42 cannot be looked at"

    def test_names_may_hold_anything(self, tmp_path: Path) -> None:
        for pid, name, session in ((42, "a) b (c", 42), (43, "VLLM::EngineCore", 42), (44, "other", 44)):
            folder = tmp_path / str(pid)
            folder.mkdir()
            (folder / "stat").write_text(f"{pid} ({name}) T 1 {session} {session} 0 -1")
            (folder / "comm").write_text(f"{name}\n")
        (tmp_path / "45").mkdir()
        (tmp_path / "self").mkdir()
        assert process_states(42, tmp_path).splitlines() == [
            "42 a) b (c: state T, parent 1", "43 VLLM::EngineCore: state T, parent 1"
        ]  # fmt: skip


class TestSupervisor:
    def test_states_go_to_its_socket(self, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind(str(tmp_path / "notify"))
            channel.settimeout(10)
            supervisor = Supervisor({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000000"})
            supervisor.ready("3 servers")
            supervisor.alive("fine")
            supervisor.stopping()
            said = [channel.recv(200).decode() for _ in range(3)]
        assert said == [
            "READY=1\nSTATUS=3 servers", "WATCHDOG=1\nSTATUS=fine", "STOPPING=1"
        ]  # fmt: skip
        assert supervisor.watchdog_seconds == 30.0

    def test_an_abstract_socket_is_one_too(self) -> None:
        name = f"acceptd-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind(f"\0{name}")
            channel.settimeout(10)
            Supervisor({"NOTIFY_SOCKET": f"@{name}"}).stopping()
            assert channel.recv(200) == b"STOPPING=1"

    @pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/no/such/socket"}])
    def test_without_one_nothing_happens(self, environ: dict[str, str]) -> None:
        supervisor = Supervisor(environ)
        supervisor.ready("x")
        assert supervisor.watchdog_seconds is None

    def test_a_watchdog_of_another_process_is_not_ours(self) -> None:
        assert Supervisor({"WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}).watchdog_seconds is None


class TestReceivers:
    def names(self, **slack: object) -> list[str]:
        config = Config.model_validate({"slack": slack} if slack else {})
        return [receiver.name for receiver in make_receivers(config, make_router(config), FakeClock())]

    def test_slack_goes_before_the_console_and_the_console_is_always_there(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("xoxb-1\n")
        assert self.names() == ["console"]
        assert self.names(bot_token="xoxb-1", channel="#oncall") == ["slack", "console"]
        assert self.names(bot_token_file=str(tmp_path / "token"), channel="#oncall") == ["slack", "console"]
        assert self.names(webhook_url="https://hooks.slack.com/services/T/B/x")[-1] == "console"


def test_servers_do_not_see_the_settings_of_the_daemon() -> None:
    found = environ_for_servers({"PATH": "/bin", "ACCEPTD_SLACK__BOT_TOKEN": "xoxb-1", "VLLM_API_KEY": "k"})
    assert found == {"PATH": "/bin", "VLLM_API_KEY": "k"}


def test_what_the_files_of_a_draft_say_is_looked_at_anew_after_a_while(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    draft.mkdir()
    speculation = json.dumps({"method": "dflash", "model": str(draft), "num_speculative_tokens": 3})
    line = ["vllm", "serve", "org/Target", "--speculative-config", speculation]
    clock = FakeClock()
    ask = draft_of(CommandLauncher(Engine.VLLM, line, version=lambda: None), {}, clock)
    assert ask().trained_depth is None
    (draft / "config.json").write_text('{"block_size": 16}')
    clock.advance(899.0)
    assert ask().trained_depth is None
    clock.advance(2.0)
    assert ask().trained_depth == 15


def test_a_command_that_cannot_be_read_says_nothing_of_its_draft() -> None:
    class Unreadable:
        @property
        def parsed(self) -> object:
            raise LaunchError("no such unit")

    assert draft_of(Unreadable(), {}, FakeClock())() == DraftFacts()  # type: ignore[arg-type]
