"""`acceptd tune` and `acceptd launch render`: documents in, documents out, every mistake named."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Run

ROW = {"acceptance_rate_per_position": [0.9, 0.8, 0.7], "num_drafts": 50000, "finished_requests": 500,
       "step_seconds": 0.01, "batch": 8}
OBSERVED = {"method": "eagle3", "num_speculative_tokens": 3, "restart_seconds": 60, "observed": {"3": ROW}}
KEYS = {"action", "num_speculative_tokens", "gain", "gain_low", "gain_high", "reason", "threshold_rule", "projection"}


def write(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "observed.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


class TestTune:
    def test_the_answer_keeps_to_its_contract(self, acceptd: Run, tmp_path: Path) -> None:
        said = acceptd("tune", write(tmp_path, OBSERVED), "--json")
        answer = said.json()
        assert (said.code, said.err) == (0, "")
        assert set(answer) >= KEYS
        assert answer["action"] == "raise" and answer["num_speculative_tokens"] in (4, 5)
        assert (answer["threshold_rule"]["action"], answer["threshold_rule"]["num_speculative_tokens"]) == ("raise", 4)
        assert set(answer["projection"]["3"]) == {"acceptance_length", "step_seconds", "goodput"}

    def test_people_get_the_same_in_words(self, acceptd: Run, tmp_path: Path) -> None:
        said = acceptd("tune", write(tmp_path, OBSERVED))
        assert said.code == 0
        assert said.out.startswith("raise: num_speculative_tokens")
        assert "70/50 rule: raise (4)" in said.out and "predicted gain +" in said.out

    @pytest.mark.parametrize(
        ("document", "words"),
        [
            ("{", "expected one JSON object"),
            ("", "expected one JSON object"),
            ("[" * 5000, "expected one JSON object"),
            ([], "document: found []"),
            ({}, "num_speculative_tokens: found nothing"),
            ({**OBSERVED, "observed": {"x": ROW}}, "observed.x"),
            ({**OBSERVED, "restart_seconds": -1}, "restart_seconds: found -1"),
            ({**OBSERVED, "observed": {"3": {**ROW, "acceptance_rate_per_position": [0.9, 0.8]}}}, "observed.3"),
        ],
    )
    def test_every_mistake_is_named(self, acceptd: Run, tmp_path: Path, document: Any, words: str) -> None:
        for more in ((), ("--json",)):
            said = acceptd("tune", write(tmp_path, document), *more)
            assert (said.code, said.out) == (2, "")
            assert words in said.err

    def test_all_of_them_at_once(self, acceptd: Run, tmp_path: Path) -> None:
        wrong = {**OBSERVED, "restart_seconds": -1, "horizon_hours": 0, "rejected": 4}
        said = acceptd("tune", write(tmp_path, wrong))
        assert [line.partition(":")[0] for line in said.err.splitlines()] == [
            "restart_seconds", "horizon_hours", "rejected"
        ]  # fmt: skip

    def test_nothing_given_says_what_is_wanted(self, acceptd: Run) -> None:
        said = acceptd("tune")
        assert said.code == 2 and "--stdin" in said.err

    def test_a_file_that_is_not_there_is_named(self, acceptd: Run, tmp_path: Path) -> None:
        said = acceptd("tune", tmp_path / "nope.json")
        assert said.code == 2 and "nope.json" in said.err

    def test_a_line_in_is_a_line_out_until_the_end(self, acceptd: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = [json.dumps(OBSERVED), "", "{", json.dumps({}), json.dumps({**OBSERVED, "num_speculative_tokens": 0})]
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
        said = acceptd("tune", "--stdin")
        answers = [json.loads(line) for line in said.out.splitlines()]
        assert said.code == 0 and len(answers) == 4
        assert answers[0]["action"] == "raise"
        assert "not JSON" in answers[1]["error"]
        assert "num_speculative_tokens" in answers[2]["error"]
        assert "action" in answers[3]


class TestLaunchRender:
    RENDER = ("launch", "render", "--engine", "vllm", "--version", "0.32.0")

    def test_the_command_line_of_a_version(self, acceptd: Run) -> None:
        given = json.dumps({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4})
        said = acceptd(*self.RENDER, "--speculation", given, "--target-args", "serve 'my model' --port 8000", "--json")
        answer = said.json()
        assert said.code == 0
        assert answer["argv"][:4] == ["serve", "my model", "--port", "8000"]
        flag, value = answer["argv"][-2:]
        assert flag == "--speculative-config"
        assert json.loads(value)["num_speculative_tokens"] == 3
        plain = acceptd(*self.RENDER, "--speculation", given, "--target-args", "serve 'my model'").out
        assert "serve 'my model' --speculative-config '{" in plain.replace("\n", "")

    @pytest.mark.parametrize(
        ("engine", "version", "speculation"),
        [
            ("vllm", "0.32.0", "{"), ("vllm", "0.32.0", "[]"), ("nope", "1", "{}"), ("vllm", "x", '{"method":"ngram"}'),
            ("vllm", "0.32.0", '{"method": "nope", "num_speculative_tokens": 3}'),
            ("vllm", "0.32.0", '{"method": "ngram", "num_speculative_tokens": -3}'),
        ],
    )  # fmt: skip
    def test_what_cannot_be_is_an_error_on_standard_output(
        self, acceptd: Run, engine: str, version: str, speculation: str
    ) -> None:
        said = acceptd("launch", "render", "--engine", engine, "--version", version, "--speculation", speculation,
                       "--json")
        assert said.code == 2
        assert set(said.json()) == {"error"} and said.json()["error"]

    def test_quotes_that_do_not_close_are_an_error(self, acceptd: Run) -> None:
        said = acceptd(*self.RENDER, "--speculation", "{}", "--target-args", "serve 'm", "--json")
        assert said.code == 2 and said.json()["error"]
