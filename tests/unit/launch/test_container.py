"""Commands that start containers: the runtime's options are no flags of the engine's."""

from __future__ import annotations

import json
import shlex

import pytest

from monitor.launch import parse_command, render
from monitor.launch.container import image_at, is_container_start
from monitor.model.server import Engine

SPECULATION = '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}'


@pytest.mark.parametrize(
    ("line", "image"),
    [
        ("docker run vllm/vllm-openai:v0.32.0 org/m", "vllm/vllm-openai:v0.32.0"),
        ("/usr/bin/docker run -d --rm --name c --gpus all -p 8000:8000 IMG a", "IMG"),
        ("sudo docker run -it IMG", "IMG"),
        ("docker --context far -D run -dp 80:80 IMG", "IMG"),
        ("docker container run -p80:80 -e A=b --env=C=d -v /a:/b IMG --port 1", "IMG"),
        ("podman run --replace --name=c --device nvidia.com/gpu=all IMG", "IMG"),
        ("docker create --shm-size 16g --ipc=host IMG serve", "IMG"),
    ],
)
def test_the_image_is_found_behind_the_options(line: str, image: str) -> None:
    argv = shlex.split(line)
    at = image_at(argv)
    assert at is not None and argv[at] == image


@pytest.mark.parametrize(
    "line", ["vllm serve docker run x", "docker ps -q", "docker stop chat", "docker run", "docker run -d", "", "run x",
             "vllm serve --name docker run IMG"],
)  # fmt: skip
def test_other_commands_start_no_container(line: str) -> None:
    assert not is_container_start(shlex.split(line))


def test_only_what_stands_after_the_image_is_read() -> None:
    argv = shlex.split(
        "docker run --rm --name llama-server -e NCCL=1 -p 9000:8000 --runtime nvidia vllm/vllm-openai:v0.32.0"
        f" org/target --port 9000 -tp 2 --speculative-config '{SPECULATION}'"
    )
    command = parse_command(Engine.VLLM, argv)
    assert (command.model, command.port, command.tensor_parallel_size, command.problems) == ("org/target", 9000, 2, ())
    assert command.speculation is not None and command.speculation.num_speculative_tokens == 3
    assert command.base_argv == tuple(argv[:-2])
    # The name of a container is no program.
    assert parse_command(Engine.LLAMACPP, argv).speculation is None


def test_a_program_behind_the_image_is_the_server() -> None:
    argv = shlex.split("docker run -e MODEL=x lmsysorg/sglang:v0.5.23 python3 -m sglang.launch_server --model-path m")
    command = parse_command(Engine.SGLANG, argv)
    assert (command.model, command.port) == ("m", 30000)


def test_rendering_changes_the_speculation_of_a_container_and_nothing_else() -> None:
    argv = shlex.split(f"docker run --name c IMG org/target --speculative-config '{SPECULATION}' --port 9000")
    base = parse_command(Engine.VLLM, argv)
    assert base.speculation is not None
    rendered = render(Engine.VLLM, "0.32.0", argv, base.speculation)
    rest = shlex.split("docker run --name c IMG org/target --port 9000")
    assert rendered.argv[:-1] == (*rest, "--speculative-config")
    assert json.loads(rendered.argv[-1]) == json.loads(SPECULATION)
