"""What a receiver is: takes a notice, gives back what it calls the message, or says why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from monitor.model.notice import Notice


@dataclass(frozen=True, slots=True)
class Root:
    """The first message of a thread as a receiver knows it, for edits and replies.

    `open_posts` are those of its messages, oldest first, that say that something fires and were not closed yet: what
    was posted anew (a repeat, more alerts) is closed by the same edit, or it would say so for ever.
    """

    external_id: str
    open_posts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """What earlier attempts to say the same notice left behind."""

    #: One of them may have arrived without our knowing: a receiver that can look does so before it says it again.
    is_unclear: bool = False
    #: What the receiver calls the message, where it arrived and only something after it failed (a file).
    external_id: str | None = None
    #: What the notice says is over, and that waits behind it: it is only of interest whether it arrived before.
    is_over: bool = False
    #: Any message that arrived at this receiver before, where an unclear one must be looked for: it tells the place.
    neighbour: Root | None = None


FIRST = Attempt()


class Receiver(Protocol):
    """One place where notices go."""

    @property
    def name(self) -> str:
        """Its name in outbox rows, metrics and logs."""
        ...

    @property
    def pause_seconds(self) -> float:
        """Least time between two messages that it allows."""
        ...

    def deliver(self, notice: Notice, root: Root | None, attempt: Attempt = FIRST) -> str | None:
        """Say `notice`; `root` is the thread's first message here, None if there is none.

        Returns the receiver's name of the message, None where it has none. Raises NotifyError.
        """
        ...


def markers(notice: Notice) -> str:
    """Words that must stand in front of a notice wherever it is shown."""
    return "SIMULATED " if notice.simulated else ""
