"""Doing what a step says: the only module here that stops, starts and tells. It decides nothing and never raises."""

from __future__ import annotations

import logging

from monitor.actions.looking import Case
from monitor.actions.step import Act, Step
from monitor.actions.steps import token_of
from monitor.clock import Clock
from monitor.drivers.failures import FailureKind, StartFailure
from monitor.errors import ActionError, LaunchError

logger = logging.getLogger(__name__)


class Hands:
    """Performs steps; what went wrong is remembered, so that the machine sees it when it looks again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def perform(self, step: Step, case: Case) -> bool:
        """Do what `step` asks for; whether it was done. What failed is tried again or judged at the next look."""
        try:
            self._act(step, case)
        except LaunchError as error:
            case.memory.start_error = StartFailure(FailureKind.BAD_ARGUMENT, False, True, str(error))
        except ActionError as error:
            self._failed(step, case, error)
        else:
            return True
        return False

    def _act(self, step: Step, case: Case) -> None:
        driver, balancer = case.managed.driver, case.managed.balancer
        if step.act is Act.TAKE_OUT:
            balancer.take_out()
            case.memory.taken_out, case.memory.take_out_error = True, ""
        elif step.act is Act.PUT_BACK:
            balancer.put_back()
        elif step.act is Act.ASK_STOP:
            driver.stop()
            case.memory.stop_failing_since, case.memory.stop_error = None, ""
        elif step.act is Act.KILL:
            driver.stop(force=True)
        elif step.act is Act.START and step.setting is not None:
            driver.start(step.setting, token_of(step.change))

    def _failed(self, step: Step, case: Case, error: ActionError) -> None:
        memory = case.memory
        if step.act is Act.TAKE_OUT:
            memory.take_out_error = str(error)
        elif step.act is Act.PUT_BACK:
            memory.put_back_failures += 1
            memory.put_back_error = str(error)
        elif step.act is Act.ASK_STOP:
            memory.stop_error = str(error)
            if memory.stop_failing_since is None:
                memory.stop_failing_since = self._clock.monotonic()
        elif step.act is Act.START and not error.retryable:
            kind = FailureKind.MISSING_PROGRAM if error.reason == "missing_program" else FailureKind.UNKNOWN
            memory.start_error = StartFailure(kind, False, False, str(error))
        logger.warning(
            "act=%s change=%s server=%s failed: %s", step.act, case.change.id, case.change.server, error
        )
