"""What replicas share and how a server ends, as its command line says."""

from __future__ import annotations

import math

import pytest

from monitor.launch import grace_seconds, parse_command, target_arguments
from monitor.model.server import Engine

LINE = (
    "/opt/vllm/bin/vllm serve meta/Llama --port 8001 --host=0.0.0.0 --api-key sk-1234567890123456789 "
    '--max-num-seqs=128 -tp 2 --enable_prefix_caching --lora-modules a=/x b=/y --speculative-config {"method":"ngram"}'
).split()


def test_place_credentials_and_speculation_are_no_part_of_what_a_server_is() -> None:
    assert target_arguments(Engine.VLLM, LINE) == {
        "argument 1": "meta/Llama",
        "--max-num-seqs": "128",
        "--tensor-parallel-size": "2",
        "--enable-prefix-caching": "",
        "--lora-modules": "a=/x b=/y",
    }


def test_spellings_of_one_flag_are_one_and_secrets_are_hidden() -> None:
    given = target_arguments(Engine.VLLM, ["vllm", "serve", "m", "--tensor-parallel-size=2", "--hf-token", "hf_abc"])
    assert given == {"argument 1": "m", "--tensor-parallel-size": "2", "--hf-token": "<secret>"}


def test_a_program_that_is_not_known_is_left_out_too() -> None:
    assert target_arguments(Engine.VLLM, ["/usr/bin/serve-it", "--dtype", "bfloat16", "--verbose"]) == {
        "--dtype": "bfloat16",
        "--verbose": "",
    }


@pytest.mark.parametrize(
    ("engine", "line", "version", "environ", "seconds"),
    [
        (Engine.VLLM, "vllm serve m --shutdown-timeout 90", "0.18.0", {}, 90.0),
        (Engine.VLLM, "vllm serve m --shutdown-timeout 90", "0.17.1", {}, 0.0),
        (Engine.VLLM, "vllm serve m --shutdown-timeout 90", None, {}, 0.0),
        (Engine.VLLM, "vllm serve m --shutdown-timeout 90", "some build", {}, 0.0),
        (Engine.VLLM, "vllm serve m", "0.32.0", {}, 0.0),
        (Engine.SGLANG, "python -m sglang.launch_server --model-path m", None, {}, math.inf),
        (Engine.SGLANG, "python -m sglang.launch_server --model-path m", None, {"SGL_FORCE_SHUTDOWN": "true"}, 0.0),
        (Engine.LLAMACPP, "llama-server -m m.gguf", "b11434", {}, 0.0),
    ],
)
def test_how_long_requests_go_on_after_sigterm(
    engine: Engine, line: str, version: str | None, environ: dict[str, str], seconds: float
) -> None:
    assert grace_seconds(parse_command(engine, line.split()), version, environ) == seconds
