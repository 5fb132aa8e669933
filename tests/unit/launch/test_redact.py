from __future__ import annotations

import pytest

from monitor.launch import diff_command, redact, redact_text, redact_url

SECRET = "s3cr3t-Value"


@pytest.mark.parametrize(
    "argv",
    [
        ["vllm", "serve", "m", "--api-key", SECRET, "--port", "1"],
        ["vllm", "serve", "m", "--api-key", "other", SECRET, "--port", "1"],
        ["--api-key=" + SECRET],
        ["--api_key=" + SECRET],
        ["--hf-token", SECRET],
        ["-hft", SECRET],
        ["--admin-api-key", SECRET],
        ["--ssl-keyfile-password", SECRET],
        ["env", "HF_TOKEN=" + SECRET, "vllm", "serve"],
        ["docker", "-e", "VLLM_API_KEY=" + SECRET],
        ["docker", "--env=HF_TOKEN=" + SECRET],
        ["--model-loader-extra-config", '{"aws_secret_access_key": "' + SECRET + '", "x": 1}'],
        ["--kv-transfer-config", '{"password":"' + SECRET + '"}'],
        ["--otlp-traces-endpoint", "https://user:" + SECRET + "@host:1/x"],
        ["--api-key", "--", SECRET],
    ],
)
def test_secrets_of_a_command_line_are_hidden_and_items_stay(argv: list[str]) -> None:
    shown = redact(argv)
    assert SECRET not in " ".join(shown)
    assert "<secret>" in " ".join(shown)
    assert len(shown) == len(argv)
    assert redact(shown) == shown


@pytest.mark.parametrize(
    "argv",
    [
        ["vllm", "serve", "meta/Model", "--tokenizer", "t", "--max-num-batched-tokens", "512", "--port", "8000"],
        ["--num-speculative-tokens", "5", "--speculative-token-map", "/m", "--api-key-file", "/run/keys"],
        ["--speculative-config", '{"method":"ngram","num_speculative_tokens":3}'],
        ["--hf-token", "--port", "1"],
        ["--api-key="],
        ["--ssl-keyfile", "/etc/key.pem", "--root-path", "/a=b"],
    ],
)
def test_a_line_without_secrets_stays_as_it_is(argv: list[str]) -> None:
    assert redact(argv) == tuple(argv)


@pytest.mark.parametrize(
    "text",
    [
        f"args: Namespace(host=None, api_key='{SECRET}', port=8000)",
        f"non-default args: {{'api_key': ['a', '{SECRET}'], 'model': 'x'}}",
        f"server_args=ServerArgs(api_key=\"{SECRET}\", tp=1)",
        f"Authorization: Bearer {SECRET}",
        f"'authorization': 'Basic {SECRET}'",
        f"curl -H 'Authorization: Bearer {SECRET}' http://127.0.0.1",
        f"vllm serve m --api-key other {SECRET} --port 1",
        f"vllm serve m --api-key '{SECRET}'",
        f"HF_TOKEN={SECRET} vllm serve m",
        f"http://user:{SECRET}@proxy:3128/",
        f"https://hooks.slack.com/services/T1/B2/{SECRET}",
        f"token: {SECRET}",
        f'{{"slack_password": "{SECRET}"}}',
    ],
)
def test_secrets_of_a_log_are_hidden(text: str) -> None:
    shown = redact_text(text)
    assert SECRET not in shown
    assert "<secret>" in shown


@pytest.mark.parametrize(
    "token",
    ["hf_abcdefghijklmnopqrstuv", "sk-proj-abcdefghijklmnopqrst", "xoxb-1234567890-abc", "AKIAABCDEFGHIJKLMNOP"],
)
def test_tokens_are_known_by_their_shape(token: str) -> None:
    assert redact_text(f"found {token} here") == "found <secret> here"


@pytest.mark.parametrize(
    "text",
    [
        "Avg prompt throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs",
        "ValueError: num_speculative_tokens:5 must be divisible by n_predict=3",
        "args: Namespace(api_key=None, hf_token=None, tokenizer='x')",
        "max_tokens=16 stop_tokens: 3",
        "a bearer of news",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "http://127.0.0.1:8000/v1/models",
    ],
)
def test_a_log_without_secrets_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:pw@h:8000/metrics", "http://<secret>@h:8000/metrics"),
        ("http://h/m?auth=k&x=1&k2", "http://h/m?auth=<secret>&x=<secret>&<secret>"),
        ("http://h/m?a=b=c&=d&", "http://h/m?a=<secret>&=<secret>"),
        ("http://h/m", "http://h/m"),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_key(url: str, shown: str) -> None:
    assert redact_url(url) == shown


def test_a_flag_at_the_end_of_a_line_hides_nothing_of_the_next() -> None:
    assert redact_text(f"x --api-key {SECRET}\nnext line") == "x --api-key <secret>\nnext line"


def test_a_difference_shows_flags_with_their_values_and_no_secret() -> None:
    old = ["vllm", "serve", "m", "--api-key", SECRET, "--speculative-config", '{"a":1}', "--port", "1"]
    new = ["vllm", "serve", "m", "--api-key", SECRET, "--port", "1", "--speculative-config", '{"a":2}']
    assert diff_command(old, new) == [
        "- --speculative-config '{\"a\":1}'",
        "+ --speculative-config '{\"a\":2}'",
    ]
    assert diff_command(old, old) == []
    assert diff_command([], ["vllm", "serve", "m"]) == ["+ vllm serve m"]
    assert SECRET not in str(diff_command(old, ["x"]))
