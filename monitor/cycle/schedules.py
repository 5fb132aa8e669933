"""What a schedule by batch size would bring a group, or why none is proposed: advice for people; acceptd sets none.

A group with a schedule is left alone by the tuner (it stands down), so who sets one takes the tuning over.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from monitor.actions.fleet import Fleet, Managed
from monitor.cycle.history import History
from monitor.errors import MonitorError
from monitor.launch.versions import parse_version
from monitor.launch.vllm_keys import takes_schedule
from monitor.model.life import Setting
from monitor.model.record import SCHEDULE, Evidence
from monitor.model.server import Engine, Group, GroupName, ServerName
from monitor.tuning import TuneInput
from monitor.tuning.observe import FINE_BINS, load_of
from monitor.tuning.schedule import ScheduleAdvice, Server, propose_schedule
from monitor.tuning.standdown import stand_down

#: How often it is worked out: the load of a day moves slowly.
_EVERY = timedelta(hours=1)
#: The same while the tuner stands down: what hinders it (too little seen yet, a fault) passes.
_SOON = timedelta(minutes=5)
#: After how long the same is kept once more, so that it can be found beside newer decisions.
_AGAIN = timedelta(hours=24)
#: The load that it is for: of so long.
_DAY = timedelta(days=1)


class Schedules:
    """Works out schedules for groups with a server that this daemon manages; used by one thread."""

    def __init__(self, fleet: Fleet, history: History) -> None:
        self._fleet = fleet
        self._history = history
        self._due: dict[GroupName, datetime] = {}
        self._kept: dict[GroupName, Evidence] = {}

    def news(self, group: Group, setting: Setting, given: TuneInput, now: datetime) -> Evidence | None:
        """The advice to keep; None where nothing is new, where nobody drafts, or no server of the group is managed."""
        name = next((name for name in group.servers if name in self._fleet.managed), None)
        due = self._due.get(group.name)
        if name is None or not setting.num_speculative_tokens or (due is not None and now < due):
            return None
        self._due[group.name] = now + (_EVERY if stand_down(given) is None else _SOON)
        found = Evidence(f"schedule:{name}:{now:%Y%m%dT%H%M%S}", name, now, SCHEDULE,
                         _parts(self._propose(name, group, setting, given, now)))  # fmt: skip
        last = self._kept.get(group.name)
        if last is not None and last.parts == found.parts and now - last.at < _AGAIN:
            return None
        self._kept[group.name] = found
        return found

    def _propose(
        self, name: ServerName, group: Group, setting: Setting, given: TuneInput, now: datetime
    ) -> ScheduleAdvice:
        managed = self._fleet.managed[name]
        releases = {life.engine_version for life in self._history.newest_lives(name)}
        release = releases.pop() if len(releases) == 1 else None
        try:
            command = managed.driver.launcher.parsed
            takes = _takes(managed, release, setting.method)
        except MonitorError as error:
            return ScheduleAdvice((), f"The server's command or release cannot be read: {error}.")
        if takes and command.max_num_seqs is None:
            return ScheduleAdvice((), "The largest batch is not known: the command line has no --max-num-seqs.")
        tracks = [self._history.coarse_track(one) for one in group.servers]
        return propose_schedule(
            given,
            Server(
                max_num_seqs=command.max_num_seqs or 1, takes_schedule=takes,
                data_parallel_size=command.data_parallel_size, is_mixture_of_experts=managed.draft().has_experts,
            ),
            load_of(tracks, now - _DAY, FINE_BINS),
        )


def _takes(managed: Managed, release: str | None, method: str | None) -> bool:
    if managed.server.engine is not Engine.VLLM or release is None:
        return False
    return takes_schedule(parse_version(Engine.VLLM, release), method)


def _parts(advice: ScheduleAdvice) -> dict[str, str]:
    if not advice.triples:
        return {"schedule by batch size": f"None is proposed. {advice.sentence}"}
    most = max(tokens for _, _, tokens in advice.triples)
    wanted = {"num_speculative_tokens": most,
              "num_speculative_tokens_per_batch_size": [list(triple) for triple in advice.triples]}  # fmt: skip
    return {
        "schedule by batch size": f"{advice.sentence} In --speculative-config: {json.dumps(wanted)[1:-1]}. acceptd sets"
        " none itself, and leaves a server that has one alone."
    }
