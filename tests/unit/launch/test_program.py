from __future__ import annotations

import shlex

import pytest

from monitor.launch import looks_like_server, parse_command
from monitor.model.server import Engine


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("python -m vllm.entrypoints.openai.api_server --model m", Engine.VLLM),
        ("/usr/bin/python3.11 -u -X dev -W ignore -m vllm.entrypoints.openai.api_server", Engine.VLLM),
        ("/venv/bin/python /venv/bin/vllm serve m", Engine.VLLM),
        ("/venv/bin/python3 -m vllm.entrypoints.cli.main serve m", Engine.VLLM),
        ("python /opt/vllm/entrypoints/openai/api_server.py", Engine.VLLM),
        ("vllm serve m", Engine.VLLM),
        ("/opt/venv/bin/vllm serve", Engine.VLLM),
        ("python3 -m sglang.launch_server --model-path m", Engine.SGLANG),
        ("/venv/bin/python /venv/bin/sglang serve m", Engine.SGLANG),
        ("./llama-server -m m.gguf", Engine.LLAMACPP),
        ("/opt/llama.cpp/build/bin/llama-server", Engine.LLAMACPP),
        ("llama serve -m m.gguf", Engine.LLAMACPP),
        ("llama server", Engine.LLAMACPP),
    ],
)
def test_a_server_is_recognised_by_its_command_line(line: str, engine: Engine) -> None:
    assert looks_like_server(shlex.split(line)) is engine


@pytest.mark.parametrize(
    "argv",
    [
        [],
        [""],
        ["VLLM::EngineCore"],
        ["VLLM::Worker_TP0", "", ""],
        ["sglang::scheduler"],
        ["python"],
        ["python", "-m"],
        ["python", "-X"],
        ["python", "-m", "vllm.entrypoints.cli.main", "bench"],
        ["python", "-c", "from multiprocessing.spawn import spawn_main", "vllm.entrypoints.openai.api_server"],
        ["python", "-c", "x", "-m", "vllm.entrypoints.openai.api_server"],
        ["vllm", "bench", "serve"],
        ["vllm"],
        ["llama", "cli"],
        ["llama-cli", "-m", "m.gguf"],
        ["vim", "vllm/entrypoints/openai/api_server.py"],
        ["tini", "--", "vllm", "serve", "m"],
        ["docker", "run", "vllm/vllm-openai", "vllm", "serve", "m"],
        ["grep", "llama-server"],
        ["pythonic", "-m", "sglang.launch_server"],
    ],
)
def test_children_wrappers_and_namesakes_are_no_servers(argv: list[str]) -> None:
    assert looks_like_server(argv) is None


def test_wrappers_of_an_operators_command_are_passed_over() -> None:
    argv = ["env", "-u", "X", "numactl", "--interleave=all", "vllm", "serve", "m", "-tp", "2"]
    command = parse_command(Engine.VLLM, argv)
    assert (command.model, command.tensor_parallel_size, command.base_argv) == ("m", 2, tuple(argv))
