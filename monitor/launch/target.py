"""What a server is beside its speculation: the arguments that replicas of one model share, and how it ends when asked.

It compares nothing; what only says where a server listens and who may ask it is no part of what it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from monitor.errors import LaunchError
from monitor.launch.argv import Found, is_flag
from monitor.launch.parse import ParsedCommand, scan_arguments
from monitor.launch.program import arguments_at
from monitor.launch.redact import redact
from monitor.launch.versions import Version, bound, parse_version
from monitor.model.server import Engine

#: Flags by which replicas of one model differ without being different: place, credentials, log.
_OWN: Final = frozenset(
    "--host --port --uds --root-path --api-key --admin-api-key --api-key-file --api-server-count --ssl-keyfile"
    " --ssl-certfile --ssl-ca-certs --ssl-key-file --ssl-cert-file --log-file --log-level --log-level-http --log-config"
    " --uvicorn-log-level --disable-access-log --disable-log-stats --enable-metrics --metrics --nccl-port"
    " --dist-init-addr --master-addr --master-port --base-gpu-id --data-parallel-rpc-port --shutdown-timeout".split()
)
#: First vLLM that lets running requests end (`vllm/entrypoints/launcher.py`, `--shutdown-timeout`).
_FIRST_WITH_GRACE: Final = "0.18.0"


def target_arguments(engine: Engine, argv: Sequence[str]) -> dict[str, str]:
    """Every argument of a command line beside speculation, place and credentials: flag (as we write it) to its value.

    Positional arguments stand under their number. Secrets are hidden, so that what is shown of it can be shown.
    """
    start = arguments_at(argv, engine) or 1
    found = {hit.start: hit for hit in scan_arguments(engine, argv).found}
    given: dict[str, str] = {}
    for name, values in _groups(redact(argv), start, found):
        key = name or f"argument {sum(1 for known in given if known.startswith('argument')) + 1}"
        if key not in _OWN:
            # A flag that is given twice adds up (`--lora-modules`) or replaces: either way both words count.
            given[key] = " ".join((given[key], *values)) if key in given else " ".join(values)
    return given


def _groups(
    argv: Sequence[str], start: int, found: Mapping[int, Found]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Flags with their values in order; a name that is empty stands for a positional argument."""
    at = start
    while at < len(argv):
        hit = found.get(at)
        if hit is not None:
            if not hit.flag.is_speculation:
                yield hit.flag.names[0], tuple(value for item in argv[at : hit.stop] if (value := _value(item)))
            at = hit.stop
            continue
        item, at = argv[at], at + 1
        if not is_flag(item):
            yield "", (item,)
            continue
        name, equals, value = item.partition("=")
        values = [value] if equals else []
        while not equals and at < len(argv) and at not in found and not is_flag(argv[at]):
            values.append(argv[at])
            at += 1
        yield name.replace("_", "-"), tuple(values)


def _value(item: str) -> str:
    """The value in an item of a known flag: what follows `=`, nothing of the bare name."""
    if not is_flag(item):
        return item
    return item.partition("=")[2]


def grace_seconds(command: ParsedCommand, version: str | None, environ: Mapping[str, str]) -> float:
    """How long a server that is asked to end lets requests in flight go on (seconds); 0: it cuts them, inf: no limit.

    vLLM from 0.18.0 as its `--shutdown-timeout` says (0 unless given); SGLang ends once all are answered, unless
    SGL_FORCE_SHUTDOWN is set; llama-server and everything older cut. 0 where the version is not known.
    """
    if command.engine is Engine.SGLANG:
        return 0.0 if environ.get("SGL_FORCE_SHUTDOWN", "").lower() in ("1", "true", "yes", "y") else math.inf
    if command.engine is not Engine.VLLM or not command.shutdown_timeout_seconds or version is None:
        return 0.0
    try:
        release: Version = parse_version(Engine.VLLM, version)
    except LaunchError:
        return 0.0
    return command.shutdown_timeout_seconds if release.release >= bound(_FIRST_WITH_GRACE) else 0.0
