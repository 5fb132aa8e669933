"""The command `read`: what a metrics page says, without configuration or daemon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from monitor.cli import words
from monitor.cli.context import file_bytes
from monitor.cli.output import console, errors, number, print_json, share
from monitor.clock import SystemClock
from monitor.errors import ConfigError, MonitorError, Problem, ScrapeError
from monitor.intervals.pages import PageInput, read_pages
from monitor.intervals.sayings import weigh
from monitor.model.life import Said, Setting, SettingSource
from monitor.model.server import Engine
from monitor.scrape.client import ACCEPT_PAGE, ServerClient
from monitor.scrape.probe import ServerProbe
from monitor.scrape.watchdog import Watchdog
from monitor.targets.local import server_behind
from monitor.targets.told import ask_server

_FETCH_SECONDS = 10.0
_ENGINES = {
    "vllm_v0": Engine.VLLM, "vllm_v1": Engine.VLLM, "sglang": Engine.SGLANG, "llamacpp": Engine.LLAMACPP,
}  # fmt: skip


def read(
    sources: Annotated[list[str], typer.Argument(help="Files or URLs of metrics pages, oldest first.")],
    elapsed: Annotated[list[float] | None, typer.Option(help="Seconds between pages, one a gap.")] = None,
    scraped_at: Annotated[list[float] | None, typer.Option(help="Unix time of each page.")] = None,
    status: Annotated[int | None, typer.Option(help="HTTP status of the (last) page in a file.")] = None,
    content_type: Annotated[str | None, typer.Option(help="Content type of the pages in files.")] = None,
    between: Annotated[float, typer.Option(help="A URL is read twice, so many seconds apart; 0 reads it once.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """What a server's metrics page says: acceptance, length, setting, and whether anything is odd."""
    urls = [source for source in sources if source.startswith(("http://", "https://"))]
    if urls and len(urls) != len(sources):
        raise ConfigError([Problem("SOURCES", "files and URLs together", "either files or URLs")])
    if len(urls) > 1:
        raise ConfigError([Problem("SOURCES", f"{len(urls)} URLs", "one URL at a time")])
    if not urls and elapsed and len(elapsed) != len(sources) - 1:
        gaps = f"{len(sources) - 1}, one between each two pages"
        raise ConfigError([Problem("--elapsed, --scraped-at", f"{len(elapsed)} times", gaps)])
    if urls:
        pages, elapsed, scraped_at = _fetch(urls[0], between)
    else:
        pages = [PageInput(file_bytes(Path(source)), content_type, 200) for source in sources]
        if status is not None:
            pages[-1] = PageInput(pages[-1].body, content_type, status)
    try:
        answer = read_pages(pages, elapsed=elapsed or [], scraped_at=scraped_at or [])
    except ValueError as error:
        raise ConfigError([Problem("--elapsed, --scraped-at", str(error), "times that fit the pages")]) from error
    if as_json:
        print_json(answer)
    else:
        _print(sources[-1], answer)
        if urls and answer["models"]:
            _print_setting(urls[0], answer)


def _page_of(url: str) -> str:
    """The metrics URL; a base URL is completed with /metrics."""
    return url if "/metrics" in url else url.rstrip("/") + "/metrics"


@contextmanager
def _client(clock: SystemClock) -> Iterator[ServerClient]:
    dog = Watchdog(clock)
    dog.start()
    client = ServerClient(dog, size_limit=64 * 1024**2)
    try:
        yield client
    finally:
        client.close()
        dog.stop()


def _fetch(url: str, between: float) -> tuple[list[PageInput], list[float], list[float]]:
    """One page, or two `between` seconds apart."""
    clock = SystemClock()
    pages: list[PageInput] = []
    moments: list[float] = []
    stamps: list[float] = []
    try:
        with _client(clock) as client:
            for index in range(2 if between > 0 else 1):
                if index:
                    errors.print(f"waiting {between:g} s for a second page …", style="dim")
                    clock.sleep(between)
                answer = client.get(_page_of(url), deadline_seconds=_FETCH_SECONDS, accept=ACCEPT_PAGE)
                pages.append(PageInput(answer.body, answer.content_type, answer.status))
                moments.append(clock.monotonic())
                stamps.append(clock.now().timestamp())
                if answer.status != 200:
                    break
    except ScrapeError as error:
        if not pages:
            raise MonitorError(str(error)) from error
    return pages, [later - earlier for earlier, later in pairwise(moments)], stamps


