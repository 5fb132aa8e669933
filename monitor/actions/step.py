"""The vocabulary of the machine: what was seen of a server, on what terms it is changed, and one step. No logic.

A step is stored before it acts (`Step.change` is what is stored), except where it says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from monitor.actions.events import EventKind
from monitor.actions.judge import Judgement, Unproved
from monitor.actions.learned import Starts
from monitor.actions.probe import UNKNOWN_TRAFFIC, Traffic
from monitor.drivers.failures import StartFailure
from monitor.drivers.protocol import DriverStatus
from monitor.model.life import Setting
from monitor.model.rollout import Change, Outcome
from monitor.model.server import ActionLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of the machine that no operator needs to set (seconds), with why they are what they are."""

    #: A server that is held away from traffic must be idle this long: requests may still be on their way to it.
    settle_seconds: float = 5.0
    #: One that nobody holds traffic away from: an engine's page may lag, and be blind to its first step of a request.
    quiet_seconds: float = 2.0
    #: After SIGKILL: a process that lives on is stuck in the kernel, and nothing starts on top of it.
    kill_seconds: float = 30.0
    #: A server that lets its requests finish before it ends is killed that much after its own limit, and no later than
    #: the longest time: one that knows no limit must not be away for ever.
    grace_margin_seconds: float = 15.0
    grace_most_seconds: float = 1800.0
    #: What is left of a server once its main process is gone gets this long; orphaned engines never end by themselves.
    leftover_seconds: float = 5.0
    #: How long a driver may be unable to ask a server to end.
    stop_ask_seconds: float = 60.0
    #: How long a port that is held by someone else may keep us from starting.
    port_seconds: float = 60.0
    #: Rest before a failed start is tried again: doubled each time, at most `backoff_most_seconds`.
    backoff_seconds: float = 10.0
    backoff_most_seconds: float = 600.0
    #: Starts in one change, undo included, whatever `restarts_per_day` allows.
    starts_most: int = 7
    #: Starts of the *new* setting where the failure was transient (network, memory still held).
    tries_of_new_setting: int = 2
    #: A worse but serving server that could not be drained for its way back is tried again after this, and given up
    #: (left on the new setting, with a page) after `undo_drain_most_seconds`.
    undo_drain_again_seconds: float = 600.0
    undo_drain_most_seconds: float = 6 * 3600.0
    #: A change that a pause keeps from going back is given up after this.
    hold_most_seconds: float = 24 * 3600.0
    #: How long a server must look broken, over how many looks, before it counts as not serving.
    unhealthy_seconds: float = 20.0
    unhealthy_looks: int = 3
    #: How long after its warm-up a server that answers its health check may be otherwise unready.
    unready_seconds: float = 300.0
    put_back_tries: int = 5
    #: How long a later change of a rollout may wait for its turn to be safe (peers ready, window open, pause lifted).
    wait_most_seconds: float = 6 * 3600.0
    #: How long a generated token proves that a server which waits for its change serves.
    proof_seconds: float = 60.0
    #: How long what was found of host and engine holds for a change that waits.
    check_seconds: float = 30.0
    #: A rollout that nobody can carry on (its group or server is configured nowhere) is closed after this.
    orphan_seconds: float = 900.0
    #: How long a driver may be unable to say how its server is before someone is paged.
    blind_seconds: float = 60.0
    #: Age of the coordinator's lease; renewed at every tick.
    lease_seconds: float = 120.0
    #: How often a change under observation is judged.
    judge_seconds: float = 15.0
    unproved: Unproved = Unproved.LIKELY


