"""Makes what looks at a host before a server is changed: files, GPUs, memory, known issues, its own vLLM."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Generic, TypeVar

from monitor.actions.inspection import Inspection
from monitor.advise.issues import KnownIssue, load_issues
from monitor.advise.shapes import ModelShape, shape_of_config
from monitor.clock import Clock
from monitor.drivers.own_check import OwnCheck
from monitor.drivers.protocol import Launcher
from monitor.errors import MonitorError
from monitor.shipped import rules_folder
from monitor.targets.drafts import DraftFacts, draft_facts
from monitor.targets.gpus import gpus
from monitor.targets.host_memory import host_memory, taken_by
from monitor.targets.model_files import find_model

log = logging.getLogger(__name__)
Found = TypeVar("Found")

#: How long the list of GPUs holds (seconds).
_GPUS_SECONDS = 60.0
#: How long what the files of a draft say holds (seconds).
_DRAFT_SECONDS = 900.0


def inspection(
    asks_engine: bool, launcher: Launcher, environ: Mapping[str, str], clock: Clock
) -> Inspection:
    """What looks at one server of this host; `environ` is what the server is started with."""
    own = OwnCheck(environ, launcher.redact)
    return Inspection(
        launcher,
        issues=known_issues(),
        shape_of=lambda name: shape_of_model(name, environ),
        gpus=Remembered(clock, gpus, _GPUS_SECONDS),
        host=host_memory,
        taken_by=taken_by,
        ask_engine=own.check if asks_engine else lambda command: None,
    )


def draft_of(launcher: Launcher, environ: Mapping[str, str], clock: Clock) -> Callable[[], DraftFacts]:
    """What the files of the server's draft say, looked at anew after a while; nothing while its command is unknown."""

    def look() -> DraftFacts:
        try:
            return draft_facts(launcher.parsed, environ)
        except MonitorError as error:
            log.debug("draft of a server not known: %s", error)
            return DraftFacts()

    return Remembered(clock, look, _DRAFT_SECONDS)


@cache
def known_issues() -> tuple[KnownIssue, ...]:
    """The shipped known issues."""
    path = rules_folder() / "known_issues.yaml"
    return load_issues(path.read_text(), str(path))


def shape_of_model(name: str, environ: Mapping[str, str]) -> ModelShape | None:
    """A model's shape from its files on this host; None where there are none, or where they cannot be read."""
    try:
        files = find_model(name, environ)
        return shape_of_config(name, files.config, files.stored_bytes) if files is not None else None
    except ValueError as error:
        log.debug("shape of a model not known model=%s: %s", name, error)
        return None


class Remembered(Generic[Found]):
    """An answer that is asked for anew only after a while: GPUs are listed by a program that takes its time."""

    def __init__(self, clock: Clock, ask: Callable[[], Found], seconds: float) -> None:
        self._clock = clock
        self._ask = ask
        self._seconds = seconds
        self._known: tuple[float, Found] | None = None

    def __call__(self) -> Found:
        """The answer, at most so many seconds old."""
        now = self._clock.monotonic()
        if self._known is None or now - self._known[0] >= self._seconds:
            self._known = now, self._ask()
        return self._known[1]
