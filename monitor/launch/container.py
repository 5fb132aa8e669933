"""Where, in the command that starts a container, the server's own arguments begin. It knows no engine.

`docker run [OPTION…] IMAGE [COMMAND] [ARGUMENT…]`, and so podman and nerdctl: what stands before the image is the
runtime's, what stands after it goes to the image's entry point.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

_RUNTIMES = frozenset({"docker", "podman", "nerdctl"})
_RUN = frozenset({"run", "create"})
#: What may stand before the runtime.
_BEFORE = frozenset({"sudo", "env", "nice", "exec"})
#: Options that take no value (docker 27, podman 5: `docker run --help`, podman-run(1)); all others take one.
_SWITCHES = frozenset(
    "--detach --disable-content-trust --env-host --help --http-proxy --init --interactive --no-healthcheck --no-hosts"
    " --no-hostname --oom-kill-disable --passwd --privileged --publish-all --quiet --read-only --read-only-tmpfs"
    " --replace --rm --rmi --rootfs --sig-proxy --tls-verify --tty --use-api-socket --sdnotify-container".split()
)
_SHORT_SWITCHES = frozenset("diPqt")
#: Options of the runtime itself, before `run`, that take no value.
_RUNTIME_SWITCHES = frozenset({"--debug", "-D", "--tls", "--tlsverify", "--remote", "-r"})


def is_container_start(argv: Sequence[str]) -> bool:
    """Whether this command starts a container."""
    return image_at(argv) is not None


def image_at(argv: Sequence[str]) -> int | None:
    """The place of the image in a command that starts a container; None for any other command."""
    names = [PurePosixPath(item).name for item in argv]
    first = next((at for at, item in enumerate(argv) if names[at] not in _BEFORE and "=" not in item), None)
    if first is None or names[first] not in _RUNTIMES:
        return None
    at = _after_options(argv, first + 1, _RUNTIME_SWITCHES)
    if at is not None and argv[at] == "container":
        at = at + 1 if at + 1 < len(argv) else None
    if at is None or argv[at] not in _RUN:
        return None
    return _after_options(argv, at + 1, _SWITCHES)


def _after_options(argv: Sequence[str], at: int, switches: frozenset[str]) -> int | None:
    """The first item from `at` on that is neither an option nor the value of one."""
    while at < len(argv):
        item = argv[at]
        if not item.startswith("-") or item == "-":
            return at
        name, equals, _ = item.partition("=")
        short = not item.startswith("--")
        if equals or name in switches or (short and item not in switches and set(item[1:]) <= _SHORT_SWITCHES):
            at += 1
        elif short and len(item) > 2 and item[1] not in _SHORT_SWITCHES:
            # `-p8000:8000`: the value is joined.
            at += 1
        else:
            at += 2
    return None
