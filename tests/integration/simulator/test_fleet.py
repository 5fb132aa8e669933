"""Servers of a fleet over real HTTP: endpoints, faults, restarts."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import requests

from monitor.clock import SystemClock
from monitor.simulator.faults import parse_fault
from monitor.simulator.fleet import Fleet
from monitor.simulator.options import SimOptions, parse_options

EAGLE = '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3}'
#: Long enough for a busy machine; nothing here waits for it unless something is broken.
PATIENCE = 30


def options(*argv: str) -> SimOptions:
    quick = ["--port", "0", "--sim-start-seconds", "0", "--sim-stop-seconds", "0"]
    return parse_options([*quick, "--speculative-config", EAGLE, *argv])


def url(port: int, path: str) -> str:
    return f"http://127.0.0.1:{port}{path}"


def state(port: int) -> dict[str, object]:
    answer = requests.get(url(port, "/-/sim/state"), timeout=PATIENCE)
    assert answer.status_code == 200
    found: dict[str, object] = answer.json()
    return found


def complete(port: int, **body: object) -> requests.Response:
    return requests.post(url(port, "/v1/completions"), json={"prompt": "hello there", **body}, timeout=PATIENCE)


def order(port: int, **body: object) -> requests.Response:
    return requests.post(url(port, "/-/sim/fault"), json=body, timeout=PATIENCE)


def value(page: str, series: str) -> float:
    found = re.search(rf"^{re.escape(series)}(?:\{{[^}}]*\}})? (\S+)$", page, re.M)
    assert found, series
    return float(found[1])


@pytest.fixture
def port() -> Iterator[int]:
    busy = options("--sim-load", "closed:clients=4,prompt=60,output=40")
    with Fleet([busy], SystemClock(), pulse_seconds=0.1) as one:
        yield one.ports[0]


@pytest.fixture
def quiet() -> Iterator[int]:
    with Fleet([options()], SystemClock(), pulse_seconds=0.1) as one:
        yield one.ports[0]


def test_the_endpoints_of_vllm_answer(port: int) -> None:
    assert requests.get(url(port, "/health"), timeout=PATIENCE).status_code == 200
    assert requests.get(url(port, "/version"), timeout=PATIENCE).json() == {"version": "0.32.0"}
    model = requests.get(url(port, "/v1/models"), timeout=PATIENCE).json()["data"][0]
    assert (model["id"], model["object"], model["simulated"]) == ("sim-llama-8b", "model", True)
    assert requests.get(url(port, "/server_info"), timeout=PATIENCE).status_code == 404
    assert requests.get(url(port, "/v1/completions"), timeout=PATIENCE).status_code == 405
    page = requests.get(url(port, "/metrics"), timeout=PATIENCE)
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert page.text.endswith("\n") and "vllm:spec_decode_num_drafts_total{" in page.text


def test_a_person_reads_that_it_is_simulated(port: int) -> None:
    about = requests.get(url(port, "/"), timeout=PATIENCE)
    assert "SIMULATED" in about.text and about.headers["content-type"].startswith("text/html")
    assert "SIMULATED" in complete(port, max_tokens=3).json()["choices"][0]["text"]
    assert "simulated" not in requests.get(url(port, "/metrics"), timeout=PATIENCE).text.lower()


def test_pages_grow_and_agree_with_the_truth_beside_them(port: int) -> None:
    first = requests.get(url(port, "/metrics"), timeout=PATIENCE).text
    complete(port, max_tokens=100)
    second = requests.get(url(port, "/metrics"), timeout=PATIENCE).text
    truth = state(port)
    for series in ("vllm:spec_decode_num_drafts_total", "vllm:generation_tokens_total", "vllm:prompt_tokens_total"):
        assert value(first, series) < value(second, series)
    assert value(second, "vllm:spec_decode_num_drafts_total") <= int(str(truth["num_drafts"]))
    assert value(first, "process_start_time_seconds") == value(second, "process_start_time_seconds")


def test_a_completion_makes_its_tokens_in_simulated_time_and_is_counted(quiet: int) -> None:
    answer = complete(quiet, max_tokens=200)
    body = answer.json()
    assert answer.status_code == 200
    assert body["usage"]["completion_tokens"] == 200 and body["choices"][0]["finish_reason"] == "length"
    # 200 tokens at 2.39 a step of 9.3 ms: no machine makes them sooner than simulated time allows.
    assert answer.elapsed.total_seconds() > 0.5
    page = requests.get(url(quiet, "/metrics"), timeout=PATIENCE).text
    assert value(page, "vllm:generation_tokens_total") == 200
    drafts, accepted = (value(page, f"vllm:spec_decode_num_{name}_total") for name in ("drafts", "accepted_tokens"))
    assert drafts + accepted + 1 == 200
    assert value(page, "vllm:e2e_request_latency_seconds_count") == 1
    assert value(page, 'http_requests_total{handler="/v1/completions",method="POST",status="2xx"}') == 1


def test_a_chat_completion_and_a_stream(quiet: int) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_completion_tokens": 20}
    answer = requests.post(url(quiet, "/v1/chat/completions"), json=body, timeout=PATIENCE).json()
    assert answer["object"] == "chat.completion" and answer["usage"]["completion_tokens"] == 20
    assert answer["choices"][0]["message"]["content"].startswith("SIMULATED")
    body["stream"] = True
    with requests.post(url(quiet, "/v1/chat/completions"), json=body, timeout=PATIENCE, stream=True) as stream:
        events = [line.removeprefix(b"data: ") for line in stream.iter_lines() if line]
    assert events[-1] == b"[DONE]"
    pieces = [json.loads(event)["choices"][0] for event in events[:-1]]
    text = "".join(piece["delta"]["content"] for piece in pieces)
    assert text == "SIMULATED" + " token" * 19 and pieces[-1]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"prompt": "x", "model": "other"}, 404),
        ({"prompt": "x", "max_tokens": 0}, 400),
        ({"prompt": "x", "max_tokens": "ten"}, 400),
        ({"prompt": None}, 400),
        ({"prompt": "x", "max_tokens": 5000}, 400),
        ([], 400),
    ],
)
def test_a_bad_completion_request_is_refused_with_its_reason(quiet: int, body: object, status: int) -> None:
    answer = requests.post(url(quiet, "/v1/completions"), json=body, timeout=PATIENCE)
    assert answer.status_code == status and answer.json()["error"]["message"]


def test_the_api_key_guards_v1_and_nothing_else() -> None:
    with Fleet([options("--api-key", "s3cret")], SystemClock()) as one:
        port = one.ports[0]
        assert requests.get(url(port, "/v1/models"), timeout=PATIENCE).status_code == 401
        assert complete(port).status_code == 401
        key = {"Authorization": "Bearer s3cret"}
        assert requests.get(url(port, "/v1/models"), headers=key, timeout=PATIENCE).status_code == 200
        for path in ("/metrics", "/health", "/version"):
            assert requests.get(url(port, path), timeout=PATIENCE).status_code == 200
        assert "s3cret" not in requests.get(url(port, "/"), timeout=PATIENCE).text


def test_a_caller_who_hangs_up_has_his_request_aborted(quiet: int) -> None:
    order(quiet, kind="stuck")
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.post(url(quiet, "/v1/completions"), json={"prompt": "x"}, timeout=0.3)
    assert wait_for(lambda: state(quiet)["running"] == 0)
    assert state(quiet)["finished"] == {"stop": 0, "length": 0, "abort": 1, "error": 0, "repetition": 0}


def test_a_caller_who_leaves_a_stream_has_his_request_aborted(quiet: int) -> None:
    body = {"prompt": "x", "max_tokens": 900, "stream": True}
    with requests.post(url(quiet, "/v1/completions"), json=body, timeout=PATIENCE, stream=True) as stream:
        assert next(stream.iter_lines()).startswith(b"data: ")
    assert wait_for(lambda: state(quiet)["running"] == 0)
    assert requests.get(url(quiet, "/load"), timeout=PATIENCE).json() == {"server_load": 0}
    finished = state(quiet)["finished"]
    assert isinstance(finished, dict) and finished["abort"] == 1


def wait_for(is_true: object, seconds: float = PATIENCE) -> bool:
    assert callable(is_true)
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while not is_true():
        if clock.monotonic() > deadline:
            return False
        clock.sleep(0.05)
    return True


# Faults.


def test_a_stuck_engine_is_healthy_runs_something_and_moves_nothing(port: int) -> None:
    assert wait_for(lambda: int(str(state(port)["running"])) > 0)
    order(port, kind="stuck")
    pages = []
    for _ in range(2):
        pages.append(requests.get(url(port, "/metrics"), timeout=PATIENCE).text)
        with pytest.raises(requests.exceptions.ReadTimeout):
            requests.post(url(port, "/v1/completions"), json={"prompt": "x", "max_tokens": 1}, timeout=0.5)
    assert requests.get(url(port, "/health"), timeout=PATIENCE).status_code == 200
    for series in ("vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:iteration_tokens_total_count"):
        assert value(pages[0], series) == value(pages[1], series) > 0
    assert value(pages[1], "vllm:num_requests_running") > 0
    order(port, kind="stuck", clear=True)
    assert complete(port, max_tokens=1).status_code == 200


def test_a_cliff_ordered_at_run_time_is_seen_on_the_page(port: int) -> None:
    complete(port, max_tokens=100)
    answer = order(port, kind="cliff", value="0.01")
    assert answer.status_code == 200 and answer.json()["faults"][0].startswith("cliff=0.01")
    before = state(port)
    complete(port, max_tokens=100)
    after = state(port)
    drafts, accepted = (
        int(str(after[name])) - int(str(before[name])) for name in ("num_drafts", "num_accepted_tokens")
    )
    assert drafts > 50 and accepted < 0.1 * drafts


def test_completions_fail_while_health_is_fine(quiet: int) -> None:
    order(quiet, kind="health_ok_completions_500")
    assert complete(quiet).status_code == 500
    assert requests.get(url(quiet, "/health"), timeout=PATIENCE).status_code == 200
    page = requests.get(url(quiet, "/metrics"), timeout=PATIENCE).text
    assert value(page, 'http_requests_total{handler="/v1/completions",method="POST",status="5xx"}') == 1


def test_everything_fails(quiet: int) -> None:
    order(quiet, kind="http_500")
    for path in ("/metrics", "/health", "/version", "/v1/models"):
        assert requests.get(url(quiet, path), timeout=PATIENCE).status_code == 500
    order(quiet, kind="http_500", clear=True)
    assert requests.get(url(quiet, "/health"), timeout=PATIENCE).status_code == 200


def test_a_hanging_page_answers_nothing_and_delays_nobody_else(quiet: int) -> None:
    order(quiet, kind="hang_metrics")
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.get(url(quiet, "/metrics"), timeout=0.3)
    assert requests.get(url(quiet, "/health"), timeout=PATIENCE).status_code == 200


def test_a_dripping_page_defeats_a_timeout_per_read(quiet: int) -> None:
    order(quiet, kind="drip_metrics", value="0.1")
    with requests.get(url(quiet, "/metrics"), timeout=PATIENCE, stream=True) as answer:
        first = next(answer.iter_content(64))
    assert answer.headers["content-length"].isdecimal() and first.startswith(b"# HELP")


def test_a_silently_truncated_page_claims_to_be_whole(quiet: int) -> None:
    order(quiet, kind="truncate_metrics")
    answer = requests.get(url(quiet, "/metrics"), timeout=PATIENCE)
    assert answer.status_code == 200 and not answer.text.endswith("\n")
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_a_cut_page_breaks_the_connection(quiet: int) -> None:
    order(quiet, kind="truncate_metrics", value="cut")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        requests.get(url(quiet, "/metrics"), timeout=PATIENCE)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"kind": "explode"}, "one of cliff"),
        ({"kind": "cliff", "value": "9"}, "0 to 1"),
        ({"kind": "slow_start"}, "start flag"),
        ({"kind": "cliff", "after_seconds": -1}, "after_seconds"),
    ],
)
def test_a_wrong_order_is_refused_with_its_reason(quiet: int, body: dict[str, object], named: str) -> None:
    answer = order(quiet, **body)
    assert answer.status_code == 400 and named in answer.text
    assert state(quiet)["faults"] == []


def test_the_load_can_be_changed_at_run_time(quiet: int) -> None:
    answer = requests.post(url(quiet, "/-/sim/load"), json={"load": "closed:clients=5"}, timeout=PATIENCE)
    assert answer.status_code == 200
    assert wait_for(lambda: int(str(state(quiet)["running"])) + int(str(state(quiet)["waiting"])) == 5)
    assert requests.post(url(quiet, "/-/sim/load"), json={"load": "x"}, timeout=PATIENCE).status_code == 400
    assert requests.get(url(quiet, "/-/sim/nothing"), timeout=PATIENCE).status_code == 404


def test_bytes_that_are_no_request_get_400_and_a_closed_connection(quiet: int) -> None:
    with socket.create_connection(("127.0.0.1", quiet), timeout=PATIENCE) as raw:
        raw.sendall(b"hello\r\n\r\n")
        received = b""
        while piece := raw.recv(4096):
            received += piece
    assert received.startswith(b"HTTP/1.1 400 ")


# A fleet.


def test_servers_of_a_fleet_are_apart() -> None:
    load = "closed:clients=2,output=20"
    wanted = [replace(options("--sim-load", load), seed=seed) for seed in range(20)]
    with Fleet(wanted, SystemClock(), pulse_seconds=0.2) as fleet:
        assert len(set(fleet.ports)) == 20
        broken = fleet.ports[3]
        fleet.order(broken, parse_fault("stuck"))
        assert wait_for(lambda: all(int(str(state(port)["num_drafts"])) > 20 for port in fleet.ports if port != broken))
        assert len({str(state(port)["accepted_per_position"]) for port in fleet.ports if port != broken}) > 10


def test_a_restart_is_a_new_life_on_the_same_port() -> None:
    with Fleet([options("--sim-load", "closed:clients=2")], SystemClock(), pulse_seconds=0.1) as fleet:
        port = fleet.ports[0]
        complete(port, max_tokens=50)
        before = requests.get(url(port, "/metrics"), timeout=PATIENCE).text
        config = '{"method": "eagle3", "model": "head", "num_speculative_tokens": 5}'
        fleet.restart(port, replace(fleet.options(port), speculation=options("-sc", config).speculation))
        after = requests.get(url(port, "/metrics"), timeout=PATIENCE).text
    assert before.count("spec_decode_num_accepted_tokens_per_pos_total{") == 3
    assert after.count("spec_decode_num_accepted_tokens_per_pos_total{") == 5
    assert value(after, "process_start_time_seconds") > value(before, "process_start_time_seconds")
    assert value(after, "vllm:generation_tokens_total") < value(before, "vllm:generation_tokens_total")


def test_a_dying_engine_answers_500_and_its_server_goes_away() -> None:
    with Fleet([options("--sim-fault", "die")], SystemClock(), pulse_seconds=0.1) as fleet:
        port = fleet.ports[0]
        assert complete(port).status_code == 500
        assert requests.get(url(port, "/health"), timeout=PATIENCE).status_code == 503

        def is_gone() -> bool:
            try:
                requests.get(url(port, "/health"), timeout=PATIENCE)
            except requests.exceptions.ConnectionError:
                return True
            return False

        assert wait_for(is_gone)


def test_a_taken_port_starts_nothing_and_leaves_no_thread() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            Fleet([options(), options("--port", str(port))], SystemClock()).start()
    assert not [thread for thread in threading.enumerate() if thread.name == "sim-fleet"]
