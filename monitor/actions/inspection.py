"""Everything about a server and its host that speaks for or against a setting, looked at before anything is touched.

It decides nothing: a check that failed is a reason not to begin, one that cannot tell is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from monitor.actions.room import draft_place, gpu_memory, host_memory_check, verify_step
from monitor.advise.issues import Condition, KnownIssue, applying
from monitor.advise.shapes import ModelShape
from monitor.drivers.protocol import Check, Command, Launcher
from monitor.errors import LaunchError
from monitor.launch import ParsedCommand, target_arguments
from monitor.launch.speculation import canonical_method
from monitor.launch.versions import parse_version
from monitor.model.life import Setting
from monitor.model.server import Engine
from monitor.targets.gpus import Gpu
from monitor.targets.host_memory import HostMemory, Taken


class Inspector(Protocol):
    """Looks at one server for a change; never waits."""

    def checks(self, current: Setting, proposed: Setting, pid: int | None) -> tuple[Check, ...]:
        """What speaks for and against `proposed`; `pid` is the server's main process, None where nobody knows it."""
        ...


class NoInspector:
    """Looks at nothing."""

    def checks(self, current: Setting, proposed: Setting, pid: int | None) -> tuple[Check, ...]:
        """None."""
        return ()


class Inspection:
    """Looks at files, GPUs and memory of this host, at known issues, and asks the server's own vLLM."""

    def __init__(
        self,
        launcher: Launcher,
        *,
        issues: Sequence[KnownIssue],
        shape_of: Callable[[str], ModelShape | None],
        gpus: Callable[[], Sequence[Gpu]],
        host: Callable[[], HostMemory | None],
        taken_by: Callable[[int], Taken | None],
        ask_engine: Callable[[Command], Check | None],
    ) -> None:
        """`ask_engine` is the engine's own check; None where there is none here."""
        self._launcher = launcher
        self._issues = tuple(issues)
        self._shape_of = shape_of
        self._gpus = gpus
        self._host = host
        self._taken_by = taken_by
        self._ask_engine = ask_engine

    def checks(self, current: Setting, proposed: Setting, pid: int | None) -> tuple[Check, ...]:
        """Every check, those of the engine last."""
        return tuple(self._checks(current, proposed, pid))

    def _checks(self, current: Setting, proposed: Setting, pid: int | None) -> Iterator[Check]:
        command = self._launcher.parsed
        if command.part_of is not None:
            yield Check("stands alone", False, f"the server is {command.part_of}: it is watched, not changed")
        if command.engine is Engine.VLLM:
            gpus = self._gpus()
            draft = command.speculation.model if command.speculation is not None else None
            yield gpu_memory(
                command, current, proposed, self._shape_of(command.model) if command.model else None,
                self._shape_of(draft) if draft else None, min(gpus, key=lambda gpu: gpu.memory_bytes, default=None),
            )  # fmt: skip
        yield from (check for check in (verify_step(command, proposed), draft_place(command)) if check is not None)
        yield host_memory_check(self._host(), self._taken_by(pid) if pid is not None else None)
        yield from self._known_issues(command, proposed)
        try:
            found = self._ask_engine(self._launcher.render(proposed))
        except LaunchError:
            return  # said by the check of the command
        if found is not None:
            yield found

    def _known_issues(self, command: ParsedCommand, proposed: Setting) -> Iterator[Check]:
        """Shown and never refused: each concerns a range of releases and some traffic, and many were survived."""
        version = self._launcher.version() if command.engine is Engine.VLLM else None
        method = canonical_method(proposed.method)
        if version is None or method is None or proposed.is_off:
            return
        try:
            release = parse_version(Engine.VLLM, version)
        except LaunchError:
            return
        for issue in applying(self._issues, release, method, conditions(command, proposed)):
            if not issue.is_specific:
                # True of every server everywhere: `advise` says it once, a plan need not.
                continue
            yield Check(f"known issue {issue.id}", None, f"{issue.effect} ({issue.link})")


def conditions(command: ParsedCommand, proposed: Setting) -> frozenset[Condition]:
    """What of a command line known issues depend on."""
    found = set()
    if "--enable-lora" in target_arguments(command.engine, command.base_argv):
        found.add(Condition.LORA)
    if command.pipeline_parallel_size > 1:
        found.add(Condition.PIPELINE_PARALLEL)
    if command.data_parallel_size > 1:
        found.add(Condition.DATA_PARALLEL)
    if proposed.schedule:
        found.add(Condition.SCHEDULE)
    if command.speculation is not None and command.speculation.quantization is not None:
        found.add(Condition.DRAFT_QUANTIZATION)
    return frozenset(found)
