"""Commands that ask the daemon: they write a request, wait for its answer and change nothing themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.model.alert import Matcher, Silence, SilenceId
from monitor.model.decision import DecisionId
from monitor.model.life import LifeId
from monitor.model.record import Command, CommandKind, Evidence
from monitor.model.rollout import Change, ChangeId, ChangeState, Rollout, RolloutId, RolloutState
from tests.unit.cli.conftest import GROUP, SERVER, THREE, TWO, Folder, Run


@contextmanager
def answering(
    folder: Folder, outcome: str, work: Callable[[Command], None] = lambda command: None
) -> Iterator[list[Command]]:
    """A daemon that does `work` and answers every request with `outcome`; what it was asked."""
    asked: list[Command] = []
    over = threading.Event()

    def serve() -> None:
        store = folder.store()
        while not over.wait(0.05):
            with store.read() as unit:
                pending = unit.commands.pending()
            for command in pending:
                asked.append(command)
                work(command)
                with store.write() as unit:
                    unit.commands.finish(command.id, folder.now, outcome)
        store.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join()


REQUESTS = [("apply", "p-1", CommandKind.APPLY), ("reject", "d-1", CommandKind.REJECT),
            ("rollback", "chat", CommandKind.ROLLBACK)]


@pytest.mark.parametrize(("command", "subject", "kind"), REQUESTS)
class TestRequests:
    def test_it_is_asked_for_in_the_callers_name_and_the_answer_is_printed(
        self, acceptd: Run, daemon: Folder, command: str, subject: str, kind: CommandKind
    ) -> None:
        with answering(daemon, "started rollout r-1: [2] -> [3]") as asked:
            said = acceptd("--data-dir", daemon.path, command, subject)
        assert (said.code, said.out.strip()) == (0, "started rollout r-1: [2] -> [3]")
        (one,) = asked
        assert (one.kind, one.subject) == (kind, subject)
        assert one.author

    @pytest.mark.parametrize("outcome", ["refused (limits): too many", "failed: a bug"])
    def test_a_refusal_is_exit_code_1(
        self, acceptd: Run, daemon: Folder, command: str, subject: str, kind: CommandKind, outcome: str
    ) -> None:
        with answering(daemon, outcome):
            said = acceptd("--data-dir", daemon.path, command, subject, "--json")
        assert said.code == 1
        assert said.json() == {"id": said.json()["id"], "taken": False, "outcome": outcome}

    def test_without_a_daemon_nothing_is_asked(
        self, acceptd: Run, folder: Folder, command: str, subject: str, kind: CommandKind
    ) -> None:
        said = acceptd("--data-dir", folder.path, command, subject)
        assert (said.code, said.out) == (3, "")
        assert "no daemon runs on" in said.err and "acceptd run" in said.err
        with folder.store().read() as unit:
            assert unit.commands.pending() == []


class TestPlan:
    def test_it_shows_the_command_line_as_it_is(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "plan", "chat").out
        for words in ("chat: raise, ngram, 2 tokens -> ngram, 3 tokens", "- k 2", "+ k 3", "[some]",
                      "no daemon runs that could make it anew"):
            assert words in said
        assert "Do it with" not in said

    def test_a_daemon_makes_it_anew_and_only_then_it_can_be_applied(self, acceptd: Run, daemon: Folder) -> None:
        def plan(command: Command) -> None:
            store = daemon.store()
            with store.write() as unit:
                parts = {"plan": "p-12ab", "command line": "- k 2\n+ k 3", "checks": "ok: a: b\nFAILED: c: d"}
                unit.evidence.add(Evidence(f"plan:{command.id}", SERVER, daemon.now, "plan", parts))
            store.close()

        with answering(daemon, "plan p-12ab of d-1: can be applied now", plan) as asked:
            said = acceptd("--data-dir", daemon.path, "plan", "chat")
        assert (said.code, asked[0].kind, asked[0].subject) == (0, CommandKind.PLAN, "d-1")
        assert "Do it with: acceptd apply p-12ab" in said.out and "FAILED: c: d" in said.out
        with answering(daemon, "refused (stale): something newer"):
            said = acceptd("--data-dir", daemon.path, "plan", "chat", "--json")
        assert said.json()["plan"]["command line"] == "- k 2\n+ k 3"
        assert said.json()["plan_note"].endswith("not one made now: refused (stale): something newer")

    def test_a_decision_without_a_plan_says_why_there_is_none(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "plan", "d-0").out
        assert "no server of the group is managed" in said

    def test_the_advice_on_a_schedule_is_shown_beside_it_and_is_no_evidence_of_an_incident(
        self, acceptd: Run, folder: Folder
    ) -> None:
        base = ("--data-dir", folder.path)
        assert acceptd(*base, "plan", "chat", "--json").json()["schedule"] is None
        before = acceptd(*base, "evidence", "chat-1").out
        store = folder.store()
        with store.write() as unit:
            parts = {"schedule by batch size": "None is proposed. Why [7]."}
            unit.evidence.add(Evidence("schedule:chat:1", SERVER, folder.now, "schedule", parts))
        for command in ("plan", "why"):
            assert "Schedule by batch size: None is proposed. Why [7]." in acceptd(*base, command, "chat").out
            assert acceptd(*base, command, "chat", "--json").json()["schedule"] == "None is proposed. Why [7]."
        assert acceptd(*base, "evidence", "chat-1").out == before

    def test_an_unknown_one_is_refused(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "plan", "d-9")
        assert said.code == 3 and "no decision 'd-9'" in said.err


class TestPauses:
    def test_they_work_with_the_daemon_down(self, acceptd: Run, folder: Folder) -> None:
        base = ("--data-dir", folder.path)
        assert acceptd(*base, "pause", "chat", "--reason", "incident [7]", "--for", "4h").code == 0
        assert acceptd(*base, "pause").code == 0
        said = acceptd(*base, "status").out
        assert "incident [7]" in said and "Paused: *" in said
        assert acceptd(*base, "resume", "chat").out.startswith("Resumed: group:chat")
        assert acceptd(*base, "resume").code == 0
        assert "Paused" not in acceptd(*base, "status").out

    def test_a_pause_that_was_none_is_exit_code_1(self, acceptd: Run, folder: Folder) -> None:
        said = acceptd("--data-dir", folder.path, "resume", "chat-1", "--json")
        assert (said.code, said.json()) == (
            1, {"scope": "server:chat-1", "lifted": False, "released": []},
        )

    def test_a_server_that_somebody_changed_by_hand_is_released(self, acceptd: Run, folder: Folder) -> None:
        store = folder.store()
        with store.write() as unit:
            (life,) = unit.lives.open_of(SERVER)
            seven = replace(TWO, num_speculative_tokens=7)
            unit.lives.add(replace(life, id=LifeId("l2"), first_seen=folder.now, setting=seven))
        store.close()
        said = acceptd("--data-dir", folder.path, "resume", "chat", "--json")
        assert (said.code, said.json()["lifted"], said.json()["released"]) == (0, False, ["chat-1"])
        assert acceptd("--data-dir", folder.path, "resume", "chat").code == 1

    @pytest.mark.parametrize("command", ["pause", "resume"])
    def test_an_unknown_scope_is_told_the_known_ones(self, acceptd: Run, folder: Folder, command: str) -> None:
        said = acceptd("--data-dir", folder.path, command, "nope")
        assert said.code == 3
        assert "known: * (everything), chat, chat-1, chat-2" in said.err

    def test_a_time_that_is_none_is_refused(self, acceptd: Run, folder: Folder) -> None:
        for text in ("4", "0s", "-1h", "9999y"):
            said = acceptd("--data-dir", folder.path, "pause", "chat", f"--for={text}")
            assert said.code == 2 and said.err.startswith("--for")
        with folder.store().read() as unit:
            assert unit.pauses.active(folder.now) == []


class TestSilences:
    def test_matchers_are_stored_as_given(self, acceptd: Run, folder: Folder) -> None:
        matchers = ("server=chat-1", "alertname=~Accept.*|Draft.*", 'group!="x"', "severity!~info")
        said = acceptd("--data-dir", folder.path, "silence", *matchers, "--for", "1h", "--json")
        assert said.code == 0
        with folder.store().read() as unit:
            (one,) = unit.silences.all()
        assert one.id == said.json()["id"]
        assert [(m.label, m.operator, m.value) for m in one.matchers] == [
            ("server", "=", "chat-1"), ("alertname", "=~", "Accept.*|Draft.*"), ("group", "!=", "x"),
            ("severity", "!~", "info"),
        ]  # fmt: skip
        assert (one.ends_at - one.starts_at).total_seconds() == 3600

    @pytest.mark.parametrize(
        ("matcher", "words"),
        [("alertname=AcceptanceCliff", "It hides 1 that fire now."), ("sever=chat-1", "Nothing that fires now")],
    )
    def test_it_says_what_it_hides_so_that_a_slip_is_seen(
        self, acceptd: Run, folder: Folder, matcher: str, words: str
    ) -> None:
        assert words in acceptd("--data-dir", folder.path, "silence", matcher).out
        hidden = acceptd("--data-dir", folder.path, "silence", matcher, "--json").json()["firing"]
        assert hidden == (1 if "1" in words else 0)

    @pytest.mark.parametrize("matcher", ["server", "=x", "a=~[", "a!~(", ""])
    def test_a_wrong_matcher_is_refused_by_name(self, acceptd: Run, folder: Folder, matcher: str) -> None:
        said = acceptd("--data-dir", folder.path, "silence", matcher)
        assert said.code == 2
        assert said.err.startswith(f"matcher: found {matcher!r}, expected")


    def test_they_are_listed_with_what_they_hide_and_can_be_ended(self, acceptd: Run, folder: Folder) -> None:
        for matcher in ("alertname=AcceptanceCliff", "server=nobody"):
            assert acceptd("--data-dir", folder.path, "silence", matcher, "--reason", "racks").code == 0
        (first, second) = acceptd("--data-dir", folder.path, "silences", "--json").json()["silences"]
        assert (first["matchers"], first["active"], first["firing"]) == (["alertname=AcceptanceCliff"], True, 1)
        assert second["firing"] == 0
        shown = acceptd("--data-dir", folder.path, "silences").out
        assert first["id"] in shown and "racks" in shown
        said = acceptd("--data-dir", folder.path, "unsilence", first["id"])
        assert (said.code, said.out.strip()) == (0, f"Ended: silence {first['id']}")
        (over, _) = acceptd("--data-dir", folder.path, "silences", "--json").json()["silences"]
        assert over["id"] == first["id"] and not over["active"]
        again = acceptd("--data-dir", folder.path, "unsilence", first["id"])
        assert again.code == 3 and "is in force" in again.err
        with folder.store().read() as unit:
            assert [entry.what for entry in unit.audit.recent(3)] == ["silence.end", "silence", "silence"]

    def test_one_that_re2_refuses_is_listed_with_the_reason(self, acceptd: Run, folder: Folder) -> None:
        with folder.store().write() as unit:
            unit.silences.add(Silence(
                id=SilenceId("old"), matchers=(Matcher("server", "!~", "x(?!y)"),), author="ann", reason="racks",
                starts_at=folder.now, ends_at=folder.now + timedelta(hours=1),
            ))  # fmt: skip
        assert "Silence old hides nothing: server!~x(?!y): RE2 refuses" in acceptd(
            "--data-dir", folder.path, "silences").out
        (one,) = acceptd("--data-dir", folder.path, "silences", "--json").json()["silences"]
        assert "look-ahead" in one["refusal"] and one["firing"] == 0

    def test_none_is_said(self, acceptd: Run, folder: Folder) -> None:
        assert acceptd("--data-dir", folder.path, "silences").out.strip() == "No silences."


class TestAcknowledging:
    @pytest.mark.parametrize("subject", ["AcceptanceCliff", "a"])
    def test_by_name_or_server(self, acceptd: Run, folder: Folder, subject: str) -> None:
        said = acceptd("--data-dir", folder.path, "ack", subject)
        assert (said.code, said.out.strip()) == (0, "Acknowledged: AcceptanceCliff")
        with folder.store().read() as unit:
            (one,) = unit.alerts.all()
        assert one.acknowledged_by

    def test_nothing_that_fires_is_exit_code_3(self, acceptd: Run, folder: Folder) -> None:
        for more in ((), ("--json",)):
            said = acceptd("--data-dir", folder.path, "ack", "ServerDown", *more)
            assert said.code == 3 and "no alert is firing that matches 'ServerDown'" in said.err


def test_a_request_that_is_not_answered_is_said_to_wait(acceptd: Run, daemon: Folder) -> None:
    said = acceptd("--data-dir", daemon.path, "apply", "p-1", "--wait", "100ms", "--json")
    assert said.code == 1
    assert "the daemon will still see it" in said.json()["outcome"]
    with daemon.store().read() as unit:
        (waiting,) = unit.commands.pending()
    assert (waiting.kind, waiting.subject, waiting.done_at) == (CommandKind.APPLY, "p-1", None)


def test_a_wait_that_is_none_is_refused(acceptd: Run, daemon: Folder) -> None:
    said = acceptd("--data-dir", daemon.path, "apply", "p-1", "--wait", "0s")
    assert said.code == 2 and said.err.startswith("--wait")


class TestFollowing:
    """A rollout is shown while it goes on, step by step, until it is over."""

    def write(self, folder: Folder, change: Change, rollout: Rollout) -> None:
        store = folder.store()
        with store.write() as unit:
            unit.changes.update(change)
            unit.rollouts.update(rollout)
        store.close()

    def begun(self, folder: Folder) -> tuple[Change, Rollout]:
        rollout = Rollout(
            id=RolloutId("r-9f"), group=GROUP, decision=DecisionId("d-1"), current=TWO, proposed=THREE,
            created_at=folder.now, requested_by="ann",
        )  # fmt: skip
        change = Change(
            id=ChangeId("r-9f-1"), rollout=rollout.id, server=SERVER, position=0, state=ChangeState.DRAINING,
            current=TWO, proposed=THREE, entered_at=folder.now, deadline=folder.now + timedelta(seconds=90),
            history=("12:00 draining: draining chat-1",),
        )  # fmt: skip
        store = folder.store()
        with store.write() as unit:
            unit.rollouts.add(rollout)
            unit.changes.add([change])
        store.close()
        return change, rollout

    @pytest.mark.parametrize(("ends", "code"), [(RolloutState.ROLLED_BACK, 0), (RolloutState.ABANDONED, 1)])
    def test_each_step_is_shown_once_and_then_the_end(
        self, acceptd: Run, daemon: Folder, ends: RolloutState, code: int
    ) -> None:
        change, rollout = self.begun(daemon)

        def end() -> None:
            lines = (*change.history, "12:01 restarting: chat-1 is idle [2]")
            done = replace(change, state=ChangeState.PROMOTED, history=lines)
            self.write(daemon, done, replace(rollout, state=ends, finished_at=daemon.now, sentence="as it was"))

        timer = threading.Timer(0.5, end)
        timer.start()
        with answering(daemon, "started rollout r-9f: two -> three"):
            said = acceptd("--data-dir", daemon.path, "apply", "p-1", "--follow")
        timer.join()
        assert said.code == code
        assert said.out.count("draining chat-1") == said.out.count("chat-1 is idle [2]") == 1
        assert said.out.rstrip().endswith(f"{ends.value}: as it was")

    def test_it_is_not_shown_where_nobody_looks_or_a_program_reads(self, acceptd: Run, daemon: Folder) -> None:
        self.begun(daemon)
        with answering(daemon, "started rollout r-9f: two -> three"):
            assert acceptd("--data-dir", daemon.path, "apply", "p-1").code == 0
            assert acceptd("--data-dir", daemon.path, "apply", "p-1", "--follow", "--json").json()["taken"] is True

    def test_one_that_is_not_there_is_told(self, acceptd: Run, daemon: Folder) -> None:
        with answering(daemon, "going back: rollout r-none to two"):
            assert acceptd("--data-dir", daemon.path, "rollback", "chat", "--follow").code == 3
