from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from monitor.launch import ParsedCommand, Speculation, parse_command
from monitor.launch.vllm_keys import KEYS
from monitor.model.server import Engine
from tests.unit.launch.golden import FOLDER

REAL = json.loads((FOLDER / "vllm-0.32.0-parser.json").read_text())["lines"]
ACCEPTED = [row for row in REAL if "refused" not in row["parsed"]]


def parse(line: str) -> ParsedCommand:
    return parse_command(Engine.VLLM, shlex.split(line))


@pytest.mark.parametrize("row", ACCEPTED, ids=lambda row: " ".join(row["argv"]) or "nothing")
def test_a_line_is_read_as_the_real_parser_reads_it(row: dict[str, Any]) -> None:
    real, command = row["parsed"], parse_command(Engine.VLLM, row["argv"])
    config = dict(real.get("speculative_config") or {})
    short = {"method": "spec_method", "model": "spec_model", "num_speculative_tokens": "spec_tokens"}
    config |= {key: real[name] for key, name in short.items() if name in real}
    assert command.speculation == (Speculation.from_json(config) if config else None)
    assert command.port == real.get("port", 8000)
    assert command.host == real.get("host")
    assert command.tensor_parallel_size == real.get("tensor_parallel_size", 1)
    assert command.pipeline_parallel_size == real.get("pipeline_parallel_size", 1)
    assert command.data_parallel_size == real.get("data_parallel_size", 1)
    assert command.served_model_names == tuple(real.get("served_model_name", ()))
    assert command.shutdown_timeout_seconds == real.get("shutdown_timeout")
    assert command.max_num_seqs == real.get("max_num_seqs")


@pytest.mark.parametrize(
    "line", ["--spec-tokens x", "--speculative-config '{'", "--spec-tokens", "--spec-m x", "--port x"]
)
def test_a_value_the_real_parser_refuses_is_a_problem(line: str) -> None:
    assert {"argv": shlex.split(line), "parsed": {"refused": True}} in REAL
    assert parse(line).problems != ()


OLD = (
    "python -m vllm.entrypoints.openai.api_server --model meta/T --speculative_model meta/D --seed 1"
    " --num-speculative-tokens=5 -spec-draft-tp 1 --speculative-max-model-len 512 --use-v2-block-manager"
    " --speculative-disable-by-batch-size 8 --speculative-disable-mqa-scorer --speculative-model-quantization awq"
    " --spec-decoding-acceptance-method typical_acceptance_sampler"
    " --typical-acceptance-sampler-posterior-threshold 0.09 --typical-acceptance-sampler-posterior-alpha 0.3"
    " --disable-logprobs-during-spec-decoding False --port 8010"
)


