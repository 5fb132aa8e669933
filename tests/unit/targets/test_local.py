"""Servers of this host: recognised by their command line, found by the URL under which they are watched."""

from __future__ import annotations

import socket

import pytest

from monitor.launch import parse_command
from monitor.model.life import Said, Setting, SettingSource
from monitor.model.server import Engine
from monitor.targets.local import LocalServer, is_this_host

LINE = SettingSource.COMMAND_LINE


def local(engine: Engine, *argv: str) -> LocalServer:
    return LocalServer(engine, 42, 8000, argv, parse_command(engine, argv))


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (local(Engine.VLLM, "vllm", "serve", "m"), Said(source=LINE, setting=Setting(num_speculative_tokens=0))),
        (
            local(Engine.VLLM, "vllm", "serve", "m", "--spec-method", "ngram", "--spec-tokens", "4"),
            Said(source=LINE, setting=Setting(method="ngram", num_speculative_tokens=4)),
        ),
        (
            local(
                Engine.VLLM, "vllm", "serve", "m", "--speculative-config",
                '{"method":"dspark","model":"d","num_speculative_tokens":7,"enable_adaptive_verification":true}',
            ),
            Said(
                source=LINE, setting=Setting(method="dspark", num_speculative_tokens=7, draft_model="d"),
                adapts="vLLM's adaptive verification (enable_adaptive_verification)",
            ),
        ),
        (
            local(
                Engine.SGLANG, "python", "-m", "sglang.launch_server", "--model-path", "m", "--speculative-algorithm",
                "EAGLE", "--speculative-draft-model-path", "d", "--speculative-num-steps", "3",
                "--speculative-adaptive",
            ),
            Said(
                source=LINE, setting=Setting(method="eagle", num_speculative_tokens=3, draft_model="d"),
                adapts="SGLang's adaptive mode (--speculative-adaptive)",
            ),
        ),
        (
            local(Engine.LLAMACPP, "llama-server", "-m", "t", "--spec-type", "draft-simple", "-md", "d",
                  "--spec-draft-n-max", "4"),
            Said(source=LINE, setting=Setting(method="draft_model", num_speculative_tokens=4, draft_model="d")),
        ),
    ],
)  # fmt: skip
def test_its_command_line_says_the_setting(server: LocalServer, said: Said) -> None:
    assert server.said == said
    assert server.setting == said.setting


def test_a_command_line_that_cannot_be_read_for_sure_says_nothing_and_why() -> None:
    server = local(Engine.VLLM, "vllm", "serve", "m", "--config", "serve.yaml")
    assert server.setting == Setting()
    assert server.said.note is not None and "serve.yaml" in server.said.note


def test_a_secret_is_in_no_note() -> None:
    server = local(Engine.VLLM, "vllm", "serve", "m", "--speculative-config", '{"api_key": "hf_abcdefghijklmnopqrst')
    assert server.said.note is not None and "hf_abc" not in server.said.note


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", True), ("127.1.2.3", True),
        (socket.gethostname(), True), ("192.0.2.7", False), ("2001:db8::1", False), ("gpu-7.example", False),
    ],
)  # fmt: skip
def test_only_names_and_addresses_of_this_machine_are_here(host: str, is_here: bool) -> None:
    assert is_this_host(host) is is_here
