"""Each source of servers, asked now: whether it can be had, how many servers it lists, which of them are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from monitor.config.found import WithFound
from monitor.config.sources import Source
from monitor.doctor.finding import Area, Finding, Subject
from monitor.errors import MonitorError
from monitor.launch import redact_url
from monitor.targets.service_discovery import Found

_FORM = "docs/configuration.md, finding servers, has the form"


def check_sources(
    sources: Iterable[Source], ask: Callable[[Source], Sequence[Found]], found: dict[str, Sequence[Found]]
) -> Iterator[Finding]:
    """Ask them all; what each lists is put into `found` under its name."""
    for source in sources:
        of = Subject(Area.SOURCES, source.name)
        try:
            listed = found[source.name] = ask(source)
        except MonitorError as error:
            yield of.problem(f"{error}; the daemon keeps the servers it found last", _after(source, str(error)))
            continue
        if listed:
            yield of.ok(f"lists {len(listed):,} server{'s' if len(listed) > 1 else ''}")
        else:
            yield of.note("lists no server", _when_empty(source))


def check_left_out(joined: WithFound) -> Iterator[Finding]:
    """Found servers that cannot be watched."""
    for sentence in joined.left_out:
        name, _, rest = sentence.removeprefix("source ").partition(": ")
        of = Subject(Area.SOURCES, name)
        if rest.endswith(" already"):
            yield of.note(f"{rest}: it is watched once", "take it out of one of the two, if you mean the other")
        else:
            yield of.problem(f"{rest}; it is not watched", "change its labels or its address where it is listed")


def _after(source: Source, said: str) -> str:
    if source.http_sd is not None or source.prometheus is not None:
        kind = "http_sd" if source.http_sd is not None else "prometheus"
        if "answers 401" in said or "answers 403" in said:
            return f"set `{kind}.auth` of the source (bearer_token_file)"
        if "TLS failed" in said:
            return f"name its CA in `{kind}.tls.ca_file`"
    if source.http_sd is not None:
        return f"curl -i {redact_url(source.http_sd.url)}; {_FORM}"
    if source.prometheus is not None:
        return f"curl -i {source.prometheus.url}/api/v1/query?query=up"
    return f"look at the file and at who may read it; {_FORM}"


def _when_empty(source: Source) -> str:
    if source.prometheus is not None:
        settings = source.prometheus
        return (f"ask it for up{settings.selector} and look whether label {settings.instance_label} is there: change"
                " `selector` or `instance_label`")
    if source.local:
        return "acceptd sees command lines of its own user alone, unless it is root: give URLs under `servers`"
    return f"look whether its list is meant to be empty; {_FORM}"
