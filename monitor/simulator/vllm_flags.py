"""Flags of vLLM 0.32 that a simulated server accepts and ignores. Data only."""

#: Flags of vLLM with a value that change nothing here; each is named in the log when given.
IGNORED_WITH_VALUE = (
    *("--tensor-parallel-size -tp", "--pipeline-parallel-size -pp", "--data-parallel-size -dp", "--dtype", "--seed"),
    *("--gpu-memory-utilization", "--max-num-batched-tokens", "--quantization -q", "--kv-cache-dtype", "--block-size"),
    *("--tokenizer", "--tokenizer-mode", "--load-format", "--download-dir", "--revision", "--chat-template"),
    *("--compilation-config -O", "--generation-config", "--hf-overrides", "--limit-mm-per-prompt", "--swap-space"),
    *("--reasoning-parser", "--tool-call-parser", "--uvicorn-log-level", "--max-log-len", "--root-path"),
    *("--api-server-count", "--attention-backend", "--swap-space-gb", "--cpu-offload-gb", "--scheduling-policy"),
    *("--distributed-executor-backend", "--kv-transfer-config", "--per-request-spec-decode-metrics"),
)
IGNORED_SWITCHES = (
    *("--enforce-eager", "--trust-remote-code", "--enable-prefix-caching", "--no-enable-prefix-caching"),
    *("--enable-chunked-prefill", "--no-enable-chunked-prefill", "--enable-auto-tool-choice", "--async-scheduling"),
    *("--disable-log-requests", "--enable-log-requests", "--enable-lora", "--enable-expert-parallel"),
    *("--enable-server-load-tracking", "--disable-uvicorn-access-log", "--disable-frontend-multiprocessing"),
)
