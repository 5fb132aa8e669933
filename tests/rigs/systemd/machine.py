"""Owns a real systemd in namespaces of its own: booted on an overlay of `/`, gone without a trace. It judges nothing.

Nothing of the host is written: `/` is the lower layer of an overlay whose upper one is a tmpfs, `/sys` and `/proc/sys`
are read-only, and systemd finds only the units that are named here and those that a test installs. The network is the
host's, so a server in there answers on loopback; ports must be free ones.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.rigs.cache import cache_root

ROOT = Path(__file__).resolve().parents[3]
#: Where the machine holds this checkout, this interpreter, its packages, and the cache of built rigs.
CODE, PYTHON, PACKAGES, CACHE = "/opt/acceptd/code", "/opt/acceptd/python", "/opt/acceptd/packages", "/opt/rigs"
#: This interpreter in the machine; it needs `PYTHONPATH`, as `PYTHON_ENV` has it.
PYTHON_ARGV = (f"{PYTHON}/bin/python{sys.version_info.major}.{sys.version_info.minor}",)
PYTHON_ENV = {
    "PYTHONPATH": f"{CODE}:{PACKAGES}",
    "PYTHONDONTWRITEBYTECODE": "1",
    # A shared libpython is looked for where the interpreter was built, and that place may be closed to other users.
    "LD_LIBRARY_PATH": f"{PYTHON}/lib",
}
SYSTEMD = Path("/lib/systemd/systemd")
#: Programs without which there is no such machine, and the Debian packages that hold them.
_PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "systemctl": "systemd", "dbus-daemon": "dbus"}
_FILES = {str(SYSTEMD): "systemd", "/usr/lib/polkit-1/polkitd": "polkitd"}
#: Units of the host that are taken over as they are. Everything else stays unknown: no timers, no udev, no sysctl.
_UNITS = (
    "sysinit.target", "basic.target", "multi-user.target", "network-online.target", "network.target", "sockets.target",
    "shutdown.target", "umount.target", "final.target", "dbus.service", "dbus.socket", "polkit.service",
    "systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket",
)  # fmt: skip
_TARGET = """
[Unit]
Description=what tests need
Requires=basic.target dbus.socket systemd-journald.socket systemd-journald-dev-log.socket
After=basic.target dbus.socket
AllowIsolate=yes
"""
#: Seconds for a busy machine; an idle one needs one or two.
_BOOT_SECONDS = 90.0
_STAGE_1 = """
set -e
work=$1 name=$2
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$work"
mkdir "$work/cgroup"
mount -t cgroup2 cgroup2 "$work/cgroup"
mkdir "$work/cgroup/$name"
echo 0 > "$work/cgroup/$name/cgroup.procs"
exec unshare --cgroup /bin/sh -c "$3" stage2 "$work"
"""
_STAGE_2 = """
set -e
work=$1
umount "$work/cgroup"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
cd "$work/root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind /dev dev
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs etc/systemd/system
mkdir -p run/units var/log/journal
for unit in $UNITS; do cp "/lib/systemd/system/$unit" run/units/; done
printf '%s' "$TARGET" > run/units/test.target
printf '[Manager]\\nDefaultTimeoutStopSec=20\\n' > etc/systemd/system.conf
printf '[Journal]\\nStorage=volatile\\nRateLimitBurst=0\\nForwardToConsole=no\\n' > etc/systemd/journald.conf
rm -rf etc/systemd/system.conf.d etc/systemd/journald.conf.d etc/polkit-1/rules.d/*
number=0
printf '%s' "$SHOWN" | while IFS='	' read -r source target; do
    number=$((number + 1))
    mkdir -p "$work/$number/u" "$work/$number/w" "./$target"
    # Later ones come to lie over /tmp and over file systems that the overlay of / does not hold.
    mount -t overlay overlay -o "lowerdir=$source,upperdir=$work/$number/u,workdir=$work/$number/w" "./$target"
done
export container=lxc SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/systemd/system:/run/systemd/transient:/run/units
unset UNITS TARGET SHOWN
# As a real boot leaves it, for mounts that systemd makes for services (credentials); shared with nobody outside.
mount --make-rshared "$work/root"
exec chroot . /lib/systemd/systemd --system --unit=test.target --show-status=no --log-target=journal
"""


class Machine:
    """A booted machine. Paths are those inside; `path` gives the same file from outside."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        #: Its root as seen from outside.
        self.root = Path(f"/proc/{pid}/root")
        #: The prefix that runs a command in it as root.
        self.enter = ("nsenter", "-t", str(pid), "-a", "-r", "-w")

    def path(self, inside: str | Path) -> Path:
        """Where a file of the machine lies for us."""
        return self.root / str(inside).lstrip("/")

    def write(self, inside: str | Path, text: str, mode: int = 0o644) -> Path:
        """Write a file of root's, folders as needed."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def run(
        self, *argv: str | Path, user: str | None = None, group: str | None = None, check: bool = True,
        seconds: float = 120.0, env: Mapping[str, str] | None = None, stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as root or as `user` with all of its groups."""
        known = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        argv = tuple(str(item) for item in argv)
        if user is not None:
            argv = ("setpriv", f"--reuid={user}", f"--regid={group or user}", "--init-groups", *argv)
        done = subprocess.run(
            [*self.enter, *argv], capture_output=True, text=True, timeout=seconds, env={**known, **(env or {})},
            check=False, input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        """Properties of a unit."""
        text = self.run("systemctl", "show", unit, *(f"--property={name}" for name in properties)).stdout
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def journal(self, *matches: str) -> str:
        """The journal's messages, oldest first."""
        return self.run("journalctl", "--no-pager", "--output=cat", *matches, check=False).stdout


def missing() -> str:
    """What keeps such a machine from being booted here; empty where nothing does."""
    if os.geteuid() != 0:
        return "it needs root"
    lost = {package for name, package in _PROGRAMS.items() if shutil.which(name) is None}
    lost |= {package for name, package in _FILES.items() if not Path(name).exists()}
    if lost:
        return f"not installed: {', '.join(sorted(lost))}"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--cgroup", "--ipc", "--uts", "sh", "-c",
         "mount --make-rprivate / && mount -t tmpfs tmpfs /mnt && mkdir /mnt/u /mnt/w /mnt/r /mnt/c"
         " && mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r"
         " && mount -t cgroup2 cgroup2 /mnt/c"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


@contextlib.contextmanager
def booted(shown: Mapping[str, Path]) -> Iterator[Machine]:
    """A machine that is up; all of its processes are killed at the end.

    `shown` are folders of the host, by where they lie in the machine, whatever file system they are on; what is written
    there stays in memory.
    """
    folder = Path(tempfile.mkdtemp(prefix="acceptd-machine-"))
    name = f"acceptd-test-{os.getpid()}-{folder.name.rpartition('-')[2]}"
    log = folder.with_suffix(".log")
    environ = {**os.environ, "UNITS": " ".join(_UNITS), "TARGET": _TARGET}
    environ["SHOWN"] = "".join(f"{source}\t{place.strip('/')}\n" for place, source in shown.items())
    with log.open("wb") as output:
        outer = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "/bin/sh", "-c", _STAGE_1,
             "stage1", str(folder), name, _STAGE_2],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ,
        )  # fmt: skip
    try:
        yield _wait(outer, log)
    finally:
        for pid in _children(outer.pid):
            with contextlib.suppress(ProcessLookupError):
                # The first process of the namespace: the kernel ends all others with it.
                os.kill(pid, signal.SIGKILL)
        outer.kill()
        outer.wait()
        _remove_groups(name)
        shutil.rmtree(folder, ignore_errors=True)
        log.unlink(missing_ok=True)


def _wait(outer: subprocess.Popen[bytes], log: Path) -> Machine:
    deadline = time.monotonic() + _BOOT_SECONDS
    while time.monotonic() < deadline and outer.poll() is None:
        for pid in _children(outer.pid):
            if Path(f"/proc/{pid}/comm").read_text().strip() != "systemd":
                continue
            machine = Machine(pid)
            state = machine.run("systemctl", "is-active", "test.target", check=False, seconds=30).stdout.strip()
            if state == "active" and machine.path("/run/dbus/system_bus_socket").exists():
                return machine
        time.sleep(0.1)
    raise AssertionError(f"systemd did not come up:\n{log.read_text(errors='replace')[-3000:]}")


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _remove_groups(name: str) -> None:
    """Remove the empty control groups that are left, where the host shows them; the kernel may need a moment."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        top = Path(place) / name
        for _ in range(50):
            if kind != "cgroup2" or not top.is_dir():
                break
            for folder in [*sorted(top.rglob("*"), key=lambda path: -len(path.parts)), top]:
                if folder.is_dir():
                    with contextlib.suppress(OSError):
                        folder.rmdir()
            time.sleep(0.02)


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """One machine for the whole test session; skipped where it cannot be, an error in CI."""
    why = missing()
    if why:
        text = f"*** NO REAL SYSTEMD HERE ({why}): its tests are NOT RUN ***"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        print(text, file=sys.stderr)
        pytest.skip(text)
    packages = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    shown = {PACKAGES: packages, PYTHON: Path(sys.base_prefix)}
    if cache_root().is_dir():
        shown[CACHE] = cache_root()
    with booted(shown) as one:
        _install_checkout(one)
        yield one


def _install_checkout(machine: Machine) -> None:
    """Put this checkout where every user of the machine may read it, and the command `acceptd` on its path."""
    for name in ("monitor", "rules", "migrations", "systemd", "tests/fakes"):
        shutil.copytree(ROOT / name, machine.path(f"{CODE}/{name}"), ignore=shutil.ignore_patterns("__pycache__"))
    machine.write(f"{CODE}/tests/__init__.py", "")
    machine.run("chmod", "-R", "a+rX", CODE)
    # Only the folders themselves may be closed to others, as below /root.
    machine.run("chmod", "a+rx", PACKAGES, PYTHON)
    given = " ".join(f"{name}={value}" for name, value in PYTHON_ENV.items())
    machine.write("/usr/local/bin/acceptd", f'#!/bin/sh\n{given} exec {" ".join(PYTHON_ARGV)} -m monitor "$@"\n', 0o755)
