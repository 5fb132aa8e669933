"""`acceptd tune` as documents: what goes in, what comes out, and every mistake named."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from monitor.errors import ConfigError
from monitor.tuning.document import answer_line, parse, serve, tune_json

GOOD = {
    "method": "eagle3", "num_speculative_tokens": 1, "restart_seconds": 180, "horizon_hours": 24,
    "limits": {"min": 1, "max": 8},
    "observed": {"1": {"acceptance_rate_per_position": [0.9], "num_drafts": 40000, "finished_requests": 600,
                       "step_seconds": 0.01, "batch": 4}},
    "rejected": [],
}


def with_(path: str, value: object) -> dict:
    document = json.loads(json.dumps(GOOD))
    part = document
    *parents, last = path.split(".")
    for key in parents:
        part = part[key]
    part[last] = value
    return document


def test_the_answer_has_every_key_of_the_contract():
    found = tune_json(GOOD)
    assert found["action"] == "raise"
    assert found["num_speculative_tokens"] == 3
    assert found["gain_low"] < found["gain"] < found["gain_high"]
    assert found["reason"] == "predicted_gain"
    assert found["threshold_rule"]["action"] == "raise"
    assert found["threshold_rule"]["num_speculative_tokens"] == 2
    assert set(found["projection"]) == {"0", "1", "2", "3"}
    for projected in found["projection"].values():
        assert set(projected) == {"acceptance_length", "step_seconds", "goodput"}
        ratio = projected["acceptance_length"] / projected["step_seconds"]
        assert projected["goodput"] == pytest.approx(ratio, rel=1e-3)


def test_only_what_is_needed_must_be_there():
    rows = {"2": {"acceptance_length": 2.4, "step_seconds": 0.01}}
    found = tune_json({"num_speculative_tokens": 2, "observed": rows})
    assert found["action"] in ("raise", "lower", "off", "keep", "probe")


def test_unknown_keys_are_ignored():
    more = {**GOOD, "comment": "x", "observed": {"1": {**GOOD["observed"]["1"], "more": [1]}}}
    assert tune_json(more) == tune_json(GOOD)


def test_a_long_context_makes_drafts_weigh_less():
    """Where each of 64 requests reads 16,000 tokens a step takes long, and a draft token is a small share of it."""
    short, long = (
        tune_json(with_("observed.1", {**GOOD["observed"]["1"], "batch": 64, "decode_context": context}))
        for context in (100, 16_000)
    )
    assert long["projection"]["3"]["goodput"] > 1.05 * short["projection"]["3"]["goodput"]


def test_a_keep_has_no_gain_and_the_setting_in_force():
    found = tune_json({**GOOD, "num_speculative_tokens": None})
    assert (found["action"], found["num_speculative_tokens"], found["gain"]) == ("keep", None, None)
    assert found["reason"] == "setting_unknown"


def test_a_restart_is_no_action_of_the_contract():
    assert tune_json({**GOOD, "facts": ["decays"]})["action"] == "keep"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("num_speculative_tokens", "three", 'num_speculative_tokens: found "three", expected a whole number from 0'),
        ("num_speculative_tokens", 2.5, "num_speculative_tokens: found 2.5, expected a whole number"),
        ("num_speculative_tokens", -1, "num_speculative_tokens: found -1, expected a whole number"),
        ("num_speculative_tokens", True, "num_speculative_tokens: found true, expected a whole number"),
        ("method", 7, "method: found 7, expected a word"),
        ("restart_seconds", -5, "restart_seconds: found -5, expected seconds, 0 or more"),
        ("horizon_hours", 0, "horizon_hours: found 0, expected hours, more than 0"),
        ("limits", [1, 8], "limits: found [1, 8], expected an object"),
        ("limits", {"min": 5, "max": 2}, 'limits: found {"min": 5, "max": 2}, expected min not above max'),
        ("limits.max", "8", 'limits.max: found "8", expected a whole number from 1 to 128'),
        ("limits.allow_off", 1, "limits.allow_off: found 1, expected true or false"),
        ("observed", [], "observed: found [], expected an object of settings"),
        ("observed", {"k": {}}, 'observed.k: found "k", expected a setting from 0 (off) to 128 as the key'),
        ("observed", {"1": 5}, "observed.1: found 5, expected an object"),
        ("observed.1.step_seconds", 0, "observed.1.step_seconds: found 0, expected seconds, more than 0"),
        ("observed.1.step_seconds", "fast", 'observed.1.step_seconds: found "fast", expected seconds'),
        ("observed.1.num_drafts", -3, "observed.1.num_drafts: found -3, expected drafts, 0 or more"),
        ("observed.1.batch", 0, "observed.1.batch: found 0, expected decoding requests, more than 0"),
        ("observed.1.decode_context", -1, "observed.1.decode_context: found -1, expected tokens, 0 or more"),
        ("observed.1.acceptance_rate_per_position", [0.9, 0.8],
         "observed.1.acceptance_rate_per_position: found [0.9, 0.8], expected 1 rates from 0 to 1 that do not rise"),
        ("observed", {"2": {"acceptance_rate_per_position": [0.5, 0.8]}}, "2 rates from 0 to 1 that do not rise"),
        ("observed.1.acceptance_rate_per_position", [1.4], "expected 1 rates from 0 to 1"),
        ("observed.1.acceptance_rate_per_position", 0.9, "expected 1 rates from 0 to 1"),
        ("observed.1.acceptance_length", 5.0, "acceptance_length: found 5.0, expected tokens per draft from 1 to 2"),
        ("rejected", 3, "rejected: found 3, expected a list of settings"),
        ("rejected", [2, "x"], 'rejected[1]: found "x", expected a whole number'),
        ("facts", ["tired"], 'facts: found ["tired"], expected a list of adapts_itself'),
        ("replicas", 0, "replicas: found 0, expected a whole number from 1"),
    ],
)
def test_a_mistake_is_named_with_what_was_found_and_expected(path, value, expected):
    with pytest.raises(ConfigError) as caught:
        parse(with_(path, value))
    assert expected in str(caught.value)


def test_all_mistakes_are_named_at_once():
    wrong = {**GOOD, "num_speculative_tokens": -1, "horizon_hours": -1, "rejected": "none"}
    with pytest.raises(ConfigError) as caught:
        parse(wrong)
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["num_speculative_tokens", "horizon_hours", "rejected"]


@pytest.mark.parametrize("document", [None, [], 3, "text"])
def test_a_document_must_be_an_object(document):
    with pytest.raises(ConfigError, match="document: found"):
        parse(document)


def test_the_setting_in_force_must_be_named_even_if_unknown():
    with pytest.raises(ConfigError, match="num_speculative_tokens: found nothing"):
        parse({"observed": {}})


def test_rates_that_rise_by_rounding_are_taken():
    document = with_("num_speculative_tokens", 2)
    document["observed"] = {"2": {"acceptance_rate_per_position": [0.9, 0.9004]}}
    assert parse(document).observed[2].survival == (0.9, 0.9)


@pytest.mark.parametrize("line", ["{", '{"observed": 1}', "[]", "null", "NaN", "[" * 100_000])
def test_a_wrong_line_gets_an_error_and_not_the_end(line):
    found = json.loads(answer_line(line))
    assert found["error"]
    assert isinstance(found["problems"], list)


def test_lines_in_lines_out_blank_ones_passed_over():
    written: list[str] = []
    serve([json.dumps(GOOD) + "\n", "\n", "{\n", json.dumps(GOOD) + "\n"], written.append)
    assert len(written) == 3
    assert json.loads(written[0]) == json.loads(written[2])
    assert "error" in json.loads(written[1])


def test_the_runner_answers_each_line_before_the_next_is_sent():
    with subprocess.Popen(
        [sys.executable, "-m", "monitor.tuning.stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write(json.dumps(GOOD) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["action"] == "raise"
        process.stdin.close()
        assert process.wait(20) == 0
