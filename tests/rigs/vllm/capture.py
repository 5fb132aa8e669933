"""Takes the golden pages of the real vLLM: `tests/golden/exposition/vllm-0.32.0/SCENE.prom` and `SCENE.json` beside.

    python -m tests.rigs.vllm.capture            # every scene, about 8 minutes; review the diff

A page is stored as the server sent it, but for HELP texts, which are others' prose. The JSON says how it was made,
what a correct reader says of it (`expected`, counted here by plain regular expressions), and what the clients know
(`truth`): where they know it, the page is refused unless it says the same.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.rigs.cache import RigError, say
from tests.rigs.load import Load
from tests.rigs.running import RunningServer
from tests.rigs.vllm.build import VLLM_VERSION, rig_folder
from tests.rigs.vllm.measure import counter
from tests.rigs.vllm.server import (
    Speculation,
    draft_model,
    engine_core,
    ngram,
    resume_engine,
    running_server,
    stop_engine_at_work,
)

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "exposition" / f"vllm-{VLLM_VERSION}"
#: Seconds between the two pages of a pair: the daemon's usual interval.
INTERVAL_SECONDS = 15.0
CLIENTS = 2


@dataclass(frozen=True, slots=True)
class Page:
    """One scrape: its text, when (UNIX and monotonic seconds), and its content type."""

    text: str
    scraped_at: float
    monotonic: float
    content_type: str

    @classmethod
    def take(cls, server: RunningServer) -> Page:
        """Scrape now."""
        answer = requests.get(f"{server.url}/metrics", headers={"Accept": "text/plain"}, timeout=10)
        answer.raise_for_status()
        return cls(answer.text, time.time(), time.monotonic(), answer.headers["Content-Type"])


def counts(page: Page) -> dict[str, object]:
    """Since the start of the server; speculation is null where the page has none."""
    drafts, drafted, accepted, generated, prompt = (
        counter(page.text, f"vllm:{name}_total")
        for name in (
            "spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens",
            "generation_tokens", "prompt_tokens",
        )
    )
    return {
        "num_drafts": drafts,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": accepted,
        "per_position": per_position(page),
        "generation_tokens": generated,
        "prompt_tokens": prompt,
    }


def per_position(page: Page) -> list[float]:
    """Accepted tokens at each position, from 0."""
    found = re.findall(
        r'^vllm:spec_decode_num_accepted_tokens_per_pos_total\{[^}]*position="(\d+)"[^}]*\} (\S+)$',
        page.text, re.MULTILINE,
    )
    return [float(value) for _, value in sorted((int(position), value) for position, value in found)]


def reading(after: Mapping[str, object], before: Mapping[str, object] | None = None) -> dict[str, object]:
    """What a reader says of these counts, or of the difference to earlier ones of the same server."""
    def since(key: str) -> float | None:
        value = after[key]
        return None if value is None else float(value) - float(before[key] if before else 0.0)  # type: ignore[arg-type]

    drafts, drafted, accepted = since("num_drafts"), since("num_draft_tokens"), since("num_accepted_tokens")
    positions = [
        now - (before["per_position"][index] if before else 0.0)  # type: ignore[index]
        for index, now in enumerate(after["per_position"])  # type: ignore[arg-type]
    ]
    said: dict[str, object] = {"generation_tokens": since("generation_tokens"), "prompt_tokens": since("prompt_tokens")}
    if drafts is not None and drafted is not None and accepted is not None:
        said |= {
            "num_drafts": drafts,
            "num_draft_tokens": drafted,
            "num_accepted_tokens": accepted,
            "acceptance_rate": round(accepted / drafted, 6) if drafted else None,
            "acceptance_length": round(1 + accepted / drafts, 6) if drafts else None,
            "acceptance_rate_per_position": [round(one / drafts, 6) if drafts else None for one in positions],
        }
    return said


def write(
    scene: str,
    how: str,
    server: RunningServer,
    pages: list[Page],
    *,
    verdict: str,
    interval: Mapping[str, object] | None = None,
    truth: Mapping[str, object] | None = None,
    **facts: object,
) -> None:
    """Store one scene, a page or a pair; `truth` must be what the page says, `facts` are what it does not.

    Raises:
        RigError: the page says otherwise than the clients that made it.
    """
    last = counts(pages[-1])
    if wrong := {key: last[key] for key, value in (truth or {}).items() if last.get(key, value) != value}:
        raise RigError(f"{scene}: the page says {wrong}, the clients {truth}")
    names = [f"{scene}.prom"] if len(pages) == 1 else [f"{scene}.t{turn}.prom" for turn in range(len(pages))]
    for name, page in zip(names, pages, strict=True):
        text = re.sub(r"^(# HELP \S+) .*$", r"\1 (text left out)", page.text, flags=re.MULTILINE)
        (GOLDEN / name).write_text(text)
    model: dict[str, object] = {
        "num_speculative_tokens": len(per_position(pages[-1])) or None,
        "running": counter(pages[-1].text, "vllm:num_requests_running"),
        "waiting": counter(pages[-1].text, "vllm:num_requests_waiting"),
        "lifetime": reading(last),
    }
    if interval is not None:
        model["interval"] = interval
    content: dict[str, object] = {
        "name": scene,
        "pages": names,
        "engine": "vllm",
        "engine_version": VLLM_VERSION,
        "how": how,
        "argv": [part.replace(str(rig_folder()), "RIG") for part in server.argv[3:]],
        "http": {"status": 200, "content_type": pages[-1].content_type},
        "scraped_at": [round(page.scraped_at, 3) for page in pages],
        "expected": {"verdict": verdict, "models": {"*": model}},
        "truth": {**(truth or {}), **facts},
    }
    if len(pages) == 2:
        content["elapsed_seconds"] = round(pages[1].monotonic - pages[0].monotonic, 3)
    (GOLDEN / f"{scene}.json").write_text(json.dumps(content, indent=1) + "\n")
    say(f"  {scene}: {last}")


def loaded_pair(server: RunningServer) -> tuple[Page, Page, int, int]:
    """Two pages an interval apart under load, then the load ends; tokens and requests its clients got in all."""
    load = Load(server.url, clients=CLIENTS).start()
    load.wait_for_requests(4, timeout=60)
    first = Page.take(server)
    time.sleep(INTERVAL_SECONDS)
    second = Page.take(server)
    seen = load.stop(timeout=30)
    return first, second, seen.tokens, seen.requests


def pair_and_end(name: str, what: str, speculation: Speculation | None) -> Callable[[], tuple[RunningServer, Page]]:
    """The scenes every setting has: a pair under load, and the page after it with what clients counted."""
    def scenes() -> tuple[RunningServer, Page]:
        with running_server(speculation=speculation) as server:
            ready = Page.take(server)
            verdict = "ok" if speculation is not None else "not_spec_decode"
            if speculation is not None:
                write(f"{name}_before_first_draft", f"{what}; ready, one token generated, nothing drafted yet",
                      server, [ready], verdict="spec_decode_no_drafts_yet", truth={"generation_tokens": 1})
            first, second, tokens, requested = loaded_pair(server)
            write(f"{name}_pair", f"{what}; two scrapes under {CLIENTS} steady clients",
                  server, [first, second], verdict=verdict, interval=reading(counts(second), counts(first)))
            end = Page.take(server)
            # One more token and request than the load's: the one that showed it was ready.
            write(f"{name}_after_load", f"{what}; idle again after {requested} requests of {CLIENTS} clients",
                  server, [end], verdict=verdict,
                  truth={"generation_tokens": tokens + 1}, requests=requested + 1)
            return server, end
    return scenes


def restart_with_another_k(before: tuple[RunningServer, Page]) -> None:
    """The last page of a server and one of its successor with another k: counters fall, a position appears."""
    old, last = before
    with running_server(speculation=ngram(3), port=old.port) as server:
        with Load(server.url, clients=CLIENTS) as load:
            load.wait_for_requests(10, timeout=60)
        page = Page.take(server)
        write("ngram_k2_to_k3_restart", "n-gram k = 2 after load, then the same port with k = 3 after ten requests",
              server, [last, page], verdict="reset_detected",
              interval={**reading(counts(page)), "partial": True})


def stuck_engine() -> None:
    """SIGSTOP on the engine under load: nothing moves any more, requests hang, `/health` says 200.

    Two kinds: stopped at work the page says so for ever, stopped between two steps it looks idle, however many wait.
    """
    with running_server(speculation=draft_model(3)) as server:
        with Load(server.url, clients=CLIENTS, max_tokens=900, request_seconds=120):
            time.sleep(3)
            stop_engine_at_work(server)
            first = Page.take(server)
            time.sleep(INTERVAL_SECONDS)
            second = Page.take(server)
            health = requests.get(f"{server.url}/health", timeout=5).status_code
            write("stuck_engine_pair", "draft model k = 3 under load, its engine stopped (SIGSTOP) at work", server,
                  [first, second], verdict="needs_probe", health=health)
            resume_engine(server)
        # Let what was left running end.
        time.sleep(10)
        os.kill(engine_core(server).pid, signal.SIGSTOP)
        with Load(server.url, clients=CLIENTS, request_seconds=120):
            time.sleep(2)
            first = Page.take(server)
            time.sleep(INTERVAL_SECONDS)
            second = Page.take(server)
            health = requests.get(f"{server.url}/health", timeout=5).status_code
            write("stuck_engine_looks_idle_pair",
                  f"the engine stopped (SIGSTOP) while idle, then {CLIENTS} requests that nobody answers",
                  server, [first, second], verdict="ok", health=health, in_flight=CLIENTS)


def main() -> int:
    """Take every scene."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    before = pair_and_end("ngram_k2", "n-gram, lookup 2–4, k = 2", ngram(2))()
    restart_with_another_k(before)
    pair_and_end("draft_model_k3", "draft model accepted now and then, k = 3", draft_model(3))()
    pair_and_end("draft_bad_k3", "draft model of unrelated weights, k = 3", draft_model(3, "draft-bad"))()
    pair_and_end("off", "speculation off", None)()
    stuck_engine()
    return 0


if __name__ == "__main__":
    sys.exit(main())
