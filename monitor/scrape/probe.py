"""Questions to a server beside its page: is it healthy, which models, which version, can it generate one token?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from monitor.errors import ScrapeError
from monitor.scrape.client import Answer


class Http(Protocol):
    """What a probe needs of an HTTP client."""

    def get(self, url: str, *, deadline_seconds: float, accept: str = ...) -> Answer:
        """The whole answer to GET."""
        ...

    def post_json(self, url: str, body: object, *, deadline_seconds: float) -> Answer:
        """The whole answer to POST."""
        ...


@dataclass(frozen=True, slots=True)
class Probed:
    """The result of a question: whether it went well, and a sentence."""

    ok: bool
    sentence: str
    #: True where the server answered that we may not ask (401, 403): that says nothing of its health.
    unauthorized: bool = False


class ServerProbe:
    """Asks one server; never raises for what the server does."""

    def __init__(self, http: Http, base_url: str, *, timeout_seconds: float = 10.0) -> None:
        self._http = http
        self._base = base_url.rstrip("/")
        self._timeout = timeout_seconds

    def health(self) -> Probed:
        """Whether `/health` says 200."""
        try:
            answer = self._http.get(f"{self._base}/health", deadline_seconds=self._timeout)
        except ScrapeError as error:
            return Probed(False, str(error))
        if answer.status == 200:
            return Probed(True, "/health says 200")
        return Probed(False, f"/health says {answer.status}", answer.status in (401, 403))

    def version(self) -> str | None:
        """The engine version from `/version`; None where it does not say."""
        data = self._json("/version")
        version = data.get("version") if isinstance(data, dict) else None
        return version if isinstance(version, str) else None

    def models(self) -> tuple[str, ...] | None:
        """Ids of the models that `/v1/models` lists, LoRA adapters included; None where it does not answer."""
        return self._listed()[0]

    def _listed(self) -> tuple[tuple[str, ...] | None, int | None]:
        """The models, and the status where we may not ask."""
        try:
            answer = self._http.get(f"{self._base}/v1/models", deadline_seconds=self._timeout)
            data = json.loads(answer.body) if answer.status == 200 else None
        except (ScrapeError, ValueError, RecursionError):
            return None, None
        entries = data.get("data") if isinstance(data, dict) else None
        if not isinstance(entries, list):
            return None, answer.status if answer.status in (401, 403) else None
        return tuple(str(e["id"]) for e in entries if isinstance(e, dict) and "id" in e), None

    def document(self, path: str) -> object:
        """The JSON at `path`; None where the server has none there.

        Raises:
            ScrapeError: no answer, or one that only says that the server cannot answer now (5xx).
        """
        answer = self._http.get(f"{self._base}{path}", deadline_seconds=self._timeout)
        if answer.status >= 500 and answer.status != 501:
            raise ScrapeError(f"{self._base}{path}: HTTP {answer.status}")
        try:
            found: object = json.loads(answer.body) if answer.status == 200 else None
        except (ValueError, RecursionError):
            return None
        return found

    def generate(self, *, timeout_seconds: float | None = None, model: str | None = None) -> Probed:
        """Whether the server generates one token (greedy, one word in) within the time limit."""
        seconds = timeout_seconds or self._timeout
        if model is None:
            listed, refusal = self._listed()
            if not listed:
                said = f"/v1/models says {refusal}: credentials are missing or wrong" if refusal else None
                return Probed(False, said or "/v1/models lists no model", said is not None)
            model = listed[0]
        body = {"model": model, "prompt": "Hi", "max_tokens": 1, "temperature": 0}
        try:
            answer = self._http.post_json(f"{self._base}/v1/completions", body, deadline_seconds=seconds)
        except ScrapeError as error:
            return Probed(False, f"no token generated: {error}")
        if answer.status in (401, 403):
            return Probed(False, f"/v1/completions says {answer.status}: credentials are missing or wrong", True)
        if answer.status != 200:
            return Probed(False, f"no token generated: /v1/completions says {answer.status}")
        try:
            choices = json.loads(answer.body)["choices"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return Probed(False, "no token generated: /v1/completions answers something else than a completion")
        return Probed(True, "one token generated") if choices else Probed(False, "no token generated: no choices")

    def _json(self, path: str) -> Any:
        try:
            answer = self._http.get(f"{self._base}{path}", deadline_seconds=self._timeout)
            return json.loads(answer.body) if answer.status == 200 else None
        except (ScrapeError, ValueError, RecursionError):
            return None
