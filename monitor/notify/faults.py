"""Requests that got no answer, as our errors: whether the message may have arrived all the same."""

from __future__ import annotations

import socket

from requests.exceptions import ConnectTimeout
from urllib3.exceptions import NewConnectionError

from monitor.errors import NotifyError

#: Faults after which it is certain that nothing arrived: there was no connection to send anything over.
_BEFORE_SENDING = (ConnectionRefusedError, socket.gaierror, NewConnectionError, ConnectTimeout)


def no_answer(who: str, error: BaseException) -> NotifyError:
    """The error for a request that got no answer: `unreachable` where it surely was not sent, else `no_answer`.

    Only types are passed on: the texts of such errors carry the request, and with it tokens and secret addresses.
    """
    text = f"{who} cannot be reached ({type(error).__name__})"
    is_unsent = any(isinstance(cause, _BEFORE_SENDING) for cause in _causes(error))
    return NotifyError(text, reason="unreachable" if is_unsent else "no_answer", retryable=True)


def _causes(error: BaseException) -> list[BaseException]:
    """An error with all that lies below it, also where libraries keep that in `reason` or in their arguments."""
    found: list[BaseException] = []
    left: list[object] = [error]
    while left and len(found) < 20:
        one = left.pop()
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            left += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return found
