from __future__ import annotations

import shlex

import pytest

from monitor.errors import LaunchError
from monitor.launch import Speculation, parse_command
from monitor.model.server import Engine

SGLANG = Engine.SGLANG
LLAMACPP = Engine.LLAMACPP


@pytest.mark.parametrize(
    ("engine", "line", "expected", "base"),
    [
        (
            SGLANG,
            "--speculative-algorithm EAGLE3 --speculative-draft-model-path d --speculative-num-steps 3"
            " --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --tp 2",
            Speculation(method="eagle3", model="d", num_speculative_tokens=3),
            "--tp 2",
        ),
        (
            SGLANG,
            "--speculative-algo=EAGLE --speculative-draft-model d --speculative-num-steps 5"
            " --speculative-eagle-topk 8 --speculative-num-draft-tokens 64",
            Speculation(
                method="eagle",
                model="d",
                num_speculative_tokens=5,
                extra={"speculative_eagle_topk": 8, "speculative_num_draft_tokens": 64},
            ),
            "",
        ),
        (SGLANG, "--speculative-algorithm NEXTN", Speculation(method="mtp"), ""),
        (
            SGLANG,
            "--speculative-algorithm NGRAM --speculative-num-draft-tokens 12 --speculative-ngram-capacity 10",
            Speculation(method="ngram", num_speculative_tokens=11, extra={"speculative_ngram_capacity": 10}),
            "",
        ),
        (
            SGLANG,
            "--speculative-algorithm DFLASH --speculative-dflash-block-size 8",
            Speculation(method="dflash", num_speculative_tokens=7),
            "",
        ),
        (
            SGLANG,
            "--speculative-algorithm DSPARK --speculative-dspark-block-size 7 --speculative-num-draft-tokens 8",
            Speculation(method="dspark", num_speculative_tokens=7),
            "",
        ),
        (
            SGLANG,
            "--speculative-algorithm EAGLE --speculative-adaptive --no-speculative-enable-w4a4-mxfp4-megamoe",
            Speculation(
                method="eagle",
                extra={"speculative_adaptive": True, "speculative_enable_w4a4_mxfp4_megamoe": False},
            ),
            "",
        ),
        (SGLANG, "--speculative-algorithm MYALGO", Speculation(method="MYALGO"), ""),
        (
            LLAMACPP,
            "llama-server -m T.gguf -md D.gguf --spec-type draft-simple --spec_draft_n_max 4 -ngld 99 -c 2048",
            Speculation(
                method="draft_model", model="D.gguf", num_speculative_tokens=4, extra={"spec_draft_ngl": "99"}
            ),
            "llama-server -m T.gguf -c 2048",
        ),
        (LLAMACPP, "-md D.gguf", Speculation(model="D.gguf"), ""),
        (LLAMACPP, "--spec-draft-hf o/m:Q4", Speculation(extra={"spec_draft_hf": "o/m:Q4"}), ""),
        (
            LLAMACPP,
            "--spec-type draft-mtp,ngram-mod --spec-draft-n-max 2 --spec-ngram-mod-n-max 32",
            Speculation(
                method="mtp",
                num_speculative_tokens=2,
                extra={"spec_type": "draft-mtp,ngram-mod", "spec_ngram_mod_n_max": 32},
            ),
            "",
        ),
        (
            LLAMACPP,
            "--spec-type ngram-simple --spec-type none --spec-ngram-simple-size-n 8 --spec-ngram-simple-size-m 16",
            Speculation(method="ngram", num_speculative_tokens=16, prompt_lookup_max=8),
            "",
        ),
        (
            LLAMACPP,
            "--spec-default -c 1",
            Speculation(
                method="ngram-mod",
                num_speculative_tokens=64,
                prompt_lookup_max=24,
                extra={"spec_ngram_mod_n_min": 48},
            ),
            "-c 1",
        ),
        (
            LLAMACPP,
            "-md D.gguf --no-spec-draft-backend-sampling --spec-draft-replace a b --draft-p-min 0.5",
            Speculation(
                model="D.gguf",
                extra={
                    "spec_draft_backend_sampling": False,
                    "spec_draft_replace": ["a", "b"],
                    "spec_draft_p_min": 0.5,
                },
            ),
            "",
        ),
        (LLAMACPP, "--spec-type none -c 1", None, "-c 1"),
    ],
)
def test_speculation_is_read_into_the_words_of_vllm(
    engine: Engine, line: str, expected: Speculation | None, base: str
) -> None:
    command = parse_command(engine, shlex.split(line))
    assert command.speculation == expected
    assert shlex.join(command.base_argv) == base
    assert command.problems == ()


