"""What a page says of traffic and setting, and a token that takes its time."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from monitor.actions.probe import LiveProbe, tokens_of, traffic_of
from monitor.model.counts import Counts, Gauges
from monitor.model.reading import EngineReading, Reading, Verdict
from monitor.model.server import ServerName
from monitor.scrape.probe import Probed


def page(*gauges: Gauges, tokens: tuple[int | None, ...] = (), verdict: Verdict = Verdict.OK) -> Reading:
    shown = tokens or (None,) * len(gauges)
    engines = tuple(
        EngineReading(model="m", engine=str(n), counts=Counts(), gauges=one, num_speculative_tokens=k)
        for n, (one, k) in enumerate(zip(gauges, shown, strict=True))
    )
    return Reading(
        server=ServerName("s"), scraped_at=datetime(2026, 1, 1, tzinfo=UTC), monotonic=1.0, dialect="vllm-v1",
        verdict=verdict, reason="", engines=engines,
    )  # fmt: skip


IDLE, BUSY, QUEUED, UNKNOWN = Gauges(running=0, waiting=0), Gauges(running=2, waiting=0), Gauges(0, 1), Gauges()


@pytest.mark.parametrize(
    ("reading", "busy"),
    [
        (page(IDLE), 0), (page(BUSY), 2), (page(QUEUED), 1), (page(IDLE, BUSY), 2), (page(Gauges(running=0)), 0),
        (page(UNKNOWN), None), (page(IDLE, UNKNOWN), None), (page(), None),
    ],
)  # fmt: skip
def test_traffic_is_the_sum_of_engines_and_unknown_where_one_is_silent(reading: Reading, busy: float | None) -> None:
    traffic = traffic_of(reading)
    assert traffic.busy == busy
    assert traffic.is_idle is (busy == 0)


@pytest.mark.parametrize(
    ("reading", "tokens"),
    [
        (page(IDLE, tokens=(3,)), 3), (page(IDLE, IDLE, tokens=(3, 3)), 3), (page(IDLE, IDLE, tokens=(3, 4)), None),
        (page(IDLE), None), (page(IDLE, verdict=Verdict.NOT_SPEC_DECODE), 0),
        (page(verdict=Verdict.NOT_SPEC_DECODE), None), (page(verdict=Verdict.SCRAPE_ERROR), None),
    ],
)  # fmt: skip
def test_off_is_shown_by_an_engine_without_speculation_only(reading: Reading, tokens: int | None) -> None:
    assert tokens_of(reading) == tokens


class SlowServer:
    """Answers the generation when told to; everything else at once."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = 0
        self.breaks = False

    def health(self) -> Probed:
        return Probed(True, "well")

    def models(self) -> tuple[str, ...]:
        return ("m",)

    def generate(self, *, timeout_seconds: float) -> Probed:
        self.asked += 1
        self.may_answer.wait(timeout_seconds)
        return Probed(True, f"token {self.asked}")


def test_a_token_is_awaited_without_waiting_and_each_answer_is_given_once() -> None:
    server = SlowServer()
    other = SlowServer()
    probe = LiveProbe(other, lambda: page(IDLE), generator=server, generate_seconds=30.0)  # type: ignore[arg-type]
    assert probe.generate() is None
    assert probe.generate() is None
    assert server.asked == 1
    server.may_answer.set()
    answered = None
    while answered is None:
        answered = probe.generate()
    assert answered == Probed(True, "token 1")
    assert probe.generate() == Probed(True, "token 2")
    assert other.asked == 0
    assert probe.health().ok
    assert probe.models() == ("m",)
    assert probe.page().engines
