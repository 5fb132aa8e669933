"""The alarm about the store: told once it lasts, repeated, ended; by receivers that need no store."""

from __future__ import annotations

from monitor.app.alarm import PATIENCE_SECONDS, REPEAT_SECONDS, StoreAlarm
from monitor.errors import NotifyError
from monitor.model.notice import Notice, NoticeKind
from monitor.notify.receiver import Root
from tests.fakes.fake_clock import FakeClock


class Receiver:
    pause_seconds = 0.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.broken = False
        self.told: list[tuple[Notice, Root | None]] = []

    def deliver(self, notice: Notice, root: Root | None) -> str | None:
        if self.broken:
            raise NotifyError("no answer", reason="unreachable", retryable=True)
        self.told.append((notice, root))
        return f"message-{len(self.told)}"

    def kinds(self) -> list[NoticeKind]:
        return [notice.kind for notice, _ in self.told]


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.slack, self.console = Receiver("slack"), Receiver("console")
        self.alarm = StoreAlarm([self.slack, self.console], self.clock, host="gpu-7", simulated=False)

    def look(self, seconds: float, trouble: str = "database file x: the disk is full", waiting: int = 9) -> None:
        self.clock.advance(seconds)
        self.alarm.look(trouble, waiting=waiting, lost=0)


def test_a_trouble_that_passes_soon_is_not_told() -> None:
    bench = Bench()
    bench.look(0)
    bench.look(PATIENCE_SECONDS - 1)
    bench.look(5, "")
    bench.look(PATIENCE_SECONDS - 1)
    assert bench.slack.told == []


def test_one_that_lasts_is_told_once_to_each_repeated_and_ended_in_its_thread() -> None:
    bench = Bench()
    bench.look(0)
    for _ in range(60):
        bench.look(PATIENCE_SECONDS / 30)
    assert bench.slack.kinds() == bench.console.kinds() == [NoticeKind.ALERT_FIRING]
    notice, root = bench.slack.told[0]
    assert root is None
    assert "acceptd on gpu-7: the store has not worked for 2 min" == notice.title
    assert "the disk is full" in notice.text and "9 pages wait on disk" in notice.text
    bench.look(REPEAT_SECONDS)
    bench.look(1, "", waiting=0)
    bench.look(1, "", waiting=0)
    assert bench.slack.kinds() == [NoticeKind.ALERT_FIRING, NoticeKind.ALERT_REPEAT, NoticeKind.ALERT_RESOLVED]
    # Its end closes the repeat as well.
    assert bench.slack.told[-1][1] == Root("message-1", ("message-1", "message-2"))
    assert "works again after 3" in bench.slack.told[-1][0].title


def test_a_receiver_that_is_dead_keeps_nothing_from_the_others_and_hears_of_it_when_it_is_back() -> None:
    bench = Bench()
    bench.slack.broken = True
    bench.look(0)
    bench.look(PATIENCE_SECONDS)
    assert bench.console.kinds() == [NoticeKind.ALERT_FIRING]
    bench.slack.broken = False
    bench.look(5)
    assert bench.slack.told == []
    bench.look(30)
    assert bench.slack.kinds() == [NoticeKind.ALERT_FIRING]
    assert bench.console.kinds() == [NoticeKind.ALERT_FIRING]


def test_one_who_never_heard_of_it_is_not_told_of_its_end() -> None:
    bench = Bench()
    bench.slack.broken = True
    bench.look(0)
    bench.look(PATIENCE_SECONDS)
    bench.slack.broken = False
    bench.look(1, "")
    assert bench.slack.told == []
    assert bench.console.kinds()[-1] is NoticeKind.ALERT_RESOLVED
