"""`acceptd advise`: by name from the shipped list, by folder from its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Run, Said

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
CONFIG = {
    "model_type": "llama", "vocab_size": 1000, "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 4, "num_key_value_heads": 2,
}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cache and no GPU of this machine in the answers."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("PATH", str(tmp_path))


def model(folder: Path, vocabulary: dict[str, int], **config: object) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    (folder / "model.safetensors").write_bytes(b"x" * 1000)
    return folder


def option(said: Said, method: str) -> dict[str, Any]:
    return next(one for one in said.json()["options"] if one["method"] == method)


def test_by_name(acceptd: Run) -> None:
    said = acceptd("advise", LLAMA, "--gpu-memory", "24GiB", "--concurrency", 8, "--prompt-tokens", 800,
                   "--output-tokens", 300, "--engine-version", "0.32.0", "--json")
    assert said.code == 0
    found = said.json()
    assert found["best"]["method"] == "eagle3"
    first = found["options"][0]
    assert (first["memory"]["fit"], first["num_speculative_tokens"]) == ("fits", 3)
    assert first["argv"][:3] == ["vllm", "serve", LLAMA]


def test_for_people(acceptd: Run) -> None:
    said = acceptd("advise", LLAMA, "--gpu-memory", "24GiB", "--tensor-parallel", 2, "--kind", "edit")
    lines = said.out.splitlines()
    assert lines[0].startswith("suffix, 5 tokens: +") or lines[0].startswith("ngram, 5 tokens: +")
    assert any("vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2" in line for line in lines)
    assert any(line.startswith("draft_model") for line in lines)
    assert "from published figures, not from your traffic" in said.out


def test_nothing_pays(acceptd: Run) -> None:
    said = acceptd("advise", LLAMA, "--gpu-memory", "80GB", "--concurrency", 512)
    assert said.out.startswith("No speculation: nothing that is possible pays at 512 requests at a time.")


def test_without_a_gpu_memory_is_not_known(acceptd: Run) -> None:
    said = acceptd("advise", LLAMA, "--json")
    assert option(said, "ngram")["memory"]["sentence"] == "not known: the memory of the GPU"


def test_the_memory_that_nvidia_smi_tells(acceptd: Run, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'A, 24576, 0'\necho 'B, 16384, 0'\n")
    program.chmod(0o755)
    said = acceptd("advise", LLAMA, "--json")
    assert option(said, "ngram")["memory"]["budget_bytes"] == pytest.approx(0.9 * 16 * 1024**3)


class TestFolders:
    def test_tokenizers_are_compared_token_by_token(self, acceptd: Run, tmp_path: Path) -> None:
        target = model(tmp_path / "target", {"a": 0, "b": 1})
        same, other = model(tmp_path / "same", {"a": 0, "b": 1}), model(tmp_path / "other", {"a": 1, "b": 0})
        found = option(acceptd("advise", target, "--draft", same, "--gpu-memory", "8GiB", "--json"), "draft_model")
        assert (found["vocabulary"]["match"], found["possible"]) == ("same", True)
        assert found["memory"]["draft_bytes"] == 1000.0
        refused = option(acceptd("advise", target, "--draft", other, "--json"), "draft_model")
        assert refused["refusals"] == ["tokenizers differ in 2 of 2 tokens ('a', 'b')"]

    def test_another_vocabulary_is_refused_by_old_releases(self, acceptd: Run, tmp_path: Path) -> None:
        target, draft = model(tmp_path / "target", {"a": 0}), model(tmp_path / "draft", {"a": 0}, vocab_size=900)
        said = acceptd("advise", target, "--draft", draft, "--engine-version", "0.20.0", "--json")
        assert option(said, "draft_model")["refusals"] == [
            "vocabularies differ: 1,000 entries in the target, 900 in the draft"
        ]

    def test_the_method_of_a_draft_is_in_its_name_or_given(self, acceptd: Run, tmp_path: Path) -> None:
        target = model(tmp_path / "target", {"a": 0})
        said = acceptd("advise", target, "--draft", "org/x-EAGLE3", "--draft", "org/x-EAGLE", "--json")
        methods = {one["model"]: one["method"] for one in said.json()["options"] if one["model"]}
        assert methods == {"org/x-EAGLE3": "eagle3", "org/x-EAGLE": "eagle"}
        said = acceptd("advise", target, "--draft", "org/head", "--method", "eagle", "--json")
        assert option(said, "eagle")["model"] == "org/head"

    def test_a_broken_configuration_is_named(self, acceptd: Run, tmp_path: Path) -> None:
        target = model(tmp_path / "target", {"a": 0}, num_hidden_layers="two")
        said = acceptd("advise", target)
        assert said.code == 2
        assert "num_hidden_layers: found 'two'" in said.err


def test_a_model_that_nothing_is_known_of(acceptd: Run) -> None:
    said = acceptd("advise", "org/New-7B", "--gpu-memory", "24GiB")
    assert said.code == 0
    assert "no drafts are listed for org/New-7B" in said.out


def test_how_the_target_is_stored_may_be_said(acceptd: Run) -> None:
    sizes = [
        option(acceptd("advise", LLAMA, "--gpu-memory", "24GiB", "--weights", stored, "--json"), "ngram")["memory"][
            "target_bytes"
        ]
        for stored in ("bf16", "8bit", "4bit")
    ]
    assert [round(size / 1e9, 1) for size in sizes] == [16.1, 9.1, 5.8]


def test_the_servers_own_command_line(acceptd: Run) -> None:
    said = acceptd("advise", LLAMA, "--target-args", "python -m vllm.entrypoints.openai.api_server --enable-lora",
                   "--json")
    found = option(said, "ngram")
    assert found["argv"][:4] == ["python", "-m", "vllm.entrypoints.openai.api_server", "--enable-lora"]
    assert "lora-ngram" in {one["id"] for one in found["known_issues"]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpu-memory", "24"], "a size such as 24GiB"),
        (["--gpu-memory", "xGiB"], "a size such as 24GiB"),
        (["--gpu-memory", "-1GiB"], "a size such as 24GiB"),
        (["--kind", "poetry"], "one of chat, code, rag, edit"),
        (["--utilization", "1.5"], "--utilization"),
        (["--concurrency", "0"], "--concurrency"),
        (["--prompt-tokens", "nan"], "--prompt-tokens"),
        (["--engine-version", "next"], "--engine-version"),
        (["--weights", "3bit"], "one of bf16, 8bit, 4bit"),
        (["--draft", "x", "--method", "magic"], "--method"),
        (["--target-args", "'"], "--target-args"),
    ],
)
def test_mistakes(acceptd: Run, arguments: list[str], words: str) -> None:
    said = acceptd("advise", LLAMA, *arguments)
    assert said.code == 2
    assert words in said.err
