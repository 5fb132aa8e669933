"""The operator's command with another speculation setting: nothing else on it moves, nothing secret leaves it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.drivers.launcher import CommandLauncher
from monitor.errors import LaunchError
from monitor.model.life import Setting
from monitor.model.server import Engine

BASE = (
    "vllm", "serve", "meta/llama", "--port", "8000", "--api-key", "sesame-open-42", "--speculative-config",
    '{"method":"ngram","num_speculative_tokens":2,"prompt_lookup_max":4}', "--max-num-seqs", "16",
)  # fmt: skip
NGRAM = Setting(method="ngram", num_speculative_tokens=2)


def launcher(argv: tuple[str, ...] = BASE, version: str | None = "0.32.0") -> CommandLauncher:
    return CommandLauncher(Engine.VLLM, argv, version=lambda: version, environ={"HF_TOKEN": "abcdefghij"})


def test_the_operators_own_setting_is_started_to_the_letter_without_asking_for_a_version() -> None:
    one = launcher(version=None)
    assert one.base_setting == NGRAM
    assert one.render(NGRAM).argv == BASE
    assert one.render(NGRAM).env == {"HF_TOKEN": "abcdefghij"}


def test_another_count_keeps_the_operators_other_keys() -> None:
    argv = launcher().render(replace(NGRAM, num_speculative_tokens=3)).argv
    assert argv == (
        "vllm", "serve", "meta/llama", "--port", "8000", "--api-key", "sesame-open-42", "--max-num-seqs", "16",
        "--speculative-config", '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}',
    )  # fmt: skip


def test_off_leaves_no_flag() -> None:
    argv = launcher().render(Setting(num_speculative_tokens=0)).argv
    assert not [item for item in argv if "spec" in item]


@pytest.mark.parametrize(
    ("argv", "version", "setting", "message"),
    [
        (BASE, None, replace(NGRAM, num_speculative_tokens=3), "version is not known"),
        (BASE, "0.3.0", replace(NGRAM, num_speculative_tokens=3), "older than"),
        (BASE, "0.32.0", Setting(method="eagle3", num_speculative_tokens=3), "configured for 'ngram'"),
        (BASE[:5], "0.32.0", replace(NGRAM, num_speculative_tokens=3), "has no speculation"),
        ((*BASE[:5], "--speculative-config", "{"), "0.32.0", NGRAM, "cannot be changed safely"),
    ],
)
def test_what_cannot_be_rendered_is_refused(
    argv: tuple[str, ...], version: str | None, setting: Setting, message: str
) -> None:
    with pytest.raises(LaunchError, match=message):
        launcher(argv, version).render(setting)


def test_the_hash_follows_the_operators_edit_of_command_or_environment() -> None:
    same = launcher()
    assert same.base_hash == launcher().base_hash
    assert same.base_hash != launcher((*BASE, "--seed", "1")).base_hash
    other = CommandLauncher(Engine.VLLM, BASE, version=lambda: None, environ={"HF_TOKEN": "other-token"})
    assert same.base_hash != other.base_hash


def test_secrets_are_in_neither_diff_nor_log() -> None:
    one = launcher()
    diff = one.diff(NGRAM, replace(NGRAM, num_speculative_tokens=3))
    assert any("num_speculative_tokens" in line for line in diff)
    assert "sesame" not in "\n".join(diff)
    assert one.redact("args: sesame-open-42 abcdefghij rest") == "args: <secret> <secret> rest"


def test_a_server_that_is_part_of_a_larger_engine_is_not_changed() -> None:
    one = launcher((*BASE, "--nnodes", "2"))
    assert one.render(NGRAM).argv == (*BASE, "--nnodes", "2")
    with pytest.raises(LaunchError, match=r"one of several nodes .*watched, not changed"):
        one.render(replace(NGRAM, num_speculative_tokens=3))