class Ready(StrEnum):
    """Whether a started server serves as wanted."""

    YES = "yes"
    NOT_YET = "not_yet"
    NOT_GENERATING = "not_generating"
    WRONG_SETTING = "wrong_setting"
    MODELS_MISSING = "models_missing"
    WRONG_PROCESS = "wrong_process"
    #: It generates, but its page cannot be used.
    NO_PAGE = "no_page"
    #: It answers, but not to us (401, 403): says nothing of its engine.
    CANNOT_ASK = "cannot_ask"


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far a started server is."""

    ready: Ready
    sentence: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a server may not be stopped now. `lasting`: waiting cannot help (someone else changed it)."""

    outcome: Outcome
    sentence: str
    lasting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of a server and around it, just now. None is "not looked at" or "cannot be told"."""

    status: DriverStatus
    traffic: Traffic = UNKNOWN_TRAFFIC
    #: How long traffic has been seen idle without a break (seconds); None while it is not idle.
    idle_seconds: float | None = None
    models: tuple[str, ...] = ()
    readiness: Readiness | None = None
    #: False only where it looked broken long enough.
    is_serving: bool | None = None
    refusal: Refusal | None = None
    is_paused: bool = False
    #: Whether the balancer was told in this process life of ours; a failure comes with its text.
    taken_out: bool = False
    take_out_error: str = ""
    #: Whether the balancer is known to send nothing any more.
    is_kept_away: bool = True
    put_back_failures: int = 0
    put_back_error: str = ""
    #: How long asking the server to end has failed without a break (seconds), and why; None while it has not.
    stop_failing_seconds: float | None = None
    stop_error: str = ""
    #: The start was refused by the driver: its failure, where trying again cannot help.
    start_error: StartFailure | None = None
    failure: StartFailure | None = None
    judgement: Judgement | None = None
    #: Starts that `restarts_per_day` still allows.
    starts_left: int = 0
    log_tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms a server is changed."""

    limits: ActionLimits
    timing: Timing
    #: The setting to go to, and the one to go back to.
    goal: Setting
    undo_to: Setting
    #: The base command's hash now; a running server that was started with another one is not tuned.
    base_hash: str
    #: A plain restart: nothing to measure.
    is_restart: bool = False
    #: Bringing a server back to the group's former setting: nothing to measure either.
    is_restore: bool = False
    #: The server is known to be stuck: its requests are lost already, so it is not waited for.
    is_stuck: bool = False
    #: Whether new requests can be kept away while waiting for the running ones.
    has_drain_control: bool = False
    #: How long the server lets requests in flight go on once it is asked to end (seconds; 0: it cuts them).
    grace_seconds: float = 0.0
    #: First start of this setting on this server: compile caches are empty.
    is_first_start: bool = False
    #: How long its starts took so far.
    starts: Starts = field(default_factory=Starts)
    expires_at: datetime | None = None
    #: Why the rollout is being called off; empty while it is not.
    cancelled: str = ""
    #: What the driver would do, where it does nothing.
    dry_run: str = ""

    @property
    def start_seconds(self) -> float:
        """Longest wait for a started server to serve: learned from its starts, at most `start_limit`."""
        usual = self.starts.limit(self.limits.start_seconds)
        return usual + (self.limits.first_start_seconds if self.is_first_start else 0.0)

    @property
    def away_seconds(self) -> float:
        """How long the server is likely to be away from its clients at most (seconds)."""
        return self.limits.drain_seconds + self.limits.stop_seconds + self.starts.usual

    @property
    def may_cut(self) -> bool:
        """Whether requests that outlast the drain may be cut: only where the operator said so twice."""
        return self.limits.cut_after_drain and self.limits.allow_downtime

    @property
    def may_let_finish(self) -> bool:
        """Whether a server that is still busy past its drain may be asked to end, since it lets its requests finish.

        Only where it gives them at least as long again as the drain, and where new ones may be turned away meanwhile.
        """
        return self.limits.allow_downtime and self.grace_seconds >= self.limits.drain_seconds > 0

    @property
    def end_seconds(self) -> float:
        """How long a server that was asked to end gets before it is killed."""
        grace = min(self.grace_seconds, self.timing.grace_most_seconds)
        return max(self.limits.stop_seconds, grace + self.timing.grace_margin_seconds if grace > 0 else 0.0)

    @property
    def settle_seconds(self) -> float:
        """How long the server must be idle, without any work done, before it is stopped."""
        return self.timing.settle_seconds if self.has_drain_control else self.timing.quiet_seconds

    def is_settled(self, seen: Seen) -> bool:
        """Whether the server has been idle for long enough to be stopped."""
        return seen.traffic.is_idle and seen.idle_seconds is not None and seen.idle_seconds >= self.settle_seconds


class Act(StrEnum):
    """What a step does to the world."""

    NONE = "none"
    TAKE_OUT = "take_out"
    PUT_BACK = "put_back"
    ASK_STOP = "ask_stop"
    KILL = "kill"
    START = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a change: what to store, then what to do.

    `act_first` turns the order round; only for putting a server back, which may be done twice but never forgotten.
    `again` asks for another step at once, since nothing has to be waited for.
    """

    change: Change
    act: Act = Act.NONE
    act_first: bool = False
    setting: Setting | None = None
    event: EventKind | None = None
    #: What people read in audit, history and notices; empty where a step is not worth a line.
    sentence: str = ""
    detail: str = ""
    #: The new setting lost, or did not start: do not try it again for a while.
    rejects: bool = False
    #: The server was seen serving with this setting.
    good: Setting | None = None
    #: A start is counted against the day's budget.
    counts_start: bool = False
    again: bool = False

    def is_stored_in(self, stored: Change) -> bool:
        """Whether there is nothing to store beyond what is stored."""
        tells = bool(self.sentence) or self.event is not None
        return self.change == stored and not (tells or self.rejects or self.counts_start or self.good is not None)
