"""Asks the statistics whether a change paid, from the intervals that are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from monitor.actions.judge import Judgement, Verdict
from monitor.model.interval import Interval
from monitor.model.life import Life
from monitor.model.rollout import Change
from monitor.model.server import Group, ServerName
from monitor.store import Store
from monitor.tuning.blocks import BLOCK_SECONDS, Block, blocks_of
from monitor.tuning.guards import Guards
from monitor.tuning.verdict import LOOKS, Call, Judged, Plan, judge

_VERDICTS = {Call.PROMOTE: Verdict.PROMOTE, Call.WATCH: Verdict.WATCH, Call.ROLL_BACK: Verdict.ROLL_BACK}


class StoredJudge:
    """Compares a changed server with itself before and with servers of its group that were left alone."""

    def __init__(
        self, store: Store, group_of: Callable[[ServerName], Group | None], *, scrape_seconds: float,
        guards: Guards | None = None,
    ) -> None:
        self._store = store
        self._group_of = group_of
        self._scrape = scrape_seconds
        self._guards = guards or Guards()

    def judge(self, change: Change, now: datetime) -> Judgement:
        """The verdict so far on a change that is being observed since `change.entered_at`."""
        group = self._group_of(change.server)
        observe = group.limits.observe_seconds if group is not None else LOOKS[-1][0] * BLOCK_SECONDS
        seconds = block_seconds(observe, self._scrape)
        since, until = before_span(change, observe)
        peers = [name for name in group.servers if name != change.server] if group is not None else []
        with self._store.read() as unit:
            touched = {c.server for c in unit.changes.of_rollout(change.rollout) if c.started_at is not None}
            controls = [name for name in peers if name not in touched]
            stored = unit.intervals.between([change.server, *controls], since, now)
            lives = unit.lives.of(change.server, since, now)
        released = _another_release(lives, until)
        if released is not None:
            return Judgement(Verdict.WATCH, released)
        own = [i for i in stored if i.server == change.server]
        before = blocks_of([i for i in own if i.end <= until], seconds)
        after = blocks_of([i for i in own if i.start >= change.entered_at - timedelta(seconds=self._scrape)], seconds)
        judged = judge(before, after, self._controls(stored, controls, seconds), Plan(guards=self._guards))
        return _judgement(judged)

    def _controls(
        self, stored: Sequence[Interval], names: Sequence[ServerName], seconds: float
    ) -> list[list[Block]]:
        found = [blocks_of([i for i in stored if i.server == name], seconds) for name in names]
        return [blocks for blocks in found if blocks]


def _another_release(lives: Sequence[Life], until: datetime) -> str | None:
    """That the engine was another before the restart, so that nothing can be laid to the setting; None if not."""
    before = [life.engine_version for life in lives if life.first_seen <= until and life.engine_version is not None]
    after = [life.engine_version for life in lives if life.first_seen > until and life.engine_version is not None]
    if not before or not after or before[-1] == after[-1]:
        return None
    return f"it came up as release {after[-1]}, before it was {before[-1]}: what the setting did cannot be told"


def block_seconds(observe_seconds: float, scrape_seconds: float) -> float:
    """Length of a block: a minute where the observation lasts as long as the last look wants, shorter where it is.

    Never shorter than two scrapes, since a block must hold a whole interval.
    """
    last_look = LOOKS[-1][0]
    return max(min(BLOCK_SECONDS, observe_seconds / last_look), 2.0 * scrape_seconds)


def before_span(change: Change, observe_seconds: float) -> tuple[datetime, datetime]:
    """The time before a change that it is compared with: as long again as it may be observed, and half more.

    It ends where the server was taken out of the traffic, so that the emptying server does not count as its normal.
    """
    ended = change.stop_asked_at or change.stopped_at or change.started_at or change.entered_at
    if change.drained_at is not None:
        ended = min(ended, change.drained_at)
    return ended - timedelta(seconds=1.5 * observe_seconds), ended


def _judgement(judged: Judged) -> Judgement:
    return Judgement(_VERDICTS[judged.call], judged.measured.sentence, judged.measured, judged.outcome, judged.is_early)
