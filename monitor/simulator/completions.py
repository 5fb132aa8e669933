"""Completions of a simulated server: requests read as vLLM reads them, fake tokens in simulated time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from monitor.simulator.requests import Request
from monitor.simulator.server import Phase, SimServer
from monitor.simulator.wire import BadRequest, HttpAnswer, HttpRequest, json_answer

#: Wall seconds between two looks at a request that is being answered, and at whether its caller hung up.
_POLL_SECONDS = 0.02
_DEFAULT_MAX_TOKENS = 16
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Ask:
    """What a completion request asks for, in tokens."""

    is_chat: bool
    model: str
    prompt_tokens: int
    max_tokens: int
    is_stream: bool


class Completions:
    """Answers completion requests of one server; `wake` asks for the engine to be advanced soon."""

    def __init__(self, server: SimServer, wake: Callable[[], None]) -> None:
        self._server = server
        self._wake = wake
        self._number = 0

    async def answer(self, request: HttpRequest, hung_up: Callable[[], bool]) -> HttpAnswer:
        """Generate and answer; a caller who hangs up has his request aborted.

        Raises:
            BadRequest: the body is not what vLLM takes.
        """
        server = self._server
        ask = self._read(request)
        names = server.options.served_names or (server.options.model,)
        if ask.model not in names:
            return error_answer(404, f"The model `{ask.model}` does not exist.", "NotFoundError")
        if ask.prompt_tokens + ask.max_tokens > server.options.limits.max_model_len:
            longest = server.options.limits.max_model_len
            return error_answer(400, f"This model takes at most {longest} tokens, prompt and answer together.")
        server.advance()
        if server.phase is Phase.DRAINING:
            return json_answer(self._body(ask, 0, "abort"))
        work = server.engine.submit(ask.prompt_tokens, ask.max_tokens)
        server.in_flight += 1
        self._wake()
        self._number += 1
        if ask.is_stream:
            return HttpAnswer(content_type="text/event-stream; charset=utf-8", pieces=self._pieces(ask, work, hung_up))
        try:
            while work.finish_reason is None and not hung_up():
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            self._leave(work)
        if work.finish_reason == "abort" and server.phase is Phase.DEAD:
            return HttpAnswer(status=500, closes=True)
        return json_answer(self._body(ask, work.produced, work.finish_reason or "abort"))

    def _leave(self, work: Request) -> None:
        self._server.in_flight -= 1
        self._server.engine.abort(work)

    async def _pieces(self, ask: Ask, work: Request, hung_up: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        sent = 0
        try:
            while not hung_up():
                is_over = work.finish_reason is not None
                if work.produced > sent:
                    yield _event(self._piece(ask, _words(sent, work.produced), None))
                    sent = work.produced
                if is_over:
                    break
                await asyncio.sleep(_POLL_SECONDS)
            yield _event(self._piece(ask, "", work.finish_reason))
            yield b"data: [DONE]\n\n"
        finally:
            self._leave(work)

    def _read(self, request: HttpRequest) -> Ask:
        raw = request.json()
        if not isinstance(raw, dict):
            raise BadRequest("the body is not a JSON object")
        is_chat = request.path.endswith("/chat/completions")
        prompt = _chat_tokens(raw.get("messages")) if is_chat else _prompt_tokens(raw.get("prompt"))
        if prompt is None:
            raise BadRequest("messages: expected a list" if is_chat else "prompt: expected text or tokens")
        max_tokens = raw.get("max_completion_tokens") or raw.get("max_tokens")
        if max_tokens is None:
            room = self._server.options.limits.max_model_len - prompt
            max_tokens = max(1, room) if is_chat else _DEFAULT_MAX_TOKENS
        if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
            raise BadRequest(f"max_tokens: found {max_tokens!r}, expected a whole number of at least 1")
        model = raw.get("model", self._server.options.model_name)
        return Ask(is_chat, str(model), prompt, max_tokens, raw.get("stream") is True)

    def _body(self, ask: Ask, tokens: int, reason: str) -> dict[str, object]:
        text = _words(0, tokens)
        choice = {"message": {"role": "assistant", "content": text}} if ask.is_chat else {"text": text}
        usage = {"prompt_tokens": ask.prompt_tokens, "total_tokens": ask.prompt_tokens + tokens}
        return {
            **self._envelope(ask, "chat.completion" if ask.is_chat else "text_completion"),
            "choices": [{"index": 0, **choice, "logprobs": None, "finish_reason": reason, "stop_reason": None}],
            "usage": {**usage, "completion_tokens": tokens},
        }

    def _piece(self, ask: Ask, text: str, reason: str | None) -> dict[str, object]:
        choice = {"delta": {"content": text}} if ask.is_chat else {"text": text}
        return {
            **self._envelope(ask, "chat.completion.chunk" if ask.is_chat else "text_completion"),
            "choices": [{"index": 0, **choice, "logprobs": None, "finish_reason": reason}],
        }

    def _envelope(self, ask: Ask, kind: str) -> dict[str, object]:
        prefix = "chatcmpl" if ask.is_chat else "cmpl"
        created = int(self._server.clock.now().timestamp())
        return {"id": f"{prefix}-sim-{self._number:08x}", "object": kind, "created": created, "model": ask.model}


def error_answer(status: int, message: str, kind: str = "BadRequestError") -> HttpAnswer:
    """An error as vLLM's front end words it."""
    return json_answer({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)


def _words(begin: int, end: int) -> str:
    """The fake text of tokens `begin` to `end`: it says what it is."""
    return "".join("SIMULATED" if place == 0 else " token" for place in range(begin, end))


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _prompt_tokens(prompt: object) -> int | None:
    if isinstance(prompt, str):
        return max(1, len(prompt) // _CHARACTERS_PER_TOKEN)
    if isinstance(prompt, list) and prompt:
        if all(isinstance(token, int) for token in prompt):
            return len(prompt)
        return _prompt_tokens(prompt[0])
    return None


def _chat_tokens(messages: object) -> int | None:
    if not isinstance(messages, list) or not messages:
        return None
    contents = [str(message.get("content", "")) for message in messages if isinstance(message, dict)]
    return sum(len(content) // _CHARACTERS_PER_TOKEN + 4 for content in contents)
