"""One finding of the doctor: what was looked at, how it is, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How bad it is."""

    OK = "ok"
    #: Works, and could be better; or nobody could look.
    NOTE = "note"
    #: Something does not work, or will not when it is needed.
    PROBLEM = "problem"


class Area(StrEnum):
    """What is looked at, in the order in which it is shown."""

    CONFIGURATION = "configuration"
    FILES = "files"
    STORE = "store"
    DAEMON = "daemon"
    UNIT = "unit"
    HOST = "host"
    RECEIVERS = "receivers"
    SOURCES = "sources"
    SERVERS = "servers"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `todo` says what to do and is empty only where all is well."""

    area: Area
    subject: str
    state: State
    sentence: str
    todo: str = ""

    def __post_init__(self) -> None:
        if self.state is State.PROBLEM and not self.todo:
            raise ValueError(f"{self.subject}: a problem without something to do about it")


@dataclass(frozen=True, slots=True)
class Subject:
    """Makes findings about one thing."""

    area: Area
    name: str

    def ok(self, sentence: str) -> Finding:
        """All is well."""
        return Finding(self.area, self.name, State.OK, sentence)

    def note(self, sentence: str, todo: str = "") -> Finding:
        """It could be better."""
        return Finding(self.area, self.name, State.NOTE, sentence, todo)

    def problem(self, sentence: str, todo: str) -> Finding:
        """It does not work."""
        return Finding(self.area, self.name, State.PROBLEM, sentence, todo)


def has_problem(findings: Iterable[Finding]) -> bool:
    """Whether any of them is a problem."""
    return any(one.state is State.PROBLEM for one in findings)
