"""How a fleet looks on a terminal: the tables that `status` prints once and `watch` keeps current. It reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from monitor.cli.output import printable
from monitor.show.figures import ago, number, rate, seconds, share
from monitor.show.small import spark_text

#: Colours of levels.
STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red"}
_SEVERITIES = {"page": "bold red", "ticket": "yellow", "info": "dim"}
_HALF = "half of the last hour"
_HEADS = {_HALF: "last hour"}
#: Columns, and how they are set.
_COLUMNS = {
    "server": "left", "host": "left", "state": "left", "k": "right", "method": "left", "accept.": "right",
    "last hour": "left", _HALF: "left", "length": "right", "step": "right", "tokens/s": "right", "run": "right",
    "wait": "right", "KV": "right", "read": "right", "acceptd": "left",
}  # fmt: skip
#: Columns that may be missing, the most wanted first: each is there where it fits beside those before it. The last hour
#: has half as many points where there is no room for all.
_WANTED = ("wait", "step", "acceptd", _HALF, "run", "KV", "last hour", "method", "read")
#: What acceptd would do may be cut; it is not shown in less.
_LEAST_WORDS = 12
#: History of acceptance by server.
Trends = Mapping[str, Sequence[float | None]]


def _text(words: str, style: str = "") -> Text:
    """Words that may come from servers, with what would steer the terminal written out."""
    return Text(printable(words), style)


def headline(view: Mapping[str, Any]) -> Text:
    """Which daemon this is, and how the fleet is as a whole."""
    daemon, figures = view["daemon"], view["figures"]
    servers = [server for group in view["groups"] for server in group["servers"]]
    up = sum(group["up"] for group in view["groups"])
    line = Text()
    if daemon["simulated"]:
        line.append(" SIMULATED ", "bold white on red").append(" ")
    line.append(f"acceptd {daemon['version']} on {daemon['host']}: ", "bold")
    if daemon["running"]:
        line.append(f"running (pid {daemon['pid']})", "green")
    else:
        line.append("not running", "bold red")
    line.append(f"  {up}/{len(servers)} up", "" if up == len(servers) else "bold red")
    line.append(f"  {rate(figures['generation_tokens_per_second'])} tokens/s")
    line.append(f"  {rate(figures['running'])} running, {rate(figures['waiting'])} waiting")
    # The last, as a narrow terminal cuts the line.
    return line.append(f"  page http://{daemon['listen']}/") if daemon["running"] else line


def fleet_lines(view: Mapping[str, Any]) -> list[Text]:
    """Which hosts are shown, then what of them is missing or old; nothing where this host alone was asked about."""
    fleet = view.get("fleet")
    if fleet is None:
        return []
    hosts = fleet["hosts"]
    lines = [_text(f"{len(hosts)} host{'s' if len(hosts) != 1 else ''} ({', '.join(hosts)}), this is {fleet['host']}.")]
    if fleet["away"]:
        words = "its servers are" if len(fleet["away"]) == 1 else "their servers are"
        lines.append(_text(f"No sign of life of {', '.join(fleet['away'])}: {words} shown as they were last seen.",
                           "bold red"))
    if fleet["trouble"]:
        lines.append(_text(f"{fleet['trouble'][:1].upper()}{fleet['trouble'][1:]}.", "bold red"))
    return lines


def alert_lines(view: Mapping[str, Any], now: datetime) -> list[Text]:
    """What fires and is not silenced, the loudest first; how many are silenced; what is paused."""
    lines = []
    silenced = sum(1 for alert in view["alerts"] if alert["state"] == "firing" and alert["silenced"])
    for alert in view["alerts"]:
        if alert["state"] == "firing" and not alert["silenced"]:
            by = f", {alert['acknowledged_by']} is on it" if alert["acknowledged_by"] else ""
            there = _elsewhere(alert, view)
            on = f" on {there}" if there and there not in alert["summary"] else ""
            words = f"{alert['severity'].upper()} {alert['summary']}{on} (since {ago(alert['since'], now)}{by})"
            lines.append(_text(words, _SEVERITIES.get(alert["severity"], "")))
    if not lines:
        if view["daemon"]["running"]:
            words = f"No alerts but {silenced} silenced." if silenced else "No alerts."
            lines.append(Text(words, "" if silenced else "green"))
        else:
            lines.append(Text("No alerts when acceptd last ran; nobody is looking now.", "yellow"))
    elif silenced:
        lines.append(Text(f"{silenced} silenced."))
    lines += [
        _text(f"Paused: {pause['scope']} by {pause['author']}: {pause['reason']}", "yellow") for pause in view["pauses"]
    ]
    return lines


def _elsewhere(one: Mapping[str, Any], view: Mapping[str, Any]) -> str:
    """The host of a thing where that is another than this one; empty else."""
    host = one.get("host")
    return str(host) if host and "fleet" in view and host != view["fleet"]["host"] else ""


def group_line(group: Mapping[str, Any]) -> Text:
    """A group and what acceptd would do with it."""
    line = _text(f"Group {group['name']}", "bold")
    if len(group.get("hosts", ())) > 1 or not group.get("is_here", True):
        line.append(_text(f" on {', '.join(group['hosts'])}"))
    line.append(f" ({group['mode']}) ", "dim")
    style = "magenta" if group["rollout"] else "cyan" if "approval" in group["intent"] else ""
    return line.append(_text(group["intent"], style))


class Board:
    """Tables of servers that stand under each other, one a group, with columns of the same width.

    Columns that matter least give way where the terminal is narrow.
    """

    def __init__(self, groups: Sequence[Mapping[str, Any]], trends: Trends, now: datetime, width: int) -> None:
        hosts = {server.get("host") for group in groups for server in group["servers"]}
        self._rows = {
            server["name"]: _cells(server, trends, now, group["intent"])
            for group in groups
            for server in group["servers"]
        }
        widths = {name: self._needed(name) for name in _COLUMNS
                  if name not in _WANTED and (name != "host" or len(hosts) > 1)}
        for name in _WANTED:
            more = {**widths, name: self._needed(name)}
            if name == "last hour":
                more.pop(_HALF, None)
            least = {**more, "acceptd": min(more.get("acceptd", 0), _LEAST_WORDS)}
            if sum(least.values()) + len(more) - 1 <= width:
                widths = more
        self._widths = {name: widths[name] for name in _COLUMNS if name in widths}

    def _needed(self, name: str) -> int:
        return max([len(_HEADS.get(name, name)), *(cells[name].cell_len for cells in self._rows.values())])

    def table(self, servers: Sequence[Mapping[str, Any]], *, head: bool = True) -> Table:
        """These servers, one a line; `head` names the columns."""
        made = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_header=head)
        for name, width in self._widths.items():
            # The last one may be cut; all others say a number or a name.
            is_last = name == "acceptd"
            made.add_column(
                _HEADS.get(name, name), justify=_COLUMNS[name], no_wrap=True, overflow="ellipsis",  # type: ignore[arg-type]
                min_width=None if is_last else width,
            )  # fmt: skip
        for server in servers:
            made.add_row(*(self._rows[server["name"]][name] for name in self._widths))
        return made


def _cells(server: Mapping[str, Any], trends: Trends, now: datetime, over: str) -> dict[str, Text]:
    figures = server["figures"]
    tokens = server["num_speculative_tokens"]
    texts = {
        "server": server["name"],
        "host": server.get("host", ""),
        "k": "–" if tokens is None else str(tokens),
        "method": server["method"] or "–",
        "accept.": share(figures["acceptance_rate"]),
        "length": number(figures["acceptance_length"]),
        "step": seconds(figures["step_seconds"]),
        "tokens/s": rate(figures["generation_tokens_per_second"]),
        "run": rate(figures["running"]),
        "wait": rate(figures["waiting"]),
        "KV": share(figures["kv_usage"]),
        "read": ago(server["last_ok"], now),
        "acceptd": server["intent"] if server["intent"] != over else "",
    }
    cells = {name: _text(text) for name, text in texts.items()}
    cells["state"] = Text(server["condition"].replace("_", " "), STYLES[server["level"]])
    points = trends.get(server["name"], ())
    cells["last hour"] = Text(spark_text(points), "cyan")
    cells[_HALF] = Text(spark_text(_in_pairs(points)), "cyan")
    return cells


def _in_pairs(points: Sequence[float | None]) -> list[float | None]:
    """A history of half as many points, each the mean of what is known of two."""
    pairs = [[one for one in points[index : index + 2] if one is not None] for index in range(0, len(points), 2)]
    return [sum(pair) / len(pair) if pair else None for pair in pairs]
