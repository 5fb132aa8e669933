"""Writing values as flags of one release, from any engine's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.launch.argv import Flag
from monitor.launch.outcome import Finding, fatal
from monitor.launch.values import items_for
from monitor.launch.versions import Version


def write_flags(
    release: str, version: Version, flags: Sequence[Flag], given: Mapping[str, object]
) -> tuple[tuple[str, ...], list[Finding]]:
    """The items for the values of `given`, in its order, and a fatal finding for each that `version` has no flag for.

    A value of None is not given. `release` names engine and version in the findings.
    """
    rows = {flag.key: flag for flag in flags}
    argv: list[str] = []
    findings: list[Finding] = []
    for key, value in given.items():
        flag = rows.get(key)
        if value is None:
            continue
        if flag is None:
            findings.append(fatal(f"key {key}: {release} has no flag for it"))
        elif version not in flag.span:
            findings.append(fatal(f"{flag.names[0]}: {release} does not have it; it exists in {flag.span}"))
        else:
            argv += items_for(flag, value)
    return tuple(argv), findings
