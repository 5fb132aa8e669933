"""Why a start failed, from exit code and log: will the same start fail again, and is the setting to blame?

It owns no process. The patterns are texts seen in vLLM 0.8 to 0.33, SGLang, llama.cpp, PyTorch and CPython; they are
tried in order, since a start that runs out of memory also prints a traceback.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from monitor.drivers.protocol import describe_exit


class FailureKind(StrEnum):
    """What kept a server from starting."""

    OUT_OF_MEMORY = "out_of_memory"
    DEVICE_BUSY = "device_busy"
    BAD_ARGUMENT = "bad_argument"
    BAD_CONFIGURATION = "bad_configuration"
    MISSING_MODEL = "missing_model"
    MISSING_PROGRAM = "missing_program"
    PORT_IN_USE = "port_in_use"
    DEVICE_UNUSABLE = "device_unusable"
    NETWORK = "network"
    KILLED = "killed"
    ENDED_ITSELF = "ended_itself"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StartFailure:
    """A failed start, judged.

    `retryable`: the same start may work in a moment. `blames_setting`: the setting is the likely cause, so that it is
    not tried again for a while. `line` is the line of the log that told (redacted by whoever read the log).
    """

    kind: FailureKind
    retryable: bool
    blames_setting: bool
    sentence: str
    line: str = ""


#: (kind, retryable, blames the setting, what it means, patterns)
_TABLE: tuple[tuple[FailureKind, bool, bool, str, str], ...] = (
    (
        FailureKind.DEVICE_BUSY, True, False, "the device's memory is still held by another process",
        r"Free memory on device .* is less than desired|Error in memory profiling\. Initial (used|free) memory"
        r"|initial memory snapshot|EngineCore.*still holds",
    ),
    (
        FailureKind.OUT_OF_MEMORY, False, True, "it ran out of memory",
        r"(CUDA|HIP) out of memory|OutOfMemoryError|CUDA error: out of memory|cudaMalloc failed: out of memory"
        r"|No available memory for the cache blocks|larger than the (maximum|available) .*KV cache"
        r"|KV cache (is needed|memory).*larger than|failed to allocate (compute|buffer|memory)"
        r"|unable to allocate .* buffer|std::bad_alloc|Cannot allocate memory|\bMemoryError\b",
    ),
    (
        FailureKind.PORT_IN_USE, False, False, "its port is in use",
        r"[Aa]ddress already in use|EADDRINUSE|\[Errno 98\]|couldn't bind (HTTP server )?socket",
    ),
    (
        FailureKind.BAD_ARGUMENT, False, True, "it does not take one of its arguments",
        r"unrecognized arguments?:|error: (the following arguments are required|argument |invalid argument)"
        r"|error: ambiguous option|invalid choice:|[Uu]nexpected keyword|[Ee]xtra (inputs|fields) (are )?not permitted"
        r"|unknown argument: |expects? one argument",
    ),
    (
        FailureKind.MISSING_MODEL, False, False, "a model or file is missing",
        r"RepositoryNotFoundError|Repository Not Found|LocalEntryNotFoundError|GatedRepoError|HFValidationError"
        r"|does not appear to have a file named|is not a local folder and is not a valid model|OfflineModeIsEnabled"
        r"|Invalid repository ID or local directory|Repo id must be in the form"
        r"|Can't load the (config|model)|failed to open GGUF|failed to load model|error loading model"
        r"|No such file or directory: |FileNotFoundError",
    ),
    (
        FailureKind.MISSING_PROGRAM, False, False, "a program or module is missing",
        r"ModuleNotFoundError|No module named|ImportError: |error while loading shared libraries|command not found",
    ),
    (
        FailureKind.BAD_CONFIGURATION, False, True, "the engine refuses this configuration",
        # The last are errors that an engine ends with: vLLM raises the first of them for what a release does not run.
        r"validation errors? for |ValueError: .*(specul|draft|n_predict|num_spec|tensor.parallel|max_model_len)"
        r"|NotImplementedError|AssertionError|ValueError: |TypeError: |KeyError: ",
    ),
    (
        FailureKind.DEVICE_UNUSABLE, False, False, "the device cannot be used",
        r"CUDA driver version is insufficient|no kernel image is available|No CUDA GPUs are available|NVML: "
        r"|CUDA-capable device\(s\) is/are busy|uncorrectable ECC|has fallen off the bus|Failed to infer device type",
    ),
    (
        FailureKind.NETWORK, True, False, "the network failed while it was starting",
        r"Temporary failure in name resolution|Connection reset by peer|Max retries exceeded|Read timed out"
        r"|429 (Client Error|Too Many Requests)|50[234] Server Error|NCCL.*(timeout|timed out)|ConnectTimeout",
    ),
)
_COMPILED = tuple((kind, retry, blame, meaning, re.compile(text)) for kind, retry, blame, meaning, text in _TABLE)

#: Exit codes that tell without a log: argparse ends with 2, a shell or env with 126 and 127.
_BY_CODE = {
    2: (FailureKind.BAD_ARGUMENT, True, "it does not take one of its arguments"),
    126: (FailureKind.MISSING_PROGRAM, False, "its program cannot be executed"),
    127: (FailureKind.MISSING_PROGRAM, False, "its program is missing"),
}


def judge_exit(exit_code: int | None, log_tail: str) -> StartFailure:
    """Judge a server that ended before it was ready, from its exit code (None: unknown) and the tail of its log.

    What no pattern knows is not tried again and blames the setting: the former one started.
    """
    for kind, retryable, blames, meaning, pattern in _COMPILED:
        line = _last_line(pattern, log_tail)
        if line:
            return StartFailure(kind, retryable, blames, f"{meaning} ({describe_exit(exit_code)})", line)
    last = next((text.strip() for text in reversed(log_tail.splitlines()) if text.strip()), "")
    if exit_code in _BY_CODE:
        kind, blames, meaning = _BY_CODE[exit_code]
        return StartFailure(kind, False, blames, f"{meaning} ({describe_exit(exit_code)})", last)
    if exit_code is not None and exit_code < 0:
        return StartFailure(FailureKind.KILLED, True, True, f"it was ended by {describe_exit(exit_code)}", last)
    if exit_code == 0:
        return StartFailure(FailureKind.ENDED_ITSELF, False, True, "it ended by itself without an error", last)
    return StartFailure(FailureKind.UNKNOWN, False, True, f"it ended ({describe_exit(exit_code)})", last)


def _last_line(pattern: re.Pattern[str], text: str) -> str:
    found = [line.strip() for line in text.splitlines() if pattern.search(line)]
    return found[-1] if found else ""
