"""Looking at a server for the machine: only what its state needs, without a transaction open. It decides nothing."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.actions.fleet import Gate, Managed
from monitor.actions.judge import Judge, Judgement, Verdict
from monitor.actions.memory import Memory
from monitor.actions.preflight import failed, place_checks
from monitor.actions.probe import Probe, Traffic, tokens_of, traffic_of
from monitor.actions.step import Readiness, Ready, Refusal, Seen, Terms, Timing
from monitor.actions.steps import is_draining, is_over, token_of
from monitor.actions.windows import outside_windows
from monitor.clock import Clock
from monitor.drivers.failures import judge_exit
from monitor.drivers.protocol import DriverStatus, PortOwner, ServerState
from monitor.errors import MonitorError
from monitor.model.life import Setting
from monitor.model.reading import Reading
from monitor.model.rollout import Change, ChangeState, Outcome
from monitor.model.server import Group, ServerName
from monitor.scrape.probe import Probed

logger = logging.getLogger(__name__)

#: Lines of a log that are searched for the cause of a failed start, and those shown to people.
_SEARCHED_LINES, _SHOWN_LINES = 200, 25


@dataclass(frozen=True, slots=True)
class Case:
    """One change and everything that belongs to it, as the machine works on it now."""

    change: Change
    managed: Managed
    group: Group
    terms: Terms
    memory: Memory
    now: datetime


class Lookout:
    """Looks at the servers of one daemon."""

    def __init__(
        self, clock: Clock, probes: Mapping[ServerName, Probe], judge: Judge, gate: Gate, timing: Timing
    ) -> None:
        self._clock = clock
        self._probes = probes
        self._judge = judge
        self._gate = gate
        self._timing = timing

    def look(self, case: Case) -> Seen:
        """Everything the machine may want to know in the change's present state. Raises ActionError from the driver."""
        status = case.managed.driver.status()
        look = {
            ChangeState.PLANNED: self._before,
            ChangeState.DRAINING: self._while_draining,
            ChangeState.RESTARTING: self._while_bringing_up,
            ChangeState.WARMING: self._while_serving,
            ChangeState.OBSERVING: self._while_serving,
            ChangeState.UNDOING: self._while_going_back,
        }[case.change.state]
        return look(case, status)

    def _before(self, case: Case, status: DriverStatus) -> Seen:
        terms, probe = case.terms, case.managed.probe
        if terms.cancelled or terms.dry_run or status.state is not ServerState.RUNNING or terms.is_stuck:
            # What does not serve takes nothing from its peers, and no guard of the group gains by leaving it so.
            return self._seen(case, status=status)
        page, models = probe.page(), probe.models() or ()
        refusal = self._drift(case, page) or self._loaded_later(case, models)
        serving: bool | None = True
        if not terms.is_restart:
            answered = self._first_token(case) if models else Probed(False, "/v1/models lists no model")
            serving = self._serving(case, answered.ok) if answered is not None else None
            if answered is None or not answered.ok:
                why = "its answer is awaited" if answered is None else answered.sentence
                refusal = refusal or Refusal(Outcome.PRECONDITION_FAILED, f"not proved to serve: {why}")
        refusal = refusal or self._in_place(case) or self._refusal_around(case)
        return self._seen(case, status=status, models=models, is_serving=serving, refusal=refusal)

    def _in_place(self, case: Case) -> Refusal | None:
        """Why the server could not come up with the setting; looked at anew after a while, since hosts change."""
        memory, moment = case.memory, self._clock.monotonic()
        if memory.checked_at is None or moment - memory.checked_at >= self._timing.check_seconds:
            ends_trouble = case.terms.is_restart or case.terms.is_restore
            checks = place_checks(
                case.managed, case.change.current, case.change.proposed, ends_trouble=ends_trouble
            )
            missing, awaited = failed(checks), next((check for check in checks if check.is_awaited), None)
            memory.check_refusal = None
            if missing:
                memory.check_refusal = Refusal(Outcome.PREFLIGHT_FAILED, missing, lasting=True)
            elif awaited is not None:
                memory.check_refusal = Refusal(Outcome.PREFLIGHT_FAILED, awaited.sentence)
            memory.checked_at = None if awaited is not None else moment
        return memory.check_refusal

    def _first_token(self, case: Case) -> Probed | None:
        """Whether it generates now; asked again only after a while, since a change may wait for hours."""
        memory, moment = case.memory, self._clock.monotonic()
        if memory.generated_at is not None and moment - memory.generated_at < self._timing.proof_seconds:
            return Probed(True, "one token generated a moment ago")
        answered = case.managed.probe.generate()
        if answered is not None and answered.ok:
            memory.generated_at = moment
        return answered

    def _while_draining(self, case: Case, status: DriverStatus) -> Seen:
        refusal = self._refusal_around(case)
        # Last of all, so that as little time as possible lies between looking and acting.
        traffic, idle = self._traffic(case)
        return self._seen(case, status=status, traffic=traffic, idle_seconds=idle, refusal=refusal)

    def _while_bringing_up(self, case: Case, status: DriverStatus) -> Seen:
        if case.change.stopped_at is None and case.change.drained_at is not None and not status.stop_asked:
            traffic, idle = self._traffic(case)
            return self._seen(case, status=status, traffic=traffic, idle_seconds=idle)
        seen = self._seen(case, status=status)
        if case.change.started_at is None or status.token != token_of(case.change):
            return seen
        if status.state is not ServerState.RUNNING:
            failure = judge_exit(status.exit_code, case.managed.driver.log_tail(_SEARCHED_LINES))
            tail = case.managed.driver.log_tail(_SHOWN_LINES)
            return self._seen(case, status=status, failure=failure, log_tail=tail)
        goal = case.terms.undo_to if case.change.state is ChangeState.UNDOING else case.terms.goal
        readiness = self._readiness(case, goal, status)
        waits = readiness.ready in (Ready.YES, Ready.NOT_YET, Ready.NO_PAGE)
        over = is_over(case.change.deadline, case.now) or not waits
        tail = case.managed.driver.log_tail(_SHOWN_LINES) if over else ""
        return self._seen(case, status=status, readiness=readiness, log_tail=tail)

    def _while_serving(self, case: Case, status: DriverStatus) -> Seen:
        if status.state is not ServerState.RUNNING or status.process != case.change.process:
            return self._seen(case, status=status, log_tail=case.managed.driver.log_tail(_SHOWN_LINES))
        readiness = None
        well = case.managed.probe.health().ok
        if well and case.change.state is ChangeState.WARMING and is_over(case.change.deadline, case.now):
            readiness = self._readiness(case, case.terms.goal, status)
            well = readiness.ready is not Ready.NOT_GENERATING
        serving = self._serving(case, well)
        judgement = self._judgement(case) if case.change.state is ChangeState.OBSERVING else None
        return self._seen(
            case, status=status, readiness=readiness, is_serving=serving, judgement=judgement,
            log_tail="" if serving is not False else case.managed.driver.log_tail(_SHOWN_LINES),
        )  # fmt: skip

    def _while_going_back(self, case: Case, status: DriverStatus) -> Seen:
        if not is_draining(case.change):
            return self._while_bringing_up(case, status)
        serving = self._serving(case, case.managed.probe.health().ok)
        traffic, idle = self._traffic(case)
        return self._seen(case, status=status, traffic=traffic, idle_seconds=idle, is_serving=serving)

    def _traffic(self, case: Case) -> tuple[Traffic, float | None]:
        traffic = traffic_of(case.managed.probe.page())
        traffic = replace(traffic, has_worked=case.memory.saw_work(traffic.work))
        # Idle counts from when nothing more can arrive: until then a request may be on its way.
        idle = traffic.is_idle and case.managed.balancer.is_out()
        return traffic, case.memory.saw_traffic(idle, self._clock.monotonic())

    def _serving(self, case: Case, well: bool) -> bool | None:
        timing = self._timing
        return case.memory.saw_health(
            well, self._clock.monotonic(), looks=timing.unhealthy_looks, seconds=timing.unhealthy_seconds
        )

    def _judgement(self, case: Case) -> Judgement | None:
        memory, moment = case.memory, self._clock.monotonic()
        over = is_over(case.change.deadline, case.now)
        if memory.judged_at is None or over or moment - memory.judged_at >= self._timing.judge_seconds:
            memory.judgement, memory.judged_at = self._ask_judge(case), moment
        return memory.judgement

    def _ask_judge(self, case: Case) -> Judgement:
        try:
            return self._judge.judge(case.change, case.now)
        except Exception:
            # A judge that breaks must not leave a change open for ever: at its deadline it counts as not measured.
            if not case.memory.judge_broke:
                logger.exception("judging failed change=%s server=%s", case.change.id, case.change.server)
            case.memory.judge_broke = True
            return Judgement(Verdict.WATCH, "it could not be judged (see the log)")

    def _readiness(self, case: Case, goal: Setting, status: DriverStatus) -> Readiness:
        """Ready is: our process answers, healthy, with all models, generating, and its page shows the setting."""
        change, probe = case.change, case.managed.probe
        if status.port_owner is PortOwner.OTHER:
            return Readiness(Ready.WRONG_PROCESS, "another process answers on its port")
        health = probe.health()
        if not health.ok:
            return Readiness(Ready.NOT_YET, health.sentence)
        models = probe.models()
        if not models:
            return Readiness(Ready.NOT_YET, "/v1/models lists no model yet")
        missing = sorted(set(change.models) - set(models))
        if missing and len(missing) == len(change.models):
            return Readiness(Ready.NOT_YET, f"/v1/models does not list {', '.join(missing)} yet")
        if missing:
            return Readiness(Ready.MODELS_MISSING, f"/v1/models does not list {', '.join(missing)} any more")
        return self._generating(case) or _page_shows(goal, probe.page())

    def _generating(self, case: Case) -> Readiness | None:
        """Why no generated token was seen; None where one was."""
        memory, answered = case.memory, case.managed.probe.generate()
        if answered is None:
            return Readiness(Ready.NOT_YET, "a generated token is awaited")
        if answered.unauthorized:
            return Readiness(Ready.CANNOT_ASK, answered.sentence)
        if answered.ok:
            memory.generate_failures = 0
            return None
        memory.generate_failures += 1
        enough = memory.generate_failures >= self._timing.unhealthy_looks
        return Readiness(Ready.NOT_GENERATING if enough else Ready.NOT_YET, answered.sentence)

    def _refusal_around(self, case: Case) -> Refusal | None:
        """Reasons that lie around the server: its peers, and whoever guards the group. They may pass."""
        for peer in case.group.servers:
            probe = self._probes.get(peer)
            if peer == case.change.server or probe is None:
                continue
            health = probe.health()
            if not health.ok:
                return Refusal(
                    Outcome.PRECONDITION_FAILED, f"{peer} of the same group does not serve ({health.sentence})"
                )
        # The way back, and a restart that someone asked for, end an incident: nobody holds them up.
        ends_trouble = case.terms.is_restore or case.terms.is_restart
        said = None if ends_trouble else self._held_up(case)
        return Refusal(Outcome.PRECONDITION_FAILED, said) if said is not None else None

    def _held_up(self, case: Case) -> str | None:
        closed = None
        if case.change.state is ChangeState.PLANNED:
            # One that has begun is finished: its server is back sooner than if it were left half way.
            closed = outside_windows(case.group, case.now, case.terms.away_seconds)
        return closed or self._gate.refusal(case.group, case.change, case.now)

    def _drift(self, case: Case, page: Reading) -> Refusal | None:
        shown, wanted = tokens_of(page), case.change.current.num_speculative_tokens
        if case.terms.is_restart or shown is None or wanted is None or shown == wanted:
            return None
        return Refusal(
            Outcome.PRECONDITION_FAILED,
            f"it runs with {shown} speculative tokens, not with {wanted} any more: changed by someone else",
            lasting=True,
        )

    def _loaded_later(self, case: Case, models: tuple[str, ...]) -> Refusal | None:
        """Adapters that were loaded at run time would be lost; known by names that the command line does not have."""
        try:
            line = " ".join(case.managed.driver.launcher.render(case.change.current).argv)
        except MonitorError as error:
            return Refusal(Outcome.PREFLIGHT_FAILED, str(error), lasting=True)
        # As whole words: an adapter `chat` does not stand in `--served-model-name chat-base`.
        known = [name for name in models if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line)]
        later = [name for name in models if name not in known]
        if not known or not later:
            return None
        return Refusal(
            Outcome.PREFLIGHT_FAILED,
            f"{', '.join(later)} were loaded while it ran and would be missing after a restart",
            lasting=True,
        )

    def _seen(self, case: Case, *, status: DriverStatus, **seen: object) -> Seen:
        memory = case.memory
        failing = memory.stop_failing_since
        return Seen(
            status=status,
            stop_failing_seconds=None if failing is None else self._clock.monotonic() - failing,
            stop_error=memory.stop_error,
            taken_out=memory.taken_out,
            take_out_error=memory.take_out_error,
            is_kept_away=case.managed.balancer.is_out(),
            put_back_failures=memory.put_back_failures,
            put_back_error=memory.put_back_error,
            start_error=memory.start_error,
            **seen,  # type: ignore[arg-type]
        )


def _page_shows(goal: Setting, page: Reading) -> Readiness:
    if not page.engines:
        return Readiness(Ready.NO_PAGE, f"its page cannot be used: {page.reason}")
    shown, wanted = tokens_of(page), goal.num_speculative_tokens
    if shown is None or wanted is None:
        return Readiness(Ready.YES, "its page does not show the number of speculative tokens")
    if shown != wanted:
        return Readiness(Ready.WRONG_SETTING, f"its page shows {shown} speculative tokens, {wanted} were asked for")
    return Readiness(Ready.YES, f"its page shows {shown} speculative tokens" if shown else "its page shows none")
