"""What is sent: read from files of three forms, and refused with the place of what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.benchmark.workload import PROMPTS, Workload, read_workload
from monitor.errors import ConfigError

SHAPE = {"requests": 10, "concurrency": 2, "output_tokens": 50, "rate": None}


def read(path: Path | None, **changes: object) -> Workload:
    return read_workload(path, **{**SHAPE, **changes})  # type: ignore[arg-type]


def file(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_without_a_file_there_are_prompts_of_several_kinds() -> None:
    assert [prompt for prompt, _ in read(None).prompts] == list(PROMPTS)


def test_a_prompt_a_line(tmp_path: Path) -> None:
    found = read(file(tmp_path, "p.txt", "Why?\n\n  How?\n"))
    assert found.prompts == (("Why?", None), ("  How?", None))
    assert "p.txt" in found.describe()


def test_json_lines_may_say_how_long_the_answer_is(tmp_path: Path) -> None:
    text = '{"prompt": "Why?", "output_tokens": 9}\n{"prompt": "How?", "output_tokens": 900}\n'
    path = file(tmp_path, "p.jsonl", text)
    found = read(path)
    options = found.write(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    assert lines == [{"prompt": "Why?", "output_tokens": 9}, {"prompt": "How?", "output_tokens": 50}]
    assert options["--custom-output-len"] == "-1"
    assert read(None).write(tmp_path)["--custom-output-len"] == "50"


def test_conversations_go_to_the_benchmark_as_they_are(tmp_path: Path) -> None:
    path = file(tmp_path, "s.json", json.dumps([{"conversations": []}]))
    options = read(path).write(tmp_path)
    assert options == {"--dataset-name": "sharegpt", "--dataset-path": str(path), "--sharegpt-output-len": "50"}


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("p.txt", "\n \n", "no line"),
        ("p.jsonl", '{"prompt": "a"}\n{"promt": "b"}', "line 2"),
        ("p.jsonl", '{"prompt": "a", "output_tokens": 0}', "line 1"),
        ("p.jsonl", "no json", "line 1"),
        ("s.json", '{"conversations": []}', "conversations"),
        ("s.json", "[]", "conversations"),
        ("s.json", "no json", "conversations"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, name: str, text: str, place: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(file(tmp_path, name, text))
    assert place in str(raised.value)
    assert name in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        read(tmp_path / "absent.txt")


def test_equal_requests_have_equal_digests_and_others_not(tmp_path: Path) -> None:
    same = [read(file(tmp_path, name, "Why?\n")).digest for name in ("a.txt", "b.txt")]
    assert same[0] == same[1]
    others = [read(None).digest, read(None, requests=11).digest, read(None, concurrency=3).digest,
              read(None, output_tokens=51).digest, read(None, rate=2.0).digest, same[0]]  # fmt: skip
    assert len(set(others)) == len(others)
