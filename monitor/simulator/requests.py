"""One request inside a simulated engine, from arrival to its last token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monitor.simulator.load import Job


@dataclass(slots=True, eq=False)
class Request:
    """A job with its progress; times are simulated seconds, `None` until they come."""

    job: Job
    ease: float
    external: bool = False
    on_end: Callable[[Request], None] | None = None
    admitted: float | None = None
    first_token: float | None = None
    last_token: float = 0.0
    produced: int = 0
    prefill_steps_left: int = 0
    preemptions: int = 0
    finish_reason: str | None = None

    @property
    def tokens(self) -> int:
        """Tokens that its KV cache holds."""
        return self.job.prompt_tokens + self.produced

    @property
    def left(self) -> int:
        """Tokens until it would stop by itself."""
        return self.job.output_tokens - self.produced

    @property
    def room(self) -> int:
        """Tokens until its limit."""
        return self.job.max_tokens - self.produced
