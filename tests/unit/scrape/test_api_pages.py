"""Series of a store become the pages they came from; queries name what is asked, and errors what was answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from monitor.dialects import Dialects
from monitor.dialects.detect import NAMES, is_wanted
from monitor.dialects.wanted import name_pattern
from monitor.errors import ScrapeError
from monitor.exposition import parse
from monitor.model.server import ServerName
from monitor.scrape.api_pages import TargetPage, target_pages
from monitor.scrape.client import Answer
from monitor.scrape.prometheus_api import ApiSeries, PrometheusApi, selector_of
from tests.fakes.pages import V1, v1_page

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TARGET = {"instance": "gpu-1:8000", "job": "vllm", "zone": "b"}


def series(name: str, *samples: tuple[float, str], **labels: str) -> ApiSeries:
    return ApiSeries({"__name__": name, **TARGET, **labels}, samples)


class TestPages:
    def test_each_scrape_is_one_page_without_what_the_store_added(self) -> None:
        found = target_pages(
            [
                series("up", (10.0, "1"), (25.0, "1")),
                series("vllm:x_total", (10.0, "1"), (25.0, "4"), model_name='m"\\\n', exported_job="inner"),
                series("vllm:a", (25.0, "0.5")),
            ],
            "instance",
            lambda instance: 20.0,
        )
        line = b'vllm:x_total{job="inner",model_name="m\\"\\\\\\n"} '
        assert found == {
            "gpu-1:8000": [TargetPage(10.0, line + b"1\n"), TargetPage(25.0, b"vllm:a 0.5\n" + line + b"4\n")]
        }
        ((labels, value),) = parse(found["gpu-1:8000"][0].body or b"").samples("vllm:x_total")
        assert (dict(labels), value) == ({"job": "inner", "model_name": 'm"\\\n'}, 1.0)

    def test_a_target_that_did_not_answer_has_no_page_and_one_without_series_an_empty_one(self) -> None:
        found = target_pages([series("up", (10.0, "0"), (25.0, "1"))], "instance", lambda instance: 20.0)
        assert found == {"gpu-1:8000": [TargetPage(10.0, None), TargetPage(25.0, b"# no series\n")]}

    def test_of_two_jobs_that_scrape_a_target_one_counts(self) -> None:
        found = target_pages(
            [
                series("up", (10.0, "1"), job="b"),
                series("x", (10.0, "2"), job="b"),
                series("up", (10.5, "1"), job="a"),
                series("x", (10.5, "1"), job="a"),
            ],
            "instance",
            lambda instance: 20.0,
        )
        assert found == {"gpu-1:8000": [TargetPage(10.5, b"x 1\n")]}

    def test_a_target_whose_labels_were_changed_goes_on_under_the_new_ones(self) -> None:
        found = target_pages(
            [
                series("up", (10.0, "1"), (25.0, "1")),
                series("x", (10.0, "1"), (25.0, "2")),
                series("up", (40.0, "1"), (55.0, "1"), team="a"),
                series("x", (40.0, "3"), (55.0, "4"), team="a", exported_team="b"),
            ],
            "instance",
            lambda instance: 20.0,
        )
        assert found == {
            "gpu-1:8000": [
                TargetPage(10.0, b"x 1\n"), TargetPage(40.0, b'x{team="b"} 3\n'), TargetPage(55.0, b'x{team="b"} 4\n')
            ]
        }

    def test_series_of_which_nobody_knows_the_target_are_left_out(self) -> None:
        assert target_pages([series("vllm:x_total", (10.0, "1"))], "instance", lambda instance: 20.0) == {}

    def test_a_page_comes_back_as_the_reading_that_it_was(self) -> None:
        body = v1_page(V1(drafts=1000, at=(600, 400), generation=2000, created=5.0, running=2), process_start=4.0)
        found = [series("up", (10.0, "1"))]
        for name, labels, value in parse(body):
            found.append(series(name, (10.0, repr(value)), **labels))
        (page,) = target_pages(found, "instance", lambda instance: 20.0)["gpu-1:8000"]

        def engines(text: bytes | None) -> object:
            reader = Dialects().reader(ServerName("s"))
            return reader.read(text or b"", scraped_at=NOW, monotonic=1.0).engines

        assert engines(page.body) == engines(body) != ()


class TestQueries:
    def test_the_pattern_matches_what_is_read_and_nothing_else(self) -> None:
        pattern = re.compile(name_pattern())
        for engine, names in NAMES.items():
            for known in names.table:
                plain = f"{engine.value}:{known.name}"
                for name in (plain, f"{plain}_total", f"{plain}_bucket", f"ray_{engine.value}_{known.name}_count"):
                    if is_wanted(name):
                        assert pattern.fullmatch(name), name
        for name in ("vllm:unknown", "node_cpu_seconds_total", "vllm:generation_tokens_total_x", "go_goroutines"):
            assert not pattern.fullmatch(name)

    def test_a_selector_holds_the_operator_s_and_quotes_values(self) -> None:
        assert selector_of("a|b", '{job="vllm",}') == '{__name__=~"a|b",job="vllm"}'
        assert selector_of("up", " ", "instance", ("gpu.1:80", 'x"')) == (
            '{__name__=~"up",instance=~"gpu\\\\.1:80|x\\\\\\""}'
        )


class Client:
    def __init__(self, status: int, body: bytes, **headers: str) -> None:
        self.answer = Answer(status, "application/json", body, "http://p", headers)
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    def post_form(self, url: str, form: Mapping[str, str], *, deadline_seconds: float) -> Answer:
        self.asked.append((url, form))
        return self.answer


def api(client: Client) -> PrometheusApi:
    return PrometheusApi(client, "http://p", deadline_seconds=1.0)  # type: ignore[arg-type]


class TestApi:
    def test_it_asks_for_raw_samples_newest_values_and_steps(self) -> None:
        data = {"result": [{"metric": {"__name__": "up"}, "values": [[1.5, "1"], [3, "0"]]}]}
        answer = {"status": "success", "data": data, "warnings": ["one store is away"]}
        client = Client(200, json.dumps(answer).encode())
        assert api(client).raw("{a}", NOW, 30.2) == [ApiSeries({"__name__": "up"}, ((1.5, "1"), (3.0, "0")))]
        api(client).newest("{a}", NOW)
        api(client).steps("{a}", NOW, NOW, 300)
        at = "1772323200.000"
        assert client.asked == [
            ("http://p/api/v1/query", {"query": "{a}[31s]", "time": at}),
            ("http://p/api/v1/query", {"query": "{a}", "time": at}),
            ("http://p/api/v1/query_range", {"query": "{a}", "start": at, "end": at, "step": "300s"}),
        ]

    @pytest.mark.parametrize(
        ("status", "body", "words"),
        [
            (422, b'{"status":"error","errorType":"execution","error":"too many samples"}', "422, execution: too many"),
            (502, b"<html>", "answers 502 without JSON"),
            (200, b"[]", "answers 200, error"),
            (200, b'{"status":"success","data":{"result":[{"metric":{}}]}}', "another form"),
            (200, b'{"status":"success","data":{}}', "another form"),
        ],
    )
    def test_an_answer_that_is_none_is_an_error_that_shows_it(self, status: int, body: bytes, words: str) -> None:
        with pytest.raises(ScrapeError, match=words):
            api(Client(status, body)).newest("up", NOW)

    @pytest.mark.parametrize(
        ("said", "is_partial"),
        [({}, False), ({"isPartial": False}, False), ({"isPartial": True}, True), ({"warnings": ["a is away"]}, True)],
    )
    def test_an_answer_of_a_part_of_the_stores_is_known_as_one(self, said: dict[str, object], is_partial: bool) -> None:
        asked = api(Client(200, json.dumps({"status": "success", "data": {"result": []}, **said}).encode()))
        asked.newest("up", NOW)
        assert asked.is_partial is is_partial

    @pytest.mark.parametrize(
        ("date", "said_at"),
        [("Sun, 01 Mar 2026 00:00:07 GMT", NOW.replace(second=7)), ("", None), ("now", None)],
    )
    def test_the_store_s_clock_is_that_of_its_answers(self, date: str, said_at: datetime | None) -> None:
        asked = api(Client(200, b'{"status":"success","data":{"result":[]}}', Date=date))
        asked.newest("up", NOW)
        assert asked.said_at == said_at
