"""Asking a server that looks stuck for one token: when, how often, what is kept, what an answer says."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta

import pytest

from monitor.cycle.prober import FRESH_SECONDS, HEALTH_FRESH_SECONDS, Prober
from monitor.errors import StoreError
from monitor.model.record import Evidence
from monitor.model.server import ServerName
from monitor.scrape.probe import Probed
from tests.fakes.fake_clock import FakeClock

A = ServerName("a")
NO_TOKEN = Probed(False, "no token generated: timeout")
OK = Probed(True, "one token generated")
HEALTHY = Probed(True, "/health says 200")


class Server:
    """Answers as told; with `gate` set it makes the caller wait."""

    def __init__(self) -> None:
        self.generated = 0
        self.asked_health = 0
        self.answer = NO_TOKEN
        self.healthy = HEALTHY
        self.gate: threading.Event | None = None
        self.timeout: float | None = None

    def generate(self, *, timeout_seconds: float | None = None, model: str | None = None) -> Probed:
        self.generated += 1
        self.timeout = timeout_seconds
        if self.gate is not None:
            assert self.gate.wait(30)
        return self.answer

    def health(self) -> Probed:
        self.asked_health += 1
        return self.healthy


class Desk:
    def __init__(self, *, broken_store: bool = False, **gathered: str) -> None:
        self.clock = FakeClock()
        self.server = Server()
        self.kept: list[Evidence] = []
        self.gathered = gathered or {"page": "vllm:x 1", "process state": "1 vllm: state T, parent 0"}
        self.broken = broken_store
        self.prober = Prober(
            {A: self.server}, clock=self.clock, keep=self.keep, gather=self.gather, suspect_seconds=30.0,
            timeout_seconds=7.0,
        )

    def keep(self, evidence: Evidence) -> None:
        if self.broken:
            raise StoreError("disk full")
        self.kept.append(evidence)

    def gather(self, server: ServerName) -> Mapping[str, str]:
        return self.gathered

    def look(self, stuck: float | None = 45.0, *, sleeping: bool = False) -> None:
        self.prober.look(A, stuck, sleeping)
        self.prober.wait(A, 30)


class TestWhom:
    @pytest.mark.parametrize(
        ("stuck", "sleeping", "asked"),
        [(None, False, 0), (0.0, False, 0), (29.9, False, 0), (30.0, False, 1), (500.0, True, 0)],
    )
    def test_only_one_that_stands_still_with_work_to_do_and_does_not_sleep(
        self, stuck: float | None, sleeping: bool, asked: int
    ) -> None:
        desk = Desk()
        desk.look(stuck, sleeping=sleeping)
        assert desk.server.generated == asked

    def test_the_answer_is_forgotten_once_it_looks_well(self) -> None:
        desk = Desk()
        desk.look()
        assert desk.prober.result(A) is not None
        desk.look(0.0)
        assert desk.prober.result(A) is None


class TestHowOften:
    def test_again_only_when_the_answer_is_old_and_it_stands_until_then(self) -> None:
        desk = Desk()
        desk.look()
        desk.clock.advance(FRESH_SECONDS - 1)
        desk.look()
        assert desk.server.generated == 1
        desk.clock.advance(1)
        desk.server.answer = OK
        desk.look()
        assert desk.server.generated == 2
        result = desk.prober.result(A)
        assert result is not None and result.failed is False

    def test_one_question_at_a_time_and_nobody_waits_for_it(self) -> None:
        desk = Desk()
        desk.server.gate = threading.Event()
        for _ in range(5):
            desk.prober.look(A, 45.0, False)
        assert desk.prober.result(A) is None
        desk.server.gate.set()
        desk.prober.wait(A, 30)
        assert desk.server.generated == 1
        assert desk.prober.result(A) is not None

    def test_a_clock_that_was_set_back_does_not_stop_it(self) -> None:
        desk = Desk()
        desk.look()
        desk.clock.jump(-3600)
        desk.look()
        assert desk.server.generated == 2


class TestWhatItSays:
    def test_no_token_is_a_finding_and_its_evidence_is_kept(self) -> None:
        desk = Desk()
        desk.look()
        result = desk.prober.result(A)
        assert result is not None
        assert (result.failed, result.sentence) == (True, "no token generated: timeout; /health says 200")
        (kept,) = desk.kept
        assert (kept.id, kept.server, kept.at) == (result.evidence, "a", desk.clock.now())
        assert kept.parts == {
            "probe": "no token generated: timeout", "health": "/health says 200", "page": "vllm:x 1",
            "process state": "1 vllm: state T, parent 0",
        }  # fmt: skip
        assert desk.server.timeout == 7.0

    def test_evidence_that_cannot_be_kept_takes_nothing_from_the_finding(self) -> None:
        desk = Desk(broken_store=True)
        desk.look()
        result = desk.prober.result(A)
        assert result is not None
        assert (result.failed, result.evidence) == (True, None)

    def test_a_token_says_that_it_is_well(self) -> None:
        desk = Desk()
        desk.server.answer = OK
        desk.look()
        result = desk.prober.result(A)
        assert result is not None and result.failed is False
        assert desk.kept == []

    def test_credentials_that_are_refused_say_nothing_of_the_engine(self) -> None:
        desk = Desk()
        desk.server.answer = Probed(False, "/v1/completions says 401", True)
        desk.look()
        result = desk.prober.result(A)
        assert result is not None and result.failed is None
        assert desk.kept == []


class TestHealth:
    def look(self, desk: Desk, failed: bool) -> None:
        desk.prober.look_health(A, failed)
        desk.prober.wait(A, 30)

    def test_it_is_asked_while_the_page_is_missing_and_forgotten_when_it_is_back(self) -> None:
        desk = Desk()
        self.look(desk, False)
        assert (desk.server.asked_health, desk.prober.health(A)) == (0, None)
        self.look(desk, True)
        assert (desk.server.asked_health, desk.prober.health(A)) == (1, True)
        self.look(desk, True)
        assert desk.server.asked_health == 1
        desk.clock.advance(HEALTH_FRESH_SECONDS)
        desk.server.healthy = Probed(False, "connection refused")
        self.look(desk, True)
        assert (desk.server.asked_health, desk.prober.health(A)) == (2, False)
        self.look(desk, False)
        assert desk.prober.health(A) is None

    def test_a_refusal_says_nothing(self) -> None:
        desk = Desk()
        desk.server.healthy = Probed(False, "/health says 401", True)
        self.look(desk, True)
        assert desk.prober.health(A) is None


def test_answers_are_dated_by_the_clock() -> None:
    desk = Desk()
    began = desk.clock.now()
    desk.clock.advance(5)
    desk.look()
    result = desk.prober.result(A)
    assert result is not None and result.at == began + timedelta(seconds=5)
