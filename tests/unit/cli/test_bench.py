"""The command `bench`: refuses what would hurt or mislead, keeps results beside lives, compares two of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.benchmark.result import BenchResult, to_evidence
from monitor.clock import SystemClock
from monitor.config.running import read_running, write_running
from monitor.model.life import LifeId
from monitor.simulator.fleet import Fleet
from monitor.simulator.options import parse_options
from tests.unit.benchmark.stand_in import install
from tests.unit.cli.conftest import SERVER, Folder, Run

OPTIONS = ("--python", sys.executable, "--tokenizer", "/models/x", "--requests", 4, "--runs", 2)


@pytest.fixture
def idle() -> Iterator[int]:
    """A server whose page says that it does nothing."""
    with Fleet([parse_options(["--port", "0", "--sim-start-seconds", "0"])], SystemClock()) as fleet:
        yield fleet.ports[0]


@pytest.fixture
def bench(acceptd: Run, folder: Folder, idle: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`acceptd bench` on the watched server, which answers at the port of the idle one."""
    monkeypatch.setenv("PYTHONPATH", install(tmp_path / "vllm")["PYTHONPATH"])
    monkeypatch.setattr("monitor.cli.bench._WATCH_SECONDS", 0.2)
    aim(folder, idle)
    return lambda *more: acceptd("--data-dir", folder.path, "bench", SERVER, *more)


def aim(folder: Folder, port: int) -> None:
    running = read_running(folder.path)
    url = f"http://127.0.0.1:{port}"
    mine = replace(running.servers[0], base_url=url, metrics_url=f"{url}/metrics")
    write_running(folder.path, replace(running, servers=(mine, *running.servers[1:])))


def keep(folder: Folder, **changes: object) -> BenchResult:
    """A result that another life left."""
    values = {
        "id": "b-old", "server": SERVER, "at": folder.now - timedelta(hours=2), "lives": ("l0",),
        "setting": "speculation off", "engine_version": "0.32.0", "workload": "w", "digest": "d",
        "runs": ({"output_tokens_per_second": 300.0}, {"output_tokens_per_second": 310.0}),
    }
    result = BenchResult(**{**values, **changes})  # type: ignore[arg-type]
    store = folder.store()
    with store.write() as unit:
        unit.evidence.add(to_evidence(result))
    store.close()
    return result


def test_a_result_is_printed_and_kept_beside_the_life(bench: Run, folder: Folder) -> None:
    said = bench(*OPTIONS, "--json")
    assert said.code == 0, said.err
    result = said.json()["result"]
    assert result["lives"] == ["l1"]
    assert result["setting"] == "ngram, 2 tokens"
    assert result["mean"]["output_tokens_per_second"] == 405.0
    assert said.json()["against"] is None
    listed = bench("--results", "--json")
    assert [one["id"] for one in listed.json()] == [result["id"]]
    assert "405" in bench("--results").out


def test_it_is_set_beside_another_life_of_the_same_requests(bench: Run, folder: Folder) -> None:
    digest = bench(*OPTIONS, "--json").json()["result"]["digest"]
    keep(folder, digest=digest)
    said = bench(*OPTIONS)
    assert "against b-old: speculation off" in said.out
    assert "+32.8 %" in said.out.replace("%", " %").replace("  %", " %")
    found = bench("--compare", "b-old", "--against", "l1", "--json").json()
    assert found["compared"][0]["change"] == pytest.approx(305.0 / 405.0 - 1.0)


def test_it_is_not_set_beside_itself(bench: Run, folder: Folder) -> None:
    """Given the life that it was measured on, whose newest result is this one."""
    life = bench(*OPTIONS, "--json").json()["result"]["lives"][0]
    newest = bench(*OPTIONS, "--against", life, "--json").json()
    assert newest["against"]["id"] != newest["result"]["id"]


def test_other_requests_are_not_compared(bench: Run, folder: Folder) -> None:
    keep(folder)
    said = bench(*OPTIONS, "--against", "b-old")
    assert said.code == 2
    assert "the same requests" in said.err


def test_a_server_that_serves_others_is_left_alone(bench: Run, folder: Folder) -> None:
    options = parse_options(["--port", "0", "--sim-start-seconds", "0", "--sim-load", "closed:clients=4"])
    with Fleet([options], SystemClock()) as fleet:
        aim(folder, fleet.ports[0])
        refused = bench(*OPTIONS)
        assert refused.code == 1
        assert "serves others" in refused.err
        assert "--on-live" in refused.err
        assert bench(*OPTIONS, "--on-live").code == 0


def test_a_result_of_two_lives_is_none(bench: Run, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import monitor.cli.bench as module

    plain = module.run_benchmark

    def restarted(*given: object, **more: object) -> object:
        store = folder.store()
        with store.write() as unit:
            old = unit.lives.open_of(SERVER)[0]
            unit.lives.update(replace(old, ended=folder.now))
            unit.lives.add(replace(old, id=LifeId("l2"), ended=None))
        store.close()
        return plain(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "run_benchmark", restarted)
    said = bench(*OPTIONS)
    assert said.code == 1
    assert "restarted during the benchmark" in said.err
    assert bench("--results", "--json").json() == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--results",), 0, ""),
        (("--compare", "b-9"), 3, "b-9"),
        (("--prompts", "/no/such/file"), 2, "/no/such/file"),
        (("--requests", "4"), 1, "--python"),  # no vLLM process answers there
    ],
)
def test_what_it_says_where_it_cannot(bench: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    said = bench(*arguments)
    assert said.code == code
    assert words in said.err


def test_an_unknown_server(acceptd: Run, folder: Folder) -> None:
    said = acceptd("--data-dir", folder.path, "bench", "nobody")
    assert said.code == 3
    assert "chat-1" in said.err
