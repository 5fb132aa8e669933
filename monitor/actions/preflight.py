"""Checks of one server before anything is changed on it; the plan shows them, a failed one refuses it."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.actions.fleet import Managed
from monitor.actions.probe import tokens_of
from monitor.actions.terms import ROLLBACK_RULE
from monitor.drivers.protocol import Check, ServerState
from monitor.errors import ActionError, LaunchError
from monitor.model.decision import Action, Decision
from monitor.model.life import Setting


def preflight(decision: Decision, managed: Managed) -> tuple[Check, ...]:
    """Everything that can be known without touching the server: process, command, page, host, engine."""
    checks = [_process(decision, managed), _command(decision, managed)]
    if decision.action is not Action.RESTART:
        checks += [_base_command(managed), _page(decision, managed)]
    checks += place_checks(managed, decision.current, decision.proposed, ends_trouble=ends_trouble(decision))
    if not managed.driver.acts:
        checks.append(Check("driver", None, "the driver is the dry run: it would only say what it does"))
    return tuple(checks)


def ends_trouble(decision: Decision) -> bool:
    """Whether it is about a setting that is known to have worked: a restart, or a way back that was asked for."""
    return decision.action is Action.RESTART or decision.rule == ROLLBACK_RULE


def place_checks(
    managed: Managed, current: Setting, proposed: Setting, *, ends_trouble: bool = False
) -> tuple[Check, ...]:
    """What must be in place for a start and, where a setting is new, what speaks against it; never waits.

    Of a way back only the first: what is known to have worked is not held up by an estimate.
    """
    found = managed.driver.checks()
    if ends_trouble:
        return found
    try:
        pid = managed.driver.status().pid
    except ActionError:
        pid = None
    return (*found, *managed.inspector.checks(current, proposed, pid))


def failed(checks: Iterable[Check]) -> str:
    """What failed, in one sentence; empty where nothing did."""
    return "; ".join(f"{check.name}: {check.sentence}" for check in checks if check.ok is False)


def _process(decision: Decision, managed: Managed) -> Check:
    try:
        status = managed.driver.status()
    except ActionError as error:
        return Check("process", False, str(error))
    if status.state is ServerState.FOREIGN:
        return Check("process", False, status.describe())
    if decision.action is not Action.RESTART and status.state is not ServerState.RUNNING:
        return Check("process", False, f"the server {status.describe()}")
    return Check("process", True, f"the server {status.describe()}")


def _command(decision: Decision, managed: Managed) -> Check:
    try:
        command = managed.driver.launcher.render(decision.proposed)
    except LaunchError as error:
        return Check("command", False, str(error))
    return Check("command", True, "; ".join(command.warnings) or "the engine's version takes it")


def _base_command(managed: Managed) -> Check:
    try:
        started_with = managed.driver.status().command_hash
    except ActionError:
        return Check("base command", None, "the driver cannot tell")
    if started_with and started_with != managed.driver.launcher.base_hash:
        return Check("base command", False, "it was edited since the server was started: restart it first")
    return Check("base command", True, "unchanged since the server was started")


def _page(decision: Decision, managed: Managed) -> Check:
    page = managed.probe.page()
    if not page.engines:
        return Check("page", False, f"its page cannot be used: {page.reason}")
    shown, wanted = tokens_of(page), decision.current.num_speculative_tokens
    if shown is None or wanted is None:
        return Check("page", None, "its page does not show the number of speculative tokens")
    if shown != wanted:
        return Check("page", False, f"it runs with {shown} speculative tokens, the decision is about {wanted}")
    return Check("page", True, f"it runs with {shown} speculative tokens, as the decision says")
