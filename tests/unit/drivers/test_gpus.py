"""What GPUs hold of a server that is gone. The library is a stand-in: no GPU was at hand (see make test-gpu)."""

from __future__ import annotations

import signal
import sys
from types import ModuleType, SimpleNamespace

import pytest

from monitor.drivers.gpu_guard import GpuGuard
from monitor.drivers.nvml import Holder, Nvml, open_nvml
from monitor.drivers.procfs import Process, ProcFs
from monitor.drivers.protocol import DriverStatus, ServerState
from monitor.errors import ActionError
from monitor.model.life import Setting
from tests.fakes.fake_clock import FakeClock

TWO = Setting(method="ngram", num_speculative_tokens=2)


def process(pid: int, parent: int = 1, session: int = 0, ticks: int = 7, state: str = "S") -> Process:
    return Process(pid, ticks, parent, session, session, state, f"p{pid}")


class Inner:
    """A driver whose state a test sets."""

    kind, acts = "inner", True

    def __init__(self) -> None:
        self.now = DriverStatus(state=ServerState.RUNNING, pid=10)
        self.asked: list[str] = []

    def status(self) -> DriverStatus:
        return self.now

    def start(self, setting: Setting, token: str) -> None:
        self.asked.append("start")

    def stop(self, *, force: bool = False) -> None:
        self.asked.append("kill" if force else "stop")


class Table(ProcFs):
    """A process table that a test sets."""

    def __init__(self, *known: Process) -> None:
        self.known = {one.pid: one for one in known}
        self.killed: list[int] = []

    def process(self, pid: int) -> Process | None:
        return self.known.get(pid)

    def processes(self):  # type: ignore[no-untyped-def]
        return iter(tuple(self.known.values()))

    def send(self, process: Process, signum: signal.Signals) -> bool:
        self.killed.append(process.pid)
        return True


class Card:
    """A GPU: the pids that hold memory on it."""

    def __init__(self, *pids: int) -> None:
        self.pids = list(pids)

    def __call__(self) -> tuple[Holder, ...]:
        return tuple(Holder(pid, "GPU-1", 5) for pid in self.pids)


# A server (10) with an engine (11) and its worker (12, of another session); a stranger (99) on the same card.
FAMILY = (process(10, session=10), process(11, 10, 10), process(12, 11, 12), process(99))


def guard(*pids: int, table: Table | None = None) -> tuple[GpuGuard, Inner, Card, Table, FakeClock]:
    inner, card, clock, known = Inner(), Card(*pids), FakeClock(), table or Table(*FAMILY)
    made = GpuGuard(inner, card, known, clock)  # type: ignore[arg-type]
    assert made.status().state is ServerState.RUNNING
    return made, inner, card, known, clock


def test_a_server_whose_engine_still_holds_memory_is_not_gone() -> None:
    made, inner, card, table, _ = guard(11, 12, 99)
    inner.now = DriverStatus(state=ServerState.STOPPED, stop_asked=True)
    del table.known[10], table.known[11]
    card.pids = [12, 99]
    status = made.status()
    assert status.state is ServerState.LEFTOVERS
    # The stranger is none of its business.
    assert status.leftovers == ("GPU memory of p12 (pid 12)",)
    with pytest.raises(ActionError, match="GPU memory of p12") as caught:
        made.start(TWO, "t")
    assert caught.value.retryable and inner.asked == []
    made.stop(force=True)
    assert (inner.asked, table.killed) == (["kill"], [12])
    card.pids = [99]
    assert made.status().state is ServerState.STOPPED
    made.start(TWO, "t")
    assert inner.asked == ["kill", "start"]


def test_memory_of_the_dead_is_waited_for_and_then_let_be() -> None:
    made, inner, _, table, clock = guard(11)
    inner.now = DriverStatus(state=ServerState.EXITED)
    table.known.clear()
    assert made.status().leftovers == ("GPU memory of p11 (pid 11, dead)",)
    clock.advance(59)
    assert made.status().state is ServerState.LEFTOVERS
    clock.advance(2)
    # A card that never lets go keeps no server down.
    assert made.status().state is ServerState.EXITED
    made.start(TWO, "t")


def test_memory_that_a_living_process_holds_is_never_started_on_top_of() -> None:
    made, inner, _, table, clock = guard(12)
    inner.now = DriverStatus(state=ServerState.EXITED)
    del table.known[10], table.known[11]
    clock.advance(3600)
    made.status()
    clock.advance(3600)
    assert made.status().state is ServerState.LEFTOVERS


def test_a_reused_pid_holds_nothing_of_ours() -> None:
    made, inner, _, table, _ = guard(11)
    inner.now = DriverStatus(state=ServerState.EXITED)
    table.known[11] = process(11, ticks=8)
    assert made.status().state is ServerState.EXITED


def test_a_server_that_holds_nothing_is_gone_when_its_driver_says_so() -> None:
    made, inner, _, _, _ = guard(99)
    inner.now = DriverStatus(state=ServerState.STOPPED)
    assert made.status().state is ServerState.STOPPED


class Refusing(Exception):
    """What the library raises."""


def library(**more: object) -> SimpleNamespace:
    return SimpleNamespace(
        NVMLError=Refusing, nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index, nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}".encode(),
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=7 + handle, usedGpuMemory=None)],
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=100 + handle), **more,
    )  # fmt: skip


def raises(*_: object) -> None:
    raise Refusing("GPU is lost")


def test_every_gpu_is_asked_and_one_that_is_lost_is_left_out() -> None:
    assert Nvml(library()).holders() == (Holder(7, "GPU-0", None), Holder(8, "GPU-1", None))
    assert Nvml(library()).used_bytes() == 201
    lost = library()
    lost.nvmlDeviceGetComputeRunningProcesses = lambda handle: raises() if handle == 0 else []
    assert Nvml(lost).holders() == ()
    lost.nvmlDeviceGetCount = raises
    assert (Nvml(lost).holders(), Nvml(lost).used_bytes()) == ((), 0)


@pytest.mark.parametrize(
    ("module", "there"),
    [
        (library(), True),
        (SimpleNamespace(NVMLError=Refusing, nvmlInit=raises), False), (None, False),
    ],
)  # fmt: skip
def test_without_binding_driver_or_gpu_there_is_nothing(
    monkeypatch: pytest.MonkeyPatch, module: object, there: bool
) -> None:
    open_nvml.cache_clear()
    monkeypatch.setitem(sys.modules, "pynvml", module)  # type: ignore[arg-type]
    try:
        assert (open_nvml() is not None) is there
    finally:
        open_nvml.cache_clear()


def test_the_real_binding_fits_what_is_called() -> None:
    binding = pytest.importorskip("pynvml")
    assert isinstance(binding, ModuleType)
    called = [name for name in vars(library()) if name.startswith("nvml")]
    assert [name for name in called if not callable(getattr(binding, name))] == []
    assert issubclass(binding.NVMLError, Exception)
