"""Questions to a server while it is being changed, and what its page says of setting and traffic.

It owns no HTTP: `LiveProbe` asks through `monitor/scrape/`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from monitor.intervals.adding import sum_known
from monitor.model.reading import Reading, Verdict
from monitor.scrape.probe import Probed, ServerProbe


class Probe(Protocol):
    """What the machine asks of a server; calls take a few seconds at most and do not raise for what a server does."""

    def health(self) -> Probed:
        """Whether `/health` says 200."""
        ...

    def models(self) -> tuple[str, ...] | None:
        """Names that `/v1/models` lists; None where it does not answer."""
        ...

    def generate(self) -> Probed | None:
        """Whether the server generates a token; None while the answer is still awaited (ask again)."""
        ...

    def page(self) -> Reading:
        """Its metrics page, fetched now; the verdict says where it could not be had."""
        ...


class LiveProbe:
    """A probe over HTTP. The generated token may take its time (first compilation): it is awaited in a thread."""

    def __init__(
        self,
        server: ServerProbe,
        read_page: Callable[[], Reading],
        *,
        generator: ServerProbe | None = None,
        generate_seconds: float = 60.0,
    ) -> None:
        """`generator` should have a connection of its own: on a shared one other questions wait for the token."""
        self._server = server
        self._generator = generator or server
        self._read_page = read_page
        self._seconds = generate_seconds
        self._asking: threading.Thread | None = None
        self._answers: list[Probed] = []

    def health(self) -> Probed:
        """Whether `/health` says 200."""
        return self._server.health()

    def models(self) -> tuple[str, ...] | None:
        """Names that `/v1/models` lists."""
        return self._server.models()

    def page(self) -> Reading:
        """Its metrics page, fetched now."""
        return self._read_page()

    def generate(self) -> Probed | None:
        """The answer to a token asked for now or earlier; each answer is given once."""
        if self._asking is None:
            asking = threading.Thread(target=self._ask, name="acceptd-generate", daemon=True)
            asking.start()
            self._asking = asking
        # A server that answers at once is answered for at once.
        self._asking.join(timeout=0.5)
        if self._asking.is_alive():
            return None
        self._asking = None
        return self._answers.pop() if self._answers else Probed(False, "no token generated: the question broke off")

    def _ask(self) -> None:
        self._answers = [self._generator.generate(timeout_seconds=self._seconds)]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests that a server works on or holds, and the work it has counted so far; None where its page does not say.

    The gauge alone is not believed: a real vLLM 0.32.0 under closed-loop clients showed nothing running in a quarter of
    all looks, for up to 0.7 s, since its page lags behind it. Work that was counted between two looks tells.
    """

    busy: float | None
    work: float | None = None
    #: Whether it has counted work since the look before this one.
    has_worked: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits, and nothing was done since the last look."""
        return self.busy == 0 and not self.has_worked


#: A page was not read, or does not say.
UNKNOWN_TRAFFIC = Traffic(None)


def traffic_of(reading: Reading) -> Traffic:
    """Running and waiting requests of all engines of a page fetched now; unknown where one engine does not say.

    Waiting may be missing (llama.cpp before some builds): running alone then decides.
    """
    if not reading.engines or any(e.gauges.running is None for e in reading.engines):
        return UNKNOWN_TRAFFIC
    busy = sum((e.gauges.running or 0.0) + (e.gauges.waiting or 0.0) for e in reading.engines)
    return Traffic(busy, _work(reading))


def _work(reading: Reading) -> float | None:
    """Tokens and requests counted by all engines so far; only whether it changes means anything."""
    counted = [engine.counts.traffic for engine in reading.engines if engine.counts.traffic is not None]
    return sum_known(n for c in counted for n in (c.prompt_tokens, c.generation_tokens, c.finished_requests))


def tokens_of(reading: Reading) -> int | None:
    """num_speculative_tokens that the page shows: 0 where the engine does not speculate, None where it does not say."""
    if reading.verdict is Verdict.NOT_SPEC_DECODE and reading.engines:
        return 0
    shown = {e.num_speculative_tokens for e in reading.engines}
    return shown.pop() if len(shown) == 1 else None
