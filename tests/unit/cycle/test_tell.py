"""Rollout events as notices: in whose thread, how loud, with which numbers."""

from __future__ import annotations

import pytest

from monitor.actions.events import EventKind, RolloutEvent
from monitor.cycle.tell import answer_sink, event_sink, measured_words
from monitor.errors import StoreError
from monitor.model.alert import Severity
from monitor.model.decision import Decision, DecisionId
from monitor.model.life import Setting
from monitor.model.notice import Notice, NoticeKind
from monitor.model.record import Command, CommandKind
from monitor.model.rollout import Change, ChangeId, ChangeState, Measured, Rollout, RolloutId
from monitor.model.server import GroupName, ServerName
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.unit.notify.test_compose import decision
from tests.unit.signals.windows import NOON

TWO, THREE = (Setting(method="ngram", num_speculative_tokens=n) for n in (2, 3))
GAIN = Measured(
    gain=0.1234, gain_low=0.05, gain_high=0.2, method="before and after", minutes=12.0, sentence="12 % more"
)


def told(kind: EventKind, *, known: bool = True, detail: str = "", of_change: bool = True) -> Notice:
    store = MemoryStore()
    event = RolloutEvent(
        rollout=RolloutId("r-1"), group=GroupName("chat"), kind=kind, sentence="s1 is ready", at=NOON, detail=detail,
        change=ChangeId("c-1") if of_change else None, server=ServerName("s1") if of_change else None,
    )
    with store.write() as unit:
        if known:
            unit.rollouts.add(
                Rollout(id=RolloutId("r-1"), group=GroupName("chat"), decision=DecisionId("d-1"), current=TWO,
                        proposed=THREE, created_at=NOON, requested_by="ann", measured=GAIN)
            )
            unit.changes.add(
                [Change(id=ChangeId("c-1"), rollout=RolloutId("r-1"), server=ServerName("s1"), position=0,
                        state=ChangeState.OBSERVING, current=TWO, proposed=THREE, entered_at=NOON, measured=GAIN)]
            )
        event_sink(lambda _: ["slack"], simulated=True)(unit, event)
        event_sink(lambda _: ["slack"], simulated=True)(unit, event)
    with store.read() as unit:
        ((notice, (delivery,)),) = unit.outbox.recent(10)
    assert delivery.receiver == "slack"
    return notice


@pytest.mark.parametrize("kind", list(EventKind))
def test_every_event_is_told_once_in_the_thread_of_its_decision(kind: EventKind) -> None:
    notice = told(kind)
    assert (notice.kind, notice.thread, notice.simulated) == (NoticeKind.ROLLOUT, "decision:d-1", True)
    assert notice.title.startswith("chat: s1, ")
    assert ("change", "ngram, 2 tokens -> ngram, 3 tokens") in notice.fields
    # Pages are the alerts' business: RestartFailed is one.
    assert notice.severity is Severity.INFO


def test_the_end_and_what_a_person_must_do_are_posts_of_their_own() -> None:
    loud = {kind for kind in EventKind if not told(kind).in_thread}
    assert loud == {EventKind.FINISHED, EventKind.MANUAL_ACTION}


def test_what_was_measured_stands_with_the_verdict_only() -> None:
    with_gain = {kind for kind in EventKind if any(name == "measured goodput" for name, _ in told(kind).fields)}
    assert with_gain == {EventKind.CHANGE_PROMOTED, EventKind.CHANGE_ROLLED_BACK, EventKind.FINISHED}
    (words,) = [text for name, text in told(EventKind.CHANGE_PROMOTED).fields if name == "measured goodput"]
    assert words == "+12.3% (+5.0% to +20.0%), before and after, 12 min"
    assert ("measured goodput", words) in told(EventKind.FINISHED, of_change=False).fields