def _print_setting(url: str, answer: dict[str, Any]) -> None:
    """What the server and, on this host, its process say of the setting, and where they disagree."""
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc}{parts.path.partition('/metrics')[0].rstrip('/')}"
    with _client(SystemClock()) as client:
        told = ask_server(_ENGINES[answer["dialect"]], ServerProbe(client, base).document)
    try:
        local = server_behind(base)
    except OSError:
        local = None
    model = answer["models"][0]
    page = Setting(num_speculative_tokens=model["num_speculative_tokens"])
    said = [Said(source=SettingSource.PAGE, setting=page)]
    said += [one for one in (local.said if local is not None else None, told.said) if one is not None]
    known = weigh(tuple(said), has_drafted=bool(model["lifetime"]["num_drafts"]))
    sources = ", ".join(f"{name} from {source.value}" for name, source in known.sources.items())
    console.print()
    console.print(f"  version   {told.version or 'not told'}", markup=False)
    console.print(f"  setting   {known.setting.describe()}" + (f" ({sources})" if sources else ""), markup=False)
    for note in known.notes:
        console.print(f"  disagrees {note}", style="yellow", markup=False)
    if known.adapts is not None:
        console.print(f"  adapts    the engine moves the number itself: {known.adapts}", style="yellow", markup=False)


def _print(source: str, answer: dict[str, Any]) -> None:
    verdict = answer["verdict"]
    console.print(source, style="bold", markup=False)
    if answer["models"]:
        console.print(f"  {words.DIALECTS.get(answer['dialect'], answer['dialect'])}", markup=False)
    style = "green" if verdict == "ok" else "yellow"
    console.print(f"  {words.VERDICTS.get(verdict, verdict)}", style=style, markup=False)
    console.print(f"  ({verdict}: {answer['reason']})", style="dim", markup=False)
    if answer.get("state"):
        console.print(f"  {words.STATES[answer['state']]} ({answer['state']})", markup=False)
    for flag in answer["flags"]:
        console.print(f"  Doubt: {words.FLAGS[flag]} ({flag})", style="yellow", markup=False)
    for model in answer["models"]:
        _print_model(model)


def _print_model(model: dict[str, Any]) -> None:
    tokens = model["num_speculative_tokens"]
    console.print()
    engines = f", {len(model['engines'])} engines" if len(model["engines"]) > 1 else ""
    console.print(f"  model {model['model']}{engines}", style="bold", markup=False)
    lines = [f"num_speculative_tokens   {'not shown by the page' if tokens is None else tokens}"]
    lines.append(f"running / waiting        {number(model['running'], 0)} / {number(model['waiting'], 0)}")
    lines.append(f"KV cache (fullest)       {share(model['kv_usage_max'])}")
    for title, reading in (("between the pages", model["interval"]), ("since its start", model["lifetime"])):
        if reading is None:
            continue
        lines.append(f"{title}:" + (" (partly hidden by a restart)" if reading.get("partial") else ""))
        lines.append(f"  acceptance rate        {share(reading['acceptance_rate'])}  (accepted / draft tokens)")
        lines.append(f"  acceptance length      {number(reading['acceptance_length'])}  (tokens a draft)")
        positions = reading["acceptance_rate_per_position"] or []
        lines.append(f"  per position           {' '.join(share(rate) for rate in positions) or '–'}")
        lines.append(f"  drafts                 {number(reading['num_drafts'], 0)}")
        lines.append(f"  generated tokens       {number(reading['generation_tokens'], 0)}")
        if reading["generation_tokens_per_second"] is not None:
            lines.append(f"  tokens per second      {number(reading['generation_tokens_per_second'], 1)}")
    for line in lines:
        console.print(f"    {line}", markup=False)
