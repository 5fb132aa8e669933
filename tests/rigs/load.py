"""Owns a steady load on one server: N closed-loop clients that outlive restarts of it; judges nothing.

    with Load("http://127.0.0.1:8000", clients=2) as load: ...
    python -m tests.rigs.load --url http://127.0.0.1:8000 --clients 2 --seconds 60
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import requests

#: Fixed, so that two runs ask the same; short, so that decoding and not prefill is measured.
PROMPTS = (
    "import os\n\ndef main():\n",
    "class Reader:\n    def __init__(self, path):\n",
    "for name in sorted(names):\n    print(name)\n",
    "try:\n    value = int(text)\nexcept ValueError:\n",
    "with open(path) as file:\n    return file.read()\n",
    "if __name__ == '__main__':\n    sys.exit(main())\n",
)
#: Seconds to wait after an error: doubling from the first to the last while errors go on, so that a restarting
#: server is found again within a second and not hammered meanwhile.
BACKOFF_SECONDS = (0.1, 1.0)


@dataclass(frozen=True, slots=True)
class Finished:
    """One answered request: when (monotonic seconds) and how many tokens."""

    began: float
    ended: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What the clients saw so far."""

    requests: int = 0
    tokens: int = 0
    errors: int = 0
    errors_by_reason: Mapping[str, int] = field(default_factory=dict)


class Load:
    """Closed-loop clients: each sends its next request when the last is answered.

    Tokens are known when a request ends; `tokens_per_second` spreads them over the time the request took.
    """

    def __init__(
        self,
        url: str,
        *,
        clients: int = 2,
        max_tokens: int = 200,
        prompts: Sequence[str] = PROMPTS,
        temperature: float = 0.0,
        request_seconds: float = 60.0,
    ) -> None:
        """Greedy by default; `request_seconds` ends a request that a stuck engine will never answer.

        Raises:
            ValueError: the server is not on this machine, or there is nothing to send.
        """
        if urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
            raise ValueError(f"load goes to this machine only, not to {url}")
        if clients < 1 or not prompts:
            raise ValueError(f"clients is {clients}, prompts {len(prompts)}: at least 1 of each is needed")
        self._url = url.rstrip("/") + "/v1/completions"
        self._request = {"max_tokens": max_tokens, "temperature": temperature, "ignore_eos": True}
        self._prompts = tuple(prompts)
        self._request_seconds = request_seconds
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._finished: list[Finished] = []
        self._errors: Counter[str] = Counter()
        self._began = 0.0
        self._threads = [
            threading.Thread(target=self._run_client, args=(number,), name=f"load-{number}", daemon=True)
            for number in range(clients)
        ]

    def start(self) -> Load:
        """Start the clients."""
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def stop(self, timeout: float = 5.0) -> Counts:
        """Send no more; wait up to `timeout` seconds for running requests, then leave them to end by themselves."""
        self._stop.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return self.counts()

    def __enter__(self) -> Load:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def counts(self) -> Counts:
        """Everything since the start."""
        with self._changed:
            tokens = sum(one.tokens for one in self._finished)
            return Counts(len(self._finished), tokens, self._errors.total(), dict(self._errors))

    def wait_for_requests(self, number: int, timeout: float) -> bool:
        """Wait for `number` more answered requests from now on; False when they did not come in time."""
        with self._changed:
            goal = len(self._finished) + number
            return self._changed.wait_for(lambda: len(self._finished) >= goal, timeout)

    def tokens_per_second(self, since: float, until: float) -> float | None:
        """Throughput between two monotonic times (tokens/s); `None` for an empty span.

        Requests still running at `until` are not in it: end the span a request's length before now.
        """
        if until <= since:
            return None
        with self._changed:
            finished = list(self._finished)
        return sum(_tokens_within(one, since, until) for one in finished) / (until - since)

    def per_minute(self) -> list[float]:
        """Mean tokens/s of each whole minute since the start."""
        minutes = int((time.monotonic() - self._began) // 60)
        spans = [(self._began + 60.0 * minute, self._began + 60.0 * (minute + 1)) for minute in range(minutes)]
        return [self.tokens_per_second(since, until) or 0.0 for since, until in spans]

    def _run_client(self, number: int) -> None:
        first, last = BACKOFF_SECONDS
        pause = first
        session = requests.Session()
        for turn in itertools.count(number):
            if self._stop.is_set():
                return
            reason = self._send(session, self._prompts[turn % len(self._prompts)])
            if reason is None:
                pause = first
                continue
            with self._changed:
                self._errors[reason] += 1
            self._stop.wait(pause)
            pause = min(2 * pause, last)

    def _send(self, session: requests.Session, prompt: str) -> str | None:
        """One request; the reason if it failed. An answer cut short by a shutdown has an error and its tokens."""
        began = time.monotonic()
        try:
            answer = session.post(
                self._url, json={**self._request, "prompt": prompt}, timeout=(2.0, self._request_seconds)
            )
            if answer.status_code != 200:
                return f"http_{answer.status_code}"
            body = answer.json()
            tokens = int(body["usage"]["completion_tokens"])
            reason = str(body["choices"][0]["finish_reason"])
        except requests.Timeout:
            return "timeout"
        except requests.ConnectionError:
            return "connection"
        except (requests.RequestException, ValueError, LookupError, TypeError):
            return "bad_answer"
        with self._changed:
            if tokens:
                self._finished.append(Finished(began, time.monotonic(), tokens))
            self._changed.notify_all()
        return None if reason in ("length", "stop") else f"finish_{reason}"


def _tokens_within(one: Finished, since: float, until: float) -> float:
    inside = min(one.ended, until) - max(one.began, since)
    took = one.ended - one.began
    return one.tokens * max(0.0, inside) / took if took > 0 else 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run a load until the time is over or Ctrl-C, with a line of progress now and then; the last line is JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.load", description="A steady load on one server.")
    parser.add_argument("--url", required=True, help="base URL, on this machine")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=None, help="default: until Ctrl-C")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two lines of progress")
    options = parser.parse_args(argv)
    try:
        load = Load(options.url, clients=options.clients, max_tokens=options.max_tokens)
    except ValueError as error:
        parser.error(str(error))
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    began = last = time.monotonic()
    with load:
        while not over.is_set():
            left = options.every if options.seconds is None else began + options.seconds - time.monotonic()
            if left <= 0:
                break
            over.wait(min(options.every, left))
            now = time.monotonic()
            counts = load.counts()
            print(f"{now - began:6.0f} s  {load.tokens_per_second(last, now) or 0:7.1f} tokens/s  "
                  f"{counts.requests} requests, {counts.errors} errors {dict(counts.errors_by_reason)}", flush=True)
            last = now
        until = time.monotonic()
    counts = load.stop()
    rate = load.tokens_per_second(began, until)
    print(json.dumps({"requests": counts.requests, "tokens": counts.tokens, "errors": counts.errors,
                      "errors_by_reason": dict(counts.errors_by_reason), "tokens_per_second": round(rate or 0.0, 1),
                      "per_minute": [round(one, 1) for one in load.per_minute()]}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
