"""Whether the servers of a group are replicas of each other: same engine and release, same arguments, same GPU.

A canary speaks for its peers only where they are; otherwise the difference is named. What is not known of a server is
no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from monitor.actions.fleet import Managed
from monitor.drivers.protocol import Launcher
from monitor.launch import Speculation, redact, target_arguments
from monitor.model.server import ServerName
from monitor.store.api import Unit

#: Differences that are told: more say nothing new.
_MOST_TOLD = 5
#: Environment variables by which replicas differ without being different: the devices and the place of each.
_OWN = ("VISIBLE_DEVICES", "OMP_THREADS_BIND", "PORT", "HOST", "HOST_IP", "NUMA", "CPU_AFFINITY", "LOG_FILE", "LOG_DIR")


def differences(unit: Unit, servers: Sequence[ServerName], managed: Mapping[ServerName, Managed]) -> tuple[str, ...]:
    """How servers differ from the first of them, a sentence each; empty where they are replicas."""
    known = [managed[name] for name in servers if name in managed]
    if len(known) < 2:
        return ()
    first, *others = known
    told = [sentence for other in others for sentence in _between(unit, first, other)]
    more = (f"and {len(told) - _MOST_TOLD} more differences",) if len(told) > _MOST_TOLD else ()
    return (*told[:_MOST_TOLD], *more)


def _between(unit: Unit, first: Managed, other: Managed) -> Iterator[str]:
    a, b = first.server, other.server
    parsed, theirs = first.driver.launcher.parsed, other.driver.launcher.parsed
    facts: list[tuple[str, str | None, str | None]] = [
        ("the engine", parsed.engine.value, theirs.engine.value),
        ("the engine's release", _version(unit, a.name), _version(unit, b.name)),
        ("the GPU", a.gpu, b.gpu),
    ]
    for what, ours, found in facts:
        if ours is not None and found is not None and ours != found:
            yield f"{what} of {b.name} is {found}, of {a.name} {ours}"
    yield from _of_two(a.name, b.name, _arguments(first.driver.launcher), _arguments(other.driver.launcher))
    yield from _of_two(a.name, b.name, _environment(first.driver.launcher), _environment(other.driver.launcher))
    if _drafting(parsed.speculation) != _drafting(theirs.speculation):
        yield f"the speculation of {b.name}, its number of tokens aside, is another than that of {a.name}"


def _of_two(a: str, b: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for name in (*ours, *(other for other in theirs if other not in ours)):
        if name not in theirs:
            yield f"{b} lacks {_shown(name, ours[name])}, which {a} has"
        elif name not in ours:
            yield f"{b} has {_shown(name, theirs[name])}, which {a} lacks"
        elif ours[name] != theirs[name]:
            yield f"{b} has {_shown(name, theirs[name])}, {a} has {_shown(name, ours[name])}"


def _shown(name: str, value: str) -> str:
    return f"{name} {value}".strip()


def _version(unit: Unit, server: ServerName) -> str | None:
    known = [life.engine_version for life in unit.lives.open_of(server) if life.engine_version is not None]
    return known[-1] if known else None


def _arguments(launcher: Launcher) -> Mapping[str, str]:
    return target_arguments(launcher.parsed.engine, launcher.parsed.base_argv)


def _environment(launcher: Launcher) -> Mapping[str, str]:
    given = {name: value for name, value in sorted(launcher.environ.items()) if not name.endswith(_OWN)}
    shown = redact([f"{name}={value}" for name, value in given.items()])
    return {name: item.partition("=")[2] for name, item in zip(given, shown, strict=True)}


def _drafting(speculation: Speculation | None) -> Speculation | None:
    """A speculation without what is tuned."""
    if speculation is None:
        return None
    return replace(speculation, num_speculative_tokens=None, num_speculative_tokens_per_batch_size=())
