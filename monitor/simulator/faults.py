"""Faults that can be ordered from a simulated server, by flag or at run time. It owns the orders, not their effects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from monitor.errors import ConfigError, Problem
from monitor.simulator.tables import find_family

_FLAG = re.compile(r"^(?P<kind>[a-z_0-9]+)(?:=(?P<value>[^@]*))?(?:@(?P<after>\d+(?:\.\d+)?)s?)?$")


class FaultKind(StrEnum):
    """Every fault, by the word used in `--sim-fault` and `POST /-/sim/fault`."""

    CLIFF = "cliff"
    DECAY = "decay"
    SHIFT = "shift"
    STUCK = "stuck"
    SLEEP = "sleep"
    WORSE_K = "worse_k"
    COLD_START = "cold_start"
    DIE = "die"
    DIE_ON_FIRST_REQUEST_K = "die_on_first_request_k"
    START_FAILURE_K = "start_failure_k"
    SLOW_START = "slow_start"
    HEALTH_OK_COMPLETIONS_500 = "health_ok_completions_500"
    HTTP_500 = "http_500"
    HANG_METRICS = "hang_metrics"
    DRIP_METRICS = "drip_metrics"
    TRUNCATE_METRICS = "truncate_metrics"
    IGNORE_SIGTERM = "ignore_sigterm"
    ORPHAN_CHILD = "orphan_child"


@dataclass(frozen=True, slots=True)
class _Takes:
    """What value a fault takes: its default (`None`: must be given), what is expected, a pattern it must match."""

    default: str | None
    expected: str
    pattern: str = ""
    only_at_start: bool = False


_NUMBER = r"\d+(?:\.\d+)?"
#: Values by kind; an empty pattern means that the fault takes none.
TAKES = {
    FaultKind.CLIFF: _Takes("0.02", "the acceptance of position 0 from then on, 0 to 1", r"0(?:\.\d+)?|1(?:\.0+)?"),
    FaultKind.DECAY: _Takes("86400", "seconds of uptime that halve each conditional rate", _NUMBER),
    FaultKind.SHIFT: _Takes(None, "the table of the new workload", r".+"),
    FaultKind.STUCK: _Takes("", "no value"),
    FaultKind.SLEEP: _Takes("", "no value"),
    FaultKind.WORSE_K: _Takes(None, "K or K:FACTOR, which steps take longer from k = K on", rf"\d+(?::{_NUMBER})?"),
    FaultKind.COLD_START: _Takes("60:3", "SECONDS or SECONDS:FACTOR", rf"{_NUMBER}(?::{_NUMBER})?"),
    FaultKind.DIE: _Takes("", "no value"),
    FaultKind.DIE_ON_FIRST_REQUEST_K: _Takes(None, "the k from which the engine dies", r"\d+"),
    FaultKind.START_FAILURE_K: _Takes(None, "K, K:oom or K:flag", r"\d+(?::(?:oom|flag))?", only_at_start=True),
    FaultKind.SLOW_START: _Takes("60", "seconds more until ready", _NUMBER, only_at_start=True),
    FaultKind.HEALTH_OK_COMPLETIONS_500: _Takes("", "no value"),
    FaultKind.HTTP_500: _Takes("", "no value"),
    FaultKind.HANG_METRICS: _Takes("", "no value"),
    FaultKind.DRIP_METRICS: _Takes("1", "seconds between two pieces of the page", _NUMBER),
    FaultKind.TRUNCATE_METRICS: _Takes("silent", "silent (a short page that claims to be whole) or cut", r"silent|cut"),
    FaultKind.IGNORE_SIGTERM: _Takes("", "no value"),
    FaultKind.ORPHAN_CHILD: _Takes("600", "seconds that the child lives", _NUMBER, only_at_start=True),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One order: what, with which value, from which simulated second of uptime on."""

    kind: FaultKind
    value: str = ""
    after_seconds: float = 0.0

    def numbers(self) -> tuple[float, ...]:
        """The value's numbers, as in `3:1.6`; empty where it has none."""
        return tuple(float(part) for part in self.value.split(":") if re.fullmatch(_NUMBER, part))

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.kind}{value}" + (f"@{self.after_seconds:g}s" if self.after_seconds else "")


def parse_fault(text: str) -> Fault:
    """Read `KIND[=VALUE][@SECONDS]`, for example `cliff@40` or `worse_k=3:1.6`.

    Raises:
        ConfigError: unknown kind, or a value that the kind does not take.
    """
    match = _FLAG.match(text)
    if match is None:
        raise _wrong(repr(text), "KIND[=VALUE][@SECONDS]")
    return make_fault(match["kind"], match["value"] or "", float(match["after"] or 0))


def make_fault(kind: str, value: str = "", after_seconds: float = 0.0) -> Fault:
    """One checked order, its value's default filled in.

    Raises:
        ConfigError: unknown kind, or a value that the kind does not take.
    """
    if kind not in FaultKind.__members__.values():
        raise _wrong(repr(kind), "one of " + ", ".join(FaultKind))
    known = FaultKind(kind)
    takes = TAKES[known]
    value = value or takes.default or ""
    if not re.fullmatch(takes.pattern, value):
        raise _wrong(f"{kind}={value}", f"{kind} with {takes.expected}")
    if known is FaultKind.SHIFT:
        find_family(value)
    return Fault(known, value, max(0.0, after_seconds))


class Faults:
    """The orders of one server; the latest order of a kind replaces the one before."""

    def __init__(self, orders: Iterable[Fault] = ()) -> None:
        self._orders = {fault.kind: fault for fault in orders}

    def order(self, fault: Fault, uptime_seconds: float) -> None:
        """Add an order at run time; its `after_seconds` counts from now.

        Raises:
            ConfigError: this fault can only be ordered when the server starts.
        """
        if TAKES[fault.kind].only_at_start:
            raise _wrong(str(fault), "a fault that can be ordered while the server runs; this one is a start flag")
        self._orders[fault.kind] = replace(fault, after_seconds=uptime_seconds + fault.after_seconds)

    def clear(self, kind: FaultKind) -> None:
        """Take an order back; nothing happens where there is none."""
        self._orders.pop(kind, None)

    def active(self, kind: FaultKind, uptime_seconds: float) -> Fault | None:
        """The order of this kind if its time has come."""
        fault = self._orders.get(kind)
        return fault if fault is not None and uptime_seconds >= fault.after_seconds else None

    def next_change(self, uptime_seconds: float) -> float | None:
        """The next second of uptime at which an order begins, so that the engine can stop there; `None`: none."""
        times = [fault.after_seconds for fault in self._orders.values() if fault.after_seconds > uptime_seconds]
        return min(times, default=None)

    def __iter__(self) -> Iterator[Fault]:
        return iter(tuple(self._orders.values()))


def _wrong(found: str, expected: str) -> ConfigError:
    return ConfigError([Problem("--sim-fault", found, expected)])
