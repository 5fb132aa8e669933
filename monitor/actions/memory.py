"""What one daemon remembers of a change while it lives: streaks and answers that need not survive it.

Whatever is forgotten at our death is found out again by asking; nothing here decides what was done.
"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.actions.judge import Judgement
from monitor.actions.step import Refusal
from monitor.drivers.failures import StartFailure


@dataclass(slots=True)
class Memory:
    """Of one change. Moments are monotonic seconds; None is "not now"."""

    taken_out: bool = False
    take_out_error: str = ""
    stop_failing_since: float | None = None
    stop_error: str = ""
    put_back_failures: int = 0
    put_back_error: str = ""
    idle_since: float | None = None
    work_seen: float | None = None
    bad_since: float | None = None
    bad_looks: int = 0
    generate_failures: int = 0
    generated_at: float | None = None
    start_error: StartFailure | None = None
    judged_at: float | None = None
    judgement: Judgement | None = None
    judge_broke: bool = False
    grace_seconds: float | None = None
    checked_at: float | None = None
    check_refusal: Refusal | None = None
    blind_since: float | None = None
    blind_told: bool = False

    def saw_work(self, work: float | None) -> bool:
        """Note the work that a server has counted; whether it is other than at the last look."""
        before, self.work_seen = self.work_seen, work
        return None not in (before, work) and before != work

    def saw_traffic(self, is_idle: bool, now: float) -> float | None:
        """Note whether the server was idle just now; how long it has been (seconds), None while it is not."""
        if not is_idle:
            self.idle_since = None
            return None
        if self.idle_since is None:
            self.idle_since = now
        return now - self.idle_since

    def saw_health(self, is_well: bool, now: float, *, looks: int, seconds: float) -> bool | None:
        """Note whether the server looked well; True where it did, False once it has looked broken for long enough."""
        if is_well:
            self.bad_since, self.bad_looks = None, 0
            return True
        self.bad_looks += 1
        if self.bad_since is None:
            self.bad_since = now
        return False if self.bad_looks >= looks and now - self.bad_since >= seconds else None

    def forget_process(self) -> None:
        """Another process begins: what was seen of the last one says nothing of it."""
        self.idle_since = self.bad_since = self.generated_at = self.judged_at = None
        self.bad_looks = self.generate_failures = 0
        self.start_error = self.judgement = self.stop_failing_since = None
        self.stop_error = ""

    def forget_balancer(self) -> None:
        """The balancer is to be told something else now."""
        self.taken_out = False
        self.take_out_error = self.put_back_error = ""
        self.put_back_failures = 0
        self.idle_since = None
