"""A report as HTML (one file, charts inside), Markdown and JSON. It owns the form, not the content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from monitor.notify.words import duration_words, printable
from monitor.report.charts import trend_charts
from monitor.report.content import AlertReport, ChangeReport, ServerReport, TrendPoint, WeeklyReport
from monitor.show.lines import line_chart, summary
from monitor.show.small import spark_svg

#: Up to so many servers each has its own charts and table; of more their groups have, and servers a line.
SMALL_FLEET = 30
#: Groups that the picture for chats shows.
_PICTURED = 2
#: Least points for a chart: fewer show nothing that the table does not.
_CHART_POINTS = 2

#: Rows of a server's table: signal, label, how to print it.
ROWS = (
    ("num_speculative_tokens", "num_speculative_tokens", "count"),
    ("acceptance_rate", "acceptance rate (accepted / draft tokens)", "share"),
    ("acceptance_length", "acceptance length (tokens per draft, bonus included)", "number"),
    ("acceptance_alpha", "acceptance per token tested (independent of k)", "share"),
    ("efficiency", "efficiency (emitted / most possible, k + 1)", "share"),
    ("generation_tokens_per_second", "generated tokens per second", "number"),
    ("step_seconds", "engine step", "time"),
    ("goodput", "tokens per second and request", "number"),
    ("gain_over_off", "gain over no speculation", "signed"),
    ("decode_batch", "decode batch", "number"),
    ("time_to_first_token_seconds_p50", "time to first token, median", "time"),
    ("time_to_first_token_seconds_p95", "time to first token, 95th percentile", "time"),
    ("time_per_output_token_seconds_p50", "time per output token, median", "time"),
    ("time_per_output_token_seconds_p95", "time per output token, 95th percentile", "time"),
    ("running", "requests running, mean", "number"),
    ("waiting", "requests waiting, mean", "number"),
    ("kv_usage", "KV cache in use, mean", "share"),
    ("num_drafts", "drafts (sample)", "count"),
    ("finished_requests", "finished requests (sample)", "count"),
)


def figure_text(value: float | None, form: str) -> str:
    """A figure for people; a dash where there is no data, never a zero."""
    if value is None:
        return "–"
    if form == "share":
        return f"{value:.1%}"
    if form == "signed":
        return f"{value:+.1%}"
    if form == "time":
        return f"{value * 1000:.2f} ms" if value < 1 else f"{value:.2f} s"
    return f"{value:,.0f}" if form == "count" or abs(value) >= 1000 else f"{value:,.2f}"


def change_text(now: float | None, before: float | None, form: str) -> str:
    """How a figure moved against the period before; empty where either is missing.

    Shares move by points of a percent, counts say what they were, all else moves by percent.
    """
    if now is None or before is None:
        return ""
    if form in ("share", "signed"):
        return f"{(now - before) * 100:+.1f} points"
    if form == "count":
        return f"from {before:,.0f}" if round(before) != round(now) else ""
    return f"{now / before - 1:+.0%}" if before else ""


def _stamp(value: datetime) -> str:
    return value.strftime("%Y-%m-%d %H:%M UTC")


def _environment(html: bool) -> Environment:
    # Model and server names come from outside: HTML escapes everything that is not marked safe.
    environment = Environment(
        loader=PackageLoader("monitor.report"), autoescape=html, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        figure=figure_text, stamp=_stamp, percent=lambda v: figure_text(v, "share"),
        signed=lambda v: figure_text(v, "signed"), cell=_cell, spark=_spark, lasted=_lasted,
        words=lambda text: text.replace("_", " "),
    )
    environment.globals.update(rows=ROWS, moved=change_text)
    return environment


def _lasted(alert: AlertReport) -> str:
    """For how long an alert fired, and whether it called anybody."""
    called = "" if alert.told else "; silenced or told as part of another"
    if alert.resolved_at is None:
        return f"still firing{called}"
    return f"for {duration_words((alert.resolved_at - alert.fired_at).total_seconds())}{called}"


def _spark(server: ServerReport) -> Markup:
    """Acceptance of a server over the period, as small as a word; of all servers on one scale."""
    rates = [point.acceptance_rate for point in server.trend]
    return Markup(spark_svg(f"Acceptance of {server.name}", rates, "share", low=0.0, high=1.0) if rates else "–")


def _cell(text: str) -> str:
    """Text inside a Markdown table or line: nothing in it can break the table, become markup or steer a terminal."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, "\\" + character)
    return printable(" ".join(text.split()))


def _chart(report: WeeklyReport, changes: Sequence[ChangeReport], server: ServerReport) -> Markup | None:
    own = [change for change in changes if change.server == server.name]
    return _drawn(report, server.trend, own)


def _drawn(report: WeeklyReport, trend: Sequence[TrendPoint], changes: Sequence[ChangeReport]) -> Markup | None:
    """The charts of a trend; None where there is too little to see."""
    if sum(point.acceptance_rate is not None for point in trend) < _CHART_POINTS:
        return None
    charts = trend_charts(trend, changes, report.target_acceptance, report.start, report.end)
    figures = (
        f"<figure><figcaption>{escape(chart.name)} <span class=\"soft\">{escape(summary(chart))}</span></figcaption>"
        f"{line_chart(chart, points=False)}</figure>"
        for chart in charts
    )
    return Markup("".join(figures))


def to_html(report: WeeklyReport) -> str:
    """One HTML file: no script, no outside request, light and dark, fit for print."""
    count = sum(len(group.servers) for group in report.groups)
    is_small = count <= SMALL_FLEET
    charts = {
        server.name: _chart(report, group.changes, server) if is_small else None
        for group in report.groups
        for server in group.servers
    }
    together = {group.name: _drawn(report, group.trend, group.changes) for group in report.groups}
    style = resources.files("monitor.show").joinpath("theme.css").read_text("utf-8")
    return _environment(html=True).get_template("report.html.j2").render(
        report=report, charts=charts, together=together, style=Markup(style), is_small=is_small, count=count
    )


def summary_picture(report: WeeklyReport) -> bytes | None:
    """One PNG for chats: acceptance and throughput of the groups that generated most; None where there is no data."""
    # Imported where it is drawn: matplotlib takes half a second and 30 MB that a daemon needs once a week.
    from monitor.show.picture import picture

    shown = sorted(report.groups, key=lambda group: -sum(s.generation_tokens for s in group.servers))[:_PICTURED]
    trends = [(group, group.trend or (group.servers[0].trend if group.servers else ())) for group in shown]
    charts = [
        chart
        for group, trend in trends
        if len(trend) >= _CHART_POINTS
        for chart in trend_charts(trend, group.changes, report.target_acceptance, report.start, report.end,
                                  prefix=f"{group.name}: ")[::2]
    ]  # fmt: skip
    mark = "SIMULATED " if report.simulated else ""
    return picture(f"{mark}acceptd {report.key}", charts) if charts else None


def to_markdown(report: WeeklyReport) -> str:
    """The report as Markdown, without charts."""
    return _environment(html=False).get_template("report.md.j2").render(report=report)


def to_json(report: WeeklyReport) -> str:
    """The report as JSON; unknown numbers are null, times ISO 8601 in UTC. That on a large fleet is one line."""
    indent = 2 if sum(len(group.servers) for group in report.groups) <= SMALL_FLEET else None
    return json.dumps(report, default=_plain, indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        # `asdict` would copy every number as well, which takes longer than writing them.
        return {one.name: getattr(value, one.name) for one in fields(value)}
    raise TypeError(f"{type(value).__name__} is not JSON")
