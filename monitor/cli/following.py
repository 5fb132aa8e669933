"""Shows a rollout while it is carried out: each step once, as the daemon writes it down. It carries nothing out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from monitor.cli.context import Absent, Context
from monitor.cli.output import console
from monitor.clock import Clock
from monitor.model.rollout import Change, Rollout, RolloutId

#: Time between two looks (seconds): steps are seconds apart.
_LOOK_SECONDS = 1.0


def follow_rollout(context: Context, rollout: RolloutId, clock: Clock) -> Rollout:
    """Print what happens to `rollout` until it is over; how it ended. Raises Absent where it is not known."""
    shown: set[tuple[str, str]] = set()
    with console.status("waiting for the daemon") as status:
        while True:
            with context.reading() as store, store.read() as unit:
                found = unit.rollouts.get(rollout)
                changes = unit.changes.of_rollout(rollout)
            if found is None:
                raise Absent(f"no rollout {rollout!r}")
            for change, line in _news(changes, shown):
                shown.add((change.id, line))
                console.print(line, markup=False)
            if found.finished_at is not None:
                console.print(f"{found.state.value}: {found.sentence}", style="bold", markup=False)
                return found
            status.update(_now(changes, clock.now()))
            clock.sleep(_LOOK_SECONDS)


def _news(changes: list[Change], shown: set[tuple[str, str]]) -> Iterator[tuple[Change, str]]:
    """Lines of history that were not shown yet, in the order in which they were written."""
    lines = [(line, change) for change in changes for line in change.history if (change.id, line) not in shown]
    for line, change in sorted(lines, key=lambda pair: pair[0]):
        yield change, line


def _now(changes: list[Change], now: datetime) -> str:
    """What is being done, and how much longer at most."""
    change = next((c for c in changes if not c.state.is_final), None)
    if change is None:
        return "ending"
    left = (change.deadline - now).total_seconds() if change.deadline is not None else None
    until = f", {left:.0f} s left at most" if left is not None and left > 0 else ""
    return f"{change.server}: {change.state.value}{until}"
