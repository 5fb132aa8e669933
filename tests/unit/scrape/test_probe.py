"""Questions to a server beside its page: whatever it answers is a value, never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.errors import ScrapeError, ScrapeTimeout, Unreachable
from monitor.scrape.client import Answer
from monitor.scrape.probe import ServerProbe


class Http:
    """Answers by path (`/` is written `_`); an error is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any, float]] = []

    def _answer(self, url: str, body: Any, seconds: float) -> Answer:
        assert url.startswith("http://x:1/")
        path = url.removeprefix("http://x:1/").partition("?")[0].replace("/", "_")
        self.asked.append((path, body, seconds))
        found = self.answers.get(path, (404, b""))
        if isinstance(found, ScrapeError):
            raise found
        status, content = found
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return Answer(status, "application/json", data, url)

    def get(self, url: str, *, deadline_seconds: float, accept: str = "*/*") -> Answer:
        return self._answer(url, None, deadline_seconds)

    def post_json(self, url: str, body: object, *, deadline_seconds: float) -> Answer:
        return self._answer(url, body, deadline_seconds)


MODELS = (200, {"data": [{"id": "base"}, {"id": "lora"}]})
TOKEN = (200, {"choices": [{"text": " world"}]})
DEEP = (200, b"[" * 100_000)


def probe(**answers: Any) -> tuple[ServerProbe, Http]:
    http = Http(**answers)
    return ServerProbe(http, "http://x:1/", timeout_seconds=5.0), http


class TestHealth:
    @pytest.mark.parametrize(
        ("answer", "ok", "unauthorized", "words"),
        [
            ((200, b""), True, False, "/health says 200"),
            ((503, b"loading"), False, False, "/health says 503"),
            ((401, b""), False, True, "/health says 401"),
            ((403, b""), False, True, "/health says 403"),
            (Unreachable("connection refused"), False, False, "connection refused"),
            (ScrapeTimeout("no whole answer within 5 s"), False, False, "within 5 s"),
        ],
    )
    def test_only_200_is_well(self, answer: Any, ok: bool, unauthorized: bool, words: str) -> None:
        said = probe(health=answer)[0].health()
        assert (said.ok, said.unauthorized) == (ok, unauthorized)
        assert words in said.sentence


class TestGenerating:
    def test_it_asks_the_first_model_for_one_token(self) -> None:
        asking, http = probe(v1_models=MODELS, v1_completions=TOKEN)
        assert asking.generate(timeout_seconds=20.0).ok
        path, body, seconds = http.asked[-1]
        assert (path, seconds) == ("v1_completions", 20.0)
        assert (body["model"], body["max_tokens"], body["temperature"]) == ("base", 1, 0)

    def test_a_model_that_is_named_needs_no_list(self) -> None:
        asking, http = probe(v1_completions=TOKEN)
        assert asking.generate(model="other").ok
        assert [path for path, _, _ in http.asked] == ["v1_completions"]

    @pytest.mark.parametrize(
        ("answer", "unauthorized", "words"),
        [
            (ScrapeTimeout("no whole answer within 20 s"), False, "no token generated: no whole answer"),
            (Unreachable("connection reset"), False, "no token generated: connection reset"),
            ((500, {"error": "engine died"}), False, "says 500"),
            ((401, b""), True, "credentials"),
            ((403, b""), True, "credentials"),
            ((200, b"<html>"), False, "something else than a completion"),
            ((200, []), False, "something else than a completion"),
            ((200, {"object": "error"}), False, "something else than a completion"),
            ((200, {"choices": []}), False, "no choices"),
            (DEEP, False, "something else than a completion"),
        ],
    )
    def test_anything_else_is_no_token(self, answer: Any, unauthorized: bool, words: str) -> None:
        said = probe(v1_models=MODELS, v1_completions=answer)[0].generate()
        assert (said.ok, said.unauthorized) == (False, unauthorized)
        assert words in said.sentence

    @pytest.mark.parametrize("models", [(200, {"data": []}), (200, b"x"), (404, b""), DEEP, Unreachable("x")])
    def test_a_server_without_models_generates_nothing(self, models: Any) -> None:
        said = probe(v1_models=models, v1_completions=TOKEN)[0].generate()
        assert not said.ok and not said.unauthorized and "/v1/models" in said.sentence

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_list_that_we_may_not_see_says_nothing_of_the_engine(self, status: int) -> None:
        said = probe(v1_models=(status, b""), v1_completions=TOKEN)[0].generate()
        assert (said.ok, said.unauthorized) == (False, True)
        assert f"/v1/models says {status}: credentials" in said.sentence


class TestModels:
    @pytest.mark.parametrize(
        ("answer", "models"),
        [
            (MODELS, ("base", "lora")),
            ((200, {"data": [{"id": "a"}, {"name": "b"}, "c", None]}), ("a",)),
            ((200, {"data": None}), None),
            ((200, [1, 2]), None),
            ((200, b"\xff"), None),
            (DEEP, None),
            ((500, {"data": [{"id": "a"}]}), None),
            (Unreachable("x"), None),
        ],
    )
    def test_they_are_those_listed(self, answer: Any, models: tuple[str, ...] | None) -> None:
        assert probe(v1_models=answer)[0].models() == models


class TestVersion:
    @pytest.mark.parametrize(
        ("answer", "version"),
        [((200, {"version": "0.32.0"}), "0.32.0"), ((200, {"version": 3}), None), ((200, []), None),
         ((404, b""), None), (Unreachable("x"), None)],
    )  # fmt: skip
    def test_it_is_what_the_server_says(self, answer: Any, version: str | None) -> None:
        assert probe(version=answer)[0].version() == version
