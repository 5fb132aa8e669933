"""The command `read`: what a metrics page says, without configuration or daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli.context import file_bytes, file_text
from monitor.cli.fetching import Asking, asking, shown
from monitor.cli.output import console, errors, print_json
from monitor.cli.page_text import headline, model_lines, model_title
from monitor.errors import ConfigError, MonitorError, Problem
from monitor.intervals.pages import PageInput, read_pages, without_page
from monitor.intervals.sayings import weigh
from monitor.model.life import Said, Setting, SettingSource
from monitor.model.server import Engine
from monitor.scrape.client import Credentials
from monitor.targets.told import Told

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
    token_file: Annotated[Path | None, typer.Option(help="File with the bearer token that a URL wants.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """What a server's metrics page says: acceptance, length, setting, and whether anything is odd."""
    urls = [source for source in sources if source.startswith(("http://", "https://"))]
    if urls and len(urls) != len(sources):
        raise ConfigError([Problem("SOURCES", "files and URLs together", "either files or URLs")])
    if len(urls) > 1:
        raise ConfigError([Problem("SOURCES", f"{len(urls)} URLs", "one URL at a time")])
    if urls:
        token = file_text(token_file).strip() if token_file is not None else None
        with asking(urls[0], Credentials(bearer_token=token)) as server:
            _read_url(urls[0], server, between, as_json)
        return
    if elapsed and len(elapsed) != len(sources) - 1:
        gaps = f"{len(sources) - 1}, one between each two pages"
        raise ConfigError([Problem("--elapsed, --scraped-at", f"{len(elapsed)} times", gaps)])
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


def _read_url(url: str, server: Asking, between: float, as_json: bool) -> None:
    try:
        fetched = server.fetch(between)
    except MonitorError as error:
        if as_json:
            print_json(without_page(str(error)))
        raise
    answer = read_pages(fetched.pages, elapsed=fetched.elapsed, scraped_at=fetched.scraped_at)
    told = server.told(_ENGINES[str(answer["dialect"])]) if answer["models"] else None
    if told is not None and told.version is not None:
        answer = read_pages(
            fetched.pages, elapsed=fetched.elapsed, scraped_at=fetched.scraped_at, version=told.version
        )
    if fetched.lost is not None:
        errors.print(f"no second page: {fetched.lost}", style="yellow", markup=False)
    if as_json:
        print_json(answer)
        return
    _print(shown(url), answer)
    if told is not None:
        _print_setting(answer, told, server.local())


def _print_setting(answer: dict[str, Any], told: Told, local: Said | None) -> None:
    """What the server and, on this host, its process say of the setting, and where they disagree."""
    model = answer["models"][0]
    page = Setting(num_speculative_tokens=model["num_speculative_tokens"])
    said = [Said(source=SettingSource.PAGE, setting=page)]
    said += [one for one in (local, told.said) if one is not None]
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
    console.print(source, style="bold", markup=False)
    for line, style in headline(answer):
        console.print(f"  {line}", style=style, markup=False)
    for model in answer["models"]:
        console.print()
        console.print(f"  {model_title(model)}", style="bold", markup=False)
        for line in model_lines(model, answer["verdict"]):
            console.print(f"    {line}", markup=False)
