from __future__ import annotations

import pytest

from monitor.errors import LaunchError
from monitor.simulator.faults import FaultKind
from monitor.simulator.options import parse_options
from monitor.simulator.speculation import Speculation

EAGLE = '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3}'


def test_defaults_are_a_server_without_speculation_whose_name_says_what_it_is() -> None:
    options = parse_options([])
    assert options.model_name == "sim-llama-8b"
    assert (options.host, options.port, options.num_speculative_tokens) == ("127.0.0.1", 8000, 0)
    assert options.load.kind == "none" and options.speed == 1.0 and options.shutdown_timeout == 0
    assert options.limits.max_num_seqs == 256


def test_a_command_line_of_vllm_is_followed() -> None:
    options = parse_options(
        ["serve", "org/model", "--port", "9000", "--speculative-config", EAGLE, "--max-num-seqs", "32",
         "--served-model-name", "a", "b", "--shutdown-timeout", "20", "--max-model-len", "4096"]
    )  # fmt: skip
    assert options.model == "org/model" and options.served_names == ("a", "b") and options.model_name == "a"
    assert options.speculation == Speculation("eagle3", 3, "head")
    assert options.limits.max_num_seqs == 32 and options.limits.max_model_len == 4096
    assert options.shutdown_timeout == 20 and options.port == 9000


def test_the_short_speculation_flags_mean_the_same() -> None:
    options = parse_options(["--spec-method", "eagle3", "--spec-model", "head", "--spec-tokens", "3"])
    assert options.speculation == parse_options(["-sc", EAGLE]).speculation
    with pytest.raises(LaunchError, match="mutually exclusive"):
        parse_options(["-sc", EAGLE, "--spec-tokens", "2"])


def test_flags_that_change_nothing_are_accepted_and_named() -> None:
    options = parse_options(
        ["--gpu-memory-utilization", "0.9", "-tp", "2", "--enforce-eager", "--host", "0.0.0.0", "-q", "fp8"]
    )
    assert options.host == "127.0.0.1"
    assert options.ignored == (
        "--tensor-parallel-size",
        "--gpu-memory-utilization",
        "--quantization",
        "--enforce-eager",
        "--host 0.0.0.0 (only the loopback is served)",
    )


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "::1"])
def test_loopback_addresses_are_kept(host: str) -> None:
    options = parse_options(["--host", host])
    assert options.host == host and options.ignored == ()


@pytest.mark.parametrize(
    ("method", "table", "coverage"),
    [("eagle3", "gsm8k-eagle3", 1.0), ("ngram", "sharegpt-ngram", 0.5), ("mtp", "qwen35-mtp", 1.0)],
)
def test_the_method_chooses_table_and_coverage(method: str, table: str, coverage: float) -> None:
    options = parse_options(["--spec-method", method, "--spec-model", "head", "--spec-tokens", "2"])
    assert options.family.name == table and options.coverage == coverage
    options = parse_options(["--sim-table", "kimik25-eagle3", "--sim-coverage", "0.8"])
    assert options.family.name == "kimik25-eagle3" and options.coverage == 0.8


def test_what_is_simulated_is_read() -> None:
    options = parse_options(
        ["--sim-load", "open:rate=4", "--sim-fault", "cliff@40", "--sim-fault", "ignore_sigterm", "--sim-seed", "7",
         "--sim-speed", "60", "--sim-start-seconds", "0", "--sim-stop-seconds", "3", "--sim-correlation", "0.2",
         "--sim-kv-tokens", "9000", "--sim-step-noise", "0", "--disable-log-stats"]
    )  # fmt: skip
    assert options.load.peak == 4 and [fault.kind for fault in options.faults] == [
        FaultKind.CLIFF,
        FaultKind.IGNORE_SIGTERM,
    ]
    assert (options.seed, options.speed, options.start_seconds, options.stop_seconds) == (7, 60, 0, 3)
    assert options.correlation == 0.2 and options.limits.kv_tokens == 9000 and options.limits.step_noise == 0
    assert not options.log_stats


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--no-such-flag"], "unrecognized arguments: --no-such-flag"),
        (["--port", "http"], "--port"),
        (["--max-num-seqs", "0"], "expected at least 1"),
        (["--sim-speed", "0"], "above 0"),
        (["--sim-speed", "inf"], "above 0"),
        (["--sim-correlation", "1"], "0 to 0.95"),
        (["--sim-coverage", "0"], "above 0, at most 1"),
        (["--sim-load", "closed"], "clients=NUMBER"),
        (["--sim-fault", "explode"], "one of cliff"),
        (["--sim-table", "nowhere"], "gsm8k-eagle3"),
    ],
)
def test_a_wrong_flag_ends_with_status_2_and_says_why(
    argv: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_options(argv)
    assert caught.value.code == 2
    assert named in capsys.readouterr().err


def test_a_speculation_that_vllm_refuses_is_a_launch_error() -> None:
    with pytest.raises(LaunchError, match="unexpected keyword"):
        parse_options(["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 1, "k": 2}'])


def test_the_api_key_comes_from_flag_or_environment_and_is_never_shown() -> None:
    options = parse_options(["--api-key", "s3cret"], {"VLLM_API_KEY": "other"})
    assert options.api_key == "s3cret" and "s3cret" not in repr(options)
    assert parse_options([], {"VLLM_API_KEY": "other"}).api_key == "other"
    assert parse_options([], {"VLLM_API_KEY": ""}).api_key is None