def test_the_end_of_a_long_log_is_shown() -> None:
    notice = told(EventKind.START_FAILED, detail="x" * 5000 + "\nCUDA out of memory")
    assert notice.text.endswith("CUDA out of memory")
    assert len(notice.text) < 1700


def test_an_event_of_a_rollout_that_is_gone_is_told_all_the_same() -> None:
    assert told(EventKind.PROGRESS, known=False).thread == "rollout:r-1"


def test_what_could_not_be_measured_is_said() -> None:
    nothing = Measured(gain=None, gain_low=None, gain_high=None, method="no traffic", minutes=3.0, sentence="")
    assert measured_words(nothing) == "not measurable (no traffic)"
    bare = Measured(gain=-0.02, gain_low=None, gain_high=None, method="m", minutes=0.5, sentence="")
    assert measured_words(bare) == "-2.0%, m, 30 s"


def test_it_belongs_to_the_transaction_of_its_event() -> None:
    store = MemoryStore()
    event = RolloutEvent(
        rollout=RolloutId("r"), group=GroupName("g"), kind=EventKind.PROGRESS, sentence="x", at=NOON
    )

    def dies() -> None:
        with store.write() as unit:
            event_sink(lambda _: ["slack"], simulated=False)(unit, event)
            raise StoreError("undone")

    with pytest.raises(StoreError):
        dies()
    with store.read() as unit:
        assert unit.outbox.recent(10) == []


class TestAnswers:
    def answer(
        self, kind: CommandKind, *, taken: bool = True, subject: str = "d-1", asked_for: Decision | None = None
    ) -> list[Notice]:
        store, clock = MemoryStore(), FakeClock()
        command = Command("q1", kind, subject, "slack:U0ANN (ann)", clock.now())
        with store.write() as unit:
            unit.decisions.add(decision())
            unit.rollouts.add(
                Rollout(id=RolloutId("r-1"), group=GroupName("g"), decision=DecisionId("d-1"), current=TWO,
                        proposed=THREE, created_at=NOON, requested_by="ann")
            )
            sink = answer_sink(lambda _: ["slack"], clock, simulated=False)
            sink(unit, command, asked_for, "started rollout r-1" if taken else "refused (paused): g is paused", taken)
        with store.read() as unit:
            return [notice for notice, _ in unit.outbox.recent(10)]

    @pytest.mark.parametrize(("kind", "word"), [(CommandKind.APPROVE, "approved"), (CommandKind.REJECT, "rejected")])
    def test_a_request_that_was_taken_stands_in_place_of_its_buttons(self, kind: CommandKind, word: str) -> None:
        (said,) = self.answer(kind)
        assert (said.thread, said.edits_root, said.buttons) == ("decision:d-1", True, ())
        assert said.title == f"g: {word}: raise num_speculative_tokens 2 -> 3"
        assert said.text.endswith(f"{word.capitalize()} by slack:U0ANN (ann): started rollout r-1")

    @pytest.mark.parametrize("taken", [True, False])
    def test_a_plan_is_told_where_its_decision_is(self, taken: bool) -> None:
        (said,) = self.answer(CommandKind.APPLY, subject="p-4711", asked_for=decision(), taken=taken)
        assert said.thread == "decision:d-1" and ("approved" if taken else "not done") in said.title
        assert self.answer(CommandKind.APPLY, subject="p-4711", taken=taken) == []

    def test_one_that_was_refused_leaves_the_buttons_and_says_why_below(self) -> None:
        (said,) = self.answer(CommandKind.APPROVE, taken=False)
        assert (said.in_thread, said.edits_root) == (True, False)
        assert "not done" in said.title and "g is paused" in said.text

    @pytest.mark.parametrize(("kind", "subject"), [(CommandKind.REPORT, ""), (CommandKind.APPROVE, "d-0")])
    def test_requests_about_nothing_that_was_told_are_not(self, kind: CommandKind, subject: str) -> None:
        assert self.answer(kind, subject=subject) == []