def test_the_old_flags_are_read_into_the_keys_that_replaced_them() -> None:
    command = parse(OLD)
    assert command.speculation == Speculation(
        model="meta/D",
        num_speculative_tokens=5,
        draft_tensor_parallel_size=1,
        quantization="awq",
        extra={
            "max_model_len": 512,
            "disable_by_batch_size": 8,
            "disable_mqa_scorer": True,
            "acceptance_method": "typical_acceptance_sampler",
            "posterior_threshold": 0.09,
            "posterior_alpha": 0.3,
            "disable_logprobs": False,
        },
    )
    assert shlex.join(command.base_argv) == (
        "python -m vllm.entrypoints.openai.api_server --model meta/T --seed 1 --use-v2-block-manager --port 8010"
    )
    assert (command.model, command.port, command.problems) == ("meta/T", 8010, ())
    assert {key for key in command.speculation.extra} <= {key.name for key in KEYS}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "--speculative-model [ngram] --num-speculative-tokens 3 --ngram-prompt-lookup-max 4",
            Speculation(method="ngram", num_speculative_tokens=3, prompt_lookup_max=4),
        ),
        ("--num-speculative-tokens 1", Speculation(num_speculative_tokens=1)),
        ("--speculative-model None", None),
        ("--disable-logprobs-during-spec-decoding --seed 1", Speculation(extra={"disable_logprobs": True})),
        ("--speculative-config null", None),
    ],
)
def test_single_forms_are_read(line: str, expected: Speculation | None) -> None:
    command = parse(line)
    if line.endswith("null"):
        assert command.problems != ()
    assert command.speculation == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--speculative-config [1]", "expected a JSON object"),
        ("""--speculative-config '{"x": NaN}'""", "expected a JSON object"),
        ("--speculative-config", "found no value"),
        ("--num-speculative-tokens five", "--num-speculative-tokens: found 'five', expected a whole number"),
        ("--num-speculative-tokens --seed 1", "--num-speculative-tokens: found no value"),
        ("--num-speculative-tokens -3", "found -3, expected a whole number of 0 or more"),
        ("--typical-acceptance-sampler-posterior-alpha nan", "expected a number"),
        ("--speculative-m x", "--speculative-m: may mean --speculative-max-model-len, --speculative-model"),
        ("--speculative-new-thing x", "--speculative-new-thing: acceptd does not know this flag"),
        ("--config /etc/vllm.yaml", "speculation may be set in that file"),
        ("""-sc '{"method":"ngram"}' --spec-method ngram""", "--spec-method and the key 'method'"),
        ("""-sc '{"method":"ngram"}' -sc.method eagle""", "given more than once"),
        ("--port eighty", "--port: found 'eighty'"),
        ("--api-key x --speculative-config '{\"api_key\":\"s3cr3t\"'", "expected a JSON object"),
    ],
)
def test_what_cannot_be_read_is_a_problem_that_names_it(line: str, said: str) -> None:
    problems = parse(line).problems
    assert said in " ".join(problems)
    assert "s3cr3t" not in " ".join(problems)


def test_a_config_file_is_no_problem_where_the_line_gives_speculation() -> None:
    assert parse("--config /etc/vllm.yaml --spec-method ngram --spec-tokens 2").problems == ()


@pytest.mark.parametrize(
    ("line", "model", "served"),
    [
        ("vllm serve meta/T --port 1", "meta/T", "meta/T"),
        ("vllm serve --port 1 --model meta/T", "meta/T", "meta/T"),
        ("vllm serve meta/T --served-model-name a b", "meta/T", "a"),
        ("vllm serve --config x.yaml", None, None),
        ("--model=meta/T", "meta/T", "meta/T"),
        ("python -m vllm.entrypoints.openai.api_server --served_model_name n", None, "n"),
    ],
)
def test_the_model_and_its_name_are_found(line: str, model: str | None, served: str | None) -> None:
    command = parse(line)
    assert (command.model, command.served_model_name) == (model, served)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--nnodes 2", "one of several nodes"),
        ("--node-rank 1", "one of several nodes"),
        ("--data-parallel-rank 0", "external data-parallel group"),
        ("--data-parallel-external-lb", "external data-parallel group"),
        ("-dpr 2", "one node of a data-parallel group"),
        ("--data-parallel-hybrid-lb", "one node of a data-parallel group"),
        ("-dp 4 -dpl 2", "2 of 4 ranks are here"),
        ("--headless", "without an API"),
        ("""--kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'""", "prefill/decode"),
        ("""--kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_consumer"}'""", "prefill/decode"),
        ("--kv-transfer-config '{'", "prefill/decode"),
        ("""--kv-transfer-config '{"kv_role":"kv_producer"}'""", "prefill/decode"),
    ],
)
def test_a_part_of_a_larger_engine_is_told(line: str, said: str) -> None:
    assert said in str(parse(line).part_of)


def test_a_server_that_stands_alone_is_no_part() -> None:
    assert parse("vllm serve m -tp 4 -dp 2 -dpl 2 --nnodes 1 --node-rank 0").part_of is None
    offload = """--kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}'"""
    assert parse(f"vllm serve m {offload}").part_of is None


def test_other_options_are_kept_by_what_they_set() -> None:
    command = parse("vllm serve m --shutdown-timeout 30 --disable-log-stats --api-server-count 2")
    assert command.shutdown_timeout_seconds == 30.0
    assert command.options["disable_log_stats"] is True
    assert command.options["api_server_count"] == 2
    assert parse("vllm serve m").shutdown_timeout_seconds is None
