"""May a rollout begin? Every rule that is checked before anything is stored. It owns no server.

Raises ActionError with a reason word and a sentence that names what stands in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from monitor.actions.alike import differences
from monitor.actions.drift import drift_of
from monitor.actions.fleet import Managed
from monitor.actions.preflight import ends_trouble, failed, place_checks
from monitor.actions.records import DAY, describe_pause, pause_of, starts_left
from monitor.actions.windows import outside_windows
from monitor.errors import ActionError, LaunchError
from monitor.model.decision import Action, Decision
from monitor.model.rollout import Outcome, Rollout
from monitor.model.server import Group, ServerName
from monitor.store.api import Unit


def admit(
    unit: Unit,
    decision: Decision,
    group: Group,
    managed: Mapping[ServerName, Managed],
    now: datetime,
    *,
    by_operator: bool,
    max_concurrent: int,
) -> None:
    """Refuse a rollout that may not begin. An operator is spared pace and memory, never safety."""
    _is_sound(decision, group, managed, now)
    is_new = not ends_trouble(decision)
    if is_new:
        _is_within_limits(decision, group, managed)
    pause = pause_of(unit, group.name, decision.servers, now)
    if pause is not None:
        raise ActionError(describe_pause(pause), reason="paused", retryable=True)
    # A server that needs to be started again does not wait for other groups to be tuned.
    _is_alone(unit, group, None if decision.action is Action.RESTART else max_concurrent)
    _has_budget(unit, decision, group, now)
    if is_new:
        _are_replicas(unit, decision, managed)
        _is_in_window(group, now)
    if not by_operator and decision.action is not Action.RESTART:
        _is_ours_to_tune(unit, decision, group, now)
        _keeps_pace(unit, group, now)
        _is_not_rejected(unit, decision, group, now)


def _is_sound(
    decision: Decision, group: Group, managed: Mapping[ServerName, Managed], now: datetime
) -> None:
    if not decision.changes_setting:
        raise ActionError(f"decision {decision.id} is to {decision.action}: nothing to do", reason="nothing_to_do")
    if decision.expires_at <= now:
        raise ActionError(
            f"decision {decision.id} expired at {decision.expires_at:%Y-%m-%d %H:%M} UTC", reason="expired"
        )
    unknown = [s for s in decision.servers if s not in group.servers]
    if unknown or not decision.servers:
        named = ", ".join(unknown) or "no server"
        raise ActionError(f"decision {decision.id} names {named}, not in group {group.name}", reason="unknown_server")
    missing = [s for s in decision.servers if s not in managed]
    if missing:
        raise ActionError(f"{', '.join(missing)}: watched, not managed (no driver)", reason="not_managed")


def _is_within_limits(decision: Decision, group: Group, managed: Mapping[ServerName, Managed]) -> None:
    limits, tokens = group.limits, decision.proposed.num_speculative_tokens
    if tokens is None:
        raise ActionError(f"decision {decision.id} does not say how many tokens", reason="setting_unknown")
    if tokens in limits.never:
        raise ActionError(f"group {group.name} is never to run with {tokens} tokens (limits.never)", reason="limits")
    if tokens == 0 and not limits.allow_off:
        raise ActionError(f"group {group.name} does not allow speculation to be off (allow_off)", reason="limits")
    if tokens and not limits.min_speculative_tokens <= tokens <= limits.max_speculative_tokens:
        raise ActionError(
            f"{tokens} tokens is outside {limits.min_speculative_tokens}..{limits.max_speculative_tokens} of group "
            f"{group.name}",
            reason="limits",
        )
    for name in decision.servers:
        server = managed[name]
        if not limits.allow_downtime and server.driver.acts and needs_downtime(group, server):
            raise ActionError(
                f"{name} cannot be restarted without its clients noticing "
                f"({'it is alone' if len(group.servers) == 1 else 'nothing keeps traffic away from it'}), and group "
                f"{group.name} does not allow downtime (allow_downtime)",
                reason="downtime",
            )


def check_commands(decision: Decision, managed: Mapping[ServerName, Managed]) -> None:
    """Refuse (`preflight`) a setting that a server's engine cannot be started with, or for which something is missing.

    Apart from `admit`, since server and host are asked: no transaction should be open meanwhile. What takes its time
    (the engine's own check) is looked at again before a server is taken out.
    """
    for name in decision.servers:
        server = managed.get(name)
        if server is None:
            continue
        try:
            server.driver.launcher.render(decision.proposed)
        except LaunchError as error:
            raise ActionError(f"{name}: {error}", reason="preflight") from error
        if not server.driver.acts:
            continue
        missing = failed(
            place_checks(server, decision.current, decision.proposed, ends_trouble=ends_trouble(decision))
        )
        if missing:
            raise ActionError(f"{name}: {missing}", reason="preflight")


def needs_downtime(group: Group, server: Managed) -> bool:
    """Whether clients notice its restart: the only one of its group, or one that traffic cannot be kept from."""
    return len(group.servers) == 1 or not server.balancer.has_control


def _is_alone(unit: Unit, group: Group, max_concurrent: int | None) -> None:
    active = unit.rollouts.active()
    for rollout in active:
        if rollout.group == group.name:
            raise ActionError(
                f"group {group.name} already has rollout {rollout.id} under way "
                f"({rollout.current.describe()} -> {rollout.proposed.describe()})",
                reason="active_rollout",
                retryable=True,
            )
    if max_concurrent is not None and len(active) >= max_concurrent:
        others = ", ".join(f"{r.id} of {r.group}" for r in active)
        raise ActionError(
            f"{len(active)} of {max_concurrent} rollouts at once are under way: {others}", reason="busy", retryable=True
        )


def _are_replicas(unit: Unit, decision: Decision, managed: Mapping[ServerName, Managed]) -> None:
    unlike = differences(unit, decision.servers, managed)
    if unlike:
        raise ActionError(
            f"the servers of group {decision.group} are not replicas, so that one cannot speak for the others: "
            f"{'; '.join(unlike)}. Give each kind a group of its own",
            reason="unlike",
        )


def _is_in_window(group: Group, now: datetime) -> None:
    closed = outside_windows(group, now)
    if closed is not None:
        raise ActionError(closed, reason="window", retryable=True)


def _has_budget(unit: Unit, decision: Decision, group: Group, now: datetime) -> None:
    needed = 1 if decision.action is Action.RESTART else 2
    for server in decision.servers:
        left = starts_left(unit, server, group.limits, now)
        if left < needed:
            raise ActionError(
                f"{server} has {left} of {group.limits.restarts_per_day} starts a day left, {needed} are needed",
                reason="budget",
            )


def _is_ours_to_tune(unit: Unit, decision: Decision, group: Group, now: datetime) -> None:
    for server in decision.servers:
        drift = drift_of(unit, server, group.limits, now)
        if drift is not None:
            raise ActionError(drift.describe(), reason="drift", retryable=True)


def _keeps_pace(unit: Unit, group: Group, now: datetime) -> None:
    limits = group.limits
    past = unit.rollouts.since(group.name, now - DAY)
    touched = [r for r in past if _touched_servers(unit, r)]
    if len(touched) >= limits.changes_per_day:
        raise ActionError(
            f"group {group.name} had {len(touched)} of {limits.changes_per_day} changes a day", reason="changes_per_day"
        )
    ends = [r.finished_at for r in unit.rollouts.since(group.name, now - DAY * 2) if r.finished_at is not None]
    rest_until = max(ends) + timedelta(seconds=limits.cooldown_seconds) if ends else now
    if now < rest_until:
        raise ActionError(
            f"group {group.name} rests until {rest_until:%Y-%m-%d %H:%M} UTC (cool-down)",
            reason="cooldown",
            retryable=True,
        )


def _touched_servers(unit: Unit, rollout: Rollout) -> bool:
    """Whether a rollout counts as a change of the setting: it was not given up before a server was stopped."""
    if rollout.current == rollout.proposed or rollout.outcome is Outcome.DRY_RUN:
        return False
    return any(c.stop_asked_at is not None or c.attempts > 0 for c in unit.changes.of_rollout(rollout.id))


def _is_not_rejected(unit: Unit, decision: Decision, group: Group, now: datetime) -> None:
    batch, length = (decision.evidence.get(name) for name in ("batch", "acceptance_length"))
    at = decision.current.num_speculative_tokens
    for rejection in unit.rejections.of(group.name):
        same = rejection.num_speculative_tokens == decision.proposed.num_speculative_tokens
        is_meant = same and rejection.method in (None, decision.proposed.method)
        if is_meant and rejection.holds(now, batch=batch, acceptance_length=length, tokens=at):
            raise ActionError(
                f"{decision.proposed.describe()} is not tried again before {rejection.until:%Y-%m-%d %H:%M} UTC: "
                f"{rejection.sentence}",
                reason="rejected_before",
            )
