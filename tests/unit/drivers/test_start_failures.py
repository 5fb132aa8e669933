"""What kept a server from starting, judged from exit code and log."""

from __future__ import annotations

import pytest

from monitor.drivers.failures import FailureKind, judge_exit

TRACE = "Traceback (most recent call last):\n  File \"x.py\", line 3\n"


@pytest.mark.parametrize(
    ("code", "log", "kind", "retryable", "blames"),
    [
        (1, TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
         FailureKind.OUT_OF_MEMORY, False, True),
        (1, TRACE + "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
         FailureKind.OUT_OF_MEMORY, False, True),
        (1, "ValueError: To serve at least one request with the models's max seq len, 2.0 GiB KV cache is needed, "
         "which is larger than the available KV cache memory (1.0 GiB)", FailureKind.OUT_OF_MEMORY, False, True),
        (1, "ValueError: Free memory on device (2.1/80.0 GiB) on startup is less than desired GPU memory utilization",
         FailureKind.DEVICE_BUSY, True, False),
        (2, "usage: vllm\napi_server.py: error: unrecognized arguments: --foo", FailureKind.BAD_ARGUMENT, False, True),
        (1, "pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n  Extra inputs are not permitted",
         FailureKind.BAD_ARGUMENT, False, True),
        (1, TRACE + "NotImplementedError: Speculative decoding with draft model is not supported yet",
         FailureKind.BAD_CONFIGURATION, False, True),
        (1, TRACE + "ValueError: num_speculative_tokens:3 must be divisible by n_predict=2",
         FailureKind.BAD_CONFIGURATION, False, True),
        (1, TRACE + "OSError: [Errno 98] Address already in use", FailureKind.PORT_IN_USE, False, False),
        (1, "couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080", FailureKind.PORT_IN_USE, False, False),
        (1, "OSError: /m is not a local folder and is not a valid model identifier",
         FailureKind.MISSING_MODEL, False, False),
        (1, "ValidationError: 1 validation error for SpeculativeConfig\n  Value error, Invalid repository ID or local "
         "directory specified: '/no/such/draft'.", FailureKind.MISSING_MODEL, False, False),
        (1, "error loading model: failed to open GGUF file", FailureKind.MISSING_MODEL, False, False),
        (1, "ModuleNotFoundError: No module named 'vllm'", FailureKind.MISSING_PROGRAM, False, False),
        (127, "", FailureKind.MISSING_PROGRAM, False, False),
        (1, "RuntimeError: No CUDA GPUs are available", FailureKind.DEVICE_UNUSABLE, False, False),
        (1, "requests.exceptions.ConnectionError: Max retries exceeded with url", FailureKind.NETWORK, True, False),
        (-9, "", FailureKind.KILLED, True, True),
        (2, "", FailureKind.BAD_ARGUMENT, False, True),
        (0, "bye", FailureKind.ENDED_ITSELF, False, True),
        (1, "something broke", FailureKind.UNKNOWN, False, True),
        (None, "", FailureKind.UNKNOWN, False, True),
    ],
)  # fmt: skip
def test_each_cause_is_told_from_its_words(
    code: int | None, log: str, kind: FailureKind, retryable: bool, blames: bool
) -> None:
    failure = judge_exit(code, log)
    assert (failure.kind, failure.retryable, failure.blames_setting) == (kind, retryable, blames)
    assert failure.sentence


def test_the_line_that_told_is_kept_and_the_last_one_otherwise() -> None:
    log = "start\nERROR CUDA out of memory (1)\nERROR CUDA out of memory (2)\nshutdown\n\n"
    assert judge_exit(1, log).line == "ERROR CUDA out of memory (2)"
    assert judge_exit(1, "a\n  the end  \n\n").line == "the end"
    assert judge_exit(1, "").line == ""


def test_exit_codes_and_signals_are_named() -> None:
    assert "signal 11" in judge_exit(-11, "").sentence
    assert "exit code 3" in judge_exit(3, "").sentence
    assert "exit code unknown" in judge_exit(None, "").sentence
