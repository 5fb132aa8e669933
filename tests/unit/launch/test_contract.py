"""The promises of `acceptd launch render` that need more than one answer compared with a file."""

from __future__ import annotations

import json

import pytest

from monitor.launch import render_json


def test_the_answer_has_the_target_first_and_one_json_item_last() -> None:
    speculation = {"num_speculative_tokens": 3, "method": "ngram", "prompt_lookup_max": 4}
    code, answer = render_json("vllm", "0.33.0", json.dumps(speculation), "--model 'a b' --spec-tokens 5 --seed 1")
    assert code == 0
    assert answer == {
        "argv": [
            "--model",
            "a b",
            "--seed",
            "1",
            "--speculative-config",
            '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}',
        ],
        "env": {},
        "warnings": [],
    }
    json.dumps(answer)


@pytest.mark.parametrize(
    "off", ["null", "{}", "", " ", '{"num_speculative_tokens": 0}', '{"method":"x","num_speculative_tokens":0}']
)
@pytest.mark.parametrize("version", ["0.4.0", "0.6.2", "0.8.2", "0.33.0"])
def test_off_is_no_flag_at_all(version: str, off: str) -> None:
    assert render_json("vllm", version, off, "--model m") == (
        0,
        {"argv": ["--model", "m"], "env": {}, "warnings": []},
    )


@pytest.mark.parametrize(
    ("engine", "version", "speculation", "target", "said"),
    [
        ("vLLM", "0.33.0", "null", "", "engine 'vLLM': expected one of vllm, sglang, llamacpp"),
        ("unknown", "0.33.0", "null", "", "engine 'unknown'"),
        ("vllm", "latest", "null", "", "version 'latest' of vLLM"),
        ("vllm", "0.33.0", "{", "", "expected a JSON object"),
        ("vllm", "0.33.0", "null", "--model 'x", "target arguments"),
        ("vllm", "0.33.0", '{"method":"ngram"}', "", "found no num_speculative_tokens"),
        ("vllm", "0.33.0", '{"method":"eagle3","num_speculative_tokens":2}', "", "found no model"),
        ("vllm", "0.33.0", '{"num_speculative_tokens":2}', "", "neither method nor model"),
        ("vllm", "0.33.0", '{"method":"EAGLE-3","model":"m","num_speculative_tokens":2}', "", "did you mean 'eagle3'"),
        (
            "vllm",
            "0.33.0",
            '{"num_speculative_tokens":0,"num_speculative_tokens_per_batch_size":[[1,2,3]]}',
            "",
            "0 is off",
        ),
        (
            "vllm",
            "0.33.0",
            '{"method":"ngram","num_speculative_tokens":2,"tensor_parallel_size":2}',
            "",
            "key tensor_parallel_size: expected draft_tensor_parallel_size",
        ),
        (
            "vllm",
            "0.33.0",
            '{"method":"ngram","num_speculative_tokens":2,"prompt_lookup_max":2,"prompt_lookup_min":3}',
            "",
            "prompt_lookup_min 3",
        ),
        ("llamacpp", "b9092", "null", "", "older than b9093"),
        ("llamacpp", "b11434", '{"method":"medusa","num_speculative_tokens":2}', "", "llama-server has draft-simple"),
        ("llamacpp", "b11434", '{"num_speculative_tokens":2}', "", "neither method nor model"),
        ("llamacpp", "b11434", '{"method":"ngram","num_speculative_tokens":2000}', "", "at most 1024"),
        ("llamacpp", "b11434", '{"method":"mtp","num_speculative_tokens":2,"prompt_lookup_max":2}', "", "look up"),
        ("sglang", "0.5.23", '{"num_speculative_tokens":2}', "", "found no method"),
        ("sglang", "0.5.23", '{"method":"uno","num_speculative_tokens":2}', "", "uno_lora_path"),
    ],
)
def test_what_cannot_be_done_is_an_error_in_a_sentence(
    engine: str, version: str, speculation: str, target: str, said: str
) -> None:
    code, answer = render_json(engine, version, speculation, target)
    assert code == 2
    assert list(answer) == ["error"]
    assert said in str(answer["error"])


def test_an_error_never_shows_a_secret_of_the_target_arguments() -> None:
    _, answer = render_json("vllm", "0.33.0", "null", "--api-key s3cr3t 'open")
    assert "s3cr3t" not in str(answer)