@pytest.mark.parametrize(
    ("engine", "line", "said"),
    [
        (SGLANG, "--speculative-num-steps 3", "without --speculative-algorithm"),
        (SGLANG, "--speculative-algorithm EAGLE --speculative-num-steps x", "found 'x', expected a whole number"),
        (SGLANG, "--speculative-algorithm EAGLE --speculative-num-steps -2", "num_speculative_tokens: found -2"),
        (SGLANG, "--speculative-made-up 3", "does not know this flag"),
        (LLAMACPP, "-md D.gguf --draft-max 5", "--draft-max: llama-server refuses it as removed"),
        (LLAMACPP, "--spec-draft-n-max 5", "no effect without a type or a draft model"),
        (LLAMACPP, "-md D.gguf --spec-draft-n-max five", "found 'five', expected a whole number"),
        (LLAMACPP, "-md", "-md: found no value"),
        (LLAMACPP, "--spec-made-up 3", "does not know this flag"),
    ],
)
def test_what_cannot_be_read_is_a_problem_that_names_it(engine: Engine, line: str, said: str) -> None:
    assert said in " ".join(parse_command(engine, shlex.split(line)).problems)


def test_addresses_and_sizes_of_sglang() -> None:
    line = "python -m sglang.launch_server --model m --dp 2 --tensor-parallel-size 4"
    command = parse_command(SGLANG, shlex.split(line))
    assert (command.model, command.served_model_name, command.port) == ("m", "m", 30000)
    assert (command.tensor_parallel_size, command.data_parallel_size, command.part_of) == (4, 2, None)
    positional = parse_command(SGLANG, shlex.split("sglang serve m --disaggregation-mode prefill --enable-metrics"))
    assert positional.model == "m"
    assert "prefill" in str(positional.part_of)
    assert positional.options["enable_metrics"] is True


def test_addresses_and_names_of_llama_server() -> None:
    command = parse_command(LLAMACPP, shlex.split("llama-server -m /m/T.gguf -a big,small --port 8090 -np 4 --metrics"))
    assert (command.model, command.port, command.max_num_seqs) == ("/m/T.gguf", 8090, 4)
    assert (command.served_model_names, command.served_model_name) == (("big", "small"), "big")
    assert parse_command(LLAMACPP, shlex.split("llama-server -hf o/m")).model == "o/m"
    assert parse_command(LLAMACPP, ["llama-server", "-m", "x"]).served_model_name is None
    assert parse_command(LLAMACPP, ["llama-server"]).port == 8080


def test_llama_server_knows_no_equals_sign() -> None:
    command = parse_command(LLAMACPP, ["llama-server", "--spec-type=draft-mtp"])
    assert command.speculation is None
    assert command.base_argv == ("llama-server", "--spec-type=draft-mtp")
    assert "--spec-type=draft-mtp: acceptd does not know this flag" in command.problems[0]


def test_an_engine_that_acceptd_cannot_start_is_refused() -> None:
    with pytest.raises(LaunchError, match="engine 'unknown': expected one of vllm, sglang, llamacpp"):
        parse_command(Engine.UNKNOWN, [])
