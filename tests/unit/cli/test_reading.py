"""`acceptd read`: what it says of every sample page equals what a correct reader says, and keeps to its contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.cli import words
from monitor.model.reading import Flag, State, Verdict
from tests.fakes.pages import V1, llamacpp_page, v1_page
from tests.fakes.sample_check import complaints
from tests.unit.cli.conftest import Run

SAMPLES = Path(__file__).resolve().parents[2] / "golden/exposition/samples"
READING = {
    "num_drafts", "num_draft_tokens", "num_accepted_tokens", "acceptance_rate", "acceptance_length",
    "acceptance_rate_per_position", "generation_tokens", "generation_tokens_per_second", "prompt_tokens", "partial",
}  # fmt: skip
PAGE = {"verdict", "reason", "dialect", "state", "flags", "models"}
MODEL = {
    "model", "engines", "num_speculative_tokens", "running", "waiting", "kv_usage_max", "lifetime", "interval",
    "per_engine",
}  # fmt: skip


def options(sample: dict[str, Any], folder: Path) -> list[str]:
    """The command line that reads a sample as its JSON says it was taken."""
    found = [str(folder / page) for page in sample["pages"]]
    elapsed = sample.get("elapsed_seconds", [])
    for seconds in elapsed if isinstance(elapsed, list) else [elapsed]:
        found += ["--elapsed", str(seconds)]
    for stamp in sample.get("scraped_at", []):
        found += ["--scraped-at", str(stamp)]
    http = sample.get("http", {})
    if "status" in http:
        found += ["--status", str(http["status"])]
    if http.get("content_type"):
        found += ["--content-type", http["content_type"]]
    return found


#: A server that redirects is tested with real HTTP; read from a file it is only a page without metrics.
PATHS = sorted(path for path in SAMPLES.glob("*.json") if path.stem != "http_307_redirect")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
class TestSamples:
    def test_it_says_what_is_true(self, acceptd: Run, path: Path) -> None:
        sample = json.loads(path.read_text())
        said = acceptd("read", *options(sample, path.parent), "--json")
        assert (said.code, said.err) == (0, "")
        answer = json.loads(said.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
        assert list(complaints(sample["expected"], answer)) == []
        assert set(answer) >= PAGE
        for model in answer["models"]:
            assert set(model) >= MODEL
            for reading in (model["lifetime"], model["interval"], *model["per_engine"].values()):
                assert reading is None or set(reading) >= READING or "lifetime" in reading

    def test_it_can_be_read_by_people(self, acceptd: Run, path: Path) -> None:
        sample = json.loads(path.read_text())
        said = acceptd("read", *options(sample, path.parent))
        assert (said.code, said.err) == (0, "")
        assert sample["expected"]["verdict"] in said.out


@pytest.mark.parametrize(
    ("names", "said", "unsaid"),
    [
        (["v1_acceptance_zero_broken_head"], "none of 125,000 draft tokens was accepted", "Nothing looks odd"),
        (["v1_dp8_engine_labels"], "acceptance by engine     0: 12.5%, 1: 21.7%", "Doubt"),
        (["v1_ngram_variable_drafts"], "Doubt: Drafts were often shorter", "Nothing looks odd"),
        (["v1_spec_off"], "off, as far as the page shows", "acceptance rate"),
        (["llamacpp_before_first_request"], "does not tell whether it is set up to", "model None"),
        (["v1_pair_counter_reset.t0", "v1_pair_counter_reset.t1"], "evidence: process start time", "ended:"),
        (["v1_pair_15s_k5.t1"], "3.35 of at most 6", "Doubt"),
        (["v0_first_report_k3"], "2.39 of at most 4", "per position"),
        (["v0_pair_stuck_gauges.t1"], "51.0% of the k + 1 tokens", "per position"),
        (["sglang_dp_tp_rank_series"], "2.50 to 3.10 tokens a draft", "per position"),
        (["http_200_python_only"], "no metrics of an inference engine", "model"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_people_are_told_what_is_odd_and_no_more_than_the_page_says(
    acceptd: Run, names: list[str], said: str, unsaid: str
) -> None:
    told = acceptd("read", *(SAMPLES / f"{name}.prom" for name in names)).out
    assert said in told
    assert unsaid not in told.partition("\n")[2]


def test_builds_that_print_no_speculation_are_not_called_off(acceptd: Run, tmp_path: Path) -> None:
    (tmp_path / "page").write_bytes(llamacpp_page(predicted=5000, drafts=None))
    told = acceptd("read", tmp_path / "page").out
    assert "that need not mean that there is none" in told


def test_what_a_server_calls_itself_does_not_steer_the_terminal(acceptd: Run, tmp_path: Path) -> None:
    (tmp_path / "page").write_bytes(v1_page(V1(model="a\x1b[31m[bold]\x07", generation=100)))
    told = acceptd("read", tmp_path / "page").out
    assert "model a\\x1b[31m[bold]\\x07" in told
    assert "\x1b" not in told
    assert acceptd("read", tmp_path / "page", "--json").json()["models"][0]["model"] == "a\x1b[31m[bold]\x07"


class TestWrongInput:
    def test_a_file_that_is_not_there_is_named(self, acceptd: Run, tmp_path: Path) -> None:
        said = acceptd("read", tmp_path / "nope.prom")
        assert said.code == 2
        assert "nope.prom: found No such file" in said.err

    def test_a_folder_is_no_page(self, acceptd: Run, tmp_path: Path) -> None:
        said = acceptd("read", tmp_path)
        assert said.code == 2 and str(tmp_path) in said.err

    @pytest.mark.parametrize(
        "more", [("--elapsed", "5"), ("--elapsed", "5", "--elapsed", "5"), ("--scraped-at", "1", "--scraped-at", "2")]
    )
    def test_times_must_fit_the_pages(self, acceptd: Run, more: tuple[str, ...]) -> None:
        said = acceptd("read", next(SAMPLES.glob("*.prom")), *more)
        assert said.code == 2
        assert "--elapsed, --scraped-at" in said.err

    @pytest.mark.parametrize("elapsed", ["0", "-5", "nan", "inf"])
    def test_a_time_between_pages_is_more_than_nothing(self, acceptd: Run, elapsed: str) -> None:
        page = next(SAMPLES.glob("*.prom"))
        said = acceptd("read", page, page, f"--elapsed={elapsed}")
        assert said.code == 2

    def test_files_and_urls_do_not_mix(self, acceptd: Run) -> None:
        for sources in (("http://127.0.0.1:1", "page.prom"), ("http://127.0.0.1:1", "http://127.0.0.1:2")):
            said = acceptd("read", *sources)
            assert said.code == 2 and said.err.startswith("SOURCES")

    def test_a_server_that_is_not_there_is_said(self, acceptd: Run) -> None:
        said = acceptd("read", "http://127.0.0.1:1")
        assert said.code == 1
        assert "connection refused" in said.err

    @pytest.mark.parametrize("body", [b"", b"\x00\xff\xfe", b"hello", b"<html></html>", b"{}", b"a" * 100_000])
    def test_what_is_no_page_is_a_verdict(self, acceptd: Run, tmp_path: Path, body: bytes) -> None:
        (tmp_path / "page").write_bytes(body)
        answer = acceptd("read", tmp_path / "page", "--json").json()
        assert answer["models"] == []
        assert answer["verdict"] in ("scrape_error", "no_engine_metrics")
        assert answer["reason"]

    def test_a_file_that_never_ends_is_a_verdict(self, acceptd: Run) -> None:
        answer = acceptd("read", "/dev/zero", "--json").json()
        assert (answer["verdict"], answer["models"]) == ("scrape_error", [])
        assert "expected at most" in answer["reason"]


def test_every_word_of_a_page_is_said_in_words() -> None:
    assert set(words.VERDICTS) == {verdict.value for verdict in Verdict}
    assert set(words.STATES) == {state.value for state in State}
    assert set(words.FLAGS) == {flag.value for flag in Flag}
