"""What `acceptd install` puts in place: units, users, folders, polkit rule; and how they are taken away.

Never touched: servers, their units' state, the configuration, the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from monitor.drivers.unit_command import DROP_IN
from monitor.errors import ActionError
from monitor.shipped import systemd_folder
from monitor.units.permission import RULE, rule
from monitor.units.plan import Link, Plan, Put, Remove, Run, Step

UNITS = Path("/etc/systemd/system")
_PROGRAM = Path("/usr/local/bin/acceptd")
#: Shipped files by where they go. The operator edits those of the second kind; they are made once and then left alone.
_SHIPPED = {
    "acceptd.service": UNITS / "acceptd.service",
    "vllm@.service": UNITS / "vllm@.service",
    "acceptd.sysusers": Path("/etc/sysusers.d/acceptd.conf"),
    "acceptd.tmpfiles": Path("/etc/tmpfiles.d/acceptd.conf"),
}
_THEIRS = {
    "acceptd.env": Path("/etc/acceptd/acceptd.env"),
    "server.env": Path("/etc/acceptd/servers/NAME.env.example"),
}
#: Folders whose programs services find, and folders that `ProtectHome=` hides from the daemon.
_FOUND = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
_HIDDEN = ("/home", "/root", "/run/user")


def install_plan(units: Iterable[str], program: Path, root: Path = Path("/")) -> Plan:
    """Everything that the service needs. `units` are the servers' that it may restart, `program` is this `acceptd`.

    Raises ActionError where the service's user could not run the program.
    """
    steps: list[Step] = [Put(path, _text(name)) for name, path in _SHIPPED.items()]
    steps += [Put(path, _text(name), mode=0o640, is_theirs=True) for name, path in _THEIRS.items()]
    steps.append(rule({*units, *adopted(root)}))
    if not any((root / folder.lstrip("/") / "acceptd").exists() for folder in _FOUND):
        steps.append(Link(_PROGRAM, _reachable(program)))
    steps += [
        Run(("systemd-sysusers", str(_SHIPPED["acceptd.sysusers"]))),
        # Folders with the owners they must have, and the owner of files that were put into them.
        Run(("systemd-tmpfiles", "--create", str(_SHIPPED["acceptd.tmpfiles"]))),
        Run(("systemctl", "daemon-reload")),
    ]
    return Plan(tuple(steps), root=root)


def uninstall_plan(root: Path = Path("/"), *, running: Iterable[str] = ()) -> Plan:
    """Take away what was put in place, but for what was edited. `running` are units of servers that run now.

    Raises ActionError while a unit is adopted: its command line would go with the drop-in.
    """
    taken = sorted(adopted(root))
    if taken:
        raise ActionError(
            f"{', '.join(taken)} would lose acceptd's drop-in: `acceptd adopt --release {taken[0]}` first",
            reason="adopted",
        )
    instances = sorted(unit for unit in running if unit.startswith("vllm@"))
    gone = {name: path for name, path in _SHIPPED.items() if not (name == "vllm@.service" and instances)}
    steps: list[Step] = [Run(("systemctl", "disable", "--now", "acceptd.service"))]
    steps += [Remove(path, keep=path.parent, unless_not=_text(name)) for name, path in gone.items()]
    steps.append(Remove(RULE, keep=RULE.parent))
    if (root / _PROGRAM.relative_to("/")).is_symlink():
        steps.append(Remove(_PROGRAM, keep=_PROGRAM.parent))
    steps.append(Run(("systemctl", "daemon-reload")))
    remarks = ["/etc/acceptd, /var/lib/acceptd and the users acceptd and vllm stay; remove them yourself"]
    if instances:
        remarks.append(f"vllm@.service stays, since {', '.join(instances)} runs; servers are never stopped")
    return Plan(tuple(steps), tuple(remarks), root)


def adopted(root: Path = Path("/")) -> frozenset[str]:
    """The units that `acceptd adopt` gave a drop-in."""
    folder = root / UNITS.relative_to("/")
    return frozenset(path.parent.name.removesuffix(".d") for path in folder.glob(f"*.service.d/{DROP_IN}"))


def _text(name: str) -> str:
    return (systemd_folder() / name).read_text()


def _reachable(program: Path) -> Path:
    if str(program).startswith(tuple(f"{folder}/" for folder in _HIDDEN)):
        raise ActionError(
            f"{program} lies where the service's user cannot look: install acceptd elsewhere, such as /opt/acceptd, and"
            " run this `install` from there",
            reason="install",
        )
    return program
